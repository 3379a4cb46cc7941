"""Files that are whole or not there, whatever happens while they are written."""

import fcntl
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


def temporary_name(name: str) -> str:
    return f".{name}.tmp"


def check_new(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that cannot be written, or that is there and may not be replaced."""
    if path.is_dir() or (path.exists() and not overwrite):
        raise ValueError(f"{path}: exists; choose another -o" + ("" if path.is_dir() else ", or --overwrite"))
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}")


def write_atomically(path: Path, content: bytes) -> None:
    """Either the old content or the new, whatever happens in between and whoever else writes it."""
    temporary = path.with_name(temporary_name(path.name))
    try:
        replace_by(temporary, path, content)
    except OSError as error:
        error.filename = str(path)  # nobody knows the other name
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name, too, survives a power cut
    finally:
        os.close(folder)


def replace_by(temporary: Path, path: Path, content: bytes) -> None:
    with alone(temporary) as file:
        try:
            file.truncate(0)  # what a killed process has left
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def alone(path: Path) -> Iterator[IO[bytes]]:
    """A file, to be written by this process and thread alone; others wait, and then have a new one of that name."""
    while True:
        if leads_elsewhere(path) and not path.is_dir():
            path.unlink(missing_ok=True)  # not ours, whoever has put it there
        with path.open("ab") as file:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            if is_called(file, path):
                yield file
                return


def read_note(path: Path) -> dict[str, Any]:
    """What a command has stored for people; nothing where it is not there, or not ours."""
    try:
        found = json.loads(path.read_bytes()) if path.is_file() else None
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def finite_or_null(value: float) -> float | None:
    """JSON has neither NaN nor infinity."""
    return value if math.isfinite(value) else None


def leads_elsewhere(path: Path) -> bool:
    """Whether a name is a link, a pipe or the like, in a folder that somebody else made: to write there changes or
    waits for something else."""
    try:
        return not stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # there is nothing of that name
        return False


def is_called(file: IO[bytes], path: Path) -> bool:
    """Whether the file still has this name: another may have renamed or removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
