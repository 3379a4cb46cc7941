"""The folder of a run: killed, resumed, full, read-only, damaged, shared and replaced."""

import errno
import hashlib
import json
import math
import os
import shlex
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from disks import Failing, flip_a_bit
from slackaug.messages import search as messages
from slackaug.report import live
from slackaug.runs.checkpoints import Checkpoints, read, to_bytes
from slackaug.runs.folders import Run, RunError

pytestmark = pytest.mark.usefixtures("quick_search")
MOMENTS = [
    *(("pre-training", 0, step) for step in (1, 6)), ("re-training", 1, 1), ("re-training", 2, 2), ("policy", 1, 6),
    ("policy", 2, 5), *(("replace", n, 0) for n in (22, 23, 24, 25)),  # theta_0, momentum, theta, the checkpoint
    ("replace", 39, 0),  # policy.json
]  # fmt: skip


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def copied(finished, out):
    """A finished run."""
    return Path(shutil.copytree(finished, out))


@pytest.fixture
def reopened(copied):
    """A run that has done everything but to say so: it looks at its checkpoints when it is resumed."""
    (copied / "finished.json").unlink()
    return copied


@pytest.fixture
def killed(tiny_npz, tmp_path, out):
    """A function that runs the command until a moment, at which it is killed."""

    def run(moment):
        assert tiny.run_until(tiny.arguments(tiny_npz, out), tmp_path / "log", moment) == -signal.SIGKILL

    return run


@pytest.fixture
def goes_on(command, tiny_npz, out, finished):
    """A function that resumes the run, which ends as one that nobody interrupted; or gives the same command again."""

    def resume(says="", words=None):
        done = command(*(words or tiny.resume(tiny_npz, out)))
        assert done.returncode == 0, done.stderr
        assert says in done.stdout
        assert tiny.outcome(out) == tiny.outcome(finished)

    return resume


@pytest.fixture
def refused(command, out):
    """A function that sees a command end with an error, and the run left as it was."""

    def refuse(words, says, code=2):
        before = tiny.contents(out) if out.exists() else None
        done = command(*words)
        assert (done.returncode, says in " ".join(done.stderr.split())) == (code, True), done.stderr
        assert "Traceback" not in done.stderr
        assert (tiny.contents(out) if out.exists() else None) == before

    return refuse


def replace_checkpoints(run, content):
    """Whole ones, by their checksums, of what the function makes of their paths."""
    for path in Checkpoints(run / "checkpoints").paths():
        made = content(path)
        path.write_bytes(hashlib.sha256(made).digest() + made)


# --- killed and resumed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: "-".join(map(str, moment)))
def test_killed_and_resumed_equals_uninterrupted(moment, killed, goes_on, out):
    killed(moment)
    assert any(out.rglob(".*.tmp")) == (moment[0] == "replace")
    goes_on()


@pytest.mark.usefixtures("threads_as_before")  # the command runs in this process, whose later tests compare bits
def test_resumed_with_other_threads_says_that_bits_may_differ(command, killed, tiny_npz, out):
    killed(("policy", 1, 6))
    began = json.loads((out / "env.json").read_text())["threads"]
    done = command(*tiny.resume(tiny_npz, out, "--threads", began + 1))
    assert f"began with {began} threads and continues with {began + 1} threads" in " ".join(done.stdout.split())


def test_killed_before_anything_was_written(killed, goes_on, refused, tiny_npz, out):
    killed(("replace", 1, 0))
    refused(tiny.resume(tiny_npz, out), "holds no run")
    goes_on(words=tiny.arguments(tiny_npz, out))


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_finished_run_is_left_as_it_is(is_whole, command, tiny_npz, copied, tmp_path):
    """It needs neither its checkpoints nor its data: a folder that was copied without them to another machine."""
    if not is_whole:
        shutil.rmtree(copied / "checkpoints")
    before = tiny.contents(copied)
    done = command(*tiny.resume(tiny_npz if is_whole else tmp_path / "gone.npz", copied))
    assert (done.returncode, "this search is finished" in done.stdout) == (0, True)
    assert tiny.contents(copied) == before


def test_a_policy_that_was_removed_is_written_anew(copied, goes_on):
    (copied / "policy.json").unlink()
    goes_on()


def test_died_before_its_first_checkpoint(finished, out, goes_on):
    out.mkdir()
    shutil.copy(finished / "config.yaml", out)
    (out / "metrics.jsonl").write_text('{"stage": "pre-training", "rou')
    goes_on(messages.NO_CHECKPOINT)


@pytest.mark.parametrize(
    "more",
    [["--seed", "1"], ["--set", "search.n_rounds=3"], ["--config", "x.yaml"], ["--overwrite"], ["--dry-run"],
     ["--model", "resnet18"]],
)  # fmt: skip
def test_resume_with_other_settings_is_refused(more, refused, tiny_npz, copied):
    refused(tiny.resume(tiny_npz, copied, *more), "--resume takes all settings from the run")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--seed", "1"], "(seed is 0 in the run, but 1 here)"),
        (["--model", "resnet18"], "(model is small in the run, but resnet18 here)"),
        (["--no-flip"], "(flip is not set in the run, but off here)"),
        (
            ["--set", "search.n_rounds=3", "--size", "9"],
            "(data.size is not set in the run, but 9 here; search.n_rounds is 2 in",
        ),
    ],
)
def test_what_differs_from_the_run_is_named(more, says, refused, tiny_npz, copied):
    refused(tiny.resume(tiny_npz, copied, *more), says)


def test_settings_that_the_run_has_may_be_given_again(command, tiny_npz, finished):
    same = ["--seed", "0", "--model", "small", "--set", "search.n_rounds=2", "--group-by", ""]
    assert command(*tiny.resume(tiny_npz, finished, *same)).returncode == 0


@pytest.mark.parametrize("says_so", [True, False])
@pytest.mark.parametrize(
    ("old", "new"), [("n_rounds: 2", "n_rounds: 3"), ("n_rounds: 2", "n_rounds: 1"), ("seed: 0", "seed: 5")]
)
def test_resume_with_a_changed_configuration_is_refused(old, new, says_so, refused, tiny_npz, copied):
    if not says_so:
        (copied / "finished.json").unlink()
    config = (copied / "config.yaml").read_text()
    assert old in config
    (copied / "config.yaml").write_text(config.replace(old, new))
    refused(tiny.resume(tiny_npz, copied), "was changed after the run began")


def test_a_run_that_was_replaced_by_half_is_not_the_finished_one(command, refused, tiny_npz, copied):
    """The new configuration is there, and so is all of the old run."""
    (copied / "env.json").unlink()
    (copied / "env.json").mkdir()  # cannot be removed like a file
    assert command(*tiny.arguments(tiny_npz, copied, "--overwrite", "--seed", 7)).returncode == 1
    refused(tiny.resume(tiny_npz, copied), "was changed after the run began")


def test_killed_before_it_says_that_it_is_finished(monkeypatch, finished, reopened, goes_on):
    """The page that a search leaves is written in that time, too."""
    pages = []
    monkeypatch.setattr(live, "attempt", lambda folder, *_, **__: pages.append(folder))
    goes_on()
    assert pages[-1:] == [reopened]
    assert (reopened / "finished.json").read_text() == (finished / "finished.json").read_text()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_a_mark_that_is_not_ours_marks_nothing(content, copied, goes_on):
    (copied / "finished.json").write_bytes(content)
    goes_on()


def test_resume_with_data_that_has_changed_or_is_another_is_refused(command, refused, out, tmp_path):
    data, other = tmp_path / "x.npz", tmp_path / "other.npz"
    np.savez(data, **tiny.arrays())
    np.savez(other, **tiny.arrays(seed=1))
    assert command(*tiny.arguments(data, out)).returncode == 0
    (out / "finished.json").unlink()
    refused(tiny.resume(other, out), "is not the data of this run")
    shutil.copy(other, data)
    refused(tiny.resume(data, out), "its images or labels have changed since this run began")


@pytest.mark.parametrize("exists", [True, False])
def test_resume_without_a_run_is_refused(exists, refused, tiny_npz, out):
    if exists:
        out.mkdir()
    refused(tiny.resume(tiny_npz, out), "holds no run to resume")


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code", "moment"),
    [(signal.SIGINT, 130, ("pre-training", 0, 2)), (signal.SIGTERM, 143, ("policy", 2, 5))],
)
def test_a_signal_saves_and_says_how_to_go_on(number, code, moment, command, finished, tmp_path):
    data, out, log = tmp_path / "my data.npz", tmp_path / "it's a run [1]", tmp_path / "log"
    np.savez(data, **tiny.arrays())
    assert tiny.run_until(tiny.arguments(data, out), log, moment, number) == code
    said, line = log.read_text().splitlines()[-2:]
    assert (said, line[:18]) == ("slackaug: stopped; everything is saved. To continue:", "  slackaug search ")
    assert json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["step"] == moment[2]
    assert read(Checkpoints(out / "checkpoints").paths()[-1])["metrics_size"] == (out / "metrics.jsonl").stat().st_size
    words = shlex.split(line)
    assert command(*words[1:]).returncode == 0
    assert tiny.outcome(out) == tiny.outcome(finished)


# --- disks ------------------------------------------------------------------------------------------------------------


SHORTEST = {"pretrain__epochs": 1, "pretrain__batch": 12, "search__n_rounds": 1, "search__n_retrain": 0,
            "search__n_unrolled": 1}  # fmt: skip
FULL = "cannot be written (No space left on device). What was saved before is intact"


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
        has_run = (out / "config.yaml").exists()
        assert (done.returncode, FULL in done.stderr, "Traceback" in done.stderr) == (1, True, False)
        assert ("--resume" in done.stderr) == has_run
        for path in out.rglob("*.json"):
            json.loads(path.read_text())
        assert not list(out.rglob(".*.tmp"))
        assert command(*tiny.resume(tiny_npz, out) if has_run else words).returncode == 0
        assert tiny.outcome(out) == expected
        shutil.rmtree(out)
    assert done.returncode == 0
    assert n > 20


@pytest.mark.parametrize(
    ("n", "number", "reason"), [(2, errno.ENOSPC, "No space left on device"), (1, errno.EACCES, "Permission denied")]
)
def test_a_disk_that_cannot_be_written_costs_nothing(n, number, reason, refused, monkeypatch, tiny_npz, copied):
    """The lock is written first, then config.yaml. Rights do not bind root, so the refusal is played."""
    with monkeypatch.context() as patch:
        Failing(patch, n, number)
        words = tiny.arguments(tiny_npz, copied, "--overwrite", "--seed", 1)
        refused(words, f"cannot be written ({reason})", code=1)


# --- checkpoints ------------------------------------------------------------------------------------------------------


DAMAGES = {
    "half written": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: path.write_bytes(b""),
    "one bit": flip_a_bit,
    "not ours": lambda path: path.write_bytes(hashlib.sha256(b"hello").digest() + b"hello"),
    "missing": Path.unlink,
}


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        *(("[0-9]", damage) for damage in DAMAGES if damage != "missing"),
        ("theta-", "one bit"),
        ("momentum-", "missing"),
    ],
)
def test_a_damaged_checkpoint_costs_only_itself(kind, damage, reopened, goes_on):
    path = max((reopened / "checkpoints").glob(f"{kind}*.pt"), key=lambda path: path.stat().st_mtime_ns)
    DAMAGES[damage](path)
    what = "missing" if damage == "missing" else "damaged"
    goes_on(messages.older_checkpoint(f"{path}: {what}"))
    assert all(map(read, Checkpoints(reopened / "checkpoints").paths()))  # the damaged one has been replaced


@pytest.mark.parametrize(("kind", "damage"), [("theta_0-*", Path.unlink), ("[0-9]*.pt", flip_a_bit)])
def test_no_checkpoint_can_be_read(kind, damage, refused, tiny_npz, reopened):
    for path in (reopened / "checkpoints").glob(kind):
        damage(path)
    refused(tiny.resume(tiny_npz, reopened), "no checkpoint can be read; start anew with --overwrite", code=1)


LATER = 10**400  # a round after the last one, so that the search is at its end
STRANGE = [
    *((("stage",), value) for value in (None, 7, {})), *((("given",), value) for value in (None, {})),
    *((("n_over",), value) for value in (7, 0)), *((("given", "theta_0"), value) for value in (None, 7, {})),
    (("given", "phi"), None), (("given", "is_done"), False),
    *((("stage", "search"), value) for value in ({}, None, {"round": 2, "step": 0})),
    *((("stage", "engine"), value) for value in (7, {})),
    *((("stage", "search", "round"), value) for value in ("x", None, LATER)),
    *((("metrics_size",), value) for value in ("x", -1, None)),
    *((("seconds",), value) for value in ("x", None, math.nan, math.inf, -1.0)),
]  # fmt: skip


@pytest.mark.parametrize(("where", "value"), STRANGE, ids=lambda given: str(given)[:40])
def test_a_whole_checkpoint_that_is_no_search_s_is_one_message(where, value, command, tiny_npz, reopened):
    def changed(path):
        """As a small file, without parts of its own."""
        state = place = read(path)
        for key in where[:-1]:
            place = place[key]
        place[where[-1]] = value
        return to_bytes(state | {"parts": []})

    replace_checkpoints(reopened, changed)
    done = command(*tiny.resume(tiny_npz, reopened))
    says = f"{reopened}: its checkpoint is not one of this slackaug's searches; start anew" in done.stderr
    assert (done.returncode, says) == ((0, False) if value == LATER else (2, True)), done.stderr


# --- who may use a folder ---------------------------------------------------------------------------------------------


def test_one_process_at_a_time(command, tiny_npz, out, goes_on, tmp_path):
    words = tiny.arguments(tiny_npz, out), str(tmp_path / "log")
    first = tiny.start(tiny.live_and_die, *words, ("policy", 1, 5), signal.SIGSTOP)
    while '"policy"' not in ((out / "metrics.jsonl").read_text() if (out / "metrics.jsonl").exists() else ""):
        assert first.is_alive()
        time.sleep(0.01)
    for words in (tiny.resume(tiny_npz, out), tiny.arguments(tiny_npz, out, "--overwrite")):
        done = command(*words)
        assert (done.returncode, "another process is working on this run" in done.stderr) == (2, True)
    first.kill()
    first.join()
    first.close()
    goes_on()


@pytest.mark.parametrize(
    ("file", "more", "says"),
    [("config.yaml", [], "is not empty; go on with --resume, start anew with --overwrite"),
     ("thesis.tex", ["--overwrite"], "holds no run, so --overwrite does not touch it")],
)  # fmt: skip
def test_a_folder_that_may_not_be_written_to_is_refused(file, more, says, refused, tiny_npz, out):
    out.mkdir()
    (out / file).write_text("x")
    refused(tiny.arguments(tiny_npz, out, *more), says)


def test_overwrite_replaces_a_run_and_keeps_what_is_not_ours(command, tiny_npz, finished, copied):
    foreign = [copied / name for name in ("notes.txt", "policies/mine.json", "eval/plot.svg")]
    names = ("policies/round_07.json", "calibration.json", "answer.json", "race/trials/a.json", "report.html",
             "eval/results.csv", ".env.json.tmp", f"checkpoints/theta-{'0' * 16}.pt")  # fmt: skip
    stale = [copied / name for name in names]
    for path in (*foreign, *stale):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert command(*tiny.arguments(tiny_npz, copied, "--overwrite", "--seed", 1)).returncode == 0
    assert all(path.read_text() == "x" for path in foreign)
    assert not any(path.exists() for path in stale)
    foreign[1].unlink()
    assert tiny.outcome(copied)["policy.json"]["pi"] != tiny.outcome(finished)["policy.json"]["pi"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "x").write_text("x")
    with pytest.raises(RunError, match="is a file, expected a folder"):
        Run.create(tmp_path / "x", "")


def test_what_a_run_writes(finished):
    names = {path for path in tiny.contents(finished) if not path.startswith("checkpoints/")}
    rounds = {"policies/round_01.json", "policies/round_02.json"}
    own = {"config.yaml", "env.json", "search.log", "metrics.jsonl", "policy.json", "finished.json", "report.html"}
    assert names == {".lock", *own, *rounds}
    assert (finished / "policy.json").read_text() == (finished / "policies/round_02.json").read_text()
    assert json.loads((finished / "env.json").read_text())["torch"] == torch.__version__
    assert len((finished / "search.log").read_text().splitlines()) == 2  # one for each round
