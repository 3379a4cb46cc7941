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


def test_what_a_killed_process_left_is_no_part_of_it(tmp_path):
    (tmp_path / temporary_name("x")).write_bytes(b"half of what was to be written")
    write_atomically(tmp_path / "x", b"all")
    assert tiny.contents(tmp_path) == {"x": b"all"}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("put", [lambda path, other: path.symlink_to(other), lambda path, _: os.mkfifo(path)])
def test_what_leads_elsewhere_is_not_written_to(put, tmp_path):
    """In a folder that somebody else made, the name of a file to be may be a link to one of yours."""
    other = tmp_path / "precious"
    other.write_bytes(b"precious")
    put(tmp_path / temporary_name("x"), other)
    write_atomically(tmp_path / "x", b"all")
    assert not (tmp_path / "x").is_symlink()
    assert tiny.contents(tmp_path) == {"x": b"all", "precious": b"precious"}
