"""Needs torch alone. On uint8 tensors, (C, H, W) or (B, C, H, W) with C = 1 or 3, on any device, each image of a batch
with a composite of its own:

    augment = SlackAugment()
    images = augment(images)  # before the conversion to floats and the normalisation

After `.eval()` images stay as they are, except with SlackAugment(always=True). The mirror flip is part of it where the
policy says so. Random numbers come from torch's default stream on the CPU, which DataLoader seeds per worker; the same
seed gives the same pixels as slackaug.SlackAugment.
"""

import torch
from torch import Tensor, nn

from ...augment.functional import cutout
from .batch import Kernel, apply, draw
from .numbers import FILL, FILL_GREY, POLICY

KERNELS: dict[str, Kernel] = {
    "Identity": lambda images, value: images,
    "Cutout": lambda images, box: cutout(images, box, FILL if images.shape[1] == 3 else (FILL_GREY,)),
}


class SlackAugment(nn.Module):
    """Augments each image with a composite of its own."""

    def __init__(self, *, always: bool = False):
        super().__init__()
        self.always = always  # in eval mode, too

    def forward(self, images: Tensor) -> Tensor:
        if not (self.training or self.always):
            return images
        if not isinstance(images, Tensor):
            raise TypeError(f"expected a uint8 tensor, got {type(images).__name__}: v2.PILToTensor() makes one")
        if images.dtype != torch.uint8 or images.ndim not in (3, 4) or images.shape[-3] not in (1, 3):
            found = f"{tuple(images.shape)} {images.dtype}"
            raise TypeError(f"expected uint8 (C, H, W) or (B, C, H, W) with C = 1 or 3, got {found}")
        batch = images if images.ndim == 4 else images.unsqueeze(0)
        return apply(batch, draw(len(batch)), KERNELS).view_as(images)

    def extra_repr(self) -> str:
        return f"{len(POLICY)} transformations"
