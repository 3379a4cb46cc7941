"""What a policy does to images: strips of one transformation each, its extremes, random composites.

All with the kernels of search and training. Chance comes from a generator; without one, from seed 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Generator, Tensor

from .. import rng
from ..augment.apply import Composites, Parameters, draw, on_pil
from ..augment.pil import MODES
from ..augment.policy import Policy
from .scene import clean
from .strength import bounds_text, shares

N_EXTREMES = 3
CELL, PAD, CAPTION = 96, 6, 20  # pixels of a sheet
EDGE = "#c9c9ce"  # around an image: many are white, and so is the sheet


class Strip(NamedTuple):
    """One transformation: each image at mu / 2 and at mu, or once where there is no magnitude."""

    name: str
    images: list[Image.Image]


class Example(NamedTuple):
    name: str
    probability: float
    strength: str
    image: Image.Image


class Examples(NamedTuple):
    image: Image.Image
    most: list[Example]  # the likeliest first
    least: list[Example]  # the least likely first


def readable(image: Image.Image) -> Image.Image:
    """In a mode that the kernels take."""
    return image if image.mode in MODES else image.convert("RGB")


def seeded(generator: Generator | None) -> Generator:
    return rng.generator(0, "pictures") if generator is None else generator


def apply(policy: Policy, n: int, magnitude: float, image: Image.Image, u: Tensor) -> Image.Image:
    """One transformation at one magnitude; `u` (1, 1, 4) decides direction and window."""
    one = torch.ones(1, 1, dtype=torch.bool)
    bound = torch.tensor([[magnitude]], dtype=torch.float64)
    composites = Composites(torch.tensor([[n]]), bound, one, policy.space)
    return on_pil(image, Parameters(composites, u, torch.tensor([False])), policy.fill)


def ranked(policy: Policy) -> list[int]:
    """The likeliest first."""
    probabilities = shares(policy)
    return sorted(range(len(probabilities)), key=lambda n: -probabilities[n])


def extremes(policy: Policy) -> tuple[list[int], list[int]]:
    """The likeliest, and the least likely; the most extreme first, and none twice."""
    order = ranked(policy)
    most = order[:N_EXTREMES]
    return most, [n for n in reversed(order) if n not in most][:N_EXTREMES]


def strips(policy: Policy, images: Sequence[Image.Image], generator: Generator | None = None) -> list[Strip]:
    """Likeliest first. An image keeps its direction and window from one strength to the other."""
    if not images:
        raise ValueError("expected at least one image")
    generator, found = seeded(generator), []
    for n in ranked(policy):
        transform, mu = policy.space.transforms[n], policy.mu[n].item()
        magnitudes = [mu] if transform.span is None else [mu / 2, mu]
        done = []
        for image in map(readable, images):
            u = rng.uniform((1, 1, 4), generator)
            done += [apply(policy, n, magnitude, image, u) for magnitude in magnitudes]
        found.append(Strip(transform.name, done))
    return found


def examples(policy: Policy, image: Image.Image, generator: Generator | None = None) -> Examples:
    """An image under the likeliest and the least likely transformations, each at its bound mu (the paper's figure)."""
    generator, probabilities = seeded(generator), shares(policy)
    image = readable(image)

    def example(n: int) -> Example:
        transform, mu = policy.space.transforms[n], policy.mu[n].item()
        changed = apply(policy, n, mu, image, rng.uniform((1, 1, 4), generator))
        return Example(
            transform.name, probabilities[n], bounds_text(transform, mu, (image.height, image.width)), changed
        )

    most, least = extremes(policy)
    return Examples(image, [example(n) for n in most], [example(n) for n in least])


def grid(
    policy: Policy, images: Sequence[Image.Image], generator: Generator | None = None, n_each: int = 6
) -> list[list[Image.Image]]:
    """A row for each image: composites as training draws them, with flips where the policy has them."""
    generator = seeded(generator)
    return [
        [
            on_pil(image, draw(policy.sample(1, generator), generator, flip=policy.flip), policy.fill)
            for _ in range(n_each)
        ]
        for image in map(readable, images)
    ]


# --- sheets -----------------------------------------------------------------------------------------------------------


def thumbnail(image: Image.Image, side: int = CELL) -> Image.Image:
    """As large as fits a square; small images are enlarged by whole pixels."""
    longest = max(image.size)
    if longest > side:
        factor = side / longest
        return image.convert("RGB").resize([max(1, round(s * factor)) for s in image.size], Image.Resampling.LANCZOS)
    times = side // longest
    return image.convert("RGB").resize([s * times for s in image.size], Image.Resampling.NEAREST)


def sheet(rows: Sequence[tuple[str, Sequence[Image.Image]]]) -> Image.Image:
    """Rows of images, each under its caption, on white."""
    width = PAD + max(len(images) for _, images in rows) * (CELL + PAD)
    height = len(rows) * (CAPTION + CELL + PAD) + PAD
    canvas = Image.new("RGB", (max(width, 320), height), "white")
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(13)
    for i, (caption, images) in enumerate(rows):
        y = PAD + i * (CAPTION + CELL + PAD)
        pen.text((PAD, y + 1), clean(caption)[:120], "black", font)
        for j, image in enumerate(images):
            small = thumbnail(image)
            offset = [(CELL - s) // 2 for s in small.size]
            left, top = PAD + j * (CELL + PAD) + offset[0], y + CAPTION + offset[1]
            pen.rectangle((left - 1, top - 1, left + small.width, top + small.height), outline=EDGE)
            canvas.paste(small, (left, top))
    return canvas


def strips_sheet(
    policy: Policy, images: Sequence[Image.Image], generator: Generator | None = None, *, in_pixels: bool = True
) -> Image.Image:
    """The images as they are, then a strip for each transformation; shifts in pixels of the first, or in per cent."""
    probabilities, space = dict(zip(policy.space.names, shares(policy), strict=True)), policy.space
    size = (images[0].height, images[0].width) if images and in_pixels else None
    rows: list[tuple[str, Sequence[Image.Image]]] = [
        ("as they are; below, each at mu / 2 and at mu", [readable(image) for image in images])
    ]
    for name, done in strips(policy, images, generator):
        n = space.index(name)
        strength = bounds_text(space.transforms[n], policy.mu[n].item(), size)
        rows.append((f"{name}  {100 * probabilities[name]:.1f} %  {strength}", done))
    return sheet(rows)
