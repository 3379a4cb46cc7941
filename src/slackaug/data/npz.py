"""x.npz with MedMNIST's keys: train_images, train_labels, and the same with val_ and test_; perhaps class_names."""

import os
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from .arrays import from_arrays, to_labels
from .dataset import Dataset, classes_note
from .files import MAX_BYTES
from .listing import joined_note
from .options import DataConfig, DataError
from .pixels import Array

PARTS = ("train", "val", "test")
KEYS = [f"{part}_{what}" for part in PARTS for what in ("images", "labels")]


def npz(location: str, options: DataConfig) -> Dataset:
    path = Path(location)
    arrays = read_arrays(path)
    pairs = {part: (arrays[f"{part}_images"], arrays[f"{part}_labels"]) for part in PARTS if f"{part}_images" in arrays}
    if "val" in pairs:
        train, val = pairs["train"], pairs["val"]
        if train[0].dtype != val[0].dtype or train[0].shape[1:] != val[0].shape[1:]:
            raise DataError(
                f"{path}: train_images are {train[0].dtype} {train[0].shape}, val_images {val[0].dtype} "
                f"{val[0].shape}; they are joined and must be alike"
            )
        labels = [to_labels(pairs[p][1], len(pairs[p][0]), f"{path}: {p} labels") for p in ("train", "val")]
        pairs["train"] = np.concatenate([train[0], val[0]]), np.concatenate(labels)
    names = arrays.get("class_names")
    if names is not None and (names.ndim != 1 or names.dtype.kind != "U"):
        raise DataError(f"{path}: class_names must be a vector of texts, got {names.dtype} {names.shape}")
    class_names = None if names is None else [str(name) for name in names]
    dataset = from_arrays(str(path), pairs["train"], pairs.get("test"), options, class_names, joined_note(pairs))
    return replace(dataset, notes=(classes_note(dataset.class_names), *dataset.notes))


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays with known keys; nothing is ever unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
        limit = min(MAX_BYTES, memory())
        if n_bytes > limit:
            raise DataError(f"{path}: unpacks to {n_bytes / 1024**3:.0f} GiB, the limit is {limit // 1024**3}")
        with np.load(path, allow_pickle=False) as file:
            check_keys(path, file.files)
            arrays = {key: file[key] for key in (*KEYS, "class_names") if key in file.files}
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
        wanted = [f"{part}_images", f"{part}_labels"]
        missing = [key for key in wanted if key not in found]
        if missing and (part == "train" or len(missing) == 1):
            raise DataError(
                f"{path}: {' and '.join(missing)} missing; expected the keys train_images, train_labels and perhaps "
                f"val_*, test_* and class_names, found {', '.join(found) or 'none'}"
            )
