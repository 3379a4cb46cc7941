"""Data sets of other code, imported when asked for.

They are `torchvision:NAME`, `hf:NAME[:CONFIG][@LABEL]` and `module:callable`, a loader of the user's own.
"""

import inspect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from .. import foreign
from ..augment.policy import CIFAR
from ..schema import unknown
from . import decode
from .arrays import from_arrays
from .dataset import Dataset, Kind, rebuild
from .decode import Array
from .files import one_size
from .listing import joined_note, part_of, split_of
from .options import DataConfig, DataError, listing

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
    module = foreign.extra("torchvision.datasets", "torchvision")
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
    stacks = {part: stack(source, chain.from_iterable(several), options) for part, several in sets.items()}
    class_names = getattr(sets["train"][0], "classes", None)
    if class_names is not None and len(class_names) <= max(int(labels.max()) for _, labels, _ in stacks.values()):
        class_names = None  # not a name for each label
    names = None if class_names is None else [str(entry) for entry in class_names]
    return from_stacks(source, stacks, options, names, statistics=STATISTICS.get(name))


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
    module = foreign.extra("datasets", "hf")
    rest, _, column = name.partition("@")
    repository, _, config = rest.partition(":")
    arguments = [repository, config] if config else [repository]
    parts = foreign.call(source, lambda: dict(module.load_dataset(*arguments)))
    if "train" not in parts:
        raise DataError(f"{source}: no part named train; found {', '.join(parts) or 'none'}")
    image, label = find_columns(source, parts["train"].features, column)
    rows: dict[str, list[Any]] = {}
    for part, data in parts.items():
        if part_of(part):
            rows.setdefault(split_of(part), []).append(data)
    stacks = {
        part: stack(source, ((row[image], row[label]) for data in several for row in data), options)
        for part, several in rows.items()
    }
    return from_stacks(source, stacks, options, parts["train"].features[label].names, notes=joined_note(parts))


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


class Stack(NamedTuple):
    images: Array  # (B, H, W, 3) uint8
    labels: Array  # (B,)
    kinds: Counter[Kind]


def from_stacks(
    source: str, stacks: Mapping[str, Stack], options: DataConfig, class_names: Sequence[str] | None, **more: Any
) -> Dataset:
    """As `from_arrays`, of images that are RGB already and were something else."""
    pairs = {part: (images, labels) for part, (images, labels, _) in stacks.items()}
    kinds: Counter[Kind] = sum((one.kinds for one in stacks.values()), Counter())
    return from_arrays(source, pairs, options, class_names, kinds=kinds, **more)


def stack(source: str, examples: Iterable[tuple[Any, Any]], options: DataConfig) -> Stack:
    """Out of pairs of a PIL image and an integer."""
    images, labels = [], []
    kinds: Counter[Kind] = Counter()
    try:
        for image, label in examples:
            if not isinstance(image, Image.Image):
                raise DataError(f"expected an image, got {type(image).__name__}")
            mode = image.mode
            images.append(decode.pixels(image, options))  # and turns the image upright
            kinds[Kind(image.height, image.width, mode)] += 1
            labels.append(label)
    except Exception as error:  # the package decodes while it is iterated
        raise DataError(f"{source}: example {len(images)}: {error}") from error
    if not images:
        raise DataError(f"{source}: no images")
    if not all(isinstance(label, int | np.integer) and label >= 0 for label in labels):
        strange = listing(sorted({repr(label) for label in labels if not isinstance(label, int) or label < 0}))
        raise DataError(f"{source}: labels missing: expected one integer from 0 for each image, found {strange}")
    one_size(source, Counter(image.shape[:2] for image in images))
    return Stack(np.stack(images), np.array(labels), kinds)


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
