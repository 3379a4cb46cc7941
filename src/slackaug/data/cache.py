"""Decoded images on disk: each file is decoded once, by all cores, and read from then on as a memory map.

A folder of the cache has `images.u8`, the pixels (3, H, W) of one row after the other, and `index.bin`, a record for
each row that is done: which file it is of, by its path, size and time of change, and the checksum of its pixels. Both
only grow, and a record is written after its pixels, so that a process that is killed leaves nothing half done and a
process that reads is never disturbed. Every checksum is verified when a cache is opened; what is missing, damaged (by
a power cut, too: nothing waits for the disk) or of a file that has changed since is decoded again. Where the folder may
only be read, nothing is written and nothing is locked: then all must be there. Removing the folder is always safe.
"""

import errno
import fcntl
import hashlib
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL
import torch
from torch import Tensor

from ..files import leads_elsewhere
from . import records
from .options import DataConfig, DataError, Progress, counted
from .pool import Pool, n_cores

FORMAT = 2  # of these files
DEFAULT = Path("~/.cache/slackaug/images")
SPARE_BYTES = 256 * 1024**2  # that a cache leaves on the disk
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)  # a disk, or the folder of somebody else
FILES = ("images.u8", "index.bin", ".lock")  # of a cache, all written in place
CRASHED = {"bad": "the decoder crashed on it"}
log = logging.getLogger("slackaug")


class Cached(NamedTuple):
    store: Tensor  # (N, 3, H, W) uint8, memory-mapped
    rows: dict[int, records.StoredRow]  # where the image of each file is, by the file's place in the list
    bad: dict[int, str]  # why others are not there
    odd_size: tuple[int, int] | None  # height and width of an image that is not like the others; then nothing is whole


def folder_for(root: Path, height: int, width: int, options: DataConfig) -> Path:
    """One for each folder of files and each way to store them. Other versions of Pillow may decode otherwise."""
    about = (FORMAT, PIL.__version__, os.path.realpath(root), height, width, options.size, options.margin)
    digest = hashlib.sha256(repr(about).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    readable = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in root.resolve().name)[:40]
    return Path(options.cache or DEFAULT).expanduser() / f"{readable or 'images'}-{width}x{height}-{digest}"


def fill(
    folder: Path,
    root: Path,
    paths: Sequence[Path],
    shape: tuple[int, int],
    options: DataConfig,
    progress: Progress | None = None,
) -> Cached:
    """The cache in `folder` with all of these files in it, as far as they can be read."""
    refuse_links(folder)
    work = Filling(folder, root, paths, shape, options, progress)
    try:
        try:
            with locked(folder) as lock:
                return work.run(lock)
        except OSError as error:
            if error.errno not in READ_ONLY or not (folder / "index.bin").is_file():  # there is no cache to be read
                raise
            return work.run(None)
    except OSError as error:
        raise DataError(
            f"{folder}: the cache of decoded images cannot be written ({error.strerror or error}); what is done is "
            "kept. Make room, or choose another place with --cache DIR"
        ) from error


def refuse_links(folder: Path) -> None:
    """What is written to must be a file: a link would change what it points to."""
    for name in FILES:
        if leads_elsewhere(folder / name):
            raise DataError(
                f"{folder / name}: is a link, a pipe or a folder, expected a file of the cache of decoded images; "
                "remove it, or choose another place with --cache DIR"
            )


def is_bad(answer: Any) -> bool:
    """Whether a file that was to be decoded cannot be."""
    return isinstance(answer, dict) and "bad" in answer


def silent(what: str, done: int, total: int) -> None:
    pass


class Filling:
    """The work on a cache, by the one process that holds it, or without a lock by one that may only read it."""

    def __init__(
        self,
        folder: Path,
        root: Path,
        paths: Sequence[Path],
        shape: tuple[int, int],
        options: DataConfig,
        progress: Progress | None,
    ):
        self.images, self.index = folder / "images.u8", folder / "index.bin"
        self.root, self.paths = os.fspath(root), [os.fspath(path) for path in paths]
        if self.root == ".":  # which paths do not begin with, but must, to be the same files from anywhere
            self.paths = [os.path.join(self.root, path) for path in self.paths]
        self.progress: Progress = progress or silent
        self.height, self.width = shape
        self.n_processes = min(n_cores(), 1 + len(self.paths) // 2)
        self.about = {"file": str(self.images), "read_only": False, "root": self.root, "height": self.height,
                      "width": self.width, "size": options.size, "margin": options.margin}  # fmt: skip

    def run(self, lock: int | None) -> Cached:
        """Without a lock nothing is written."""
        if lock is not None:
            self.images.touch()
        known = records.read(self.index) if self.images.is_file() else {}
        about = self.about | {"read_only": lock is None}
        with Pool(about, self.n_processes, [] if lock is None else [lock]) as pool:
            places = enumerate(self.paths) if known else ()  # a new cache need not ask for all files first
            found = {i: known[file] for i, path in places if (file := records.identity(path, self.root)) in known}
            intact = self.intact(pool, found)
            if len(intact) < len(found) and lock is not None:
                again = counted(len(found) - len(intact), "image is", "images are")
                log.warning("slackaug: %s: damaged, %s decoded again", self.images.parent, again)
            missing = [i for i in range(len(self.paths)) if i not in intact]
            if lock is None:
                return Cached(self.mapped(intact), intact, self.unreadable(missing), None)
            n_rows = 1 + max((entry.row for entry in known.values()), default=-1)
            new, bad, odd_size = self.decode(pool, missing, n_rows) if missing else ({}, {}, None)
        return Cached(self.mapped(intact | new), intact | new, bad, odd_size)

    def intact(self, pool: Pool, found: dict[int, records.StoredRow]) -> dict[int, records.StoredRow]:
        """Those whose pixels are those that were written."""
        whole: dict[int, bool] = {}  # by row
        tasks = [[entry.row, entry.checksum] for entry in found.values()]
        for asked, answers in pool.map("check", tasks, lambda: False):
            whole |= {row: is_whole for (row, _), is_whole in zip(asked, answers, strict=True)}
            self.progress("verifying decoded images", len(whole), len(found))
        return {i: entry for i, entry in found.items() if whole[entry.row]}

    def decode(
        self, pool: Pool, missing: Sequence[int], n_rows: int
    ) -> tuple[dict[int, records.StoredRow], dict[int, str], tuple[int, int] | None]:
        self.check_disk(len(missing))
        place = dict(enumerate(missing, start=n_rows))  # of the file in each row
        new: dict[int, records.StoredRow] = {}
        bad: dict[int, str] = {}
        tasks = ((row, self.paths[i]) for row, i in place.items())
        with self.index.open("ab") as index:
            index.truncate(index.tell() - index.tell() % records.RECORD.size)  # what a killed process wrote half of
            for asked, answers in pool.map("decode", tasks, lambda: CRASHED):
                done: dict[int, bytes] = {}  # records, by row
                for (row, _), answer in zip(asked, answers, strict=True):
                    if isinstance(answer, str):
                        done[row] = bytes.fromhex(answer)
                    elif is_bad(answer):
                        bad[place[row]] = answer["bad"]
                    else:
                        height, width = answer["size"]
                        return new, bad, (height, width)
                index.write(b"".join(done.values()))
                index.flush()
                new |= {place[row]: records.unpack(record) for row, record in done.items()}
                self.progress("decoding images", len(new) + len(bad), len(missing))
        return new, bad, None

    def unreadable(self, missing: Sequence[int]) -> dict[int, str]:
        """Why these are in no cache: bad files. Any other would have to be written, where that cannot be done."""
        bad: dict[int, str] = {}
        with Pool(self.about | {"file": None}, self.n_processes) as pool:
            for asked, answers in pool.map("decode", ((i, self.paths[i]) for i in missing), lambda: CRASHED):
                bad |= {i: answer["bad"] for (i, _), answer in zip(asked, answers, strict=True) if is_bad(answer)}
                if not all(map(is_bad, answers)):
                    raise DataError(
                        f"{self.images.parent}: the cache of decoded images is incomplete, and its place is read-only: "
                        f"{len(missing):,} of {len(self.paths):,} images are damaged or not in it. Complete it from "
                        "where it can be written, or choose another place with --cache DIR"
                    )
        return bad

    def check_disk(self, n: int) -> None:
        needed, free = n * 3 * self.height * self.width, shutil.disk_usage(self.images.parent).free
        if needed + SPARE_BYTES > free:
            raise DataError(
                f"{self.images.parent}: {n:,} images of {self.width} x {self.height} pixels take "
                f"{needed / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free there, of which {SPARE_BYTES / 1e9:.2f} GB "
                "are left to others; choose another place for decoded images with --cache DIR, or a smaller --size"
            )

    def mapped(self, rows: dict[int, records.StoredRow]) -> Tensor:
        """Private to this process: what it might write to the images would not reach the file."""
        n_rows = 1 + max((entry.row for entry in rows.values()), default=-1)  # bad files at the end have left no pixels
        shape = (n_rows, 3, self.height, self.width)
        if not n_rows:
            return torch.empty(shape, dtype=torch.uint8)
        return torch.from_numpy(np.memmap(self.images, np.uint8, mode="c", shape=shape))


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """One process at a time; the lock goes with the process, even a killed one. Another's work is waited for.

    Whoever gets the file that is returned holds the lock, too: processes that decode outlive a killed one by the
    images they were given, whose rows must not be given to others meanwhile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.warning("slackaug: %s: waiting for another process that decodes these images", folder)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()
