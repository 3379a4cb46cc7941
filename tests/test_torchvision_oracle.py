"""torchvision v2 as a second oracle, where it agrees with Pillow.

On PIL images it calls Pillow for every transformation below, so all must be equal. Its tensor kernels are a second
implementation, and equal Pillow's pixels but for these:

- AutoContrast: its scale is a float32, Pillow's a float64, and both truncate: 1 level;
- Grayscale, Contrast, Color: its luma is truncated, Pillow's rounded, and Contrast's mean is not rounded: 1 level;
- Hue: through floating-point HSV, where Pillow has 256 levels of each: up to 16 levels;
- Rotate: through a sampling grid in float32, which may take the neighbouring pixel;
- RandomResizeCrop: through torch's own uint8 resize, whose fixed-point weights are not Pillow's: up to 2 levels.
"""

import importlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import oracles
from slackaug.augment.functional import hflip
from slackaug.augment.transforms import TRANSFORMS

pytestmark = pytest.mark.torchvision


def shear(f, x, horizontal, vertical):
    degrees = [math.degrees(math.atan(horizontal)), math.degrees(math.atan(vertical))]
    return f.affine(x, angle=0, translate=[0, 0], scale=1.0, shear=degrees, center=[0, 0])


def shift(f, x, right, down):
    return f.affine(x, angle=0, translate=[right, down], scale=1.0, shear=[0, 0])


def pad_and_crop(f, x, box, h, w):
    pad = max(h, w)
    return f.crop(f.pad(x, [pad, pad]), box[1] + pad, box[0] + pad, h, w)


def resized_crop(f, x, box, h, w):
    left, top, width, height = box
    return f.resized_crop(x, top, left, height, width, [h, w], interpolation=3)  # bicubic


def erase(f, x, box, h, w):
    """Its eraser takes tensors only."""
    left, top = max(box[0], 0), max(box[1], 0)
    width, height = min(box[0] + box[2], w) - left, min(box[1] + box[3], h) - top
    return f.erase(x, top, left, height, width, torch.zeros(1, 1, 1, dtype=torch.uint8))


ORACLES: dict[str, Callable[..., Any]] = {  # torchvision's functional, image, value or box, height, width
    "Identity": lambda f, x, v, h, w: x,
    "ShearX": lambda f, x, v, h, w: shear(f, x, v, 0),
    "ShearY": lambda f, x, v, h, w: shear(f, x, 0, v),
    "TranslateX": lambda f, x, v, h, w: shift(f, x, -math.floor(v * w + 0.5), 0),
    "TranslateY": lambda f, x, v, h, w: shift(f, x, 0, -math.floor(v * h + 0.5)),
    "Rotate": lambda f, x, v, h, w: f.rotate(x, v),
    "AutoContrast": lambda f, x, v, h, w: f.autocontrast(x),
    "Invert": lambda f, x, v, h, w: f.invert(x),
    "Equalize": lambda f, x, v, h, w: f.equalize(x),
    "Grayscale": lambda f, x, v, h, w: f.rgb_to_grayscale(x, num_output_channels=3),
    "Solarize": lambda f, x, v, h, w: f.solarize(x, v),
    "Posterize": lambda f, x, v, h, w: f.posterize(x, round(v)),
    "Contrast": lambda f, x, v, h, w: f.adjust_contrast(x, 1 + v),
    "Color": lambda f, x, v, h, w: f.adjust_saturation(x, 1 + v),
    "Brightness": lambda f, x, v, h, w: f.adjust_brightness(x, 1 + v),
    "Sharpness": lambda f, x, v, h, w: f.adjust_sharpness(x, 1 + v),
    "Hue": lambda f, x, v, h, w: f.adjust_hue(x, v),
    "Cutout": erase,
    "RandomResizeCrop": resized_crop,
    "RandomCrop": pad_and_crop,
}
ON_TENSORS = ORACLES.keys() - {"Rotate", "AutoContrast", "Grayscale", "Contrast", "Color", "Hue", "RandomResizeCrop"}


@pytest.fixture(scope="module")
def functional():
    return importlib.import_module("torchvision.transforms.v2.functional")


def cases(name: str) -> list[tuple[Tensor, Any]]:
    """60 RGB images of many sizes, and a value or box for each."""
    generator = torch.Generator().manual_seed(0)
    drawn = []
    for i in range(60):
        height, width = (32, 32) if i % 3 == 0 else torch.randint(1, 41, (2,), generator=generator).tolist()
        image = torch.randint(0, 256, (3, height, width), generator=generator, dtype=torch.uint8)
        image = (image, image // 16 * 7, image[:, :1, :1].expand_as(image).contiguous())[i % 5 % 3]
        u = torch.rand(5, generator=generator, dtype=torch.float64).tolist()
        drawn.append((image, oracles.argument(name, u[4], u[:4], height, width)))
    return drawn


def ours(name: str, image: Tensor, value: Any) -> Tensor:
    transform = TRANSFORMS[name]
    dtype = torch.float64 if transform.window is None else torch.int32
    black = [(0, 0, 0)] if name == "Cutout" else []
    return transform.kernel(image[None], torch.tensor([value], dtype=dtype), *black)[0]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_equals_torchvision(functional, name):
    for image, value in cases(name):
        out, apply = ours(name, image, value), ORACLES[name]
        if name != "Cutout":
            theirs = apply(functional, oracles.to_pil(image), value, *image.shape[1:])
            assert torch.equal(out, oracles.to_pixels(theirs)), (value, image.shape)
        if name in ON_TENSORS:
            assert torch.equal(out, apply(functional, image, value, *image.shape[1:])), (value, image.shape)


def test_flip_equals_torchvision(functional):
    for image, _ in cases("Identity"):
        assert torch.equal(hflip(image[None], torch.tensor([True]))[0], functional.horizontal_flip(image))
