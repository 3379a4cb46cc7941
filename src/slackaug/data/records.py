"""The index of a cache of decoded images: a record for each row that is done. No torch here.

A record has 32 bytes: which file the row is of, the row, whether that file is a stack (1) or not (0), the checksum of
its pixels, and one of the record itself.
"""

import hashlib
import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CONTENT = struct.Struct("<16sIII")
RECORD = struct.Struct("<16sIIII")


class StoredRow(NamedTuple):
    row: int
    is_stack: bool  # of several frames or pages, of which the first is the row
    checksum: int


def identity(path: str, root: str) -> bytes:
    """16 bytes that change with a file's name, size or time of change; a file that is not there has one, too."""
    about = path.removeprefix(root)
    with suppress(OSError):
        status = os.stat(path)
        about = f"{about}\0{status.st_size}\0{status.st_mtime_ns}"
    return hashlib.blake2b(os.fsencode(about), digest_size=16).digest()


def pack(file: bytes, entry: StoredRow) -> bytes:
    content = CONTENT.pack(file, *entry)
    return content + zlib.crc32(content).to_bytes(4, "little")


def unpack(record: bytes) -> StoredRow:
    _, row, is_stack, checksum, _ = RECORD.unpack(record)
    return StoredRow(row, bool(is_stack), checksum)


def read(path: Path) -> dict[bytes, StoredRow]:
    """By file; the last record of a file counts, and a damaged record does not."""
    if not path.is_file():
        return {}
    found = memoryview(path.read_bytes())
    found = found[: len(found) - len(found) % RECORD.size]  # what a killed process wrote half of
    known: dict[bytes, StoredRow] = {}
    for i, (file, row, is_stack, checksum, own) in enumerate(RECORD.iter_unpack(found)):
        start = i * RECORD.size
        if zlib.crc32(found[start : start + CONTENT.size]) == own:
            known[file] = StoredRow(row, bool(is_stack), checksum)
    return known
