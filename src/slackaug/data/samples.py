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

from . import arrays, decode
from .dataset import Dataset
from .listing import Listing
from .options import DataConfig, DataError
from .sources import DATASETS, find_listing, read

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
        """The names of the classes, in place of the pictures."""
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
    if source and source not in DATASETS:
        found = find_listing(source) if path.exists() else None
        if found is not None:
            return of_files(found, options)
        if path.suffix.lower() == ".npz" and path.is_file():
            return of_npz(path, options)
    if source not in DATASETS and data is None:
        raise DataError(f"{source or 'the data'}: not found here; {remedy}")
    return of_dataset(read(options))


def of_files(found: Listing, options: DataConfig) -> Samples:
    classes: dict[str, list[Path]] = {}
    for item in found.items:
        if item.part == "train":
            classes.setdefault(item.label, []).append(item.path)
    if not classes:
        raise DataError(f"{found.name}: no training images")
    chosen = spread(sorted(classes))
    images = [first_readable(classes[name], options) for name in chosen]
    if len({image.shape for image in images}) > 1:
        raise DataError(f"{found.name}: images of several sizes")
    return Samples(torch.stack(images).permute(0, 3, 1, 2).contiguous(), tuple(chosen))


def first_readable(paths: list[Path], options: DataConfig) -> Tensor:
    """(H, W, C) uint8."""
    for path in paths:
        try:
            return torch.from_numpy(decode.read(path, options))
        except DataError as error:
            if not options.skip_bad:
                raise DataError(f"{path}: {error}") from error
    raise DataError(f"{paths[0].parent}: none of {len(paths)} files can be read")


def of_npz(path: Path, options: DataConfig) -> Samples:
    found = arrays.read_arrays(path)
    labels = arrays.to_labels(found["train_labels"], len(found["train_images"]), f"{path}: train labels")
    values, first = np.unique(labels, return_index=True)
    chosen = spread(range(len(values)))
    images = arrays.to_images(found["train_images"][first[chosen]], options, f"{path}: train images")
    names = found.get("class_names")
    is_named = names is not None and names.ndim == 1 and 0 <= values.min() <= values.max() < len(names)
    return Samples(images, tuple(str(names[v] if is_named and names is not None else v) for v in values[chosen]))
