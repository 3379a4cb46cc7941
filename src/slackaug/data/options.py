"""What a user may say about any source, and how a source that is not what it must be is refused. No torch here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

MARGIN = 8 / 7  # the side that is stored, of the size that the network sees
MAX_LISTED = 20
N_EXAMPLES = 5
MAX_SIZE = 4096


Progress = Callable[[str, int, int], None]  # what is done, to how many of how many


class DataError(ValueError):
    """A data source is not what it must be; the message says what, where and what to do."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may say about any source."""

    size: int | None = None  # resize every image to size x size
    margin: bool = False  # keep more of the image around that, for a random window in training: see `prepare`
    skip_bad: bool = False  # leave out what cannot be read, and say so
    group_by: str | None = None  # column of a csv or regular expression: images that stay on one side of a split
    root: Path | None = None  # where torchvision keeps its data sets
    cache: Path | None = None  # where decoded image files are kept; None: in the user's cache, and only large sets
    progress: Progress | None = None  # is told what long reading does

    def __post_init__(self) -> None:
        if self.size is not None and not 1 <= self.size <= MAX_SIZE:
            raise DataError(f"size must be from 1 to {MAX_SIZE} pixels, got {self.size}")
        if self.margin and self.size is None:
            raise DataError("a margin is around images of a given size: give a size (--size), for example 224")

    @property
    def stored_size(self) -> int | None:
        """The side of the squares in memory; None: as they come."""
        return round(MARGIN * self.size) if self.margin and self.size is not None else self.size


def printable(name: str) -> str:
    """A name as it may be shown: a file's name may hold line breaks, and codes that change a terminal."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def examples(names: Sequence[str]) -> str:
    """The first few, which can be shown as they are."""
    return ", ".join(names[:N_EXAMPLES]) + (", ..." if len(names) > N_EXAMPLES else "")


def counted(n: int, one: str, many: str) -> str:
    """1 file has, 2 files have."""
    return f"{n:,} {one if n == 1 else many}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def listing(entries: Sequence[str], separator: str = ", ") -> str:
    """The first entries and how many more there are."""
    more = len(entries) - MAX_LISTED
    return separator.join(map(printable, entries[:MAX_LISTED])) + (f"{separator}and {more} more" if more > 0 else "")
