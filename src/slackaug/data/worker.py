"""The program that decodes: `python -m slackaug.data.worker`. It reads one JSON value per line and answers each.

The first line says where the pixels go and how images are stored; its answer is "ready". Then come tasks, {"decode":
[[row, path], ...]}, of rows that follow one another, {"check": [[row, checksum], ...]} or {"look": [path, ...]}. Their
answers are lists: the row's record, in hexadecimal digits, {"size": [H, W]} for an image of another size or {"bad":
reason}; whether the pixels are those of the checksum; and what there is to know about an image, of which nothing is
kept. All that takes time for each image is done here, so that many cores do not wait for one. It ends with
its input, and so with the process that started it, however that ends. A program of its own, not a fork: safe beside
threads and CUDA, and scripts that call slackaug need no `if __name__ == "__main__"`.
"""

import gc
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np

from . import decode, records
from .options import DataConfig, DataError
from .decode import Array, with_shorter_side

HELD_BYTES = 8 * 1024**2


class Store:
    """The file of all pixels, (3, H, W) uint8 for each row."""

    def __init__(self, file: BinaryIO, root: str, height: int, width: int):
        self.file, self.root, self.size = file, root, (height, width)
        self.n_bytes = 3 * height * width
        n_held = max(1, HELD_BYTES // self.n_bytes)
        self.held = np.empty((n_held, 3, height, width), np.uint8)  # written at once: many small writes cost more

    def decode(self, first: int, paths: Sequence[str], options: DataConfig) -> list[Any]:
        """Rows from `first` on."""
        answers = []
        for start in range(0, len(paths), len(self.held)):
            part = paths[start : start + len(self.held)]
            rows = range(first + start, first + start + len(part))
            answers += [self.hold(*task, options) for task in zip(rows, self.held, part, strict=False)]
            self.file.seek(rows.start * self.n_bytes)
            self.file.write(self.held[: len(part)].data)
        self.file.flush()  # before the answer says that the pixels are there
        return answers

    def hold(self, row: int, place: Array, path: str, options: DataConfig) -> Any:
        """Decode a file into `place`, (3, H, W)."""
        file = records.identity(path, self.root)  # before it is read: later changes make it another file
        try:
            with decode.opened(path) as image:
                lines = decode.lines(image, options)  # (H, 3, W)
                is_stack = decode.is_stack(image)
        except DataError as error:
            place[...] = 0
            return {"bad": str(error)}
        height, _, width = lines.shape
        if (height, width) != self.size:
            return {"size": (height, width)}
        np.copyto(place, lines.transpose(1, 0, 2))
        return records.pack(file, records.StoredRow(row, is_stack, zlib.crc32(place.data))).hex()

    def is_intact(self, row: int, checksum: int) -> bool:
        self.file.seek(row * self.n_bytes)
        content = self.file.read(self.n_bytes)
        return len(content) == self.n_bytes and zlib.crc32(content) == checksum


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what decoders print must not be taken for an answer
    about = json.loads(sys.stdin.readline())
    options = DataConfig(size=about["size"], margin=about["margin"])
    with open(about["file"] or os.devnull, "rb" if about["read_only"] else "r+b") as file:
        store = Store(file, about["root"], about["height"], about["width"])
        print(json.dumps("ready"), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line), store, options)), file=answers, flush=True)


def answer(task: dict[str, Any], store: Store, options: DataConfig) -> Any:
    if "look" in task:
        return [look(path, options) for path in task["look"]]
    if "check" in task:
        return [store.is_intact(row, checksum) for row, checksum in task["check"]]
    try:
        return store.decode(task["decode"][0][0], [path for _, path in task["decode"]], options)
    except OSError as error:  # the disk is full, or gone
        return {"failed": error.strerror or str(error)}


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
                with_shorter_side(options.stored_size, image.width, image.height)
    except DataError as error:
        return {"bad": str(error)}
    mirrored = np.ascontiguousarray(pixels[:, ::-1])
    return kind | {
        "size": pixels.shape[:2],
        "digest": digest(pixels),
        "mirrored": digest(mirrored),
        "brightest": int(pixels.max()),
    }


def digest(pixels: Array) -> str:
    return hashlib.blake2b(pixels.tobytes(), digest_size=16, salt=pixels.shape[1].to_bytes(16, "little")).hexdigest()


def run() -> None:
    gc.freeze()
    gc.set_threshold(100_000)  # decoding leaves few cycles: looking for them often costs 5 % of the time
    with suppress(BrokenPipeError):  # nobody waits for the answer any more
        main()


if __name__ == "__main__":
    run()
