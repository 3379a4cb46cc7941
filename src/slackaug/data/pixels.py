"""Pixels of one image as an array: to 8 bits, and to the size that is stored. No torch here."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .options import DataConfig, DataError

Array = NDArray[Any]
MAX_PIXELS = 100_000_000  # larger than any camera's picture: a file that claims more is a decompression bomb


def to_8_bits(array: Array, where: str) -> Array:
    """The range of the type becomes 0..255: nothing wraps around, and images keep their relative brightness."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:
        return ((array.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    raise DataError(
        f"{where}: expected uint8 (0..255), uint16 (0..65535) or bool, got {array.dtype}; "
        "scale to 0..255 and convert with .astype('uint8')"
    )


def resize(image: Array, options: DataConfig) -> Array:
    """(H, W, C) -> (size, size, C) by Pillow, bicubic."""
    fitted = np.asarray(fit(Image.fromarray(image[..., 0] if image.shape[2] == 1 else image), options))
    return fitted.reshape(*fitted.shape[:2], -1)


def fit(image: Image.Image, options: DataConfig) -> Image.Image:
    """The image as it is to be stored: the whole of it in a square, or with a margin its centre, of its own aspect."""
    size = options.stored_size
    if size is None or image.size == (size, size):
        return image
    if not options.margin:
        return image.resize((size, size), Image.Resampling.BICUBIC)
    width, height = with_shorter_side(size, image.width, image.height)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.resize((width, height), Image.Resampling.BICUBIC).crop((left, top, left + size, top + size))


def with_shorter_side(size: int, width: int, height: int) -> tuple[int, int]:
    """Width and height of the same aspect; of a line of few pixels they would take gigabytes, which is refused."""
    new_width, new_height = (size * side // min(width, height) for side in (width, height))
    if new_width * new_height > MAX_PIXELS:
        raise DataError(
            f"{width} x {height} pixels become {new_width} x {new_height} with a margin, the limit is "
            f"{MAX_PIXELS:,} pixels; too thin for --margin"
        )
    return new_width, new_height
