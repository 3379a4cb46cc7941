"""Image files with labels, listed by a folder or a csv, into a data set; all bad files are found before a complaint."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from . import decode
from .dataset import Dataset, Split, build, classes_note
from .options import DataError, Options, listing

MAX_BYTES = 32 * 1024**3  # of decoded images in memory
PARTS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test",
         "training": "train", "testing": "test"}  # fmt: skip


class Item(NamedTuple):
    path: Path
    label: str
    part: str  # train or test


def from_files(name: str, root: Path, items: Sequence[Item], options: Options, notes: Sequence[str] = ()) -> Dataset:
    """Decode the files; `root` is the folder that their names are shown relative to."""
    if not items:
        raise DataError(f"{name}: no images; known are files that end in {' '.join(decode.SUFFIXES)}")
    images, readable, bad = decode_all(name, items, options)
    notes = list(notes)
    if bad:
        lines = [f"{shown(path, root)}: {reason}" for path, reason in bad.items()]
        if not options.skip_bad:
            every_one = "\n  ".join(lines)  # all of them: who repairs files needs the whole list
            raise DataError(
                f"{name}: {len(bad)} of {len(items)} files cannot be read; repair or remove them, or leave them out "
                f"with skip_bad (--skip-bad):\n  {every_one}"
            )
        if not readable:
            raise DataError(f"{name}: none of the {len(items)} files can be read, for example {lines[0]}")
        notes.append(f"left out {len(bad)} of {len(items)} files that cannot be read, for example {lines[0]}")
    class_names = sorted({item.label for item in items})  # of all files: a class must not vanish with its bad ones
    strangers = sorted(set(class_names) - {item.label for item in items if item.part == "train"})
    if strangers:
        raise DataError(f"{name}: classes in the test set that have no training images: {listing(strangers)}")
    notes.insert(0, classes_note(class_names))
    number = {label: i for i, label in enumerate(class_names)}
    labels = torch.tensor([number[item.label] for item in readable])
    is_test = torch.tensor([item.part == "test" for item in readable])
    if not any(item.part == "test" for item in items):
        return build(name, Split(images, labels), None, class_names, notes=notes)
    train, test = (Split(images[where], labels[where]) for where in (~is_test, is_test))
    return build(name, train, test, class_names, notes=notes)


def part_of(name: str) -> str | None:
    """The part of a data set, train, val or test, that a folder or an entry of a csv names, in any case."""
    return PARTS.get(name.lower())


def split_of(name: str) -> str:
    """Where such a part goes: val joins train, for a search splits it anew."""
    return "test" if part_of(name) == "test" else "train"


def shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def real(path: Path) -> Path:
    """Without links and .. ; unlike Path.resolve, a circle of links is no error here (it cannot be opened later)."""
    return Path(os.path.realpath(path))


def refuse_outside(name: str, root: Path, items: Sequence[Item]) -> None:
    """Paths with .. and links may not lead out of the data's folder."""
    inside = real(root)
    outside = [str(item.path) for item in items if not real(item.path).is_relative_to(inside)]
    if outside:
        raise DataError(
            f"{name}: files outside of {root} are not read, neither by a path nor by a link; "
            f"copy them, make hard links, or list them in a csv by absolute paths: {listing(outside)}"
        )


def decode_all(name: str, items: Sequence[Item], options: Options) -> tuple[Tensor, list[Item], dict[Path, str]]:
    """Images (B, 3, H, W) uint8, the items they belong to, and why the others are missing."""
    bad: dict[Path, str] = {}
    sizes: Counter[tuple[int, int]] = Counter()
    for item in items:
        try:
            sizes[decode.size_of(item.path)] += 1
        except DataError as error:
            bad[item.path] = str(error)
    size = options.stored_size
    height, width = (size, size) if size else one_size(name, sizes)
    check_memory(name, len(items), height, width)
    images = torch.empty(len(items), 3, height, width, dtype=torch.uint8)
    readable: list[Item] = []
    for item in items:
        if item.path in bad:
            continue
        try:
            pixels = decode.read(item.path, options)  # (H, W, 3)
        except DataError as error:
            bad[item.path] = str(error)
        else:
            images[len(readable)] = torch.from_numpy(pixels).permute(2, 0, 1)
            readable.append(item)
    return images[: len(readable)], readable, bad


def one_size(name: str, sizes: Counter[tuple[int, int]]) -> tuple[int, int]:
    """The height and width that all images share."""
    if len(sizes) > 1:
        found = [f"{width} x {height} ({count})" for (height, width), count in sizes.most_common()]
        shorter = sorted(min(size) for size in sizes.elements())
        raise DataError(
            f"{name}: images of different sizes: {listing(found)}. Give a size, for example --size "
            f"{min(224, shorter[len(shorter) // 2])}, and every image is resized to that square"
        )
    return next(iter(sizes), (1, 1))  # no image can be read: that is said later, with all the files


def check_memory(name: str, n: int, height: int, width: int) -> None:
    n_bytes = 3 * n * height * width
    if n_bytes > MAX_BYTES:
        raise DataError(
            f"{name}: {n} images of {width} x {height} pixels take {n_bytes / 1024**3:.0f} GiB of memory, the limit is "
            f"{MAX_BYTES // 1024**3}; give a smaller size (--size)"
        )
