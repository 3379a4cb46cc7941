"""The same transformations on one PIL image of mode L or RGB, by Pillow itself: what defines every pixel.

`value` is the strength in physical units, as in `transforms`; a `Box` is left, top, width, height in pixels.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from torch import Tensor

Box = tuple[int, int, int, int]
MODES = {"L": 1, "RGB": 3}  # supported modes and their channels


def warp(image: Image.Image, *matrix: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)


def shear_x(image: Image.Image, value: float) -> Image.Image:
    return warp(image, 1, value, 0, 0, 1, 0)


def shear_y(image: Image.Image, value: float) -> Image.Image:
    return warp(image, 1, 0, 0, value, 1, 0)


def translate_x(image: Image.Image, value: float) -> Image.Image:
    return warp(image, 1, 0, value * image.width, 0, 1, 0)


def translate_y(image: Image.Image, value: float) -> Image.Image:
    return warp(image, 1, 0, 0, 0, 1, value * image.height)


def rotate(image: Image.Image, value: float) -> Image.Image:
    return image.rotate(value, Image.Resampling.NEAREST)


def plain(function: Callable[[Image.Image], Image.Image], image: Image.Image, value: float) -> Image.Image:
    """One that has no strength."""
    return function(image)


identity = partial(plain, Image.Image.copy)
autocontrast = partial(plain, ImageOps.autocontrast)
equalize = partial(plain, ImageOps.equalize)
invert = partial(plain, ImageOps.invert)


def grayscale(image: Image.Image, value: float) -> Image.Image:
    return image.convert("L").convert(image.mode)


def solarize(image: Image.Image, value: float) -> Image.Image:
    return ImageOps.solarize(image, value)  # type: ignore[arg-type]  # Pillow compares, and any number will do


def posterize(image: Image.Image, value: float) -> Image.Image:
    return ImageOps.posterize(image, round(value))


def enhance(quality: Callable[[Image.Image], ImageEnhance._Enhance], image: Image.Image, value: float) -> Image.Image:
    return quality(image).enhance(1 + value)


contrast = partial(enhance, ImageEnhance.Contrast)
color = partial(enhance, ImageEnhance.Color)
brightness = partial(enhance, ImageEnhance.Brightness)
sharpness = partial(enhance, ImageEnhance.Sharpness)


def hue(image: Image.Image, value: float) -> Image.Image:
    if image.mode == "L":
        return image.copy()
    angle, saturation, lightness = image.convert("HSV").split()
    turned = angle.point([(level + int(value * 255)) % 256 for level in range(256)])
    return Image.merge("HSV", (turned, saturation, lightness)).convert("RGB")


def hflip(image: Image.Image) -> Image.Image:
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def random_crop(image: Image.Image, box: Box) -> Image.Image:
    left, top, width, height = box
    return image.crop((left, top, left + width, top + height))  # black outside the image


def random_resize_crop(image: Image.Image, box: Box) -> Image.Image:
    return random_crop(image, box).resize(image.size, Image.Resampling.BICUBIC)


def cutout(image: Image.Image, box: Box, fill: tuple[int, ...]) -> Image.Image:
    left, top, width, height = box
    out = image.copy()
    if width > 0 and height > 0:
        corners = (left, top, left + width - 1, top + height - 1)  # Pillow's rectangles include their last row
        ImageDraw.Draw(out).rectangle(corners, fill[0] if image.mode == "L" else fill)
    return out


# --- to and from tensors ----------------------------------------------------------------------------------------------


def to_tensor(image: Image.Image) -> Tensor:
    """(C, H, W) uint8, a copy."""
    pixels = torch.from_numpy(np.array(image))
    return pixels.unsqueeze(0) if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()


def from_tensor(pixels: Tensor) -> Image.Image:
    """The PIL image of a (C, H, W) uint8 tensor."""
    array = pixels.cpu().permute(1, 2, 0).numpy()
    return Image.fromarray(array[..., 0] if array.shape[2] == 1 else np.ascontiguousarray(array))


def each(function: Callable[[Image.Image, float], Image.Image], images: Tensor, value: Tensor) -> Tensor:
    """Apply a function of one PIL image to a batch, in a loop: for transformations that users bring."""
    done = [to_tensor(function(from_tensor(i), v)) for i, v in zip(images, value.tolist(), strict=True)]
    return torch.stack(done).to(images.device) if done else images.clone()


def single(kernel: Callable[[Tensor, Tensor], Tensor], image: Image.Image, value: float) -> Image.Image:
    """Apply a batched kernel to one PIL image."""
    return from_tensor(kernel(to_tensor(image).unsqueeze(0), torch.tensor([value], dtype=torch.float64))[0])
