"""The items of a data set that other code has made, an image with its label each, into arrays; and pixels of any kind.

Axes: B images, H, W pixels, C channels.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from torch import Tensor

from . import decode
from .arrays import channels_last
from .dataset import Kind
from .decode import Array, to_8_bits
from .files import SameSize
from .options import DataConfig, DataError, Progress, silent

NEAR_A_LEVEL = 1 / 8  # of 8 bits: what half precision loses


class Arrays(NamedTuple):
    images: Array  # (B, H, W, C) uint8
    labels: Array  # (B,)
    kinds: Counter[Kind]  # what the images were
    class_names: list[str] | None = None


def classes_of(data: Any) -> Sequence[object] | None:
    """The names of its classes, which may be those of the data set that it is a part of."""
    while not hasattr(data, "classes") and hasattr(data, "dataset"):
        data = data.dataset
    return getattr(data, "classes", None)


def stacked(
    data: Any, names: Sequence[object] | None, where: str, options: DataConfig, progress: Progress = silent
) -> Arrays:
    """All items of a data set of pairs, of one channel if all of them are grey; `names` count if each label has one."""
    images, labels, kinds, channels = SameSize(where, len(data)), [], Counter[Kind](), 1
    for i in range(len(data)):
        pixels, label, kind = item(data, i, where, options)
        images.add(np.broadcast_to(pixels, (*pixels.shape[:2], 3)), *pixels.shape[:2])
        labels.append(label)
        kinds[kind] += 1
        channels = max(channels, pixels.shape[2])
        progress("reading images", i + 1, len(data))
    if not labels:
        raise DataError(f"{where}: no images")
    if len(found := {type(label).__name__ for label in labels}) > 1:
        raise DataError(f"{where}: labels of several kinds ({', '.join(sorted(found))}); give one kind")
    numbers = np.array(labels)
    is_named = names is not None and found == {"int"} and numbers.max() < len(names)
    class_names = [str(name) for name in names] if is_named and names is not None else None
    return Arrays(images.checked()[..., :channels], numbers, kinds, class_names)


def item(data: Any, i: int, where: str, options: DataConfig) -> tuple[Array, int | str, Kind]:
    """The pixels of an item, (H, W, C) uint8, its label, and what the image was."""
    try:
        found = data[i]
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise DataError(f"expected (image, label), got {type(found).__name__}")
        image, label = picture(found[0]), found[1].item() if hasattr(found[1], "item") else found[1]
        if not isinstance(label, int | str):
            raise DataError(f"expected an integer or a text as its label, got {type(label).__name__}")
        mode, n_channels = image.mode, 1 if image.mode in ("1", "L") or decode.is_deep(image) else 3
        pixels = decode.pixels(image, options)[..., :n_channels]  # and turns the image upright
        return pixels, label, Kind(image.height, image.width, mode)
    except Exception as error:  # whatever the data set does
        raise DataError(f"{where}: item {i}: {str(error) or type(error).__name__}") from error


def picture(image: Any) -> Image.Image:
    if isinstance(image, Image.Image):
        return image.copy()  # decoding turns it upright
    if not isinstance(image, Tensor | np.ndarray):
        raise DataError(f"expected a PIL image, a tensor or an array, got {type(image).__name__}")
    (pixels,) = levels(image[None], "image")
    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


# --- pixels -----------------------------------------------------------------------------------------------------------


def levels(images: Any, where: str) -> Array:
    """(B, H, W, C) uint8, of arrays with the channels last or first, and of tensors with the channels first or last."""
    if isinstance(images, Tensor):
        images = images.detach().cpu()
        array = (images.float() if images.is_floating_point() else images).numpy()
        if array.ndim == 4 and array.shape[1] in (1, 3):
            array = array.transpose(0, 2, 3, 1)
    else:
        array = np.asarray(images)
    return channels_last(to_8_bits(of_floats(array, where), where), where)


def of_floats(array: Array, where: str) -> Array:
    """Floats that are levels divided by 255, as ToTensor makes them, are exactly these levels again."""
    if array.dtype.kind != "f" or not array.size:
        return array
    low, high = array.min(), array.max()
    if 0 <= low <= high <= 1:
        scaled = array * np.float32(255)
        found = np.rint(scaled)
        if np.abs(scaled - found).max() < NEAR_A_LEVEL:
            return found.astype(np.uint8)
    raise DataError(
        f"{where}: floats from {low:g} to {high:g}, which are not levels of 8 bits divided by 255; give uint8 images, "
        "without normalisation and without resizing as floats"
    )
