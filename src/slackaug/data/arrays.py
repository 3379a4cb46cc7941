"""Arrays that others made, into images (B, 3, H, W) uint8 and labels 0, 1, ...: checked, never guessed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .dataset import RGB, Dataset, Kind, build
from .options import DataConfig, DataError, listing
from .pixels import Array, resize, to_8_bits
from .split import Split

MODES = {("bool", 1): "1", ("uint8", 1): "L", ("uint16", 1): "I;16",
         ("bool", 3): "RGB;1", ("uint8", 3): "RGB", ("uint16", 3): "RGB;16"}  # fmt: skip


def from_arrays(
    name: str,
    train: tuple[Any, Any],
    test: tuple[Any, Any] | None,
    options: DataConfig,
    class_names: Sequence[str] | None = None,
    notes: Sequence[str] = (),
    statistics: tuple[RGB, RGB] | None = None,
    kinds: Mapping[Kind, int] | None = None,
) -> Dataset:
    """A data set out of (images, labels) arrays; the rest as in `build`."""
    parts = {"train": train} if test is None else {"train": train, "test": test}
    images = {part: to_images(pair[0], options, f"{name}: {part} images") for part, pair in parts.items()}
    labels = {part: to_labels(pair[1], len(images[part]), f"{name}: {part} labels") for part, pair in parts.items()}
    if class_names is None:
        values = np.unique(labels["train"])
        class_names = [str(value) for value in values]
    else:
        values = np.arange(len(class_names))
    splits = {part: Split(images[part], encode(labels[part], values, f"{name}: {part} labels")) for part in parts}
    kinds = kinds or kinds_of([np.asarray(array) for array, _ in parts.values()], name)
    test_split = splits.get("test")
    return build(name, splits["train"], test_split, class_names, notes=notes, statistics=statistics, kinds=kinds)


def kinds_of(arrays: Sequence[Array], where: str) -> Counter[Kind]:
    """What images were, in arrays that `to_images` takes."""
    kinds: Counter[Kind] = Counter()
    for array in arrays:
        n, height, width, n_channels = channels_last(array, where).shape
        kinds[Kind(height, width, MODES[array.dtype.name, n_channels])] += n
    return kinds


def to_images(array: Any, options: DataConfig, where: str) -> Tensor:
    """Grey or RGB, with the channels last or first, of 8 or 16 bits or boolean -> (B, 3, H, W) uint8."""
    array = channels_last(to_8_bits(np.asarray(array), where), where)
    size = options.stored_size
    if size is not None and array.shape[1:3] != (size, size):
        array = np.stack([resize(image, options) for image in array])
    images = torch.from_numpy(np.ascontiguousarray(array.transpose(0, 3, 1, 2)))  # (B, H, W, C) -> (B, C, H, W)
    return images.expand(-1, 3, -1, -1).contiguous()


def channels_last(array: Array, where: str) -> Array:
    """(B, H, W, C), where C is 1 or 3."""
    shape = array.shape
    if array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and shape[3] not in (1, 3) and shape[1] in (1, 3):
        array = array.transpose(0, 2, 3, 1)
    if array.ndim != 4 or array.shape[3] not in (1, 3):
        raise DataError(f"{where}: expected (B, H, W), (B, H, W, 1) or (B, H, W, 3), got {shape}; volumes are not read")
    if 0 in shape:
        raise DataError(f"{where}: no images in an array of shape {shape}")
    return array


def to_labels(array: Any, n: int, where: str) -> Array:
    """One integer or text for each of n images, as (n,)."""
    labels: Array = np.asarray(array)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2:
        raise DataError(
            f"{where}: {labels.shape[1]} labels for each image; only one is supported. "
            "Of one-hot labels take .argmax(1); pick one column of several labels"
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iuU":
        raise DataError(f"{where}: expected integers (N,) or (N, 1), got {labels.dtype} {labels.shape}")
    if len(labels) != n:
        raise DataError(f"{where}: {len(labels)} labels for {n} images")
    n_missing = int((labels == "").sum() if labels.dtype.kind == "U" else (labels < 0).sum())
    if n_missing:
        raise DataError(f"{where}: {n_missing} labels are missing (empty or below 0); classes are numbered from 0")
    return labels


def encode(labels: Array, values: Array, where: str) -> Tensor:
    """The index of each label among the sorted `values`, (B,) int64."""
    if (labels.dtype.kind == "U") != (values.dtype.kind == "U"):
        raise DataError(f"{where}: {labels.dtype}, but the classes are {values.dtype}; text labels need no class_names")
    strangers = np.setdiff1d(labels, values)
    if len(strangers):
        known = listing([str(value) for value in values])
        raise DataError(f"{where}: {listing([str(s) for s in strangers])}: not among the classes ({known})")
    return torch.from_numpy(np.searchsorted(values, labels).astype(np.int64))
