"""A few training images of different classes, to be shown: read again from where the data lies.

Axes: B images, C = 3 channels, H, W pixels.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from . import DATASETS, DataConfig, DataError, Dataset, arrays, class_folders, decode, listing, read, table

N_SAMPLES = 4
T = TypeVar("T")


class Samples(NamedTuple):
    images: Tensor  # (B, C, H, W) uint8
    class_names: tuple[str, ...]  # of these images

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.images.shape[2], self.images.shape[3]

    @property
    def pictures(self) -> list[Image.Image]:
        return [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in self.images]

    @property
    def text(self) -> str:
        """For those who do not see them."""
        return ", ".join(self.class_names)


def of_dataset(data: Dataset) -> Samples:
    """The first training image of each of some classes."""
    first: dict[int, int] = {}
    for index, label in enumerate(data.train.labels.tolist()):
        first.setdefault(label, index)
    labels = spread(sorted(first))
    images = data.train.images[[first[label] for label in labels]].cpu()
    return Samples(images, tuple(data.class_names[label] for label in labels))


def spread(values: Sequence[T]) -> list[T]:
    """At most N_SAMPLES of them, evenly."""
    n = min(N_SAMPLES, len(values))
    return [values[i * len(values) // n] for i in range(n)]


def find(config: DataConfig, data: str | None, remedy: str = "--data says where the images are now") -> Samples:
    """Of the data that `config` names, or that lies in `data` now. A file alone may not name code or a download.

    Only the images that are shown are decoded: there may be a million.
    """
    source = config.source if data is None else data
    path, options = Path(source), replace(config, source=source, group_by=None, cache=None)
    if source not in DATASETS:
        if source and path.is_dir():
            return of_files(source, folder_files(path), options, config.skip_bad)
        if path.suffix.lower() == ".csv" and path.is_file():
            return of_files(source, table_files(path), options, config.skip_bad)
        if path.suffix.lower() == ".npz" and path.is_file():
            return of_npz(path, options)
        if data is None:
            raise DataError(f"{source or 'the data'}: not found here; {remedy}")
    return of_dataset(read(options))


# --- files ------------------------------------------------------------------------------------------------------------


class File(NamedTuple):
    path: Path
    root: Path | None  # the folder that it may not lead out of, neither by .. nor by a link


Files = dict[str, list[File]]  # training images by class


def folder_files(root: Path) -> Files:
    found: Files = {}
    notes: list[str] = []
    links: list[str] = []
    for path, split in class_folders.find_parts(root, notes).items():
        if split == "train":
            for item in class_folders.items_in(path, split, notes, links):
                found.setdefault(item.label, []).append(File(item.path, root))
    return found


def table_files(path: Path) -> Files:
    found: Files = {}
    for _, row in table.read_rows(path):
        file, label, part = ((row.get(key) or "").strip() for key in ("path", "label", "split"))
        if file and label and "\0" not in file and listing.split_of(part) == "train":
            root = None if Path(file).is_absolute() else path.parent
            found.setdefault(label, []).append(File(path.parent / file, root))
    return found


def of_files(source: str, found: Files, options: DataConfig, skip_bad: bool) -> Samples:
    if not found:
        raise DataError(f"{source}: no images")
    chosen = spread(sorted(found))
    images = [first_readable(found[name], options, skip_bad) for name in chosen]
    if len({image.shape for image in images}) > 1:
        raise DataError(f"{source}: images of several sizes")
    return Samples(torch.stack(images).permute(0, 3, 1, 2).contiguous(), tuple(chosen))


def first_readable(found: list[File], options: DataConfig, skip_bad: bool) -> Tensor:
    """(H, W, C) uint8."""
    for path, root in found:
        if root is not None:
            listing.refuse_outside(str(root), root, [listing.Item(path, "", "train")])
        try:
            return torch.from_numpy(np.ascontiguousarray(decode.read(path, options)))
        except DataError as error:
            if not skip_bad:
                raise DataError(f"{path}: {error}") from error
    raise DataError(f"{found[0].path.parent}: none of {len(found)} files can be read")


def of_npz(path: Path, options: DataConfig) -> Samples:
    found = arrays.read_arrays(path)
    labels = arrays.to_labels(found["train_labels"], len(found["train_images"]), f"{path}: train labels")
    values, first = np.unique(labels, return_index=True)
    chosen = spread(range(len(values)))
    images = arrays.to_images(found["train_images"][first[chosen]], options, f"{path}: train images")
    names = found.get("class_names")
    is_named = names is not None and names.ndim == 1 and 0 <= values.min() <= values.max() < len(names)
    return Samples(images, tuple(str(names[v] if is_named and names is not None else v) for v in values[chosen]))
