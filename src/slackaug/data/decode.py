"""One image file, or one PIL image, into RGB pixels of 8 bits.

Transparent images are laid on white. 16-bit grey is scaled by the range of its type, 0..65535, so nothing wraps around
and images keep their relative brightness. The orientation that a camera wrote is applied. Of several frames or pages
the first counts. A size means a square of size x size, bicubic: the whole image stays visible, its aspect does not;
with a margin its aspect stays, and what lies beyond the centre square does not. No torch here.
"""

import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from .options import DataConfig, DataError

Array = NDArray[Any]
MAX_PIXELS = 100_000_000  # larger than any camera's picture: a file that claims more is a decompression bomb

# No EPS, PDF and the like: opening those runs other programs.
FORMATS = ("PNG", "JPEG", "MPO", "BMP", "GIF", "PPM", "TIFF", "WEBP", "AVIF", "JPEG2000")
SUFFIXES = (".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".bmp", ".dib", ".gif", ".ppm", ".pgm", ".pbm",
            ".pnm", ".tif", ".tiff", ".webp", ".avif", ".jp2", ".j2k")  # fmt: skip
ORIENTATION = 0x0112  # the EXIF tag; 5 to 8 swap width and height
AT_ONCE = 16 * 1024**2  # bytes of a file that are read at once: Pillow's many small reads cost a tenth of decoding
NO_FILE = "a folder, a pipe or a device, not a file"


@cache
def known_formats() -> list[str]:
    """Those of FORMATS that this Pillow can read."""
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


@contextmanager
def opened(path: Path | str, at_once: int = AT_ONCE) -> Iterator[Image.Image]:
    """The image in a file, its header read, its pixels not yet; any failure is a DataError with the reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's remarks on odd metadata; the size is checked here
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for somebody who writes to it
                raise DataError(NO_FILE)
            in_memory = content(path, status.st_size) if 0 < status.st_size <= at_once else None
            with Image.open(path if in_memory is None else in_memory, formats=known_formats()) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise DataError(f"{image.width} x {image.height} pixels, the limit is {MAX_PIXELS:,}")
                yield image
        except DataError:
            raise
        except UnidentifiedImageError:
            raise DataError("empty" if os.stat(path).st_size == 0 else "not an image of a known format") from None
        except FileNotFoundError:
            raise DataError("no such file") from None
        except PermissionError:
            raise DataError("no permission to read it") from None
        except OSError as error:  # without a number where Pillow raises it: a file that is cut off
            raise DataError(error.strerror or str(error) or type(error).__name__) from error
        except Image.DecompressionBombError:
            raise DataError(f"a decompression bomb: more than {MAX_PIXELS:,} pixels") from None
        except Exception as error:  # decoders of damaged files raise nearly anything
            raise DataError(str(error) or type(error).__name__) from error


def content(path: Path | str, n_bytes: int) -> BytesIO | None:
    """Of a file of so many bytes; none where a disk gives less at once."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.read(file, n_bytes)
    finally:
        os.close(file)
    return BytesIO(found) if len(found) == n_bytes else None


def size_of(path: Path | str) -> tuple[int, int]:
    """Height and width, as seen, by the header alone."""
    with opened(path, at_once=0) as image:
        width, height = image.size
        return (width, height) if image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8) else (height, width)


def read(path: Path | str, options: DataConfig) -> Array:
    """(H, W, 3) uint8."""
    with opened(path) as image:
        return pixels(image, options).copy()


def pixels(image: Image.Image, options: DataConfig) -> Array:
    """(H, W, 3) uint8, of the given size if any; not to be written to."""
    return np.asarray(upright(image, options))


def lines(image: Image.Image, options: DataConfig) -> Array:
    """The same pixels as (H, 3, W), which are put in the order of a network, (3, H, W), in half of the time."""
    image = upright(image, options)
    return np.frombuffer(image.tobytes("raw", "RGB;L"), np.uint8).reshape(image.height, 3, image.width)


def is_stack(image: Image.Image) -> bool:
    """Whether frames or pages follow the one that is read. To be asked after that: in a GIF the next one is sought."""
    with suppress(Exception):  # what is damaged from there on does not make the first one bad
        return bool(getattr(image, "is_animated", False))  # n_frames would look at every page
    return False


def upright(image: Image.Image, options: DataConfig) -> Image.Image:
    """RGB, of the given size if any."""
    ImageOps.exif_transpose(image, in_place=True)  # a copy of every image would cost a tenth of decoding it
    return fit(to_rgb(image), options)


def to_rgb(image: Image.Image) -> Image.Image:
    if is_deep(image):
        levels = np.asarray(image)  # in whatever type Pillow holds them
        if levels.min() < 0 or levels.max() > 65535:
            raise DataError(f"grey levels from {levels.min()} to {levels.max()}, expected at most 16 bits (0..65535)")
        image = Image.fromarray(to_8_bits(levels.astype(np.uint16), "grey"))
    if image.mode == "F":
        raise DataError("floating-point pixels, whose range is not known; convert to 8 or 16 bits")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def is_deep(image: Image.Image) -> bool:
    """Whether it is grey of more than 8 bits; colour of 16 bits Pillow itself makes one of 8."""
    return image.mode.startswith("I")


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
