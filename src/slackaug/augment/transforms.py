"""The transformations there are, the spaces of the paper, and how users bring transformations of their own."""

from collections.abc import Callable
from functools import partial

from PIL import Image

from ..schema import unknown
from . import functional, hue, pil, resize
from .space import Kernel, Space, Stage, Transform

# --- the table: the strengths of the paper ----------------------------------------------------------------------------


TRANSFORMS: dict[str, Transform] = {
    t.name: t
    for t in (
        Transform(name="Identity", kernel=functional.identity, pil=pil.identity),
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
        Transform(name="Hue", kernel=hue.hue, pil=pil.hue,
                  span=(0, 0.5), limits=(-1, 1), signed=True, unit="of circle"),
        Transform(name="Cutout", kernel=functional.cutout, pil=pil.cutout, window=functional.cutout_window,
                  stage=Stage.LAST, span=(0, 1), limits=(0, 2), unit="of width"),
        Transform(name="RandomResizeCrop", kernel=resize.random_resize_crop, pil=pil.random_resize_crop,
                  window=resize.resize_window, stage=Stage.FIRST, span=(1, 0.05), limits=(0.001, 1), unit="of area"),
        Transform(name="RandomCrop", kernel=functional.random_crop, pil=pil.random_crop, window=functional.crop_window,
                  matrix=functional.crop_matrix, span=(0, 0.5), limits=(0, 1), unit="of size"),
    )
}  # fmt: skip

# --- the spaces of the paper ------------------------------------------------------------------------------------------


def space(name: str, transformations: str) -> Space:
    return Space(name, tuple(TRANSFORMS[t] for t in transformations.split()))


# The order is that of the published files.
SPACES = {
    s.name: s
    for s in (
        space("cifar", "ShearX ShearY TranslateX TranslateY Rotate AutoContrast Invert Equalize Solarize Posterize "
              "Contrast Color Brightness Sharpness Cutout RandomCrop Identity"),
        space("imagenet", "ShearX ShearY TranslateX TranslateY Rotate AutoContrast Invert Equalize Solarize Posterize "
              "Contrast Color Brightness Sharpness Hue Cutout RandomResizeCrop Identity"),
        space("domainnet", "ShearX ShearY TranslateX TranslateY Rotate AutoContrast Invert Equalize Grayscale Solarize "
              "Posterize Contrast Color Brightness Sharpness Hue Cutout RandomResizeCrop RandomCrop Identity"),
    )
}  # fmt: skip


def get_space(name: str) -> Space:
    if name not in SPACES:
        raise ValueError(unknown("space", name, list(SPACES)))
    return SPACES[name]


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
