"""On PIL images, with timm's own operations where it has them and Pillow for the rest, as in

    transform = timm.data.create_transform(224, is_training=True, auto_augment=None, hflip=0.0, color_jitter=None)
    transform.transforms.insert(1, SlackAugment())  # after the resize, before the conversion to a tensor

The mirror flip is part of it where the policy says so. Random numbers are torch's: DataLoader seeds them per worker.
"""

from collections.abc import Callable

from PIL import Image
from timm.data import auto_augment as ops

from ...augment.pil import cutout, hflip
from .numbers import FILL, FILL_GREY, POLICY
from .one import argument, draw

NEAREST = {"resample": Image.Resampling.NEAREST, "fillcolor": 0}
KERNELS: dict[str, Callable[..., Image.Image]] = {
    "Identity": lambda image, value: image,
    "ShearX": lambda image, value: ops.shear_x(image, value, **NEAREST),
    "ShearY": lambda image, value: ops.shear_y(image, value, **NEAREST),
    "TranslateX": lambda image, value: ops.translate_x_rel(image, value, **NEAREST),
    "TranslateY": lambda image, value: ops.translate_y_rel(image, value, **NEAREST),
    "Rotate": lambda image, value: ops.rotate(image, value, **NEAREST),
    "AutoContrast": lambda image, value: ops.auto_contrast(image),
    "Invert": lambda image, value: ops.invert(image),
    "Equalize": lambda image, value: ops.equalize(image),
    "Solarize": ops.solarize,
    "Posterize": lambda image, value: ops.posterize(image, round(value)),
    "Contrast": lambda image, value: ops.contrast(image, 1 + value),
    "Color": lambda image, value: ops.color(image, 1 + value),
    "Brightness": lambda image, value: ops.brightness(image, 1 + value),
    "Sharpness": lambda image, value: ops.sharpness(image, 1 + value),
    "Flip": lambda image, value: hflip(image),
    "Cutout": lambda image, box: cutout(image, box, (FILL_GREY,) if image.mode == "L" else FILL),
}


class SlackAugment:
    """Augments a PIL image of mode RGB or L; before the normalisation."""

    def __call__(self, image: Image.Image) -> Image.Image:
        if not isinstance(image, Image.Image) or image.mode not in ("RGB", "L"):
            found = getattr(image, "mode", type(image).__name__)
            raise TypeError(f"expected a PIL image of mode RGB or L, got {found}")
        for step in draw(1)[0]:
            image = KERNELS[step.name](image, argument(step, image.height, image.width))
        return image

    def __repr__(self) -> str:
        return f"SlackAugment({len(POLICY)} transformations)"
