"""A week-long search in miniature: nothing grows with the number of steps but the numbers it is to record."""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch

import tiny
from pictures import noise
from slackaug import cli, models
from slackaug.augment.policy import Policy
from slackaug.auto import learn, timing
from slackaug.runs.folders import Run
from slackaug.runs.progress import Display

BYTES_A_STEP = 200  # of metrics: a line every ten steps
N_ROUNDS = 20
N_COMMANDS = 64


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("n_steps", "n_before"), [(1_600, 4), pytest.param(100_000, 1, marks=pytest.mark.slow)])
def test_nothing_grows(n_steps, n_before, tiny_npz, tmp_path):
    """Judged after some tenths of the steps, when what is needed once is loaded."""
    run, book, start = tmp_path / "run", tmp_path / "samples.json", time.monotonic()
    words = tiny.arguments(
        tiny_npz, run, search__n_rounds=N_ROUNDS, search__n_unrolled=n_steps // N_ROUNDS, search__cold_start="false",
        search__n_retrain=0, search__n_composites=1, search__batch=2, pretrain__epochs=1,
    )  # fmt: skip
    assert tiny.ended(tiny.start(watch, words, n_steps, str(book)), 7200) == 0
    samples = json.loads(book.read_text())
    print(samples)
    first, last = samples[n_before], samples[-1]
    assert last["step"] == n_steps
    assert last["bytes"] < 1.02 * first["bytes"]
    assert {sample["n_files"] for sample in samples} == {first["n_files"]}
    assert last["checkpoint_seconds"] < 2 * first["checkpoint_seconds"]
    assert (run / "metrics.jsonl").stat().st_size < BYTES_A_STEP * n_steps
    assert (run / "search.log").stat().st_size < 300 * (N_ROUNDS + (time.monotonic() - start) / 30 + 1)


def watch(words: list[str], n_steps: int, book: str) -> None:
    """Search with a model that is next to nothing, and look at this process ten times: its memory, the files that it
    has open, the fastest checkpoint since the last look, as other work on the machine slows some."""
    torch.set_num_threads(1)
    learn.CHECKPOINT_SECONDS = 0.1  # many more than in a week
    timing.search_seconds = lambda *_: timing.Seconds(0.0, 0.0, 0.0)
    models.build = lambda *_: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, tiny.N_CLASSES))
    show, save, samples, times, done = Display.show, Run.save_checkpoint, [], [], 0

    def show_and_look(self, progress, elapsed):
        nonlocal done
        show(self, progress, elapsed)
        done += bool(progress.round)
        if progress.round and done % (n_steps // 10) == 0:
            n_bytes = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")  # resident
            found = {"step": done, "bytes": n_bytes, "n_files": len(os.listdir("/proc/self/fd"))}
            samples.append(found | {"checkpoint_seconds": min(times, default=0.0)})
            times.clear()
            Path(book).write_text(json.dumps(samples))

    def save_and_time(self, state):
        start = time.perf_counter()
        save(self, state)
        times.append(time.perf_counter() - start)

    Display.show, Run.save_checkpoint = show_and_look, save_and_time
    sys.argv = ["slackaug", *words]
    cli.main()


# --- many at once -----------------------------------------------------------------------------------------------------


def command(words, log):
    with open(log, "w") as file, redirect_stdout(file):
        sys.argv = ["slackaug", *words]
        cli.main()


def run(words, log):
    """A process of its own, as a command has: its exit code, and what it says."""
    return tiny.ended(tiny.start(command, words, str(log)), 600), log.read_text()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("n", [4, pytest.param(N_COMMANDS, marks=pytest.mark.slow)])
def test_many_commands_on_the_same_files_at_once(n, tmp_path, tmp_path_factory):
    """Half of them show a policy, half write a contact sheet; all see the same, and none leaves anything behind."""
    policy, image = str(tmp_path / "policy.json"), str(noise(tmp_path / "cat.png", size=(48, 48)))
    Policy.uniform("cifar").save(policy)
    words = [
        ["show", policy] if i % 2 else ["preview", policy, image, "-o", str(tmp_path / f"sheet{i}.png")]
        for i in range(n)
    ]
    logs = [tmp_path_factory.mktemp("logs") / "log" for _ in words]
    with ThreadPoolExecutor(n) as pool:
        codes, said = zip(*pool.map(run, words, logs), strict=True)
    assert set(codes) == {0}, said
    assert len({*said[1::2]}) == 1
    assert "Rotate" in said[1]
    assert len({path.read_bytes() for path in tmp_path.glob("sheet*.png")}) == 1
    assert len([*tmp_path.iterdir()]) == 2 + n // 2
