"""Needs torch alone. On uint8 tensors, (C, H, W) or (B, C, H, W) with C = 1 or 3, on any device, each image of a batch
with a composite of its own:

    augment = SlackAugment()
    images = augment(images)  # before the conversion to floats and the normalisation

The mirror flip is part of it where the policy says so. Random numbers come from torch's default stream on the CPU,
which DataLoader seeds per worker; the same seed gives the same pixels as slackaug.SlackAugment.
"""

import torch
from torch import Tensor, nn

from ...augment import functional, hue, resize
from .batch import Kernel, apply, draw
from .numbers import FILL, FILL_GREY, POLICY

KERNELS: dict[str, Kernel] = {
    "Identity": lambda images, value: images,
    "ShearX": functional.shear_x,
    "ShearY": functional.shear_y,
    "TranslateX": functional.translate_x,
    "TranslateY": functional.translate_y,
    "Rotate": functional.rotate,
    "AutoContrast": functional.autocontrast,
    "Invert": functional.invert,
    "Equalize": functional.equalize,
    "Grayscale": functional.grayscale,
    "Solarize": functional.solarize,
    "Posterize": functional.posterize,
    "Contrast": functional.contrast,
    "Color": functional.color,
    "Brightness": functional.brightness,
    "Sharpness": functional.sharpness,
    "Hue": hue.hue,
    "Cutout": lambda images, box: functional.cutout(images, box, FILL if images.shape[1] == 3 else (FILL_GREY,)),
    "RandomResizeCrop": resize.random_resize_crop,
    "RandomCrop": functional.random_crop,
}


class SlackAugment(nn.Module):
    """Augments each image with a composite of its own."""

    def forward(self, images: Tensor) -> Tensor:
        if not isinstance(images, Tensor):
            raise TypeError(f"expected a uint8 tensor, got {type(images).__name__}: v2.PILToTensor() makes one")
        if images.dtype != torch.uint8 or images.ndim not in (3, 4) or images.shape[-3] not in (1, 3):
            found = f"{tuple(images.shape)} {images.dtype}"
            raise TypeError(f"expected uint8 (C, H, W) or (B, C, H, W) with C = 1 or 3, got {found}")
        batch = images if images.ndim == 4 else images.unsqueeze(0)
        return apply(batch, draw(len(batch)), KERNELS).view_as(images)

    def extra_repr(self) -> str:
        return f"{len(POLICY)} transformations"
