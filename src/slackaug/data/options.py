"""Which images, how they are read, and how a source that is not what it must be is refused. No torch here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Annotated, Any, TypeGuard

MARGIN = 8 / 7  # the side that is stored, of the size that the network sees
MAX_LISTED = 20
N_EXAMPLES = 5
MAX_SIZE = 4096
Progress = Callable[[str, int, int], None]  # what is done, to how many of how many


def silent(what: str, done: int, total: int) -> None:
    """No progress."""


class DataError(ValueError):
    """A data source is not what it must be; the message says what, where and what to do."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which images, and how they are read: loaders are given it, and a run's config.yaml holds it."""

    source: Annotated[str, "where the images are, as given to the command"] = ""
    size: Annotated[int | None, "pixels of the side that all images are resized to; without, they stay as they are"] = (
        None
    )
    margin: Annotated[bool, "keep more around images of that size, for random windows in training"] = False
    skip_bad: Annotated[bool, "leave out files that cannot be read, and say so"] = False
    group_by: Annotated[
        str | None, "column of a csv, or regular expression on paths: images of a group stay on one side of a split"
    ] = None
    columns: Annotated[str | None, "columns of a csv with its paths and labels; without, path,label"] = None
    cache: Annotated[
        str | None, "folder for decoded images; without, only large sets have one, under ~/.cache/slackaug"
    ] = None
    fingerprint: Annotated[
        str, "of the training images and labels, by which they are known again; found, not given"
    ] = ""

    def __post_init__(self) -> None:
        if self.size is not None and not 1 <= self.size <= MAX_SIZE:
            raise DataError(f"size must be from 1 to {MAX_SIZE} pixels, got {self.size}")
        if self.margin and self.size is None:
            raise DataError("a margin is around images of a given size: give a size (--size), for example 224")

    @property
    def stored_size(self) -> int | None:
        """The side of the squares in memory; None: as they come."""
        return round(MARGIN * self.size) if self.margin and self.size is not None else self.size

    def given(self) -> dict[str, Any]:
        """How images are read, as far as that is not the default: by name, as commands take it."""
        named = {name: value for name, value in vars(self).items() if name not in ("source", "fingerprint")}
        return {name: value for name, value in named.items() if value not in (None, False)}

    def options(self) -> list[list[str]]:
        """The same for the command line: each option with its value."""
        words = [(f"--{name.replace('_', '-')}", value) for name, value in self.given().items()]
        return [[word] if value is True else [word, str(value)] for word, value in words]


def is_path(data: object) -> TypeGuard[str | PathLike[str]]:
    """Whether data is named and not held: a program may give images of its own."""
    return isinstance(data, str | PathLike)


def printable(name: str) -> str:
    """A name as it may be shown: a file's name may hold line breaks, and codes that change a terminal."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def examples(names: Sequence[str], n: int = N_EXAMPLES) -> str:
    """The first few, which can be shown as they are."""
    return ", ".join([*names[:n], *["..."] * (len(names) > n)])


def counted(n: int, one: str, many: str) -> str:
    """1 file has, 2 files have."""
    return f"{n:,} {one if n == 1 else many}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def listing(entries: Sequence[str], separator: str = ", ") -> str:
    """The first entries and how many more there are."""
    more = len(entries) - MAX_LISTED
    return separator.join(map(printable, entries[:MAX_LISTED])) + (f"{separator}and {more} more" if more > 0 else "")
