"""A `v2.Transform` on PIL images and uint8 tensors, (C, H, W) or (B, C, H, W), each image with a composite of its own:

    v2.Compose([SlackAugment(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)])

The mirror flip is part of it where the policy says so. Labels pass through; boxes and masks are refused. Random numbers
are torch's: DataLoader seeds them per worker. Where torchvision's kernel for tensors is off by more than a level, the
tensor goes through Pillow on the CPU.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from ...augment.pil import Box, cutout
from .numbers import FILL, FILL_GREY, POLICY
from .one import Application, argument, draw

ImageOrTensor = Any


def by_pillow(function: Callable[..., Image.Image], image: ImageOrTensor, *arguments: Any) -> ImageOrTensor:
    if isinstance(image, Image.Image):
        return function(image, *arguments)
    return F.pil_to_tensor(function(F.to_pil_image(image), *arguments)).to(image.device)


def shift(image: ImageOrTensor, x: float, y: float) -> ImageOrTensor:
    """To the left and up by whole pixels; black where nothing is left."""
    return F.affine(image, 0.0, [-math.floor(x + 0.5), -math.floor(y + 0.5)], 1.0, [0.0, 0.0])


def grayscale(image: ImageOrTensor, value: float) -> ImageOrTensor:
    return image if F.get_num_channels(image) == 1 else F.rgb_to_grayscale(image, num_output_channels=3)


def pad_and_crop(image: ImageOrTensor, box: Box) -> ImageOrTensor:
    left, top, width, height = box
    return F.crop(F.pad(image, [width, height]), top + height, left + width, height, width)


def paint(image: ImageOrTensor, box: Box) -> ImageOrTensor:
    if isinstance(image, Image.Image):
        return cutout(image, box, (FILL_GREY,) if image.mode == "L" else FILL)
    left, top, width, height = box
    colour = torch.tensor((FILL_GREY,) if image.shape[0] == 1 else FILL, dtype=image.dtype, device=image.device)
    x, y = max(left, 0), max(top, 0)
    return F.erase(image, y, x, max(top + height - y, 0), max(left + width - x, 0), colour.view(-1, 1, 1))


KERNELS: dict[str, Callable[..., ImageOrTensor]] = {
    "Identity": lambda image, value: image,
    "TranslateX": lambda image, value: shift(image, value * F.get_size(image)[1], 0.0),
    "TranslateY": lambda image, value: shift(image, 0.0, value * F.get_size(image)[0]),
    "AutoContrast": lambda image, value: F.autocontrast(image),
    "Invert": lambda image, value: F.invert(image),
    "Equalize": lambda image, value: F.equalize(image),
    "Grayscale": grayscale,
    "Solarize": F.solarize,
    "Posterize": lambda image, value: F.posterize(image, round(value)),
    "Color": lambda image, value: F.adjust_saturation(image, 1 + value),
    "Brightness": lambda image, value: F.adjust_brightness(image, 1 + value),
    "Sharpness": lambda image, value: F.adjust_sharpness(image, 1 + value),
    "Flip": lambda image, value: F.horizontal_flip(image),
    "Cutout": paint,
    "RandomCrop": pad_and_crop,
}


class SlackAugment(v2.Transform):
    """Augments the image of a sample; before the conversion to floats and the normalisation."""

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        for item in flat_inputs:
            if isinstance(item, tv_tensors.TVTensor) and not isinstance(item, tv_tensors.Image):
                raise TypeError(
                    f"SlackAugment cannot transform {type(item).__name__}: it moves the pixels of images only"
                )

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        n = max([len(item) for item in flat_inputs if isinstance(item, Tensor) and item.ndim == 4], default=1)
        return {"composites": draw(n)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if isinstance(inpt, Tensor) and inpt.dtype != torch.uint8:
            raise TypeError(f"expected uint8, got {inpt.dtype}: augment before v2.ToDtype")
        if isinstance(inpt, Image.Image) and inpt.mode not in ("RGB", "L"):
            raise TypeError(f"expected mode RGB or L, got {inpt.mode}")
        composites = params["composites"]
        if isinstance(inpt, Image.Image) or inpt.ndim == 3:
            out = self.augment(inpt, composites[0])
        else:
            pairs = zip(inpt.as_subclass(Tensor), composites, strict=True)
            out = torch.stack([self.augment(image, steps) for image, steps in pairs]) if len(inpt) else inpt.clone()
        return tv_tensors.wrap(out, like=inpt) if isinstance(inpt, tv_tensors.Image) else out

    def augment(self, image: ImageOrTensor, steps: list[Application]) -> ImageOrTensor:
        for step in steps:
            image = KERNELS[step.name](image, argument(step, *F.get_size(image)))
        return image

    def extra_repr(self) -> str:
        return f"{len(POLICY)} transformations"
