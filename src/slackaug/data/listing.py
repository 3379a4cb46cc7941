"""Files with labels, before any is read."""

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from .options import printable


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
    links: Sequence[str] = ()  # to folders inside of class folders: a search refuses them, for they are not followed


def label_of(name: str) -> str:
    """A class by its name: an é may be one character or two (a folder from macOS), and is one class (Unicode's NFC)."""
    return unicodedata.normalize("NFC", name)


def same_but_for_case(names: Iterable[str]) -> list[list[str]]:
    """Those that differ in capital letters alone, together."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.casefold(), []).append(name)
    return [same for same in found.values() if len(same) > 1]


def relative(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def shown(path: Path, root: Path) -> str:
    return printable(relative(path, root))
