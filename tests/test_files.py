"""A file is whole or not there."""

import pytest

import tiny
from disks import Failing
from slackaug.files import write_atomically


def test_a_failed_write_leaves_the_old_content(monkeypatch, tmp_path):
    path = tmp_path / "x"
    write_atomically(path, b"old")
    for n in (1, 2, 3):  # open, fsync, rename
        with monkeypatch.context() as patch:
            Failing(patch, n)
            with pytest.raises(OSError, match="No space left") as caught:
                write_atomically(path, b"new")
        assert caught.value.filename == str(path)
        assert tiny.contents(tmp_path) == {"x": b"old"}
