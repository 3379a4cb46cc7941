"""Decoded images on disk are those of decoding alone, whatever happened to the process, the files and the cache."""

import errno
import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from disks import flip_a_bit
from pictures import noise, noises, refused
from slackaug.data import DataError, cache, files, load, pool, worker
from slackaug.data.dataset import fingerprint
from slackaug.data.options import DataConfig
from slackaug.data.rows import Rows

SIZE = 12, 10
N = 150  # in each of two classes: several tasks for each process


@pytest.fixture
def pictures(tmp_path):
    return noises(tmp_path / "set", N, size=SIZE)


def known(dataset):
    """Equal where all images, labels and statistics are."""
    return dataset.fingerprint, fingerprint(dataset.test), dataset.mean, dataset.std


def the_folder(place: Path) -> Path:
    (folder,) = place.iterdir()
    return folder


def decoded(source, tmp_path, **options):
    """Load with the cache, and say how many images were decoded and how many verified."""
    totals = {}
    dataset = load(
        source, cache=tmp_path / "cache", progress=lambda what, _, total: totals.update({what: total}), **options
    )
    return dataset, totals.get("decoding images", 0), totals.get("verifying decoded images", 0)


def test_is_equal_to_decoding_alone_in_a_folder_for_each_way_to_store(pictures, tmp_path):
    for options in ({}, {"size": 8}, {"size": 7, "margin": True}):  # the last two are of 8 x 8 pixels
        dataset, n_decoded, n_verified = decoded(pictures, tmp_path, **options)
        assert isinstance(dataset.train.images, Rows)
        assert (n_decoded, n_verified) == (2 * N, 0)
        alone = load(pictures, **options)
        assert isinstance(alone.train.images, torch.Tensor)
        again, n_decoded, n_verified = decoded(pictures, tmp_path, **options)
        assert (n_decoded, n_verified) == (0, 2 * N)
        assert known(dataset) == known(alone) == known(again)
        assert any(str(tmp_path / "cache") in note for note in dataset.notes)
    assert len([*(tmp_path / "cache").iterdir()]) == 3


def test_large_sets_have_a_cache_by_default_and_small_ones_have_none(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "DEFAULT", tmp_path / "home")
    load(pictures)
    assert not (tmp_path / "home").exists()
    monkeypatch.setattr(files, "CACHE_FILES", 2 * N - 1)
    assert isinstance(load(pictures).train.images, Rows)
    monkeypatch.setattr(files, "CACHE_FILES", 10 * N)
    monkeypatch.setattr(files, "CACHE_BYTES", 1000)
    assert isinstance(load(pictures).train.images, Rows)
    assert len([*(tmp_path / "home").iterdir()]) == 1


KILLED = """
import os, signal, sys
from slackaug.data import pool, load
made = []
class Noted(pool.Worker):
    def __init__(self, *rest):
        made.append(self)
        super().__init__(*rest)
pool.Worker = Noted
def progress(what, done, total):
    if what != "decoding images" or done <= int(sys.argv[3]):
        return
    for worker in made:
        os.kill(worker.process.pid, int(sys.argv[4]))
    print(*(worker.process.pid for worker in made), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
load(sys.argv[1], cache=sys.argv[2], progress=progress)
"""


def killed(pictures, tmp_path, after=100, number=0):
    """Kill a process when more than so many images are decoded, give its workers a signal, and say which they are."""
    words = [sys.executable, "-c", KILLED, pictures, tmp_path / "cache", str(after), str(int(number))]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    return [int(word) for word in done.stdout.split()]


def test_goes_on_after_kill_9_and_decodes_only_what_is_missing(pictures, tmp_path):
    pids = killed(pictures, tmp_path)
    assert pids
    deadline = time.monotonic() + 20
    while any(map(is_running, pids)):  # their input ends: nobody keeps decoding for a process that was killed
        assert time.monotonic() < deadline
        time.sleep(0.05)
    index = the_folder(tmp_path / "cache") / "index.bin"
    n_done = index.stat().st_size // worker.RECORD_BYTES
    assert 100 < n_done < 2 * N
    with index.open("ab") as file:
        file.write(b"half of a record")  # as a process leaves it that is killed while it writes
    dataset, n_decoded, n_verified = decoded(pictures, tmp_path)
    assert (n_decoded, n_verified) == (2 * N - n_done, n_done)
    assert known(dataset) == known(load(pictures))
    assert decoded(pictures, tmp_path)[1:] == (0, 2 * N)


def is_running(pid: int) -> bool:
    try:
        return "slackaug" in Path(f"/proc/{pid}/cmdline").read_text()  # that of a zombie is empty
    except OSError:
        return False


def test_rows_are_not_given_away_while_an_orphan_may_still_write_them(pictures, tmp_path):
    """What decodes outlives a killed process by the images that it was given: so does the lock."""
    pids = killed(pictures, tmp_path, 0, signal.SIGSTOP)
    try:
        with (the_folder(tmp_path / "cache") / ".lock").open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert known(decoded(pictures, tmp_path)[0]) == known(load(pictures))


@pytest.mark.parametrize("name", ["images.u8", "index.bin"])
def test_damage_is_noticed_and_repaired(name, pictures, tmp_path, caplog):
    alone = load(pictures)
    decoded(pictures, tmp_path)
    path = the_folder(tmp_path / "cache") / name
    cuts = {
        "bit": lambda: flip_a_bit(path),
        "half": lambda: os.truncate(path, path.stat().st_size // 2 - 5),
        "gone": path.unlink,
    }
    for cut, wanted in (("bit", {1}), ("half", {N, N + 1}), ("gone", {2 * N})):
        cuts[cut]()
        caplog.clear()
        with caplog.at_level(logging.WARNING, "slackaug"):
            dataset, n_decoded, _ = decoded(pictures, tmp_path)
        assert n_decoded in wanted, cut
        assert ("damaged" in caplog.text) == (name == "images.u8"), cut
        assert known(dataset) == known(alone)
        assert decoded(pictures, tmp_path)[1] == 0


def test_changed_new_and_removed_files_are_noticed(pictures, tmp_path):
    before, _, _ = decoded(pictures, tmp_path)
    first = before.train.images[torch.arange(5)]
    noise(pictures / "cat" / "3.png", 9999, SIZE)
    later = time.time() + 10
    os.utime(pictures / "cat" / "3.png", (later, later))
    noise(pictures / "dog" / "more.png", 10_000, SIZE)
    (pictures / "cat" / "7.png").unlink()
    dataset, n_decoded, n_verified = decoded(pictures, tmp_path)
    assert (n_decoded, n_verified) == (2, 2 * N - 2)
    assert known(dataset) == known(load(pictures))
    assert dataset.fingerprint != before.fingerprint
    assert torch.equal(before.train.images[torch.arange(5)], first)  # who reads is not disturbed


def test_a_csv_has_the_same_files_from_anywhere(pictures, tmp_path, monkeypatch):
    names = sorted(path.relative_to(pictures) for path in pictures.rglob("*.png"))
    (pictures / "x.csv").write_text("\n".join(["path,label", *(f"{name},{name.parent.name}" for name in names)]))
    monkeypatch.chdir(pictures)
    load("x.csv", cache=tmp_path / "cache")
    for source in (pictures / "x.csv", Path("..") / pictures.name / "x.csv"):
        assert decoded(source, tmp_path)[1:] == (0, 2 * N)


def test_bad_files_are_listed_left_out_and_tried_again(pictures, tmp_path):
    (pictures / "cat" / "0.png").write_bytes(b"")
    (pictures / "dog" / "zz.png").write_bytes(b"not an image")
    refused(pictures, "2 of 301 files cannot be.*cat/0.png: empty.*zz.png: not an im", cache=tmp_path / "cache")
    dataset, n_decoded, _ = decoded(pictures, tmp_path, skip_bad=True)
    assert n_decoded == 2
    assert known(dataset) == known(load(pictures, skip_bad=True))
    noise(pictures / "dog" / "zz.png", 9999, SIZE)
    (pictures / "cat" / "0.png").unlink()
    dataset, n_decoded, _ = decoded(pictures, tmp_path)
    assert n_decoded == 1
    assert known(dataset) == known(load(pictures))


def test_different_sizes_are_refused_as_without_a_cache(pictures, tmp_path):
    noise(pictures / "dog" / "wide.png", 1, (20, 10))
    refused(pictures, r"different sizes: 12 x 10 \(300\), 20 x 10 \(1\).*--size", cache=tmp_path / "cache")
    assert len(load(pictures, cache=tmp_path / "cache", size=8).train.labels) == 241


def test_a_file_that_kills_its_process_is_a_bad_file(pictures, tmp_path, monkeypatch):
    """The decoders are C: a damaged file may end a process, but not the work."""
    killer = tmp_path / "site"
    killer.mkdir()
    (killer / "sitecustomize.py").write_text(
        "import os\nfrom slackaug.data import decode\nopened = decode.opened\n"
        "decode.opened = lambda path: os._exit(11) if path.endswith('/33.png') else opened(path)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{pool.PACKAGE}{os.pathsep}{killer}")
    refused(pictures, "2 of 300 files cannot be.*cat/33.png: the decoder crashed on it", cache=tmp_path / "cache")


def test_processes_that_cannot_start_and_a_place_that_is_no_folder(pictures, tmp_path, monkeypatch, capfd):
    (tmp_path / "file").write_text("")
    refused(pictures, r"cannot be written.*--cache DIR", cache=tmp_path / "file")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    refused(pictures, "cannot be started", cache=tmp_path / "cache")


def test_a_full_disk_is_said_before_and_during(pictures, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(cache, "SPARE_BYTES", 10**18)
        refused(pictures, r"GB are free there, of which .* GB are left to others.*--cache", cache=tmp_path / "cache")
    full = tmp_path / "full"
    folder = cache.folder_for(pictures, 10, 12, DataConfig(cache=str(full)))
    folder.mkdir(parents=True)
    (folder / "images.u8").symlink_to("/dev/full")  # every write fails: no space left
    monkeypatch.setattr(cache, "refuse_links", lambda folder: None)
    refused(pictures, r"cannot be written \(No space left on device\).*--cache DIR", cache=full)


@pytest.mark.parametrize("name", ["images.u8", "index.bin", ".lock"])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder"])
def test_nothing_is_written_through_a_link(name, kind, pictures, tmp_path):
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    folder = cache.folder_for(pictures, 10, 12, DataConfig(cache=str(tmp_path / "cache")))
    folder.mkdir(parents=True)
    make = {"link": lambda path: path.symlink_to(precious), "dangling": lambda path: path.symlink_to(tmp_path / "new"),
            "pipe": os.mkfifo, "folder": Path.mkdir}  # fmt: skip
    make[kind](folder / name)
    refused(pictures, rf"{name}: is a link, a pipe or a folder, expected a file of the cache", cache=tmp_path / "cache")
    assert precious.read_text() == "precious"
    assert not (tmp_path / "new").exists()


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """A function that makes the cache read-only for this process; the processes that decode are watched by `state`."""

    open_file = Path.open

    def end_writing(number=errno.EROFS):
        def opened(path, mode="r", *rest, **more):
            if path.is_relative_to(tmp_path / "cache") and set(mode) & set("wax+"):
                raise OSError(number, os.strerror(number), str(path))
            return open_file(path, mode, *rest, **more)

        monkeypatch.setattr(Path, "open", opened)
        monkeypatch.setattr(Path, "touch", lambda path: opened(path, "a"))

    return end_writing


def state(place):
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in place.rglob("*")}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES], ids=["disk", "permission"])
def test_a_whole_cache_or_none_that_may_only_be_read(number, pictures, tmp_path, read_only, monkeypatch):
    (pictures / "dog" / "zz.png").write_bytes(b"not an image")
    alone = decoded(pictures, tmp_path, skip_bad=True)[0]
    before = state(tmp_path / "cache")
    read_only(number)
    dataset, n_decoded, n_verified = decoded(pictures, tmp_path, skip_bad=True)
    assert (n_decoded, n_verified) == (0, 2 * N)
    assert known(dataset) == known(alone)
    with pytest.raises(DataError, match=r"1 of 301 files cannot be read[^\0]*zz.png: not an image"):
        decoded(pictures, tmp_path)
    assert state(tmp_path / "cache") == before
    with pytest.raises(DataError, match=rf"cannot be written \({os.strerror(number)}\).*--cache DIR"):
        decoded(pictures, tmp_path, size=8)  # of these there is no cache


@pytest.mark.parametrize(
    ("change", "n"),
    [(lambda folder: flip_a_bit(folder / "images.u8"), "1 of 300"),
     (lambda folder: (folder / "images.u8").unlink(), "300 of 300"),
     (lambda folder: noise(folder.parents[1] / "set" / "dog" / "more.png", 9999, SIZE), "1 of 301")],
    ids=["damaged", "gone", "one more"],
)  # fmt: skip
def test_an_incomplete_cache_that_may_only_be_read(change, n, pictures, tmp_path, read_only):
    decoded(pictures, tmp_path)
    change(the_folder(tmp_path / "cache"))
    before = state(tmp_path / "cache")
    read_only()
    says = rf"incomplete, and its place is read-only: {n} images are damaged or not in it.*--cache DIR"
    with pytest.raises(DataError, match=says):
        decoded(pictures, tmp_path)
    assert state(tmp_path / "cache") == before


def stack(path):
    pages = [Image.fromarray(np.full((10, 12), level, np.uint16)) for level in (20_000, 40_000, 60_000)]
    pages[0].save(path, save_all=True, append_images=pages[1:])


def test_stacks_are_said_however_the_images_come(pictures, tmp_path, read_only):
    """Decoded now or before, in part or as a whole, in memory, or where nothing may be written."""
    stack(pictures / "cat" / "a.tif")
    says = "1 file has several frames or pages; the first is read, and no other: cat/a.tif"
    assert load(pictures).notes.count(says) == 1
    for n in (2 * N + 1, 0):
        dataset, n_decoded, _ = decoded(pictures, tmp_path)
        assert (n_decoded, dataset.notes.count(says)) == (n, 1)
    stack(pictures / "dog" / "b.tif")
    says = "2 files have several frames or pages; the first is read, and no other: cat/a.tif, dog/b.tif"
    dataset, n_decoded, _ = decoded(pictures, tmp_path)
    assert (n_decoded, dataset.notes.count(says)) == (1, 1)
    read_only()
    assert decoded(pictures, tmp_path)[0].notes.count(says) == 1


PEAK = """
import re, sys, threading, time
from pathlib import Path
import torch
from slackaug.data import load
def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
before, peak, is_over = anonymous(), 0, False
def watch():
    global peak
    while not is_over:
        peak = max(peak, anonymous())
        time.sleep(0.002)
watching = threading.Thread(target=watch); watching.start()
dataset = load(sys.argv[1], cache=sys.argv[2], size=int(sys.argv[3]))
train, val = dataset.halves(0)
for half in (train, val):
    for start in range(0, len(half.labels), 16):
        half.take(torch.arange(start, min(start + 16, len(half.labels))))
is_over = True; watching.join()
print(peak - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_the_set_is_not_held_in_memory(pictures, tmp_path):
    size = 700  # 441 MB in all
    done = subprocess.run(
        [sys.executable, "-c", PEAK, pictures, tmp_path / "cache", str(size)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 0.5 * 2 * N * 3 * size * size
