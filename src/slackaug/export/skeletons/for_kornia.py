"""On float tensors in [0, 1], (C, H, W) or (B, C, H, W) with C = 1 or 3, on any device, each image of a batch with a
composite of its own; with kornia's own functions where they agree with Pillow within a level:

    kornia.augmentation.ImageSequential(SlackAugment(), kornia.augmentation.Normalize(mean, std))

Images go through 256 levels, as in training with slackaug. The mirror flip is part of it where the policy says so.
Random numbers come from torch's default stream on the CPU, which DataLoader seeds per worker.
"""

from collections.abc import Callable

import torch
from kornia import color as kc
from kornia import enhance as ke
from torch import Tensor, nn

from ...augment.functional import cutout
from .batch import Kernel, apply, draw
from .numbers import FILL, FILL_GREY, POLICY

ROUNDED, TRUNCATED = 0.5, 0.001  # as Pillow makes levels of fractions: the second for its enhancers


def by_kornia(function: Callable[..., Tensor], images: Tensor, *value: Tensor, to: float = TRUNCATED) -> Tensor:
    return (function(images.float() / 255, *value) * 255 + to).clamp(0, 255).to(torch.uint8)


def grayscale(images: Tensor, value: Tensor) -> Tensor:
    return images if images.shape[1] == 1 else by_kornia(kc.rgb_to_grayscale, images, to=ROUNDED).expand_as(images)


def saturation(images: Tensor, value: Tensor) -> Tensor:
    if images.shape[1] == 1:
        return images
    return by_kornia(ke.adjust_saturation_with_gray_subtraction, images, 1 + value)


def sharpness(images: Tensor, value: Tensor) -> Tensor:
    return by_kornia(ke.sharpness, images, 1 + value) if min(images.shape[2:]) > 2 else images


KERNELS: dict[str, Kernel] = {
    "Identity": lambda images, value: images,
    "Invert": lambda images, value: by_kornia(ke.invert, images, to=ROUNDED),
    "Equalize": lambda images, value: by_kornia(ke.equalize, images, to=ROUNDED),
    "Grayscale": grayscale,
    "Solarize": lambda images, value: by_kornia(ke.solarize, images, ((value.ceil() - 0.5) / 255).float(), to=ROUNDED),
    "Posterize": lambda images, value: by_kornia(ke.posterize, images, value.round().int(), to=ROUNDED),
    "Contrast": lambda images, value: by_kornia(ke.adjust_contrast_with_mean_subtraction, images, 1 + value),
    "Color": saturation,
    "Brightness": lambda images, value: by_kornia(ke.adjust_brightness_accumulative, images, 1 + value),
    "Sharpness": sharpness,
    "Cutout": lambda images, box: cutout(images, box, FILL if images.shape[1] == 3 else (FILL_GREY,)),
}


class SlackAugment(nn.Module):
    """Augments each image with a composite of its own."""

    def forward(self, images: Tensor) -> Tensor:
        if not isinstance(images, Tensor):
            raise TypeError(f"expected a tensor of floats, got {type(images).__name__}")
        if not images.is_floating_point() or images.ndim not in (3, 4) or images.shape[-3] not in (1, 3):
            found = f"{tuple(images.shape)} {images.dtype}"
            raise TypeError(f"expected floats (C, H, W) or (B, C, H, W) with C = 1 or 3, got {found}")
        if images.numel() and not 0 <= images.amin() <= images.amax() <= 1:
            raise ValueError("expected floats in [0, 1]: augment before the normalisation")
        batch = images if images.ndim == 4 else images.unsqueeze(0)
        levels = (batch.detach() * 255).round().to(torch.uint8)
        out = apply(levels, draw(len(batch)), KERNELS)
        return (out.to(images.dtype) / 255).view_as(images)

    def extra_repr(self) -> str:
        return f"{len(POLICY)} transformations"
