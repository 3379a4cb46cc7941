"""Disks that fail, and files that were damaged on them."""

import errno
import os
from pathlib import Path


class Failing:
    """Fails at the n-th time that something is written: a file opened, brought to disk or renamed."""

    def __init__(self, patch, n, number=errno.ENOSPC):
        self.n, self.count, self.error = n, 0, OSError(number, os.strerror(number))
        self.open = Path.open
        patch.setattr(Path, "open", lambda path, mode="r", *a, **k: self.opened(path, mode, *a, **k))
        for name in ("fsync", "replace"):
            patch.setattr(os, name, self.checked(getattr(os, name)))

    def tick(self):
        self.count += 1
        if self.count == self.n:
            raise self.error

    def checked(self, function):
        return lambda *arguments: (self.tick(), function(*arguments))[1]

    def opened(self, path, mode, *a, **k):
        if mode[0] in "wa":
            self.tick()
        return self.open(path, mode, *a, **k)


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class Malicious:
    """Makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)
