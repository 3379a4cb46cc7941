"""Checkpoints in several files: missing, damaged, mixed up or half written, each costs at most itself."""

import hashlib
import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import tiny
from disks import Failing, Malicious, flip_a_bit
from slackaug.auto.stages import Problem, Search
from slackaug.config import presets
from slackaug.config.parse import parse_assignment, update
from slackaug.data import load
from slackaug.methods import slack
from slackaug.runs.checkpoints import Checkpoints, from_vectors, read, take_out, to_bytes, to_vectors

MEGABYTE = 1e6
FILES_OF_TWO = ["000003.pt", "000004.pt", "momentum", "momentum", "theta", "theta", "theta_0"]  # of what is kept


def model(value: float) -> dict[str, Tensor]:
    """As a state_dict: several types and shapes, and a number."""
    return {
        "weight": torch.full((2, 3), value),
        "n_batches": torch.tensor(int(value)),
        "bias": torch.arange(3.0) + value,
        "nothing": torch.empty(0),
    }


def state(n: int) -> dict:
    """That of a search, in short: theta_0 is always the same."""
    return {
        "config": "x",
        "n": n,
        "theta_0": model(0.5),
        "engine": {"model": model(n), "streams": {"model": torch.arange(n)}},
        "search": {"pi": torch.full((2, 2), n), "theta_momentum": torch.full((7,), -1.0 * n)},
    }


def equal(a: object, b: object) -> bool:
    """Bit for bit, in types and shapes, too."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(equal, a, b))
    return a == b


def kinds(folder: Path) -> list[str]:
    """All files of a folder, parts without their checksums."""
    return sorted(path.name.partition("-")[0] for path in folder.iterdir())


def parts(path: Path) -> dict[str, Path]:
    """The files that a checkpoint refers to, by their kind."""
    content = torch.load(io.BytesIO(path.read_bytes()[32:]), weights_only=True)
    return {name.partition("-")[0]: path.with_name(name) for _, name, _ in content["parts"]}


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


# --- what is stored where ---------------------------------------------------------------------------------------------


def test_two_are_kept_with_their_parts(saved):
    assert kinds(saved.folder) == FILES_OF_TWO
    assert [equal(read(path), state(n)) for n, path in zip((3, 4), saved.paths(), strict=True)] == [True, True]
    assert loaded(saved) == (4, [])


def test_the_states_of_ranks_have_their_own_parts(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    ranks = {"config": "x", "ranks": [state(1) | {"theta_0": model(rank)} for rank in range(3)]}
    checkpoints.save(ranks)
    assert equal(checkpoints.load()[0], ranks)
    assert kinds(tmp_path) == ["000000.pt", "momentum", "theta", "theta_0", "theta_0", "theta_0"]


def test_the_state_of_a_training_has_parts_too(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    fit = {"config": "x", "fit": {"done": 3, "model": model(1), "momentum": torch.ones(7), "streams": {"model": 1}}}
    checkpoints.save(fit)
    assert equal(checkpoints.load()[0], fit)
    assert kinds(tmp_path) == ["000000.pt", "momentum", "theta"]


def test_a_state_is_not_changed_by_being_saved(tmp_path):
    given = state(1)
    Checkpoints(tmp_path).save(given)
    assert equal(given, state(1))


def test_what_is_small_stays_where_it_is():
    found = {}
    rest = take_out(state(2), found)
    assert list(found) == [("theta_0",), ("engine", "model"), ("search", "theta_momentum")]
    assert equal(rest["engine"], {"streams": {"model": torch.arange(2)}})


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
        resumed.save(state(n) | {"theta_0": model(1.5)})
        assert path.exists() == is_there


def test_a_damaged_theta_0_is_written_again_by_the_process_that_has_it(saved):
    path = parts(saved.paths()[-1])["theta_0"]
    flip_a_bit(path)
    saved.save(state(5))
    assert loaded(saved) == (5, [])
    path.unlink()
    saved.save(state(6))
    assert loaded(saved) == (6, [])


def test_no_file_of_a_wrn_40_2_is_large(tmp_path):
    images = tiny.arrays()
    np.savez(tmp_path / "x.npz", **images)
    data = load(str(tmp_path / "x.npz"))
    search = Search(Problem(update(presets.quick(data), parse_assignment("model=wrn-40-2")), data))
    search.pretrain.loss = 1.0  # NaN is not equal to itself
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for name in ("pre-training", "search"):
        given = search.get_state() | {"config": "x"}
        checkpoints.save(given)
        assert equal(checkpoints.load()[0], given)
        if name == "pre-training":
            search.pretrain.end(search.problem.weights())
            phi = search.problem.phi
            search.rounds.state = slack.start(phi, search.problem.make_search(phi)[1].theta)
    sizes = {path.name: path.stat().st_size / MEGABYTE for path in checkpoints.folder.iterdir()}
    assert max(sizes.values()) < 16
    assert max(sizes[path.name] for path in checkpoints.paths()) < 1


# --- damages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["theta", "momentum"])
@pytest.mark.parametrize(("damage", "says"), [(Path.unlink, "missing"), (flip_a_bit, "damaged")])
def test_a_part_that_is_not_whole_costs_one_checkpoint(damage, says, kind, saved):
    path = parts(saved.paths()[-1])[kind]
    damage(path)
    assert loaded(saved) == (3, [f"{path}: {says}"])


@pytest.mark.parametrize(("damage", "says"), [(Path.unlink, "missing"), (flip_a_bit, "damaged")])
def test_without_theta_0_nothing_can_be_read(damage, says, saved):
    path = parts(saved.paths()[-1])["theta_0"]
    damage(path)
    assert loaded(saved) == (None, [f"{path}: {says}"] * 2)


@pytest.mark.parametrize("kind", ["theta", "momentum"])
def test_a_part_of_another_checkpoint_is_not_taken(kind, saved):
    older, newer = (parts(path)[kind] for path in saved.paths())
    shutil.copy(older, newer)
    assert loaded(saved) == (3, [f"{newer}: damaged"])


def test_what_was_damaged_is_replaced(saved):
    parts(saved.paths()[-1])["theta"].unlink()
    again = Checkpoints(saved.folder)
    assert again.load()[0]["n"] == 3
    again.save(state(4))
    assert kinds(saved.folder) == FILES_OF_TWO
    assert loaded(saved) == (4, [])


def test_a_part_never_runs_code(tmp_path):
    content = to_bytes(Malicious(tmp_path / "it ran"))
    digest = hashlib.sha256(content).hexdigest()
    (tmp_path / f"theta-{digest[:16]}.pt").write_bytes(content)
    small = to_bytes({"config": "x", "engine": {}, "parts": [[["engine", "model"], f"theta-{digest[:16]}.pt", digest]]})
    (tmp_path / "000000.pt").write_bytes(hashlib.sha256(small).digest() + small)
    found, wrong = Checkpoints(tmp_path).load()
    assert (found, list(map(str, wrong))) == (None, [f"{tmp_path / f'theta-{digest[:16]}.pt'}: damaged"])
    assert not (tmp_path / "it ran").exists()


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


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_a_part_is_not_waited_for(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(3))
    (path,) = tmp_path.glob("theta-*")
    path.unlink()
    os.mkfifo(path)
    found, wrong = Checkpoints(tmp_path).load()
    assert (found, [str(error) for error in wrong]) == (None, [f"{path}: missing"])
    checkpoints.save(state(3))
    assert equal(Checkpoints(tmp_path).load()[0], state(3))
