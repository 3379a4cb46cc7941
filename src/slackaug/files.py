"""Files that are whole or not there, whatever happens while they are written."""

import os
from pathlib import Path


def temporary_name(name: str) -> str:
    return f".{name}.tmp"


def write_atomically(path: Path, content: bytes) -> None:
    """Either the old content or the new, whatever happens in between."""
    temporary = path.with_name(temporary_name(path.name))
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        error.filename = str(path)  # nobody knows the other name
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name, too, survives a power cut
    finally:
        os.close(folder)
