"""Arrays that others made, into images (B, 3, H, W) uint8 and labels 0, 1, ...: checked, never guessed.

Files of arrays, x.npz, have MedMNIST's keys: train_images, train_labels, the same with val_ and test_, and perhaps
class_names.
"""

import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from .dataset import RGB, Dataset, Kind, build, classes_note
from .decode import Array, fit, to_8_bits
from .files import MAX_BYTES
from .listing import joined_note
from .options import DataConfig, DataError, listing
from .split import Split

PARTS = ("train", "val", "test")
MODES = {("bool", 1): "1", ("uint8", 1): "L", ("uint16", 1): "I;16",
         ("bool", 3): "RGB;1", ("uint8", 3): "RGB", ("uint16", 3): "RGB;16"}  # fmt: skip


def from_arrays(
    name: str,
    parts: Mapping[str, tuple[Any, Any]],
    options: DataConfig,
    class_names: Sequence[str] | None = None,
    notes: Sequence[str] = (),
    statistics: tuple[RGB, RGB] | None = None,
) -> Dataset:
    """A data set out of (images, labels) arrays, of "train" and perhaps of "test"; the rest as in `build`."""
    parts = {part: parts[part] for part in ("train", "test") if part in parts}
    images = {part: to_images(pair[0], options, f"{name}: {part} images") for part, pair in parts.items()}
    labels = {part: to_labels(pair[1], len(images[part]), f"{name}: {part} labels") for part, pair in parts.items()}
    values = np.unique(labels["train"]) if class_names is None else np.arange(len(class_names))
    names = [str(value) for value in values] if class_names is None else class_names
    splits = {part: Split(images[part], encode(labels[part], values, f"{name}: {part} labels")) for part in parts}
    dataset = build(name, splits["train"], splits.get("test"), names, notes=notes, statistics=statistics)
    return replace(dataset, kinds=kinds_of([np.asarray(array) for array, _ in parts.values()], name))


def kinds_of(arrays: Iterable[Array], where: str) -> Counter[Kind]:
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
        pictures = (Image.fromarray(image[..., 0] if image.shape[2] == 1 else image) for image in array)
        array = np.stack([np.asarray(fit(picture, options)).reshape(size, size, -1) for picture in pictures])
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


# --- files of arrays --------------------------------------------------------------------------------------------------


def npz(location: str, options: DataConfig) -> Dataset:
    path = Path(location)
    arrays = read_arrays(path)
    pairs = {part: (arrays[f"{part}_images"], arrays[f"{part}_labels"]) for part in PARTS if f"{part}_images" in arrays}
    if "val" in pairs:
        train, val = pairs["train"][0], pairs["val"][0]
        if train.dtype != val.dtype or train.shape[1:] != val.shape[1:]:
            raise DataError(
                f"{path}: train_images are {train.dtype} {train.shape}, val_images {val.dtype} "
                f"{val.shape}; they are joined and must be alike"
            )
        labels = [to_labels(pairs[p][1], len(pairs[p][0]), f"{path}: {p} labels") for p in ("train", "val")]
        pairs["train"] = np.concatenate([train, val]), np.concatenate(labels)
    names = arrays.get("class_names")
    if names is not None and (names.ndim != 1 or names.dtype.kind != "U"):
        raise DataError(f"{path}: class_names must be a vector of texts, got {names.dtype} {names.shape}")
    class_names = None if names is None else [str(name) for name in names]
    dataset = from_arrays(str(path), pairs, options, class_names, joined_note(pairs))
    return replace(dataset, notes=(classes_note(dataset.class_names), *dataset.notes))


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays with known keys."""
    known = [*(f"{part}_{what}" for part in PARTS for what in ("images", "labels")), "class_names"]

    def wanted(found: list[str]) -> list[str]:
        check_keys(path, found)
        return [key for key in known if key in found]

    return unpacked(path, wanted)


def unpacked(path: Path, wanted: Callable[[list[str]], list[str]] = list) -> dict[str, Array]:
    """Those arrays of a file that are wanted, of the keys found; nothing is ever unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
        limit = min(MAX_BYTES, memory())
        if n_bytes > limit:
            raise DataError(f"{path}: unpacks to {n_bytes / 1024**3:.0f} GiB, the limit is {limit // 1024**3}")
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in wanted(file.files)}
    except DataError:
        raise
    except Exception as error:  # zip, zlib and numpy raise nearly anything on a damaged file
        if "Object arrays" in str(error):
            raise DataError(f"{path}: holds Python objects, which could run code and are never loaded") from None
        raise DataError(f"{path}: cannot be read: not an npz file, damaged or cut off ({error})") from error
    for key, array in arrays.items():
        if array.ndim == 0:
            raise DataError(f"{path}: {key} is a single value, expected an array")
    return arrays


def memory() -> int:
    """Bytes that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_keys(path: Path, found: list[str]) -> None:
    for part in PARTS:
        missing = [key for key in (f"{part}_images", f"{part}_labels") if key not in found]
        if missing and (part == "train" or len(missing) == 1):
            raise DataError(
                f"{path}: {' and '.join(missing)} missing; expected the keys train_images, train_labels and perhaps "
                f"val_*, test_* and class_names, found {', '.join(found) or 'none'}"
            )
