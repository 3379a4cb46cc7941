"""What every source becomes: RGB images of one size in memory, labels 0, 1, ..., and what must be known about them.

Axes: B images, C = 3 channels, H, W pixels.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from ..augment.prepare import Size
from . import dividing
from .options import DataConfig, DataError, examples, listing, percent, printable
from .rows import Images, chunks
from .split import Split

RGB = tuple[float, float, float]
MIN_STD = 1 / 255  # for a channel that never changes: it is 0 after the normalisation, whatever it is divided by
RARE = 4  # images of a class: a race trains on half of them and tests on a fold of the other, at the least
MAX_NAMED = 8  # classes in a note
DIM = 64  # a level that some pixel should reach, of 256: pictures do, and what uses few of its bits does not


class Kind(NamedTuple):
    """What an image was where it comes from, before it was made RGB and perhaps resized."""

    height: int
    width: int
    mode: str  # as Pillow names it; RGB;16 and RGB;1 are colours of 16 bits and of one


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A classification problem. `build` makes it: checked, with its statistics."""

    name: str
    train: Split
    test: Split
    class_names: tuple[str, ...]
    mean: RGB  # of the training images, of values in [0, 1]
    std: RGB
    groups: Tensor | None = None  # (B,) of the training images: those of one group stay on one side of a split
    flip: bool = True  # whether a mirror image keeps its label
    input_size: Size | None = None  # height and width for the network, where images are stored with a margin
    kinds: Mapping[Kind, int] | None = None  # how many images were of each; None: all were as they are
    notes: tuple[str, ...] = ()  # what was done to the data, one line each, to be shown to the user
    fingerprint: str

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of what a network sees."""
        return self.input_size or (self.train.images.shape[2], self.train.images.shape[3])

    def halves(self, seed: int) -> tuple[Split, Split]:
        """The training images as train and val; the test set has no part in this."""
        halves = self.half_indices(seed)
        for half, side in zip(halves, ("learn on", "validate with"), strict=True):
            missing = [label for label, n in count(self.train.labels[half], self.class_names) if not n]
            if missing:
                raise DataError(
                    f"{self.name}: no images to {side} of {listing(missing)}, for groups stay on one side of a split, "
                    "and too few of them have such a class; it needs images of several groups (--group-by)"
                )
        return self.train.subset(halves[0]), self.train.subset(halves[1])

    def half_indices(self, seed: int) -> tuple[Tensor, Tensor]:
        return dividing.halves(self.train.labels, seed, self.groups)


def build(
    name: str,
    train: Split,
    test: Split | None,
    class_names: Sequence[str],
    *,
    flip: bool = True,
    notes: Sequence[str] = (),
    statistics: tuple[RGB, RGB] | None = None,
    groups: Tensor | None = None,
) -> Dataset:
    """Check the images and labels and hold out a test set where there is none.

    `statistics` are mean and std where they are agreed upon; otherwise the training images are measured. `groups` are
    those of the training images.
    """
    notes = list(notes)
    for part, split in (("train", train), ("test", test)):
        if split is not None:
            check_split(split, len(class_names), f"{name}: {part}")
    check_classes(name, train.labels, class_names)
    if test is None:
        rest, held_out = dividing.hold_out(train.labels, groups=groups)
        notes += held_out_notes(name, train.labels, held_out, class_names, "images" if groups is None else "groups")
        test, train = train.subset(held_out), train.subset(rest)
        groups = None if groups is None else groups[rest]
    if (rare := rare_note(train.labels, class_names)) not in ("", *notes):
        notes.append(rare)
    if train.images.shape[1:] != test.images.shape[1:]:
        sizes = [f"{s.images.shape[3]} x {s.images.shape[2]}" for s in (train, test)]
        raise DataError(
            f"{name}: the training images are {sizes[0]} pixels, the test images {sizes[1]}; give a size (--size), "
            "and both are resized to it"
        )
    if statistics is None:
        levels = histogram(train.images)
        statistics = moments(levels)
        brightest = int(levels.sum(0).nonzero().max())
        if brightest < DIM:
            notes.append(dim_note(brightest))
    mean, std = statistics
    for channel, deviation in zip(("red", "green", "blue"), std, strict=True):
        if deviation < MIN_STD:
            notes.append(f"the {channel} channel hardly changes: its deviation is taken as 1/255")
    return Dataset(
        name=name,
        train=train,
        test=test,
        class_names=tuple(class_names),
        mean=mean,
        std=(max(std[0], MIN_STD), max(std[1], MIN_STD), max(std[2], MIN_STD)),
        groups=groups,
        flip=flip,
        notes=tuple(notes),
        fingerprint=fingerprint(train),
    )


def rebuild(dataset: Dataset) -> Dataset:
    """A data set that a user's own code made, checked as all others are; its mean and std are kept."""
    same = ("name", "train", "test", "class_names", "flip", "notes", "groups")
    checked = build(**{name: getattr(dataset, name) for name in same}, statistics=(dataset.mean, dataset.std))
    stored = checked.image_size
    if any(seen > have for seen, have in zip(dataset.image_size, stored, strict=True)):
        raise DataError(f"{dataset.name}: input_size {dataset.input_size} exceeds its images, which are {stored}")
    return replace(checked, input_size=dataset.input_size, kinds=dataset.kinds)


def with_margin(dataset: Dataset, options: DataConfig) -> Dataset:
    """The data set whose images were stored with a margin, as one of smaller images."""
    stored, size = tuple(dataset.train.images.shape[2:]), options.size
    if size is None or stored != (options.stored_size, options.stored_size):
        raise DataError(
            f"{dataset.name}: its images are stored at {stored}; with a margin, images of {size} pixels are stored at "
            f"{options.stored_size}"
        )
    return replace(dataset, input_size=(size, size))


def check_split(split: Split, n_classes: int, where: str) -> None:
    images, labels = split
    if len(images) == 0:
        raise DataError(f"{where}: no images")
    if images.dtype != torch.uint8 or len(images.shape) != 4 or images.shape[1] != 3 or 0 in images.shape:
        raise DataError(f"{where}: expected images (B, 3, H, W) uint8, got {tuple(images.shape)} {images.dtype}")
    if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
        raise DataError(
            f"{where}: expected one int64 label for each of {len(images)} images, "
            f"got {tuple(labels.shape)} {labels.dtype}"
        )
    if labels.min() < 0 or labels.max() >= n_classes:
        raise DataError(
            f"{where}: labels must be from 0 to {n_classes - 1}, for there are {n_classes} class names; "
            f"found {labels.min()} to {labels.max()}"
        )


def check_classes(name: str, labels: Tensor, class_names: Sequence[str]) -> None:
    if len(class_names) < 2:
        raise DataError(f"{name}: only one class ({class_names[0]!r}); a classifier needs at least two")
    scarce = [f"{label!r} ({n})" for label, n in count(labels, class_names) if n < 2]
    if scarce:
        raise DataError(
            f"{name}: every class needs at least 2 training images, for a search learns on one half and validates on "
            f"the other; too few in {listing(scarce)}. Add images, or take the class out"
        )


def rare_note(labels: Tensor, class_names: Sequence[str]) -> str:
    rare = [f"{label!r} ({n})" for label, n in count(labels, class_names) if n < RARE]
    advice = "too few to learn from and to test with; add images, or take the class out"
    return f"classes with fewer than {RARE} training images, {advice}: {listing(rare)}" if rare else ""


def count(labels: Tensor, class_names: Sequence[str]) -> list[tuple[str, int]]:
    """How many images each class has."""
    return [*zip(class_names, labels.bincount(minlength=len(class_names)).tolist(), strict=True)]


def held_out_notes(name: str, labels: Tensor, held_out: Tensor, class_names: Sequence[str], what: str) -> list[str]:
    """What a test set is that was held out of these labels."""
    if len(held_out) == 0:
        raise DataError(f"{name}: no test set, and too few {what} to hold one out; add {what} or a test set")
    together = "; every group is on one side" if what == "groups" else ""
    share = f"{percent(dividing.HOLD_OUT)} ({len(held_out)} of {len(labels)} images"
    notes = [f"no test set: held out a stratified {share}, seed {dividing.HOLD_OUT_SEED}){together}"]
    untested = [label for label, n in count(labels[held_out], class_names) if not n]
    if untested:
        notes.append(f"classes that are not tested: too few {what} to hold some out: {listing(untested)}")
    return notes


def histogram(images: Images) -> Tensor:
    """How often each level is in each channel, (B, 3, H, W) uint8 -> (3, 256)."""
    found = torch.zeros(3, 256, dtype=torch.int64)
    for part in chunks(images):
        found += torch.stack([channel.flatten().bincount(minlength=256) for channel in part.unbind(1)])
    return found


def moments(histogram: Tensor) -> tuple[RGB, RGB]:
    """Mean and standard deviation of each channel, scaled to [0, 1]; exact until one division."""
    levels = torch.arange(256)
    mean, std = [], []
    for counts in histogram:
        n, total, squares = (int((counts * levels**power).sum()) for power in range(3))
        mean.append(total / (255 * n))
        std.append(max(n * squares - total * total, 0) ** 0.5 / (255 * n))
    return (mean[0], mean[1], mean[2]), (std[0], std[1], std[2])


def fingerprint(split: Split) -> str:
    """16 hexadecimal digits that change with any pixel, label or order."""
    digest = hashlib.sha256(repr(tuple(split.images.shape)).encode())
    for part in chain(chunks(split.images), [split.labels]):
        digest.update(part.contiguous().numpy().data)
    return digest.hexdigest()[:16]


def count_duplicates(data: Dataset) -> int:
    """Test images that are equal to a training image in every pixel."""
    train, test = (
        [hashlib.sha256(image.numpy().data).digest() for part in chunks(split.images) for image in part.contiguous()]
        for split in (data.train, data.test)
    )
    known = {*train}
    return sum(digest in known for digest in test)


def dim_note(brightest: int) -> str:
    """Nothing says how bright images should be, but 12 bits in files of 16 are a sixteenth of what they were."""
    return (
        f"no training image has a level above {brightest} of 255, and of 256 levels at most {brightest + 1} are left; "
        "images of 16 bits are divided by 65,535: scale those that use less of that range to 8 bits first"
    )


def classes_note(class_names: Sequence[str]) -> str:
    """What the classes were taken to be, so that a folder that is none is seen."""
    return f"classes: {examples([*map(printable, class_names)], MAX_NAMED)} ({len(class_names)})"
