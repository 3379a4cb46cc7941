"""The program that decodes: `python -m slackaug.data.worker`. It reads one JSON value per line and answers each.

The first line says where the pixels go and how images are stored; its answer is "ready". Then come tasks, {"decode":
[[row, path], ...]} or {"check": [[row, checksum], ...]}, whose answers are lists: the checksum of the pixels, {"size":
[H, W]} for an image of another size or {"bad": reason}; and whether the pixels are those of the checksum. It ends with
its input, and so with the process that started it, however that ends. A program of its own, not a fork: safe beside
threads and CUDA, and a script that calls slackaug needs no `if __name__ == "__main__"`.
"""

import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from . import decode
from .options import DataError, Options


class Store:
    """The file of all pixels, (3, H, W) uint8 for each row."""

    def __init__(self, file: BinaryIO, height: int, width: int):
        self.file, self.height, self.width = file, height, width
        self.n_bytes = 3 * height * width

    def decode(self, row: int, path: str, options: Options) -> Any:
        try:
            pixels = decode.read(Path(path), options)  # (H, W, 3)
        except DataError as error:
            return {"bad": str(error)}
        if pixels.shape[:2] != (self.height, self.width):
            return {"size": pixels.shape[:2]}
        content = np.ascontiguousarray(pixels.transpose(2, 0, 1)).data
        self.file.seek(row * self.n_bytes)
        self.file.write(content)
        return zlib.crc32(content)

    def is_intact(self, row: int, checksum: int) -> bool:
        self.file.seek(row * self.n_bytes)
        content = self.file.read(self.n_bytes)
        return len(content) == self.n_bytes and zlib.crc32(content) == checksum


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what decoders print must not be taken for an answer
    about = json.loads(sys.stdin.readline())
    options = Options(size=about["size"], margin=about["margin"])
    with open(about["file"], "r+b") as file:
        store = Store(file, about["height"], about["width"])
        print(json.dumps("ready"), file=answers, flush=True)
        for line in sys.stdin:
            task = json.loads(line)
            answer: Any
            if "check" in task:
                answer = [store.is_intact(row, checksum) for row, checksum in task["check"]]
            else:
                try:
                    answer = [store.decode(row, path, options) for row, path in task["decode"]]
                    file.flush()  # before it is said that the pixels are there
                except OSError as error:  # the disk is full, or gone
                    answer = {"failed": error.strerror or str(error)}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
