"""Real disks that fill up at any size, folders that vanish, and checkpoints damaged anywhere."""

import itertools
import shutil
import subprocess
from functools import partial

import pytest
import torch

import crash
import tiny
from pictures import noise, noises
from saved_states import equal, parts, state
from slackaug.auto import learn
from slackaug.data import DataError, cache, load
from slackaug.judge import records, training
from slackaug.runs.checkpoints import Checkpoints
from slackaug.runs.progress import Display

pytestmark = pytest.mark.usefixtures("quick_search")
FULL = "cannot be written (No space left on device). What was saved before is intact"


@pytest.fixture
def disk(tmp_path):
    """A function that mounts a tmpfs of so many kB, or changes its size."""
    path = tmp_path / "disk"
    path.mkdir()

    def sized(kilobytes):
        options = f"{'remount,' * path.is_mount()}size={kilobytes}k"
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True)
        if mounted.returncode:
            pytest.skip("mounting a file system needs root")
        return path

    yield sized
    if path.is_mount():
        subprocess.run(["umount", "--lazy", path], check=True)  # images that are mapped keep it busy


# --- full -------------------------------------------------------------------------------------------------------------


KINDS = {"search": crash.search, "evaluation": partial(crash.evaluation, n_seeds=1)}
SLOW = [pytest.param("search", 16, marks=pytest.mark.slow), pytest.param("evaluation", 4, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("name", "step"), [("search", 160), ("evaluation", 48), *SLOW])
def test_on_a_disk_of_every_size(name, step, command, disk, tiny_npz, tmp_path, monkeypatch):
    for module in (learn, training):
        monkeypatch.setattr(module, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(training, "seconds_of", lambda one: 0.0)
    work = KINDS[name](tiny_npz)
    assert command(*work.begin(tmp_path / "whole")).returncode == 0
    for size in itertools.count(4, step):
        out = disk(size) / "run"
        done = command(*work.begin(out))
        if done.returncode == 0:
            break
        assert (done.returncode, FULL in done.stderr, "Traceback" in done.stderr) == (1, True, False)
        disk(10_000)
        assert command(*work.words(out)).returncode == 0
        assert work.outcome(out) == work.outcome(tmp_path / "whole")
        shutil.rmtree(out)
    assert size > 4 + (100 if name == "search" else step)


def test_a_run_on_a_disk_that_is_really_read_only(command, tiny_npz, disk):
    out = disk(1000) / "run"
    subprocess.run(["mount", "-o", "remount,ro", out.parent], check=True)
    done = command(*tiny.arguments(tiny_npz, out))
    assert (done.returncode, f"{out}: cannot be written (Read-only file system)" in done.stderr) == (1, True)


def test_a_cache_on_a_disk_that_is_really_full(disk, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "SPARE_BYTES", -(10**9))  # else it says beforehand that there is no room
    noises(tmp_path / "set", 40, size=(32, 32))
    place = disk(100)
    with pytest.raises(DataError, match=r"cannot be written \(No space left on device\); what is done is kept"):
        load(str(tmp_path / "set"), cache=place)
    disk(10_000)
    found, alone = load(str(tmp_path / "set"), cache=place), load(str(tmp_path / "set"))
    assert torch.equal(found.train.images[torch.arange(len(found.train.labels))], alone.train.images)


def test_a_cache_on_a_disk_that_is_really_read_only(disk, tmp_path):
    noises(tmp_path / "set", 9)
    alone = load(str(tmp_path / "set"), cache=tmp_path / "cache")
    place = disk(1000) / "cache"
    shutil.copytree(tmp_path / "cache", place)
    for lock in place.glob("*/.lock"):
        lock.unlink()
    subprocess.run(["mount", "-o", "remount,ro", place.parent], check=True)
    found = load(str(tmp_path / "set"), cache=place)
    assert (found.fingerprint, found.mean) == (alone.fingerprint, alone.mean)
    noise(tmp_path / "set" / "cat" / "more.png", 99)
    with pytest.raises(DataError, match="its place is read-only: 1 of 19 images are damaged or not in it"):
        load(str(tmp_path / "set"), cache=place)
    with pytest.raises(DataError, match=r"cannot be written \(Read-only file system\)"):
        load(str(tmp_path / "set"), cache=place, size=8)  # of which there is none


OUTPUTS = {
    "x.html": ["report", "RUN"],
    "x.svg": ["figure", "pie", "uniform:cifar"],
    "y.svg": ["figure", "strips", "uniform:cifar", "--image", "PICTURE"],
    "x.py": ["export", "uniform:cifar", "--to", "python"],
    "x.png": ["preview", "uniform:cifar", "PICTURE"],
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_is_written_to_a_full_disk_is_not_there(name, command, disk, finished, tmp_path):
    noise(tmp_path / "picture.png", size=(32, 32))
    places = {"RUN": finished, "PICTURE": tmp_path / "picture.png"}
    out = disk(8) / name
    done = command(*(places.get(word, word) for word in OUTPUTS[name]), "-o", out)
    assert (done.returncode, f"slackaug: {out}: No space left on device" in done.stderr) == (1, True), done.stderr
    assert [*out.parent.iterdir()] == []


# --- gone -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "name", "n", "says"),
    [(Display, "show", 8, "cannot be written (No such file or directory)"),  # in the first round
     (records, "keep", 2, "(No such file or directory). What was saved before is intact")],
    ids=["search", "evaluation"],
)  # fmt: skip
def test_a_folder_that_vanishes(owner, name, n, says, command, tiny_npz, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "seconds_of", lambda one: 0.0)
    out, act, count = tmp_path / "run", getattr(owner, name), itertools.count(1)

    def remove_and_act(*given):
        if next(count) == n:
            shutil.rmtree(out)
        act(*given)

    monkeypatch.setattr(owner, name, remove_and_act)
    work = KINDS["search" if owner is Display else "evaluation"](tiny_npz)
    done = command(*work.begin(out))
    assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (1, True, False)


# --- damaged anywhere -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_checkpoint_damaged_at_every_thirtieth_byte(damage, tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for n in (3, 4):
        checkpoints.save(state(n))
    newest = checkpoints.paths()[-1]
    files = [newest, *(path for kind, path in parts(newest).items() if kind != "theta_0")]
    n_damages = 0
    for path in files:
        content = path.read_bytes()
        for place in range(0, len(content), 30):
            flipped = bytes([content[place] ^ 1 << place // 30 % 8]) + content[place + 1 :]
            path.write_bytes(content[:place] + (b"" if damage == "cut" else flipped))
            found, wrong = Checkpoints(tmp_path).load()
            assert [str(error) for error in wrong] == [f"{path}: damaged"]
            assert equal(found, state(3))
            path.write_bytes(content)
            n_damages += 1
    assert n_damages > 150
    assert equal(Checkpoints(tmp_path).load()[0], state(4))
