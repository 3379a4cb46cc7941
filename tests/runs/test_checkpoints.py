"""Checkpoints in several files: missing, damaged, mixed up or half written, each costs at most itself."""

import copy
import hashlib
import io
import os
import shutil
import zipfile
from pathlib import Path

import pytest
import torch

from disks import Failing, Malicious, flip_a_bit
from saved_states import equal, model, parts, state
from searching import search_of, steps
from slackaug.data import load
from slackaug.runs.checkpoints import Checkpoints, from_bytes, from_vectors, read, to_bytes, to_vectors

MEGABYTE = 1e6
FILES_OF_TWO = ["000003.pt", "000004.pt", "momentum", "momentum", "theta", "theta", "theta_0"]  # of what is kept


def kinds(folder: Path) -> list[str]:
    """All files of a folder, parts without their checksums."""
    return sorted(path.name.partition("-")[0] for path in folder.iterdir())


@pytest.fixture
def saved(tmp_path):
    """After five checkpoints, 0 to 4."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for n in range(5):
        checkpoints.save(state(n))
    return checkpoints


def loaded(checkpoints: Checkpoints) -> tuple[int | None, list[str]]:
    """What another process finds: the number that was saved, and what it says."""
    found, wrong = Checkpoints(checkpoints.folder).load()
    assert found is None or equal(found, state(found["n"]))
    return None if found is None else found["n"], list(map(str, wrong))


def sealed(content: object) -> bytes:
    """As the small file of a checkpoint, with its checksum."""
    packed = to_bytes(content)
    return hashlib.sha256(packed).digest() + packed


# --- what is stored where ---------------------------------------------------------------------------------------------


def test_two_are_kept_with_their_parts(saved):
    assert kinds(saved.folder) == FILES_OF_TWO
    assert [equal(read(path), state(n)) for n, path in zip((3, 4), saved.paths(), strict=True)] == [True, True]
    assert loaded(saved) == (4, [])


@pytest.mark.parametrize(
    ("state", "files"),
    [({"ranks": [state(1, theta_0=rank) for rank in range(3)]},
      ["momentum", "theta", "theta_0", "theta_0", "theta_0"]),
     ({"fit": {"done": 3, "model": model(1), "momentum": torch.ones(7), "streams": {"model": 1}}},
      ["momentum", "theta"]),
     ({"first": model(1)}, ["theta"])],
    ids=["ranks", "a training", "what whole trainings start from"],
)  # fmt: skip
def test_what_is_large_is_a_part(state, files, tmp_path):
    given = state | {"config": "x"}
    before = copy.deepcopy(given)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(given)
    assert equal(checkpoints.load()[0], before)
    assert equal(given, before)
    assert kinds(tmp_path) == ["000000.pt", *files]


def test_a_model_becomes_one_vector_for_each_type():
    given = model(2.5) | {"transposed": torch.arange(6.0).view(2, 3).t()}
    vectors = to_vectors(given)
    assert [(group["vector"].dtype, group["vector"].ndim) for group in vectors] == [
        (torch.float32, 1), (torch.int64, 1)]  # fmt: skip
    assert equal(from_vectors(vectors), given)


def test_theta_0_is_written_once_and_stays_as_long_as_it_is_referred_to(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(0))
    (path,) = tmp_path.glob("theta_0-*")
    written = path.stat().st_ino, path.stat().st_mtime_ns
    for n in range(1, 5):
        checkpoints.save(state(n))
        assert list(tmp_path.glob("theta_0-*")) == [path]
    resumed = Checkpoints(tmp_path)
    resumed.load()
    resumed.save(state(5))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == written
    for n, is_there in ((6, True), (7, False)):  # of 5 and 6, 5 still refers to it
        resumed.save(state(n, theta_0=1.5))
        assert path.exists() == is_there


def test_no_file_of_a_wrn_40_2_is_large(tiny_npz, tmp_path):
    few = {"pretrain__epochs": 1, "pretrain__batch": 12, "search__n_retrain": 1, "search__n_unrolled": 1}
    search = search_of(load(str(tiny_npz)), model="wrn-40-2", n_composed=2, search__n_rounds=1, **few)
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for _ in steps(search):
        given = search.state() | {"config": "x"}
        checkpoints.save(given)
        assert equal(checkpoints.load()[0], given)
    sizes = {path.name: path.stat().st_size / MEGABYTE for path in checkpoints.folder.iterdir()}
    assert max(sizes.values()) < 16
    assert max(sizes[path.name] for path in checkpoints.paths()) < 1


# --- damages ----------------------------------------------------------------------------------------------------------


def put_a_pipe(path: Path) -> None:
    """Who opens it waits."""
    path.unlink()
    os.mkfifo(path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["theta", "momentum", "theta_0"])
@pytest.mark.parametrize(
    ("damage", "says"), [(Path.unlink, "missing"), (flip_a_bit, "damaged"), (put_a_pipe, "missing")]
)
def test_a_part_that_is_not_whole_costs_what_refers_to_it(damage, says, kind, saved):
    """One checkpoint, or both. Whoever has it writes it again."""
    path = parts(saved.paths()[-1])[kind]
    damage(path)
    what = f"{path}: {says}"
    assert loaded(saved) == ((None, [what, what]) if kind == "theta_0" else (3, [what]))
    saved.save(state(5))
    assert loaded(saved) == (5, [])


@pytest.mark.parametrize("kind", ["theta", "momentum"])
def test_a_part_of_another_checkpoint_is_not_taken(kind, saved):
    older, newer = (parts(path)[kind] for path in saved.paths())
    shutil.copy(older, newer)
    assert loaded(saved) == (3, [f"{newer}: damaged"])


def test_an_older_one_that_is_damaged_is_in_nobodys_way(saved):
    flip_a_bit(saved.paths()[0])
    saved.save(state(5))
    assert loaded(saved) == (5, [])


def test_a_part_never_runs_code(tmp_path):
    for value, wrong_in in ((Malicious(tmp_path / "it ran"), "theta"), (7, "000000")):  # 7 is whole, but no model
        content = to_bytes(value)
        digest = hashlib.sha256(content).hexdigest()
        part, path = tmp_path / f"theta-{digest[:16]}.pt", tmp_path / "000000.pt"
        part.write_bytes(content)
        path.write_bytes(sealed({"config": "x", "engine": {}, "parts": [[["engine", "model"], part.name, digest]]}))
        found, (wrong,) = Checkpoints(tmp_path).load()
        assert (found, str(wrong)) == (None, f"{part if wrong_in == 'theta' else path}: damaged")
    assert not (tmp_path / "it ran").exists()


def test_what_torch_would_unpack_is_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(100_000))
    with pytest.raises(ValueError, match="unpacks to more than it is"):
        from_bytes(buffer.getvalue())


@pytest.mark.parametrize("kind", ["theta", None])
def test_whatever_is_newer_than_what_was_resumed_is_replaced(kind, saved):
    newest, foreign = saved.paths()[-1], saved.folder / "000005.pt"
    path = parts(newest)[kind] if kind else newest
    flip_a_bit(path)
    foreign.write_bytes(b"x")
    again = Checkpoints(saved.folder)
    found, wrong = again.load()
    assert (found["n"], list(map(str, wrong))) == (3, [f"{foreign}: damaged", f"{path}: damaged"])
    again.save(state(4))
    assert kinds(saved.folder) == FILES_OF_TWO
    assert loaded(saved) == (4, [])


@pytest.mark.parametrize(
    "content",
    [{"n": 1}, {"config": "x", "parts": [["theta"]]}, {"config": "x", "parts": [[["a"], "other.pt", "0"]]},
     {"config": "x", "parts": [[["nowhere", "model"], f"theta-{'0' * 16}.pt", "0"]]}],
    ids=["no config", "no part", "another file", "nowhere to put it"],
)  # fmt: skip
def test_a_whole_file_that_is_no_checkpoint_is_damaged(content, saved):
    path = saved.folder / "000005.pt"
    path.write_bytes(sealed(content))
    assert loaded(saved) == (4, [f"{path}: damaged"])


# --- interrupted ------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Nothing catches it, so nothing is cleaned up, as after a real one."""


@pytest.mark.parametrize("n", [1, 2, 3])  # theta, momentum, the small file
@pytest.mark.parametrize("is_renamed", [False, True])
def test_killed_at_a_rename_and_nothing_is_lost(is_renamed, n, saved, monkeypatch):
    replace, count = os.replace, 0

    def replace_or_die(*paths):
        nonlocal count
        count += 1
        if count == n and not is_renamed:
            raise Killed
        replace(*paths)
        if count == n:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_or_die)
        with pytest.raises(Killed):
            saved.save(state(5))
    newest = 5 if (is_renamed, n) == (True, 3) else 4
    assert loaded(saved) == (newest, [])
    again = Checkpoints(saved.folder)
    again.load()
    for number in (newest + 1, newest + 2):
        again.save(state(number))
    assert [kind for kind in kinds(saved.folder) if not kind[0].isdigit()] == FILES_OF_TWO[2:]  # nothing stray, no .tmp
    assert loaded(saved) == (newest + 2, [])


def test_what_a_killed_process_left_makes_room_before_anything_is_written(saved, monkeypatch):
    stray = saved.folder / f"theta-{'0' * 16}.pt"
    unfinished = saved.folder / f".theta-{'1' * 16}.pt.tmp"
    foreign = saved.folder / "theta-mine.pt"
    for path in (stray, unfinished, foreign):
        path.write_bytes(b"x")
    with monkeypatch.context() as patch:
        Failing(patch, 1)
        with pytest.raises(OSError, match="No space left"):
            saved.save(state(5))
    assert [path.exists() for path in (stray, unfinished, foreign)] == [False, False, True]


def test_full_at_every_write_in_turn(saved, monkeypatch):
    n_writes = 4 * 3  # a file opened, brought to disk, renamed, and its name brought to disk
    for n in range(1, n_writes + 1):
        with monkeypatch.context() as patch:
            Failing(patch, n)
            with pytest.raises(OSError, match="No space left"):
                saved.save(state(5))
        assert loaded(saved) == (5 if n == n_writes else 4, [])
        assert not list(saved.folder.glob(".*.tmp"))
    with monkeypatch.context() as patch:
        failing = Failing(patch, n_writes + 1)
        saved.save(state(5))
    assert failing.count <= n_writes
    assert loaded(saved) == (5, [])
    saved.save(state(6))
    assert loaded(saved) == (6, [])
    assert [kind for kind in kinds(saved.folder) if not kind[0].isdigit()] == FILES_OF_TWO[2:]


@pytest.mark.timeout(60)
def test_what_else_lies_in_the_folder_is_neither_read_nor_removed(tmp_path):
    """A copy that somebody keeps, a folder, and a pipe, which would be waited for."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(3))
    (tmp_path / "000000_copy.pt").write_bytes(b"mine")
    (tmp_path / "000007.pt").mkdir()
    os.mkfifo(tmp_path / "000008.pt")
    found, wrong = Checkpoints(tmp_path).load()
    assert (equal(found, state(3)), wrong) == (True, [])
    checkpoints.save(state(4))
    names = {path.name for path in tmp_path.iterdir()}
    assert {"000000_copy.pt", "000007.pt", "000008.pt"} <= names
