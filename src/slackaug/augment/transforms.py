"""The elementary transformations: how a magnitude m in [0, 1] becomes a strength, and which kernels apply it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

import torch
from PIL import Image
from torch import Tensor

from . import functional, pil

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


def custom(
    name: str,
    kernel: Kernel | None = None,
    *,
    pil_function: Callable[[Image.Image, float], Image.Image] | None = None,
    span: tuple[float, float] | None = (0.0, 1.0),
    signed: bool = False,
    unit: str = "",
) -> Transform:
    """A user's own transformation, out of a batched kernel (images, value), a function (PIL image, value), or both."""
    if not all(f is None or callable(f) for f in (kernel, pil_function)) or (kernel is None and pil_function is None):
        raise ValueError(f"{name} needs a batched kernel or a function of a PIL image")
    if pil_function is None:
        assert kernel is not None
        pil_function = partial(pil.single, kernel)
    return Transform(name=name, kernel=kernel, pil=pil_function, span=span, signed=signed, unit=unit, is_foreign=True)


# --- the windows that crops and masks draw ----------------------------------------------------------------------------


def stack_box(left: Tensor, top: Tensor, width: Tensor, height: Tensor) -> Tensor:
    return torch.stack((left, top, width, height), -1).to(torch.int32)  # 4 x (B,) -> (B, 4)


def crop_window(strength: Tensor, u: Tensor, height: int, width: int) -> Tensor:
    """What is left after zero-padding by `strength` of the size on every side and cropping back at random."""
    left, top = (
        torch.floor(u[:, axis] * (2 * pad + 1)) - pad
        for axis, pad in enumerate(((strength * width).round(), (strength * height).round()))
    )
    return stack_box(left, top, torch.full_like(left, width), torch.full_like(top, height))


def cutout_window(strength: Tensor, u: Tensor, height: int, width: int) -> Tensor:
    """A square with sides of `strength` times the width, its centre uniform in the image."""
    side = (strength * width).round()
    half = (side / 2).floor()
    return stack_box(torch.floor(u[:, 0] * width) - half, torch.floor(u[:, 1] * height) - half, side, side)


def resize_window(strength: Tensor, u: Tensor, height: int, width: int) -> Tensor:
    """A window of the area fraction `strength`, its aspect log-uniform in 3/4 .. 4/3 as far as it fits."""
    ratio = width / height
    narrowest, widest = strength * ratio, ratio / strength  # of the windows of this area that fit
    low, high = narrowest.clamp(min=3 / 4), widest.clamp(max=4 / 3)
    aspect = torch.where(low <= high, low * (high / low) ** u[:, 0], torch.where(narrowest > 4 / 3, narrowest, widest))
    area = strength * (height * width)
    box_width = (area * aspect).sqrt().round().clamp(1, width)
    box_height = (area / aspect).sqrt().round().clamp(1, height)
    left = torch.floor(u[:, 1] * (width - box_width + 1))
    top = torch.floor(u[:, 2] * (height - box_height + 1))
    return stack_box(left, top, box_width, box_height)


# --- the table: the strengths of the paper ----------------------------------------------------------------------------


def identity(images: Tensor, value: Tensor) -> Tensor:
    return images


TRANSFORMS: dict[str, Transform] = {
    t.name: t
    for t in (
        Transform(name="Identity", kernel=identity, pil=pil.identity),
        Transform(name="ShearX", kernel=functional.shear_x, pil=pil.shear_x, matrix=functional.shear_x_matrix,
                  span=(0, 1), limits=(-8, 8), signed=True, unit="of height"),
        Transform(name="ShearY", kernel=functional.shear_y, pil=pil.shear_y, matrix=functional.shear_y_matrix,
                  span=(0, 1), limits=(-8, 8), signed=True, unit="of width"),
        Transform(name="TranslateX", kernel=functional.translate_x, pil=pil.translate_x,
                  matrix=functional.translate_x_matrix,
                  span=(0, 0.75), limits=(-8, 8), signed=True, unit="of width"),
        Transform(name="TranslateY", kernel=functional.translate_y, pil=pil.translate_y,
                  matrix=functional.translate_y_matrix,
                  span=(0, 0.75), limits=(-8, 8), signed=True, unit="of height"),
        Transform(name="Rotate", kernel=functional.rotate, pil=pil.rotate, matrix=functional.rotate_matrix,
                  span=(0, 90), limits=(-360, 360), signed=True, unit="degrees"),
        Transform(name="AutoContrast", kernel=functional.autocontrast, pil=pil.autocontrast,
                  table=functional.autocontrast_table),
        Transform(name="Invert", kernel=functional.invert, pil=pil.invert,
                  table=partial(functional.curve_table, functional.invert)),
        Transform(name="Equalize", kernel=functional.equalize, pil=pil.equalize, table=functional.equalize_table),
        Transform(name="Grayscale", kernel=functional.grayscale, pil=pil.grayscale),
        Transform(name="Solarize", kernel=functional.solarize, pil=pil.solarize,
                  table=partial(functional.curve_table, functional.solarize),
                  span=(255, 0), limits=(0, 256), unit="threshold"),
        Transform(name="Posterize", kernel=functional.posterize, pil=pil.posterize,
                  table=partial(functional.curve_table, functional.posterize),
                  span=(8, 2), limits=(1, 8), unit="bits"),
        Transform(name="Contrast", kernel=functional.contrast, pil=pil.contrast, table=functional.contrast_table,
                  span=(0, 0.99), limits=(-100, 100), signed=True, unit="on factor 1"),
        Transform(name="Color", kernel=functional.color, pil=pil.color,
                  span=(0, 0.99), limits=(-100, 100), signed=True, unit="on factor 1"),
        Transform(name="Brightness", kernel=functional.brightness, pil=pil.brightness,
                  table=partial(functional.curve_table, functional.brightness),
                  span=(0, 0.99), limits=(-100, 100), signed=True, unit="on factor 1"),
        Transform(name="Sharpness", kernel=functional.sharpness, pil=pil.sharpness,
                  span=(0, 0.99), limits=(-100, 100), signed=True, unit="on factor 1"),
        Transform(name="Hue", kernel=functional.hue, pil=pil.hue,
                  span=(0, 0.5), limits=(-1, 1), signed=True, unit="of circle"),
        Transform(name="Cutout", kernel=functional.cutout, pil=pil.cutout, window=cutout_window, stage=Stage.LAST,
                  span=(0, 1), limits=(0, 2), unit="of width"),
        Transform(name="RandomResizeCrop", kernel=functional.random_resize_crop, pil=pil.random_resize_crop,
                  window=resize_window, stage=Stage.FIRST, span=(1, 0.05), limits=(0.001, 1), unit="of area"),
        Transform(name="RandomCrop", kernel=functional.random_crop, pil=pil.random_crop, window=crop_window,
                  matrix=functional.crop_matrix, span=(0, 0.5), limits=(0, 1), unit="of size"),
    )
}  # fmt: skip
