"""A file is whole or not there."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import tiny
from disks import Failing
from slackaug.files import temporary_name, write_atomically


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


def test_written_by_many_at_once_it_is_whole(tmp_path):
    """Reports and sheets have no lock of their own: a command may write what a search is just writing."""
    path, contents = tmp_path / "x", [bytes([n]) * 200_000 for n in range(8)]
    stop, seen = threading.Event(), set()

    def look():
        while not stop.is_set():
            if path.exists():
                seen.add(path.read_bytes())

    watcher = threading.Thread(target=look)
    watcher.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(partial(write_atomically, path), contents * 20))
    stop.set()
    watcher.join()
    assert seen <= {*contents}
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


FOUND = {
    "what a killed process left": lambda path, _: path.write_bytes(b"half of what was to be written"),
    "a link to one of your files": lambda path, other: path.symlink_to(other),
    "a pipe": lambda path, _: os.mkfifo(path),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("put", FOUND.values(), ids=FOUND)
def test_what_has_the_name_of_a_file_to_be_is_no_part_of_it(put, tmp_path):
    """In a folder that somebody else made, it may lead elsewhere."""
    other = tmp_path / "precious"
    other.write_bytes(b"precious")
    put(tmp_path / temporary_name("x"), other)
    write_atomically(tmp_path / "x", b"all")
    assert not (tmp_path / "x").is_symlink()
    assert tiny.contents(tmp_path) == {"x": b"all", "precious": b"precious"}
