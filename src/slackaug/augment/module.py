"""A policy as a transform for anybody's data pipeline."""

import os
from typing import Any, TypeVar
from warnings import warn

import torch
from PIL import Image
from torch import Generator, Tensor, nn
from torch.utils.data import get_worker_info

from ..messages.answer import not_the_answer
from . import pil
from .apply import augment, draw, on_pil
from .display import in_words
from .formats.published import load
from .policy import Policy

ImageOrTensor = TypeVar("ImageOrTensor", Image.Image, Tensor)


class SlackAugment(nn.Module):
    """Augment PIL images, (C, H, W) or (B, C, H, W) tensors, each image of a batch with a composite of its own.

    Tensors are uint8, or floats in [0, 1], which pass through uint8; mode L or RGB, so C = 1 or 3. Apply it before the
    normalisation. The mirror flip is included where the policy says so. After `.eval()` images stay as they are, unless
    `always` is set. `strength` multiplies every magnitude bound, up to the full range; transformations without a
    magnitude stay. Random numbers come from torch's default stream, which DataLoader seeds per worker and epoch, unless
    a CPU `generator` is given, which no worker may have.
    """

    def __init__(
        self,
        policy: Policy | str | os.PathLike[str],
        *,
        strength: float = 1.0,
        always: bool = False,
        generator: Generator | None = None,
    ):
        super().__init__()
        if not 0 <= strength < float("inf"):
            raise ValueError(f"strength must be a number from 0 up, got {strength}")
        found = load(policy) if isinstance(policy, str | os.PathLike) else policy
        if not isinstance(found, Policy):
            raise TypeError(f"expected a slackaug.Policy, its file or the folder of a run, got {type(found).__name__}")
        if found.learned.get("is_answer") is False:
            warn(not_the_answer(found.learned["use"]), stacklevel=2)
        self.policy = found
        self.strength = strength
        self.always = always
        self.generator = generator

    @property
    def applied(self) -> Policy:
        """The policy at this strength."""
        return self.policy.strengthened(self.strength)

    def forward(self, image: ImageOrTensor) -> ImageOrTensor:
        if not (self.training or self.always):
            return image
        if self.generator is not None and get_worker_info() is not None:
            raise RuntimeError("every DataLoader worker would draw the same from its copy of `generator`; leave it out")
        if isinstance(image, Image.Image):
            return self.augment_pil(image)
        check_tensor(image)
        batch = image if image.ndim == 4 else image.unsqueeze(0)
        out = self.augment_batch(to_uint8(batch))
        return (out.to(image.dtype) / 255 if image.is_floating_point() else out).view_as(image)

    def augment_pil(self, image: Image.Image) -> Image.Image:
        if 0 in image.size:
            raise ValueError(f"expected an image with pixels, got {image.size}")
        if image.mode not in pil.MODES:
            raise TypeError(f"expected an image of mode RGB or L, got {image.mode}; {how_to_convert(image.mode)}")
        composites = self.applied.sample(1, self.generator)
        return on_pil(image, draw(composites, self.generator, flip=self.policy.flip), self.policy.fill)

    def augment_batch(self, images: Tensor) -> Tensor:
        composites = self.applied.sample(len(images), self.generator)
        return augment(images, composites, self.generator, flip=self.policy.flip, fill=self.policy.fill)

    def __repr__(self) -> str:
        strength = "" if self.strength == 1 else f", strength={self.strength:g}"
        always = ", always" if self.always else "" if self.training else ", off in eval mode"
        return f"SlackAugment({in_words(self.policy)}{strength}{always})"


def how_to_convert(mode: str) -> str:
    """Pillow's own conversion of what is deeper than 8 bits would clip it."""
    if mode.startswith("I"):
        return "make 16 bits 8 first: Image.fromarray((numpy.asarray(image) / 257).round().astype('uint8'))"
    if mode == "F":
        return "scale its values to 0..255 first: Image.fromarray(values.round().astype('uint8'))"
    return "convert it first: image.convert('RGB')"


def check_tensor(image: Any) -> None:
    if not isinstance(image, Tensor):
        raise TypeError(f"expected a PIL image or a tensor, got {type(image).__name__}")
    if image.ndim not in (3, 4) or image.shape[-3] not in (1, 3) or 0 in image.shape[-2:]:
        raise ValueError(f"expected (C, H, W) or (B, C, H, W) with C = 1 or 3, got {tuple(image.shape)}")
    if image.dtype != torch.uint8 and not image.is_floating_point():
        raise TypeError(f"expected uint8, or floats in [0, 1], got {image.dtype}")


def to_uint8(images: Tensor) -> Tensor:
    if not images.is_floating_point():
        return images
    low, high = (float(end) for end in images.detach().aminmax()) if images.numel() else (0.0, 0.0)
    if not 0 <= low <= high <= 1:
        raise ValueError(f"expected floats in [0, 1], got {low:g} to {high:g}; augment before normalising")
    return (images.detach() * 255).round().to(torch.uint8)
