"""On PIL images, with timm's own operations where it has them and Pillow for the rest, as in

    transform = timm.data.create_transform(224, is_training=True, auto_augment=None, hflip=0.0, color_jitter=None)
    transform.transforms.insert(1, SlackAugment())  # after the resize, before the conversion to a tensor

The mirror flip is part of it where the policy says so. Random numbers are torch's: DataLoader seeds them per worker.
"""

from collections.abc import Callable

from PIL import Image
from timm.data import auto_augment as ops

from ...augment import pil
from .numbers import FILL, FILL_GREY, POLICY
from .one import Application, argument
from .one_by_torch import draw

NEAREST = {"resample": Image.Resampling.NEAREST, "fillcolor": 0}


def shear_x(image: Image.Image, value: float) -> Image.Image:
    return ops.shear_x(image, value, **NEAREST)


def shear_y(image: Image.Image, value: float) -> Image.Image:
    return ops.shear_y(image, value, **NEAREST)


def translate_x(image: Image.Image, value: float) -> Image.Image:
    return ops.translate_x_rel(image, value, **NEAREST)


def translate_y(image: Image.Image, value: float) -> Image.Image:
    return ops.translate_y_rel(image, value, **NEAREST)


def rotate(image: Image.Image, value: float) -> Image.Image:
    return ops.rotate(image, value, **NEAREST)


KERNELS: dict[str, Callable[..., Image.Image]] = {
    "Identity": lambda image, value: image,
    "ShearX": shear_x,
    "ShearY": shear_y,
    "TranslateX": translate_x,
    "TranslateY": translate_y,
    "Rotate": rotate,
    "AutoContrast": lambda image, value: ops.auto_contrast(image),
    "Invert": lambda image, value: ops.invert(image),
    "Equalize": lambda image, value: ops.equalize(image),
    "Grayscale": pil.grayscale,
    "Solarize": ops.solarize,
    "Posterize": lambda image, value: ops.posterize(image, round(value)),
    "Contrast": lambda image, value: ops.contrast(image, 1 + value),
    "Color": lambda image, value: ops.color(image, 1 + value),
    "Brightness": lambda image, value: ops.brightness(image, 1 + value),
    "Sharpness": lambda image, value: ops.sharpness(image, 1 + value),
    "Hue": pil.hue,
    "Flip": lambda image, value: pil.hflip(image),
    "Cutout": lambda image, box: pil.cutout(image, box, (FILL_GREY,) if image.mode == "L" else FILL),
    "RandomResizeCrop": pil.random_resize_crop,
    "RandomCrop": pil.random_crop,
}


def apply(image: Image.Image, step: Application) -> Image.Image:
    return KERNELS[step.name](image, argument(step, image.height, image.width))


class SlackAugment:
    """Augments a PIL image of mode RGB or L; before the normalisation."""

    def __call__(self, image: Image.Image) -> Image.Image:
        if not isinstance(image, Image.Image) or image.mode not in ("RGB", "L"):
            found = getattr(image, "mode", type(image).__name__)
            raise TypeError(f"expected a PIL image of mode RGB or L, got {found}")
        for step in draw(1)[0]:
            image = apply(image, step)
        return image

    def __repr__(self) -> str:
        return f"SlackAugment({len(POLICY)} transformations)"
