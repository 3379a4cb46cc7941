"""The folder of a run: killed, resumed, full, read-only, damaged, shared and replaced."""

import errno
import hashlib
import io
import json
import math
import os
import pickle
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tiny
from disks import Failing, flip_a_bit
from slackaug.report import live
from slackaug.runs import folders, provenance
from slackaug.runs.checkpoints import read
from slackaug.runs.folders import Run, RunError

pytestmark = pytest.mark.usefixtures("quick_search")
PRETRAINING = [("pre-training", 0, step) for step in (1, 6)]
RETRAINING = [("re-training", 1, 1), ("re-training", 2, 2)]
UNROLLED = [("policy", 1, 6), ("policy", 2, 5)]


def copy(run, out):
    return Path(shutil.copytree(run, out))


def reopened(run, out):
    """A run that has done everything but to say so: it looks at its checkpoints when it is resumed."""
    out = copy(run, out)
    (out / "finished.json").unlink()
    return out


def checkpoints(run):
    """From the oldest to the newest."""
    return sorted((run / "checkpoints").glob("[0-9]*.pt"))


# --- killed and resumed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moment", [*PRETRAINING, *RETRAINING, *UNROLLED], ids=lambda moment: "-".join(map(str, moment))
)
def test_killed_and_resumed_equals_uninterrupted(moment, command, tiny_npz, finished, tmp_path):
    out = tmp_path / "run"
    assert tiny.run_until(tiny.arguments(tiny_npz, out), tmp_path / "log", moment) == -signal.SIGKILL
    assert command(*tiny.resume(tiny_npz, out)).returncode == 0
    assert tiny.outcome(out) == tiny.outcome(finished)


def test_resumed_with_other_threads_says_that_bits_may_differ(command, tiny_npz, tmp_path):
    out = tmp_path / "run"
    tiny.run_until(tiny.arguments(tiny_npz, out), tmp_path / "log", ("policy", 1, 6))
    began = json.loads((out / "env.json").read_text())
    n_threads = torch.get_num_threads()
    done = command(*tiny.resume(tiny_npz, out, "--threads", began["threads"] + 1))
    torch.set_num_threads(n_threads)  # the command ran in this process, whose later tests compare bits
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert f"this run began with {began['threads']} threads and goes on with {began['threads'] + 1} threads" in said


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, None),
        (
            {"gpu": "NVIDIA H200"},
            "began with GPU NVIDIA H200 and goes on with no GPU, so that the last bits of its numbers may differ",
        ),
        (
            {"commit": "0123456789ab"},
            "began with commit 0123456789ab and goes on with commit abcdef012345+, so that its numbers",
        ),
        ({"commit": None}, "began with no commit and goes on with commit abcdef012345+"),
        ({"torch": "2.11.0", "threads": 64}, "began with torch 2.11.0, 64 threads and goes on with torch"),
        ({"torch": None}, "began with no torch and goes on with torch"),
        ({"slackaug": "0.0.1"}, "began with slackaug 0.0.1 and goes on with slackaug"),
        ([1], None),
        ("{", None),
    ],
)
def test_what_has_changed_since_a_run_began(env, said, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(provenance, "commit", lambda: "abcdef012345+")
    assert folders.what_changed(tmp_path) is None
    document = folders.environment() | env if isinstance(env, dict) else env
    (tmp_path / "env.json").write_text(document if isinstance(document, str) else json.dumps(document))
    found = folders.what_changed(tmp_path)
    assert found is None if said is None else said in found


@pytest.mark.parametrize("n", [22, 23, 24, 25, 39])  # theta_0, momentum, theta, the checkpoint; policy.json
def test_killed_while_writing(n, command, tiny_npz, finished, tmp_path):
    out = tmp_path / "run"
    assert tiny.run_until(tiny.arguments(tiny_npz, out), tmp_path / "log", ("replace", n, 0)) == -signal.SIGKILL
    assert list(out.rglob(".*.tmp"))
    assert command(*tiny.resume(tiny_npz, out)).returncode == 0
    assert tiny.outcome(out) == tiny.outcome(finished)


def test_killed_before_anything_was_written(command, tiny_npz, finished, tmp_path):
    out, words = tmp_path / "run", tiny.arguments(tiny_npz, tmp_path / "run")
    assert tiny.run_until(words, tmp_path / "log", ("replace", 1, 0)) == -signal.SIGKILL
    done = command(*tiny.resume(tiny_npz, out))
    assert (done.returncode, "holds no run" in done.stderr) == (2, True)
    assert command(*words).returncode == 0
    assert tiny.outcome(out) == tiny.outcome(finished)


def test_killed_again_and_again(command, tiny_npz, finished, tmp_path):
    out, words = tmp_path / "run", tiny.arguments(tiny_npz, tmp_path / "run")
    for moment in [("pre-training", 0, 3), ("re-training", 2, 1), ("policy", 2, 4)]:
        assert tiny.run_until(words, tmp_path / "log", moment) == -signal.SIGKILL
        words = tiny.resume(tiny_npz, out)
    assert command(*words).returncode == 0
    assert tiny.outcome(out) == tiny.outcome(finished)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ['"pre-training"', '"re-training", "round": 2', '"policy", "round": 2'])
def test_the_command_killed_from_outside(wanted, tmp_path):
    """`python -m slackaug` as users have it, killed when a line of metrics shows up."""
    settings = {"pretrain__epochs": 6, "pretrain__batch": 32, "search__n_retrain": 40, "search__n_unrolled": 40}
    words = tiny.arguments("digits", tmp_path / "whole", **settings)
    killed = [*words[:3], str(tmp_path / "killed"), *words[4:]]
    program = [sys.executable, "-m", "slackaug"]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*program, *words], check=True, env=env, capture_output=True)
    process = subprocess.Popen([*program, *killed], env=env, stdout=subprocess.DEVNULL)
    metrics = tmp_path / "killed" / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and wanted in metrics.read_text()):
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    subprocess.run([*program, *tiny.resume("digits", tmp_path / "killed")], check=True, env=env, capture_output=True)
    assert tiny.outcome(tmp_path / "killed") == tiny.outcome(tmp_path / "whole")


def test_a_finished_run_is_left_as_it_is(command, tiny_npz, finished, tmp_path):
    out = copy(finished, tmp_path / "run")
    before = tiny.contents(out)
    done = command(*tiny.resume(tiny_npz, out))
    assert done.returncode == 0
    assert "this search is finished" in done.stdout
    assert tiny.contents(out) == before


def test_a_finished_run_needs_neither_its_checkpoints_nor_its_data(command, finished, tmp_path):
    """A folder that was copied without them, to go on with a study on another machine."""
    out = copy(finished, tmp_path / "run")
    shutil.rmtree(out / "checkpoints")
    before = tiny.contents(out)
    done = command(*tiny.resume(tmp_path / "gone.npz", out))
    assert done.returncode == 0
    assert "this search is finished" in done.stdout
    assert tiny.contents(out) == before


def test_a_policy_that_was_removed_is_written_anew(command, tiny_npz, finished, tmp_path):
    out = copy(finished, tmp_path / "run")
    (out / "policy.json").unlink()
    assert command(*tiny.resume(tiny_npz, out)).returncode == 0
    assert tiny.outcome(out) == tiny.outcome(finished)


def test_died_before_its_first_checkpoint(command, tiny_npz, finished, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    shutil.copy(finished / "config.yaml", out)
    (out / "metrics.jsonl").write_text('{"stage": "pre-training", "rou')
    done = command(*tiny.resume(tiny_npz, out))
    assert done.returncode == 0
    assert "no checkpoint yet: starting again with the stored configuration" in done.stdout
    assert tiny.outcome(out) == tiny.outcome(finished)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--seed", "1"], "--resume takes all settings from the run"),
        (["--set", "search.n_rounds=3"], "--resume takes all settings from the run"),
        (["--config", "x.yaml"], "--resume takes all settings from the run"),
        (["--overwrite"], "--resume takes all settings from the run"),
        (["--dry-run"], "--resume takes all settings from the run"),
        (["--model", "resnet18"], "the model of this run is small"),
    ],
)
def test_resume_with_other_settings_is_refused(more, says, command, tiny_npz, finished, tmp_path):
    out = copy(finished, tmp_path / "run")
    before = tiny.contents(out)
    done = command(*tiny.resume(tiny_npz, out, *more))
    assert (done.returncode, says in done.stderr) == (2, True)
    assert tiny.contents(out) == before


@pytest.mark.parametrize("says_so", [True, False])
@pytest.mark.parametrize(
    ("old", "new"), [("n_rounds: 2", "n_rounds: 3"), ("n_rounds: 2", "n_rounds: 1"), ("seed: 0", "seed: 5")]
)
def test_resume_with_a_changed_configuration_is_refused(old, new, says_so, command, tiny_npz, finished, tmp_path):
    out = (copy if says_so else reopened)(finished, tmp_path / "run")
    config = (out / "config.yaml").read_text()
    assert old in config
    (out / "config.yaml").write_text(config.replace(old, new))
    done = command(*tiny.resume(tiny_npz, out))
    assert (done.returncode, "was changed after the run began" in done.stderr) == (2, True)


def test_a_run_that_was_replaced_by_half_is_not_the_finished_one(command, tiny_npz, finished, tmp_path):
    """The new configuration is there, and so is all of the old run."""
    out = copy(finished, tmp_path / "run")
    (out / "env.json").unlink()
    (out / "env.json").mkdir()  # cannot be removed like a file
    assert command(*tiny.arguments(tiny_npz, out, "--overwrite", "--seed", 7)).returncode == 1
    done = command(*tiny.resume(tiny_npz, out))
    assert (done.returncode, "was changed after the run began" in done.stderr) == (2, True)


def test_killed_before_it_says_that_it_is_finished(command, monkeypatch, tiny_npz, finished, tmp_path):
    """The page that a search leaves is written in that time, too."""
    out, pages = reopened(finished, tmp_path / "run"), []
    monkeypatch.setattr(live, "attempt", lambda folder, *_, **__: pages.append(folder))
    assert command(*tiny.resume(tiny_npz, out)).returncode == 0
    assert pages[-1:] == [out]
    assert tiny.outcome(out) == tiny.outcome(finished)
    assert (out / "finished.json").read_text() == (finished / "finished.json").read_text()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_a_mark_that_is_not_ours_marks_nothing(content, command, tiny_npz, finished, tmp_path):
    out = copy(finished, tmp_path / "run")
    (out / "finished.json").write_bytes(content)
    assert command(*tiny.resume(tiny_npz, out)).returncode == 0
    assert tiny.outcome(out) == tiny.outcome(finished)


def test_resume_with_data_that_has_changed_is_refused(command, tmp_path):
    data = tmp_path / "x.npz"
    np.savez(data, **tiny.arrays())
    assert command(*tiny.arguments(data, tmp_path / "run")).returncode == 0
    out = reopened(tmp_path / "run", tmp_path / "again")
    np.savez(data, **tiny.arrays(seed=1))
    done = command(*tiny.resume(data, out))
    assert done.returncode == 2
    assert "has changed since this run began (another fingerprint); begin another" in " ".join(done.stderr.split())


def test_resume_with_other_data_is_refused(command, finished, tmp_path):
    out = reopened(finished, tmp_path / "run")
    np.savez(tmp_path / "other.npz", **tiny.arrays(seed=1))
    done = command(*tiny.resume(tmp_path / "other.npz", out))
    assert (done.returncode, "is not the data of this run" in done.stderr) == (2, True)


@pytest.mark.parametrize("exists", [True, False])
def test_resume_without_a_run_is_refused(exists, command, tiny_npz, tmp_path):
    out = tmp_path / "run"
    if exists:
        out.mkdir()
    done = command(*tiny.resume(tiny_npz, out))
    assert (done.returncode, "holds no run to resume" in done.stderr) == (2, True)
    assert not exists or not list(out.iterdir())


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code", "moment"),
    [(signal.SIGINT, 130, ("pre-training", 0, 2)), (signal.SIGTERM, 143, ("policy", 2, 5))],
)
def test_a_signal_saves_and_says_how_to_go_on(number, code, moment, command, finished, tmp_path):
    data, out, log = tmp_path / "my data" / "tiny.npz", tmp_path / "it's a run [1]", tmp_path / "log"
    data.parent.mkdir()
    np.savez(data, **tiny.arrays())
    assert tiny.run_until(tiny.arguments(data, out), log, moment, number) == code
    line = log.read_text().splitlines()[-1]
    assert line.startswith("slackaug: stopped; everything is saved. To go on: slackaug search ")
    assert json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["step"] == moment[2]
    assert read(checkpoints(out)[-1])["metrics_size"] == (out / "metrics.jsonl").stat().st_size
    words = shlex.split(line.partition("To go on: ")[2])
    assert command(*words[1:]).returncode == 0
    assert tiny.outcome(out) == tiny.outcome(finished)


# --- disks ------------------------------------------------------------------------------------------------------------


SHORTEST = {
    "pretrain__epochs": 1,
    "pretrain__batch": 12,
    "search__n_rounds": 1,
    "search__n_retrain": 0,
    "search__n_unrolled": 1,
}


def test_full_at_every_write_in_turn(command, monkeypatch, tiny_npz, tmp_path):
    assert command(*tiny.arguments(tiny_npz, tmp_path / "whole", **SHORTEST)).returncode == 0
    expected, n = tiny.outcome(tmp_path / "whole"), 0
    while True:
        n, out = n + 1, tmp_path / f"run{n}"
        words = tiny.arguments(tiny_npz, out, **SHORTEST)
        with monkeypatch.context() as patch:
            failing = Failing(patch, n)
            done = command(*words)
        if failing.count < n:
            break
        assert done.returncode == 1
        assert "cannot be written (No space left on device); what is saved is whole" in done.stderr
        assert "Traceback" not in done.stderr
        has_run = (out / "config.yaml").exists()
        assert ("--resume" in done.stderr) == has_run
        for path in out.rglob("*.json"):
            json.loads(path.read_text())
        assert not list(out.rglob(".*.tmp"))
        assert command(*tiny.resume(tiny_npz, out) if has_run else words).returncode == 0
        assert tiny.outcome(out) == expected
        shutil.rmtree(out)
    assert done.returncode == 0
    assert n > 20


def test_a_full_disk_does_not_cost_the_run_that_was_to_be_replaced(command, monkeypatch, tiny_npz, finished, tmp_path):
    out = copy(finished, tmp_path / "run")
    before = tiny.contents(out)
    with monkeypatch.context() as patch:
        Failing(patch, 2)  # the lock, then config.yaml
        assert command(*tiny.arguments(tiny_npz, out, "--overwrite", "--seed", 1)).returncode == 1
    assert tiny.contents(out) == before


@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs of 1 MB: less than two checkpoints."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a file system needs root")
    yield path
    subprocess.run(["umount", path], check=True)


def test_a_disk_that_is_really_full(command, tiny_npz, finished, small_disk, tmp_path):
    done = command(*tiny.arguments(tiny_npz, small_disk / "run"))
    assert (done.returncode, "(No space left on device)" in done.stderr) == (1, True)
    subprocess.run(["mount", "-o", "remount,size=100m", small_disk], check=True)
    out = small_disk / "run"
    assert (out / "policies" / "round_01.json").exists()
    assert command(*tiny.resume(tiny_npz, out)).returncode == 0
    assert tiny.outcome(out) == tiny.outcome(finished)


def test_a_disk_that_is_really_read_only(command, tiny_npz, small_disk):
    shutil.copy(tiny_npz, small_disk)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = command(*tiny.arguments(tiny_npz, small_disk / "run"))
    assert done.returncode == 1
    assert f"{small_disk / 'run'}: cannot be written (Read-only file system)" in done.stderr


def test_a_folder_without_the_right_to_write(command, monkeypatch, tiny_npz, finished, tmp_path):
    """Rights do not bind root, so the refusal is played."""
    out = reopened(finished, tmp_path / "run")
    before = tiny.contents(out)
    with monkeypatch.context() as patch:
        Failing(patch, 1, errno.EACCES)
        done = command(*tiny.resume(tiny_npz, out))
    assert (done.returncode, "cannot be written (Permission denied)" in done.stderr) == (1, True)
    assert tiny.contents(out) == before


# --- checkpoints ------------------------------------------------------------------------------------------------------


DAMAGES = {
    "half written": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: path.write_bytes(b""),
    "one bit": flip_a_bit,
    "not ours": lambda path: path.write_bytes(hashlib.sha256(b"hello").digest() + b"hello"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_costs_only_itself(damage, command, tiny_npz, finished, tmp_path):
    out = reopened(finished, tmp_path / "run")
    newest = checkpoints(out)[-1]
    damage(newest)
    done = command(*tiny.resume(tiny_npz, out))
    assert done.returncode == 0
    assert f"{newest}: damaged, going back to the checkpoint before it" in done.stdout
    assert tiny.outcome(out) == tiny.outcome(finished)
    assert all(read(path) for path in checkpoints(out))  # the damaged one has been replaced


@pytest.mark.parametrize("kind", ["theta", "momentum"])
@pytest.mark.parametrize(("damage", "says"), [(flip_a_bit, "damaged"), (Path.unlink, "missing")])
def test_a_damaged_part_costs_only_its_checkpoint(damage, says, kind, command, tiny_npz, finished, tmp_path):
    out = reopened(finished, tmp_path / "run")
    path = max((out / "checkpoints").glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime_ns)
    damage(path)
    done = command(*tiny.resume(tiny_npz, out))
    assert done.returncode == 0
    assert f"{path}: {says}, going back to the checkpoint before it" in done.stdout
    assert tiny.outcome(out) == tiny.outcome(finished)
    assert all(read(path) for path in checkpoints(out))


def test_no_checkpoint_can_be_read_without_theta_0(command, tiny_npz, finished, tmp_path):
    out = reopened(finished, tmp_path / "run")
    (path,) = (out / "checkpoints").glob("theta_0-*")
    path.unlink()
    done = command(*tiny.resume(tiny_npz, out))
    assert done.returncode == 1
    assert f"{path}: missing; no checkpoint can be read; start anew with --overwrite" in done.stderr


def test_no_checkpoint_can_be_read(command, tiny_npz, finished, tmp_path):
    out = reopened(finished, tmp_path / "run")
    for path in checkpoints(out):
        flip_a_bit(path)
    before = tiny.contents(out)
    done = command(*tiny.resume(tiny_npz, out))
    assert done.returncode == 1
    assert "no checkpoint can be read; start anew with --overwrite" in done.stderr
    assert tiny.contents(out) == before


STRANGE = [
    {"stage": "pre-training"}, {"search": {}}, {"engine": 7}, {"theta_0": None},
    {"metrics_size": "x"}, {"metrics_size": -1}, {"metrics_size": None},
    {"seconds": "x"}, {"seconds": None}, {"seconds": math.nan}, {"seconds": math.inf}, {"seconds": -1.0},
]  # fmt: skip


@pytest.mark.parametrize("change", STRANGE, ids=str)
def test_a_whole_checkpoint_that_is_no_search_s_is_one_message(change, command, tiny_npz, finished, tmp_path):
    out = reopened(finished, tmp_path / "run")
    for path in checkpoints(out):
        content = torch_bytes(read(path) | change)
        path.write_bytes(hashlib.sha256(content).digest() + content)
    done = command(*tiny.resume(tiny_npz, out))
    assert done.returncode == 2
    assert f"{out}: its checkpoint is not one of this slackaug's searches; start anew" in done.stderr


@pytest.mark.parametrize("value", ["x", None, 10**400])
def test_a_checkpoint_of_a_round_that_is_none(value, command, tiny_npz, finished, tmp_path):
    """A round of 10^400 is after the last one."""
    out = reopened(finished, tmp_path / "run")
    for path in checkpoints(out):
        state = read(path)
        state["search"]["round"] = value
        content = torch_bytes(state)
        path.write_bytes(hashlib.sha256(content).digest() + content)
    done = command(*tiny.resume(tiny_npz, out))
    assert ("its checkpoint is not one of this slackaug's searches" in done.stderr) == (done.returncode == 2)
    assert "Traceback" not in done.stderr


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("save", [lambda x: pickle.dumps(x), lambda x: torch_bytes({"stage": x})])
def test_a_checkpoint_never_runs_code(save, command, tiny_npz, finished, tmp_path):
    out, trace = reopened(finished, tmp_path / "run"), tmp_path / "it ran"
    content = save(Malicious(trace))
    for path in checkpoints(out):
        path.write_bytes(hashlib.sha256(content).digest() + content)
    done = command(*tiny.resume(tiny_npz, out))
    assert (done.returncode, "no checkpoint can be read" in done.stderr) == (1, True)
    assert not trace.exists()


def torch_bytes(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


# --- who may use a folder ---------------------------------------------------------------------------------------------


def test_one_process_at_a_time(command, tiny_npz, finished, tmp_path):
    out = tmp_path / "run"
    first = tiny.start(tiny.arguments(tiny_npz, out), tmp_path / "log", ("policy", 1, 5), signal.SIGSTOP)
    while '"policy"' not in ((out / "metrics.jsonl").read_text() if (out / "metrics.jsonl").exists() else ""):
        assert first.is_alive()
        time.sleep(0.01)
    for words in (tiny.resume(tiny_npz, out), tiny.arguments(tiny_npz, out, "--overwrite")):
        done = command(*words)
        assert (done.returncode, "another process is working on this run" in done.stderr) == (2, True)
    first.kill()
    first.join()
    first.close()
    assert command(*tiny.resume(tiny_npz, out)).returncode == 0
    assert tiny.outcome(out) == tiny.outcome(finished)


def test_a_folder_in_use_is_refused(command, tiny_npz, finished, tmp_path):
    out = copy(finished, tmp_path / "run")
    before = tiny.contents(out)
    done = command(*tiny.arguments(tiny_npz, out))
    assert (done.returncode, "is not empty; go on with --resume, start anew with --overwrite" in done.stderr) == (
        2,
        True,
    )
    assert tiny.contents(out) == before


def test_overwrite_replaces_a_run_and_keeps_what_is_not_ours(command, tiny_npz, finished, tmp_path):
    out = copy(finished, tmp_path / "run")
    foreign = [out / "notes.txt", out / "policies" / "mine.json", out / "eval" / "plot.svg"]
    stale = [
        out / "policies" / "round_07.json",
        out / "calibration.json",
        out / "report.html",
        out / "eval" / "results.csv",
        out / ".env.json.tmp",
        out / "checkpoints" / f"theta-{'0' * 16}.pt",
    ]
    for path in (*foreign, *stale):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    assert command(*tiny.arguments(tiny_npz, out, "--overwrite", "--seed", 1)).returncode == 0
    assert all(path.read_text() == "x" for path in foreign)
    assert not any(path.exists() for path in stale)
    foreign[1].unlink()
    assert tiny.outcome(out)["policy.json"]["pi"] != tiny.outcome(finished)["policy.json"]["pi"]


def test_overwrite_does_not_touch_a_folder_without_a_run(command, tiny_npz, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    done = command(*tiny.arguments(tiny_npz, tmp_path, "--overwrite"))
    assert (done.returncode, "holds no run, so --overwrite does not touch it" in done.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "x").write_text("x")
    with pytest.raises(RunError, match="is a file, expected a folder"):
        Run.create(tmp_path / "x", "")


def test_what_a_run_writes(finished):
    names = {path for path in tiny.contents(finished) if not path.startswith("checkpoints/")}
    rounds = {"policies/round_01.json", "policies/round_02.json"}
    assert names == {
        "config.yaml",
        "env.json",
        "search.log",
        "metrics.jsonl",
        "policy.json",
        "finished.json",
        "report.html",
        ".lock",
        *rounds,
    }
    assert (finished / "policy.json").read_text() == (finished / "policies/round_02.json").read_text()
    environment = json.loads((finished / "env.json").read_text())
    assert environment["torch"] == torch.__version__
    assert len((finished / "search.log").read_text().splitlines()) == 2  # one for each round


def test_tensorboard_gets_a_scalar_for_each_number(tmp_path, monkeypatch):
    """The package is an extra: a stand-in takes its place here."""
    written = []

    class SummaryWriter:
        def __init__(self, folder):
            assert folder == str(tmp_path)

        def add_scalar(self, tag, value, step):
            written.append((tag, value, step))

        def flush(self):
            pass

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=SummaryWriter))
    log = folders.tensorboard(tmp_path, ["Rotate", "Invert"], n_steps=100)
    log({"stage": "pre-training", "round": 0, "step": 7, "train_loss": 2.0, "n_composed": 2})
    policy = {"val_loss": 0.5, "entropy": [0.6, 0.8], "pi": [[0.2, 0.8], [0.4, 0.6]], "mu": [0.7, 0.75]}
    log({"stage": "policy", "round": 3, "step": 50, "train_loss": 1.0} | policy)
    assert written[0] == ("pre-training-2/train_loss", 2.0, 7)
    found = {tag: (value, step) for tag, value, step in written[1:]}
    assert found["search/val_loss"] == (0.5, 250)
    assert found["pi/Rotate"] == (pytest.approx(0.3), 250)
    assert found["search/entropy"] == (pytest.approx(0.7), 250)
    assert found["mu/Rotate"] == (0.7, 250)
