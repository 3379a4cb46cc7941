"""The program that decodes: `python -m slackaug.data.worker`. It reads one JSON value per line and answers each.

The first line says how images are stored, and where their pixels go; its answer is "ready". Then come tasks: ["decode",
[[row, path], ...]], of rows that follow one another, ["check", [[row, checksum], ...]] or ["look", [path, ...]]. Their
answers are lists: the row's record, in hexadecimal digits, {"size": [H, W]} for an image of another size or {"bad":
reason}; whether the pixels are those of the checksum; and what there is to know about an image, of which nothing is
kept. All that takes time for each image is done here, so that many cores do not wait for one. It ends with
its input, and so with the process that started it, however that ends. A program of its own, not a fork: safe beside
threads and CUDA, and scripts that call slackaug need no `if __name__ == "__main__"`. No torch here.

A record has 32 bytes: which file the row is of, the row, whether that file is a stack (1) or not (0), the checksum of
its pixels, and one of the record itself.
"""

import gc
import hashlib
import json
import os
import struct
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import decode
from .decode import Array
from .options import DataConfig, DataError

CONTENT = struct.Struct("<16sIII")
RECORD_BYTES = CONTENT.size + 4
HELD_BYTES = 8 * 1024**2

# --- records ----------------------------------------------------------------------------------------------------------


class StoredRow(NamedTuple):
    row: int
    is_stack: bool  # of several frames or pages, of which the first is the row
    checksum: int


def identity(path: str, root: str) -> bytes:
    """16 bytes that change with a file's name, size or time of change; a file that is not there has one, too."""
    about = os.path.join(os.sep, path) if root == "." else path.removeprefix(root)  # the same from anywhere
    with suppress(OSError):
        status = os.stat(path)
        about = f"{about}\0{status.st_size}\0{status.st_mtime_ns}"
    return hashlib.blake2b(os.fsencode(about), digest_size=16).digest()


def pack(file: bytes, entry: StoredRow) -> bytes:
    content = CONTENT.pack(file, *entry)
    return content + zlib.crc32(content).to_bytes(4, "little")


def unpack(records: bytes) -> dict[bytes, StoredRow]:
    """By file; the last record of a file counts, and one that is damaged or cut off does not."""
    known: dict[bytes, StoredRow] = {}
    for start in range(0, len(records) - RECORD_BYTES + 1, RECORD_BYTES):
        content, own = records[start : start + CONTENT.size], records[start + CONTENT.size : start + RECORD_BYTES]
        if zlib.crc32(content) == int.from_bytes(own, "little"):
            file, row, is_stack, checksum = CONTENT.unpack(content)
            known[file] = StoredRow(row, bool(is_stack), checksum)
    return known


# --- tasks ------------------------------------------------------------------------------------------------------------


class Store:
    """Images as they are to be stored, in a file of all pixels, (3, H, W) uint8 for each row."""

    def __init__(self, *, size: int | None, margin: bool, file: str = "", root: str = "", shape: Sequence[int] = ()):
        self.options = DataConfig(size=size, margin=margin)
        self.file, self.root, self.shape = Path(file), root, (3, *shape)
        self.n_bytes = int(np.prod(self.shape))
        n_held = max(1, HELD_BYTES // self.n_bytes)
        self.held = np.empty((n_held, *self.shape), np.uint8)  # written at once: many small writes cost more
        self.tasks: dict[str, Callable[[Any], Any]] = {"decode": self.decode, "check": self.check, "look": self.look}

    def answer(self, kind: str, entries: Sequence[Any]) -> Any:
        try:
            return self.tasks[kind](entries)
        except OSError as error:  # the disk is full, or gone
            return {"failed": error.strerror or str(error)}

    def decode(self, entries: Sequence[tuple[int, str]]) -> list[Any]:
        answers = []
        with self.file.open("r+b") as file:  # closed before the answer says that the pixels are there
            for start in range(0, len(entries), len(self.held)):
                some = entries[start : start + len(self.held)]
                answers += [self.hold(*entry, place) for entry, place in zip(some, self.held, strict=False)]
                file.seek(some[0][0] * self.n_bytes)
                file.write(self.held[: len(some)].data)
        return answers

    def hold(self, row: int, path: str, place: Array) -> Any:
        """Decode a file into `place`, (3, H, W)."""
        file = identity(path, self.root)  # before it is read: later changes make it another file
        try:
            with decode.opened(path) as image:
                lines = decode.lines(image, self.options)  # (H, 3, W)
                is_stack = decode.is_stack(image)
        except DataError as error:
            place[...] = 0
            return {"bad": str(error)}
        pixels = lines.transpose(1, 0, 2)
        if pixels.shape != place.shape:
            return {"size": pixels.shape[1:]}
        np.copyto(place, pixels)
        return pack(file, StoredRow(row, is_stack, zlib.crc32(place.data))).hex()

    def check(self, entries: Sequence[tuple[int, int]]) -> list[bool]:
        found = []
        with self.file.open("rb") as file:
            for row, checksum in entries:
                file.seek(row * self.n_bytes)
                content = file.read(self.n_bytes)
                found.append(len(content) == self.n_bytes and zlib.crc32(content) == checksum)
        return found

    def look(self, paths: Sequence[str]) -> list[dict[str, Any]]:
        return [look(path, self.options) for path in paths]


def look(path: str, options: DataConfig) -> dict[str, Any]:
    """Size, kind and digests of an image, all of it decoded: a file that is cut off has a good header.

    What cannot be stored with these options is bad, too.
    """
    try:
        with decode.opened(path) as image:
            kind: dict[str, Any] = {"mode": image.mode, "format": image.format}
            if decode.is_deep(image):
                kind["highest"] = int(np.asarray(image).max())
            pixels = decode.pixels(image, DataConfig())
            kind["is_stack"] = decode.is_stack(image)
            if options.margin and options.stored_size:
                decode.with_shorter_side(options.stored_size, image.width, image.height)
    except DataError as error:
        return {"bad": str(error)}
    return kind | {
        "size": pixels.shape[:2],
        "digest": digest(pixels),
        "mirrored": digest(pixels[:, ::-1]),
        "brightest": int(pixels.max()),
    }


def digest(pixels: Array) -> str:
    """Known again by its pixels (H, W, 3): the digest of one image."""
    return hashlib.blake2b(pixels.tobytes(), digest_size=16, salt=pixels.shape[1].to_bytes(16, "little")).hexdigest()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what decoders print must not be taken for an answer
    gc.freeze()
    gc.set_threshold(100_000)  # decoding leaves few cycles: looking for them often costs 5 % of the time
    store = Store(**json.loads(sys.stdin.readline()))
    with suppress(BrokenPipeError):  # nobody waits for the answer any more
        print(json.dumps("ready"), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(store.answer(*json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
