"""What a transformation is, and a space of them that a policy chooses from; `transforms` has the tables."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

import torch
from PIL import Image
from torch import Tensor

from ..schema import unknown
from . import pil
from .functional import identity

Kernel = Callable[..., Tensor]  # images (B, C, H, W), value (B,) or box (B, 4) -> images


class Stage(Enum):
    """When a transformation acts, wherever in the composite it was drawn."""

    FIRST = "first"  # before all others
    POSITION = "position"  # in the order of the composite
    LAST = "last"  # after all others and the mirror flip, painting: the kernel also takes the colour `fill`


STAGES = tuple(Stage)  # in order; a compiler can go through these, but not through the class


@dataclass(frozen=True, kw_only=True)
class Transform:
    """One transformation: its strength as a function of the magnitude, and its kernels."""

    name: str
    kernel: Kernel | None  # on a batch; None: only known on PIL images
    pil: Callable[..., Image.Image]
    span: tuple[float, float] | None = None  # strength at m = 0 and at m = 1; None: parameter-free
    limits: tuple[float, float] = (-float("inf"), float("inf"))  # strengths that the kernel can apply
    signed: bool = False  # a direction is drawn for each image
    unit: str = ""
    stage: Stage = Stage.POSITION
    is_foreign: bool = False  # a user's own, which is not to be trusted with its input and output
    # For kernels that take a box instead of the strength: (strength, uniforms (B, 3), height, width) -> (B, 4)
    window: Callable[[Tensor, Tensor, int, int], Tensor] | None = None
    # How `branch_free` applies it: by a warp's matrix, a tone curve's table, or else the kernel
    matrix: Callable[[Tensor, int, int], Tensor] | None = None  # (value or box, height, width) -> (B, 6)
    table: Callable[[Tensor, Tensor], Tensor] | None = None  # (images, value) -> (B, C, 256)

    def __post_init__(self) -> None:
        if not self.name or not isinstance(self.name, str):
            raise ValueError(f"a transformation needs a name, got {self.name!r}")
        if self.span is None:
            return
        if not isinstance(self.span, tuple) or len(self.span) != 2 or not all(map(math.isfinite, self.span)):
            raise ValueError(f"{self.name}: expected a range of two finite strengths, such as (0, 30), got {self.span}")
        low, high = self.limits
        start, end = self.span
        if not all(low <= s <= high for s in (start, end, *((-start, -end) if self.signed else ()))):
            both = ", in both directions" if self.signed else ""
            raise ValueError(
                f"{self.name} takes strengths from {low:g} to {high:g} {self.unit}, got {start:g} to {end:g}{both}"
            )

    def strength(self, magnitude: Tensor, u: Tensor) -> Tensor:
        """The strength at a magnitude, in the direction that the uniform `u` decides."""
        if self.span is None:
            return torch.zeros_like(magnitude)
        start, end = self.span
        strength = start + (end - start) * magnitude.clamp(0, 1)
        return torch.where(u < 0.5, -strength, strength) if self.signed else strength

    def argument(self, magnitude: Tensor, u: Tensor, height: int, width: int) -> Tensor:
        """What the kernel takes beside the images: the strength (B,), or the box (B, 4) drawn at that strength."""
        strength = self.strength(magnitude, u[:, 0])  # (B,), (B, 4)
        return strength if self.window is None else self.window(strength, u[:, 1:], height, width)

    @property
    def changes_nothing(self) -> bool:
        return self.kernel is identity

    def on_batch(self, images: Tensor, argument: Tensor, *extra: tuple[int, ...]) -> Tensor:
        """The kernel's images. A user's own may write into what it gets, and must return the same shape and type."""
        kernel = self.kernel or partial(pil.each, self.pil)
        if not self.is_foreign:
            return kernel(images, argument, *extra)
        out = kernel(images.clone(), argument)
        if not isinstance(out, Tensor) or out.shape != images.shape or out.dtype != images.dtype:
            got = f"{tuple(out.shape)} {out.dtype}" if isinstance(out, Tensor) else type(out).__name__
            raise ValueError(
                f"{self.name} returned {got}, expected {tuple(images.shape)} {images.dtype} as it was given"
            )
        return out

    def on_image(self, image: Image.Image, argument: float | list[int], *extra: tuple[int, ...]) -> Image.Image:
        """The same for one PIL image."""
        out = self.pil(image.copy() if self.is_foreign else image, argument, *extra)
        if out.size != image.size or out.mode != image.mode:
            got, given = f"{out.mode} {out.size}", f"{image.mode} {image.size}"
            raise ValueError(f"{self.name} returned an image {got}, expected {given} as it was given")
        return out


@dataclass(frozen=True)
class Space:
    """An ordered set of transformations with unique names."""

    name: str
    transforms: tuple[Transform, ...]

    def __post_init__(self) -> None:
        twice = {name for name in self.names if self.names.count(name) > 1}
        if twice:
            raise ValueError(f"the space {self.name!r} lists {', '.join(sorted(twice))} more than once")
        if not self.transforms:
            raise ValueError(f"the space {self.name!r} has no transformations")

    def __len__(self) -> int:
        return len(self.transforms)

    def __iter__(self) -> Iterator[Transform]:
        return iter(self.transforms)

    def __getitem__(self, name: str) -> Transform:
        return self.transforms[self.index(name)]

    def __repr__(self) -> str:
        return f"Space({self.name!r}: {', '.join(self.names)})"

    @property
    def names(self) -> list[str]:
        return [transform.name for transform in self.transforms]

    @property
    def has_magnitude(self) -> Tensor:
        """(N,) bool: false where a transformation is parameter-free."""
        return torch.tensor([transform.span is not None for transform in self.transforms])

    def index(self, name: str) -> int:
        if name not in self.names:
            raise ValueError(unknown("transformation", name, self.names))
        return self.names.index(name)

    def changed(self, candidates: tuple[Transform, ...]) -> "Space":
        return Space(self.name.removesuffix("*") + "*", candidates)

    def exclude(self, *names: str) -> "Space":
        for name in names:
            self.index(name)
        return self.changed(tuple(t for t in self.transforms if t.name not in names))

    def rerange(self, **spans: tuple[float, float]) -> "Space":
        """The same space with other strengths at magnitudes 0 and 1, e.g. `rerange(Rotate=(0, 30))`."""
        for name, span in spans.items():
            if self[name].span is None:
                raise ValueError(f"{name} has no magnitude, so it cannot be given a range")
            if not isinstance(span, tuple):
                raise ValueError(f"{name}: expected a range of two strengths, such as (0, 30), got {span!r}")
        changed = (replace(t, span=spans[t.name]) if t.name in spans else t for t in self.transforms)
        return self.changed(tuple(changed))

    def add(self, *added: Transform) -> "Space":
        for transform in added:
            if not isinstance(transform, Transform):
                raise TypeError(f"expected transformations, such as custom('Fog', fog), got {transform!r}")
        return self.changed(self.transforms + added)
