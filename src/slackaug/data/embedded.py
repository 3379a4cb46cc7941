"""The embedded data sets: handwritten digits, and generated images with a known answer.

`digits` are 1,797: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository, 1998, https://doi.org/10.24432/C50P49, CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). Changed:
the 17 levels of the 8 x 8 images are spread over 0..255.
Of the others it is decided here, by construction, which transformations destroy the label.
`shapes:colour`: the class is the hue of a blob whose place, angle, size and outline vary. Hue, Grayscale and Invert
destroy it: the four hues are a quarter circle apart and the lightness of blob and background is symmetric about one
half, so that an inverted image is a plausible image of the opposite class.
`shapes:angle`: the class is the orientation of a stroke, in steps of 45 degrees; place, length, width and the colours
of stroke and background vary freely. Rotate, ShearX and ShearY destroy it, and so do mirror images.
Both are for the `domainnet` space. Axes: B images, H = W pixels. Lengths are fractions of the side.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import resources

import numpy as np
import torch
from torch import Generator, Tensor

from .. import rng
from . import dividing
from .arrays import to_images
from .dataset import Dataset, Kind, build
from .options import DataConfig
from .split import Split

# Pixels to move by: at 8, a rotation or a shift can only tear a digit apart. At 32 nothing is gained but the cost.
DIGITS_SIZE = 16
N_FEW = 200
SHAPES_SIZE = 20
N_CLASSES = 4
N_TRAIN, N_TEST = 400, 1000  # few to learn from, so that augmentation matters; enough to measure to 1 or 2 %
SEED = 0
COLOUR_NOISE, ANGLE_NOISE = 0.3, 0.25  # deviation of the noise on every value, of 1
HUE_JITTER = 35.0  # degrees to either side, of the 45 to the next class
ANGLE_JITTER = 12.0  # degrees to either side, of the 22.5 to the next class


def digits(options: DataConfig) -> Dataset:
    """Ink is white on black; mirror images are other signs, so flips are off."""
    with resources.files("slackaug.data").joinpath("digits.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        images, labels = stored["images"], stored["labels"]  # (1797, 8, 8) and (1797,) uint8
    options = options if options.size else replace(options, size=DIGITS_SIZE)
    split = Split(to_images(images, options, "digits"), torch.from_numpy(labels.astype(np.int64)))
    kinds = {Kind(split.images.shape[2], split.images.shape[3], "L"): len(labels)}
    return replace(build("digits", split, None, [str(digit) for digit in range(10)], flip=False), kinds=kinds)


def few_digits(options: DataConfig) -> Dataset:
    """About 20 of each digit to learn from, and the same test set: few enough that augmentation matters."""
    base = digits(options)
    kept, _ = dividing.train_on(base.train.labels, N_FEW)
    few = build("digits:few", base.train.subset(kept), base.test, base.class_names, flip=False)
    return replace(few, kinds={Kind(*base.image_size, "L"): N_FEW + len(base.test.labels)})


def colour(options: DataConfig) -> Dataset:
    return shapes("shapes:colour", colour_split, options, ["red", "lime", "cyan", "violet"])


def angle(options: DataConfig) -> Dataset:
    names = ["0 degrees", "45 degrees", "90 degrees", "135 degrees"]
    return replace(shapes("shapes:angle", angle_split, options, names), flip=False)


def shapes(
    name: str, draw: Callable[[int, int, Generator], Split], options: DataConfig, class_names: list[str]
) -> Dataset:
    size = options.stored_size or SHAPES_SIZE
    train, test = (draw(n, size, rng.generator(SEED, name, n)) for n in (N_TRAIN, N_TEST))
    return build(name, train, test, class_names)


def colour_split(n: int, size: int, generator: Generator) -> Split:
    """A round or square blob of the class's hue on a grey background."""
    labels, between = torch.arange(n) % N_CLASSES, partial(drawn, n, generator)
    u, v = frame(size, between(0.25, 0.75), between(0.25, 0.75), between(0, math.pi))  # (B, H, W) each
    a, b = (between(0.1, 0.22)[:, None, None] for _ in range(2))
    box = torch.maximum(u.abs() - a, v.abs() - b)
    ellipse = ((u / a).square() + (v / b).square()).sqrt().sub(1) * torch.minimum(a, b)
    distance = torch.where(between(-1, 1)[:, None, None] > 0, box, ellipse)
    hue = 90 * labels + between(-HUE_JITTER, HUE_JITTER)
    blob = hsl(hue, between(0.4, 1), between(0.35, 0.65))
    background = hsl(hue, torch.zeros(n, dtype=torch.float64), between(0.25, 0.75))
    return Split(paint(blob, background, distance, COLOUR_NOISE, generator), labels)


def angle_split(n: int, size: int, generator: Generator) -> Split:
    """A stroke of the class's orientation, of any colour, on any colour of another lightness."""
    labels, between = torch.arange(n) % N_CLASSES, partial(drawn, n, generator)
    degrees = 45 * labels + between(-ANGLE_JITTER, ANGLE_JITTER)
    u, v = frame(size, between(0.3, 0.7), between(0.3, 0.7), degrees.deg2rad())  # (B, H, W) each
    length, width = between(0.15, 0.35)[:, None, None], between(0.04, 0.08)[:, None, None]  # half of each
    distance = torch.maximum(u.abs() - length, v.abs() - width)
    lightness = between(0.1, 0.9)
    background = hsl(between(0, 360), between(0, 1), lightness)
    stroke = hsl(between(0, 360), between(0, 1), (lightness + between(0.3, 0.7)) % 1)
    return Split(paint(stroke, background, distance, ANGLE_NOISE, generator), labels)


def drawn(n: int, generator: Generator, low: float, high: float) -> Tensor:
    return low + (high - low) * rng.uniform((n,), generator)


def frame(size: int, x: Tensor, y: Tensor, radians: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates of each pixel's centre in the frame of an object at (x, y), turned counter-clockwise."""
    centres = (torch.arange(size, dtype=torch.float64) + 0.5) / size
    dx = centres[None, None, :] - x[:, None, None]  # (B, 1, W)
    dy = y[:, None, None] - centres[None, :, None]  # (B, H, 1), upwards
    cos, sin = radians.cos()[:, None, None], radians.sin()[:, None, None]
    return cos * dx + sin * dy, cos * dy - sin * dx


def hsl(degrees: Tensor, saturation: Tensor, lightness: Tensor) -> Tensor:
    """(B, 3) RGB in [0, 1]. Inverting it turns the hue by 180 degrees and mirrors the lightness about one half."""
    k = (torch.tensor([0.0, 8.0, 4.0], dtype=torch.float64) + degrees[:, None] / 30) % 12
    chroma = saturation * torch.minimum(lightness, 1 - lightness)
    return lightness[:, None] - chroma[:, None] * torch.minimum(k - 3, 9 - k).clamp(-1, 1)


def paint(inside: Tensor, outside: Tensor, distance: Tensor, noise: float, generator: Generator) -> Tensor:
    """Blend two colours (B, 3) by the signed distance (B, H, W) to the outline, add noise: (B, 3, H, W) uint8."""
    coverage = (0.5 - distance * distance.shape[-1]).clamp(0, 1)[:, None]  # (B, 1, H, W), soft over one pixel
    image = outside[:, :, None, None] + (inside - outside)[:, :, None, None] * coverage
    image = image + noise * rng.normal(tuple(image.shape), generator)
    return (255 * image.clamp(0, 1)).round().to(torch.uint8)
