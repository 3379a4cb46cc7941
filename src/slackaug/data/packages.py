"""Data sets of other code, imported when asked for.

They are `torchvision:NAME`, `hf:NAME[:CONFIG][@LABEL]` and `module:callable`, a loader of the user's own.
"""

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset

from .. import foreign
from ..augment.policy import CIFAR
from ..schema import unknown
from .arrays import from_arrays
from .dataset import Dataset, Kind, rebuild
from .items import classes_of, stacked
from .listing import joined_note, part_of, split_of
from .options import DataConfig, DataError

Arguments = dict[str, Any]
ROOT = Path("~/.cache/slackaug")
WITH_VAL = {"train": ({"split": "train"}, {"split": "val"}), "test": ({"split": "test"},)}
# torchvision's classes that name their parts in their own way; all others take train=True or split="train"
TORCHVISION_PARTS: dict[str, dict[str, tuple[Arguments, ...]]] = {
    **dict.fromkeys(("Flowers102", "DTD", "PCAM", "RenderedSST2"), WITH_VAL),
    **dict.fromkeys(("OxfordIIITPet", "FGVCAircraft"), WITH_VAL | {"train": ({"split": "trainval"},)}),
    "Country211": WITH_VAL | {"train": ({"split": "train"}, {"split": "valid"})},
    "Imagenette": {"train": ({"split": "train"},), "test": ({"split": "val"},)},
    "EMNIST": {"train": ({"split": "balanced", "train": True},), "test": ({"split": "balanced", "train": False},)},
}
STATISTICS = {"CIFAR10": CIFAR, "CIFAR100": CIFAR}  # the usual ones, for both; all others are measured


def torchvision(name: str, options: DataConfig) -> Dataset:
    """A class of torchvision.datasets; downloaded where its files are not in the root folder yet."""
    source = f"torchvision:{name}"
    module = foreign.extra("torchvision.datasets")
    known = [entry for entry in getattr(module, "__all__", ()) if entry[:1].isupper()]
    construct = getattr(module, name, None) if name in known else None
    if construct is None:
        raise DataError(unknown("data set of torchvision", name, known))
    root = str(ROOT.expanduser() / "torchvision")
    parameters = inspect.signature(construct).parameters
    downloads = {"download": True} if "download" in parameters else {}
    parts = TORCHVISION_PARTS.get(name) or torchvision_parts(parameters)
    sets = {
        part: [foreign.call(source, partial(construct, root, **one, **downloads)) for one in several]
        for part, several in parts.items()
    }
    return from_sets(source, sets, options, statistics=STATISTICS.get(name))


def torchvision_parts(parameters: Mapping[str, object]) -> dict[str, tuple[Arguments, ...]]:
    """How a class of torchvision is asked for its parts; some have but one."""
    if "train" in parameters:
        return {"train": ({"train": True},), "test": ({"train": False},)}
    if "split" in parameters:
        return {"train": ({"split": "train"},), "test": ({"split": "test"},)}
    return {"train": ({},)}


def hf(name: str, options: DataConfig) -> Dataset:
    """A data set of the Hugging Face hub; LABEL picks one of several columns of labels."""
    source = f"hf:{name}"
    module = foreign.extra("datasets")
    rest, _, column = name.partition("@")
    repository, _, config = rest.partition(":")
    arguments = [repository, config] if config else [repository]
    parts = foreign.call(source, lambda: dict(module.load_dataset(*arguments)))
    if "train" not in parts:
        raise DataError(f"{source}: no part named train; found {', '.join(parts) or 'none'}")
    columns = find_columns(source, parts["train"].features, column)
    sets: dict[str, list[Pairs]] = {}
    for part, data in parts.items():
        if part_of(part):
            sets.setdefault(split_of(part), []).append(Pairs(data, *columns))
    return from_sets(source, sets, options, notes=joined_note(parts))


class Pairs:
    """Two columns of a data set of Hugging Face, as pairs of an image and a label."""

    def __init__(self, data: Any, image: str, label: str):
        self.data, self.columns = data, (image, label)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> Any:
        return itemgetter(*self.columns)(self.data[i])

    @property
    def classes(self) -> Any:
        return self.data.features[self.columns[1]].names


def find_columns(source: str, features: dict[str, Any], wanted: str) -> tuple[str, str]:
    """The columns of images and labels, by their types."""
    kinds = {column: type(feature).__name__ for column, feature in features.items()}
    images = [column for column, kind in kinds.items() if kind == "Image"]
    labels = [column for column, kind in kinds.items() if kind == "ClassLabel"]
    if not images or not labels:
        raise DataError(f"{source}: expected a column of type Image and one of type ClassLabel, found {kinds}")
    if wanted and wanted not in labels:
        raise DataError(f"{source}: " + unknown("column of labels", wanted, labels))
    if not wanted and len(labels) > 1 and "label" not in labels:
        choices = ", ".join(f"{source}@{column}" for column in labels)
        raise DataError(f"{source}: several columns of labels; say which: {choices}")
    return images[0], wanted or ("label" if "label" in labels else labels[0])


def from_sets(source: str, sets: Mapping[str, Sequence[Any]], options: DataConfig, **more: Any) -> Dataset:
    """Out of data sets of pairs, for each part several, which are joined; the rest as in `from_arrays`."""
    names = classes_of(sets["train"][0])
    found = {part: stacked(ConcatDataset(several), names, source, options) for part, several in sets.items()}
    pairs = {part: (one.images, one.labels) for part, one in found.items()}
    class_names = [one.class_names for one in found.values()]
    kinds: Counter[Kind] = sum((one.kinds for one in found.values()), Counter())
    dataset = from_arrays(source, pairs, options, None if None in class_names else class_names[0], **more)
    return replace(dataset, kinds=kinds)


def custom(reference: str, options: DataConfig) -> Dataset:
    """The user's own loader, called without arguments.

    It returns a Dataset, or the arrays train_images, train_labels and perhaps test_images, test_labels.
    """
    result = foreign.call(reference, foreign.resolve(reference))
    if isinstance(result, Dataset):
        if options.size is not None and result.image_size != (options.size, options.size):
            raise DataError(
                f"{reference}: its images are {result.image_size}; a Dataset is not resized, resize in {reference}"
            )
        return rebuild(result)
    if not isinstance(result, tuple | list) or len(result) not in (2, 4):
        raise DataError(
            f"{reference}: expected a slackaug.data.Dataset or the arrays (train_images, train_labels[, test_images, "
            f"test_labels]), got {type(result).__name__}"
        )
    arrays = foreign.call(reference, lambda: [np.asarray(value) for value in result])
    parts = {part: (arrays[i], arrays[i + 1]) for i, part in ((0, "train"), (2, "test")) if i < len(arrays)}
    return from_arrays(reference, parts, options)
