"""A search of very many steps on a model that is next to nothing, watched from inside: memory, files, time."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

import tiny
from slackaug import cli, models
from slackaug.auto import learn
from slackaug.runs.folders import Run
from slackaug.runs.progress import Display, Standing

N_CLASSES, N_VALUES = tiny.N_CLASSES, 3 * 8 * 8
N_ROUNDS = 20
PAGE = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    step: int
    memory: int  # bytes that are resident
    n_files: int  # open
    checkpoint_seconds: float  # of the fastest since the sample before: other work on the machine slows some


class Soaked(NamedTuple):
    samples: list[Sample]
    log_bytes: int
    metrics_bytes: int
    seconds: float


def soak(folder: Path, data: Path, n_steps: int) -> Soaked:
    """Search in a process of its own; a tenth of the steps between two samples."""
    start, book = time.monotonic(), folder / "samples.json"
    process = tiny.FORK.Process(target=search, args=(words(folder / "run", data, n_steps), n_steps, str(book)))
    process.start()
    process.join()
    assert process.exitcode == 0
    samples = [Sample(*values) for values in json.loads(book.read_text())]
    sizes = [(folder / "run" / name).stat().st_size for name in ("search.log", "metrics.jsonl")]
    return Soaked(samples, *sizes, time.monotonic() - start)


def words(out: Path, data: Path, n_steps: int) -> list[str]:
    rounds = {"search__n_rounds": N_ROUNDS, "search__n_unrolled": n_steps // N_ROUNDS, "search__cold_start": "false"}
    least = {"search__n_retrain": 0, "search__n_composites": 1, "search__batch": 2, "pretrain__epochs": 1}
    return tiny.arguments(data, out, **rounds, **least)


def search(arguments: list[str], n_steps: int, book: str) -> None:
    """In the process that is watched. A checkpoint every tenth of a second: many more than in a week."""
    torch.set_num_threads(1)
    learn.CHECKPOINT_SECONDS = 0.1
    learn.search_seconds = lambda *_: 0.0
    models.build = lambda *_: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(N_VALUES, N_CLASSES))
    show, save = Display.show, Run.save_checkpoint
    samples: list[Sample] = []
    times: list[float] = []
    done = 0

    def show_and_sample(self: Display, progress: Standing, elapsed: float) -> None:
        nonlocal done
        show(self, progress, elapsed)
        done += bool(progress.round)
        if progress.round and done % (n_steps // 10) == 0:
            fastest = min(times, default=0.0)
            samples.append(Sample(done, memory(), len(os.listdir("/proc/self/fd")), fastest))
            times.clear()
            Path(book).write_text(json.dumps(samples))

    def save_and_time(self: Run, state: dict[str, Any]) -> None:
        start = time.perf_counter()
        save(self, state)
        times.append(time.perf_counter() - start)

    Display.show, Run.save_checkpoint = show_and_sample, save_and_time  # type: ignore[method-assign]
    sys.argv = ["slackaug", *arguments]
    cli.main()


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
