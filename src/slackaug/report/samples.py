"""A few of the user's own images for the report: of different classes, read again from where the data lies.

Axes: B images, C = 3 channels, H, W pixels.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..data import DATASETS, DataError, Dataset, decode, folder, load
from ..data.dataset import Options
from ..recipes import DataConfig

N_SAMPLES = 4
SAFE_FILES = (".npz", ".csv")  # what a config.yaml may name; code and downloads only a person may ask for


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


def of_dataset(data: Dataset, n: int = N_SAMPLES) -> Samples:
    """The first training image of each of n classes."""
    first: dict[int, int] = {}
    for index, label in enumerate(data.train.labels.tolist()):
        first.setdefault(label, index)
    labels = spread(sorted(first), n)
    images = data.train.images[[first[label] for label in labels]].cpu()
    return Samples(images, tuple(data.class_names[label] for label in labels))


def spread(values: list[int], n: int) -> list[int]:
    """At most n of them, evenly."""
    n = min(n, len(values))
    return [values[i * len(values) // n] for i in range(n)]


def find(config: DataConfig, data: str | None) -> Samples:
    """Of the data that `config` names, or that lies in `data` now. A file alone may not name code or a download."""
    source = config.source if data is None else data
    is_known = source in DATASETS or (source != "" and Path(source).is_dir()) or is_file(source)
    if data is None and not is_known:
        raise DataError(f"{source or 'the data'}: not found here; --data says where the images are now")
    if source not in DATASETS and Path(source).is_dir():
        return of_folder(source, config)
    return of_dataset(load(source, size=config.size, margin=config.margin, skip_bad=config.skip_bad))


def is_file(source: str) -> bool:
    path = Path(source)
    return path.suffix.lower() in SAFE_FILES and path.is_file()


def of_folder(source: str, config: DataConfig) -> Samples:
    """Only the images that are shown are decoded: a folder may hold a million."""
    root, options = Path(source), Options(size=config.size, margin=config.margin)
    notes: list[str] = []
    first: dict[str, Path] = {}
    for path, split in folder.find_parts(root, notes).items():
        if split == "train":
            for item in folder.items_in(path, split, notes):
                first.setdefault(item.label, item.path)
    if not first:
        raise DataError(f"{root}: no images")
    names = sorted(first)
    chosen = [names[i] for i in spread(list(range(len(names))), N_SAMPLES)]
    images = [torch.from_numpy(np.ascontiguousarray(decode.read(first[name], options))) for name in chosen]
    if len({image.shape for image in images}) > 1:
        raise DataError(f"{root}: images of several sizes")
    return Samples(torch.stack(images).permute(0, 3, 1, 2).contiguous(), tuple(chosen))
