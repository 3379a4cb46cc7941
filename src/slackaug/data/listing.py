"""Files with labels, before any is read: names of parts, what no list may hold, and which images belong together."""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .decode import SUFFIXES
from .options import DataError, listing, printable

PARTS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test",
         "training": "train", "testing": "test"}  # fmt: skip


class Item(NamedTuple):
    path: Path
    label: str
    part: str  # train or test
    group: str | None = None  # stays on one side of a split


class Listing(NamedTuple):
    name: str
    root: Path  # the folder that their names are shown relative to
    items: list[Item]
    notes: list[str]
    links: list[str]  # to folders inside of class folders: a search refuses them, for they are not followed


# --- names ------------------------------------------------------------------------------------------------------------


def label_of(name: str) -> str:
    """A class by its name: an é may be one character or two (a folder from macOS), and is one class (Unicode's NFC)."""
    return unicodedata.normalize("NFC", name)


def same_but_for_case(names: Iterable[str]) -> list[list[str]]:
    """Those that differ in capital letters alone, together."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.casefold(), []).append(name)
    return [same for same in found.values() if len(same) > 1]


def part_of(name: str) -> str | None:
    """The part of a data set, train, val or test, that a folder or an entry of a csv names, in any case."""
    return PARTS.get(name.lower())


def split_of(name: str) -> str:
    """Where such a part goes: val joins train, for a search splits it anew."""
    return "test" if part_of(name) == "test" else "train"


def joined_note(names: Iterable[str]) -> list[str]:
    """The note on those parts that are for validation."""
    joined = [name for name in names if part_of(name) == "val"]
    return [f"{' and '.join(joined)} joined train: a search splits it anew"] if joined else []


def relative(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def shown(path: Path, root: Path) -> str:
    return printable(relative(path, root))


# --- what is refused --------------------------------------------------------------------------------------------------


def checked(found: Listing, inside: Sequence[Item] | None = None) -> Listing:
    """With images, and all of them, or `inside` those that must be, in the data's folder."""
    refuse_outside(found.name, found.root, found.items if inside is None else inside)
    if not found.items:
        refuse_links(found)
        raise DataError(f"{found.name}: no images; known are files that end in {' '.join(SUFFIXES)}")
    return found


def refuse_links(found: Listing) -> None:
    if found.links:
        raise DataError(f"{found.name}: {linked(found.links)}")


def linked(links: Sequence[str]) -> str:
    return (
        f"links to folders are not followed: {listing(links)}; copy what they lead to, make hard links, list the "
        "images in a csv by absolute paths, or remove them"
    )


def refuse_outside(name: str, root: Path, items: Sequence[Item]) -> None:
    """Paths with .. and links may not lead out of the data's folder, nor one file to two labels or parts."""
    inside = os.path.realpath(root)
    seen: dict[str, Item] = {}
    outside, twice = [], []
    for item, path in zip(items, real_paths(items), strict=True):
        if not path.startswith(inside + os.sep) and path != inside:
            outside.append(str(item.path))
        first = seen.setdefault(path, item)
        if (first.label, first.part) != (item.label, item.part):
            twice.append(" and ".join(dict.fromkeys(relative(one.path, root) for one in (first, item))))
    if outside:
        raise DataError(
            f"{name}: files outside of {root} are not read, neither by a path nor by a link; "
            f"copy them, make hard links, or list them in a csv by absolute paths: {listing(outside)}"
        )
    if twice:
        raise DataError(
            f"{name}: the same file has two labels or is in two parts; remove one of each: {listing(twice, '; ')}"
        )


def real(path: Path) -> Path:
    """Without links and .. ; unlike Path.resolve, a circle of links is no error here (it cannot be opened later)."""
    return Path(os.path.realpath(path))


def real_paths(items: Sequence[Item]) -> Iterator[str]:
    """As `real`, which looks at every folder of every path: here each folder is looked at once."""
    folders: dict[str, str] = {}
    for item in items:
        path = os.fspath(item.path)
        parent, name = os.path.split(path)
        if name == ".." or os.path.islink(path):
            yield os.path.realpath(path)
            continue
        if parent not in folders:
            folders[parent] = os.path.realpath(parent)
        yield os.path.join(folders[parent], name)


# --- what belongs together --------------------------------------------------------------------------------------------


class Groups(NamedTuple):
    """How images are distributed over groups."""

    items: list[Item]  # each with its group

    @property
    def sizes(self) -> Counter[str]:
        """Images of each group."""
        return Counter(str(item.group) for item in self.items)

    @property
    def on_both_sides(self) -> list[str]:
        """Groups in train and in test, so that a network is tested on what it has nearly seen."""
        train, test = ({str(item.group) for item in self.items if item.part == part} for part in ("train", "test"))
        return sorted(train & test)

    @property
    def of_several_classes(self) -> list[str]:
        labels = {(str(item.group), item.label) for item in self.items}
        return sorted(group for group, n in Counter(group for group, _ in labels).items() if n > 1)


def shared(groups: Sequence[str]) -> str:
    return f"groups in train and in test: {listing(groups)}; move each to one of them"


def with_groups(found: Listing, group_by: str) -> Listing:
    """Every item with its group, wherever it is; a csv's column has given it already."""
    items = found.items
    if any(item.group is None for item in items):
        items = by_path(found, group_by)
    n_groups = len({item.group for item in items})
    if n_groups in (1, len(items)):
        what = "all images are of one group" if n_groups == 1 else "every image is a group of its own"
        first = min(str(item.group) for item in items)
        raise DataError(f"{found.name}: --group-by {group_by}: {what} ({first!r}, ...)")
    note = f"{n_groups} groups by {group_by}: each stays on one side of a split"
    return found._replace(items=items, notes=[*found.notes, note])


def by_path(found: Listing, group_by: str) -> list[Item]:
    """The first part in brackets, or all that matches, in the path as it is shown."""
    try:
        pattern = re.compile(group_by)
    except re.error as error:
        raise DataError(
            f"--group-by {group_by}: neither a column of the data nor a regular expression ({error}); such as "
            "'(patient[0-9]+)'"
        ) from None
    items, without = [], []
    for item in found.items:
        name = relative(item.path, found.root)
        match = pattern.search(name)
        group = match and (match[1] if pattern.groups else match[0])
        if group:
            items.append(item._replace(group=group))
        else:  # brackets may be empty, or have no part in what matches
            without.append(name)
    if without:
        raise DataError(
            f"{found.name}: --group-by {group_by}: finds nothing in {len(without)} of {len(found.items)} paths: "
            f"{listing(without)}; it is a column of the csv or a regular expression such as '(patient[0-9]+)', "
            "or empty for no groups"
        )
    return items
