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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL
import torch
from torch import Tensor

from ..files import leads_elsewhere
from .listing import Item
from .options import DataConfig, DataError, Progress, counted, silent
from .pool import Pool
from .rows import Images, Rows
from .worker import RECORD_BYTES, StoredRow, identity, unpack

FORMAT = 2  # of these files
DEFAULT = Path("~/.cache/slackaug/images")
SPARE_BYTES = 256 * 1024**2  # that a cache leaves on the disk
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)  # a disk, or the folder of somebody else
FILES = ("images.u8", "index.bin", ".lock")  # of a cache, all written in place
log = logging.getLogger("slackaug")


class OddSize(Exception):
    """An image is not of the size of the others: no set of them is whole."""


class Decoded(NamedTuple):
    images: Images
    readable: list[Item]  # that the images are of
    bad: dict[Path, str]  # why the others are missing
    stacks: list[Path]  # files of several frames or pages


def folder_for(root: Path, height: int, width: int, options: DataConfig) -> Path:
    """One for each folder of files and each way to store them. Other versions of Pillow may decode otherwise."""
    about = (FORMAT, PIL.__version__, os.path.realpath(root), height, width, options.size, options.margin)
    digest = hashlib.sha256(repr(about).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    readable = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in root.resolve().name)[:40]
    return Path(options.cache or DEFAULT).expanduser() / f"{readable or 'images'}-{width}x{height}-{digest}"


def refuse_links(folder: Path) -> None:
    """What is written to must be a file: a link would change what it points to."""
    for name in FILES:
        if leads_elsewhere(folder / name):
            raise DataError(
                f"{folder / name}: is a link, a pipe or a folder, expected a file of the cache of decoded images; "
                "remove it, or choose another place with --cache DIR"
            )


@dataclass(frozen=True)
class Filling:
    """The work on a cache, by the one process that holds it, or without a lock by one that may only read it."""

    folder: Path
    root: Path
    items: Sequence[Item]
    shape: tuple[int, int]  # height and width
    options: DataConfig
    progress: Progress = silent

    @property
    def images(self) -> Path:
        return self.folder / "images.u8"

    @property
    def index(self) -> Path:
        return self.folder / "index.bin"

    def fill(self) -> Decoded:
        """The cache with all of these files in it, as far as they can be read."""
        refuse_links(self.folder)
        try:
            try:
                with locked(self.folder) as lock:
                    return self.run(lock)
            except OSError as error:
                if error.errno not in READ_ONLY or not self.index.is_file():  # there is no cache to be read
                    raise
                return self.run(None)
        except OSError as error:
            raise DataError(
                f"{self.folder}: the cache of decoded images cannot be written ({error.strerror or error}); what is "
                "done is kept. Make room, or choose another place with --cache DIR"
            ) from error

    def run(self, lock: int | None) -> Decoded:
        """Without a lock nothing is written."""
        if lock is not None:
            self.images.touch()
        known = unpack(self.index.read_bytes()) if self.images.is_file() and self.index.is_file() else {}
        root, items = os.fspath(self.root), {os.fspath(item.path): item for item in self.items}
        about = {"file": str(self.images), "root": root, "shape": self.shape,
                 "size": self.options.size, "margin": self.options.margin}  # fmt: skip
        bad: dict[str, str] = {}
        with Pool(about, len(items), [] if lock is None else [lock]) as pool:
            paths = items if known else ()  # a new cache need not ask for all files first
            found = {path: known[file] for path in paths if (file := identity(path, root)) in known}
            rows = self.intact(pool, found)
            if len(rows) < len(found) and lock is not None:
                again = counted(len(found) - len(rows), "image is", "images are")
                log.warning("slackaug: %s: damaged, %s decoded again", self.folder, again)
            missing = [path for path in items if path not in rows]
            if lock is None:
                bad = self.unreadable(pool, missing)
            elif missing:
                new, bad = self.decode(pool, missing, n_rows(known.values()))
                rows |= new
        readable = [(item, rows[path]) for path, item in items.items() if path in rows]
        return Decoded(
            Rows(self.mapped(n_rows(rows.values())), torch.tensor([entry.row for _, entry in readable]).long()),
            [item for item, _ in readable],
            {item.path: bad[path] for path, item in items.items() if path in bad},
            [item.path for item, entry in readable if entry.is_stack],
        )

    def mapped(self, n: int) -> Tensor:
        """Private to this process: what it might write to the images would not reach the file."""
        shape = (n, 3, *self.shape)  # bad files at the end have left no pixels
        if not n:
            return torch.empty(shape, dtype=torch.uint8)
        return torch.from_numpy(np.memmap(self.images, np.uint8, mode="c", shape=shape))

    def intact(self, pool: Pool, found: dict[str, StoredRow]) -> dict[str, StoredRow]:
        """Those whose pixels are those that were written."""
        whole: dict[int, bool] = {}  # by row
        for (row, _), answer in pool.map("check", ((entry.row, entry.checksum) for entry in found.values())):
            whole[row] = answer is True
            self.progress("verifying decoded images", len(whole), len(found))
        return {path: entry for path, entry in found.items() if whole[entry.row]}

    def decode(self, pool: Pool, missing: Sequence[str], first: int) -> tuple[dict[str, StoredRow], dict[str, str]]:
        """Into the rows from `first` on."""
        self.check_disk(len(missing))
        new: dict[str, StoredRow] = {}
        bad: dict[str, str] = {}
        with self.index.open("ab") as index:
            index.truncate(index.tell() - index.tell() % RECORD_BYTES)  # what a killed process wrote half of
            for (_, path), answer in pool.map("decode", enumerate(missing, start=first)):
                if isinstance(answer, str):
                    record = bytes.fromhex(answer)
                    (new[path],) = unpack(record).values()
                    index.write(record)
                    index.flush()
                elif "bad" in answer:
                    bad[path] = answer["bad"]
                else:
                    raise OddSize
                self.progress("decoding images", len(new) + len(bad), len(missing))
        return new, bad

    def unreadable(self, pool: Pool, missing: Sequence[str]) -> dict[str, str]:
        """Why these are in no cache: bad files. Any other would have to be written, where that cannot be done."""
        bad: dict[str, str] = {}
        for path, answer in pool.map("look", missing):
            if "bad" not in answer:
                raise DataError(
                    f"{self.folder}: the cache of decoded images is incomplete, and its place is read-only: "
                    f"{len(missing):,} of {len(self.items):,} images are damaged or not in it. Complete it from "
                    "where it can be written, or choose another place with --cache DIR"
                )
            bad[path] = answer["bad"]
        return bad

    def check_disk(self, n: int) -> None:
        height, width = self.shape
        needed, free = n * 3 * height * width, shutil.disk_usage(self.folder).free
        if needed + SPARE_BYTES > free:
            raise DataError(
                f"{self.folder}: {n:,} images of {width} x {height} pixels take "
                f"{needed / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free there, of which {SPARE_BYTES / 1e9:.2f} GB "
                "are left to others; choose another place for decoded images with --cache DIR, or a smaller --size"
            )


def n_rows(entries: Iterable[StoredRow]) -> int:
    return 1 + max((entry.row for entry in entries), default=-1)


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
