"""A search that takes a blink: in this process, or in one that a signal ends at a chosen moment."""

import json
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from slackaug import cli, models, rng
from slackaug.auto import learn
from slackaug.runs.progress import Display, Standing

SETTINGS = {
    "pretrain": {"epochs": 2, "batch": 4},  # 6 steps
    "search": {
        "n_rounds": 2, "n_retrain": 3, "n_unrolled": 3, "n_composites": 2, "batch": 4, "calibrate": "false",
    },
}  # fmt: skip
N_CLASSES = 3
Moment = tuple[str, int, int]  # stage, round and step; or "replace", the number of a write, 0

FORK = multiprocessing.get_context("forkserver")  # imports torch once for all processes
FORK.set_forkserver_preload(
    [
        "crash",
        "slackaug.commands.study",
        "slackaug.report.page",
        "slackaug.report.live",
        "torch.fx.experimental.symbolic_shapes",
    ]
)


def arrays(n_train: int = 24, n_test: int = 6, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "train_images": random.integers(0, 256, (n_train, 8, 8, 3), dtype=np.uint8),
        "train_labels": np.arange(n_train) % N_CLASSES,
        "test_images": random.integers(0, 256, (n_test, 8, 8, 3), dtype=np.uint8),
        "test_labels": np.arange(n_test) % N_CLASSES,
    }


def network() -> nn.Module:
    """A convolution with batch-norm, for images of any size and 4 classes."""
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(6, 4),
    )  # fmt: skip
    models.initialise(model, rng.generator(0, "model"))
    return model


def assignments(**changes: Any) -> list[str]:
    """`search__n_rounds=5` as a setting, on top of SETTINGS."""
    flat = {f"{part}.{name}": value for part, values in SETTINGS.items() for name, value in values.items()}
    flat = {"n_composed": 3, "confirm": "false"} | flat
    flat |= {name.replace("__", "."): value for name, value in changes.items()}
    return [f"{name}={value}" for name, value in flat.items()]


def arguments(data: object, out: object, *more: object, **changes: Any) -> list[str]:
    """Of the command, with tiny settings."""
    settings = [word for text in assignments(**changes) for word in ("--set", text)]
    return ["search", str(data), "-o", str(out), *settings, *map(str, more)]


def resume(data: object, out: object, *more: object) -> list[str]:
    return ["search", str(data), "-o", str(out), "--resume", *map(str, more)]


def outcome(run: Path) -> dict[str, Any]:
    """All that must not depend on whether a run was interrupted."""
    found: dict[str, Any] = {"metrics.jsonl": (run / "metrics.jsonl").read_text()}
    for path in (run / "policy.json", *sorted((run / "policies").iterdir())):
        document = json.loads(path.read_text())
        document["learned"].pop("seconds")
        found[path.name] = document
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def start(words: list[str], log: Path, moment: Moment, number: int) -> Any:
    """A process with the command, which sends itself the signal at the moment; with a checkpoint after every step."""
    process = FORK.Process(target=live_and_die, args=(words, str(log), moment, number), daemon=True)
    process.start()
    return process


def run_until(words: list[str], log: Path, moment: Moment, number: int = signal.SIGKILL) -> int:
    process = start(words, log, moment, number)
    process.join(60)
    code = process.exitcode
    process.close()
    assert code is not None
    return int(code)


def killed_and_whole(data: object, folder: Path, moment: Moment, **changes: Any) -> tuple[Path, Path]:
    """A run that was killed at the moment and taken up again, and the same run that nobody interrupted."""
    cut, whole, log, never = folder / "cut", folder / "whole", folder / "log", ("never", 0, 0)
    assert run_until(arguments(data, whole, **changes), log, never) == 0
    assert run_until(arguments(data, cut, **changes), log, moment) == -signal.SIGKILL
    assert run_until(resume(data, cut), log, never) == 0
    return cut, whole


def live_and_die(words: list[str], log: str, moment: Moment, number: int) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    torch.set_num_threads(1)
    learn.CHECKPOINT_SECONDS = -1.0
    learn.METRICS_EVERY = 1
    learn.search_seconds = lambda *_: 0.0
    show, replace, n_writes = Display.show, os.replace, 0

    def show_or_die(self: Display, progress: Standing, elapsed: float) -> None:
        if (progress.stage, progress.round, progress.step) == moment:
            os.kill(os.getpid(), number)
        show(self, progress, elapsed)

    def replace_or_die(*paths: Any) -> None:
        nonlocal n_writes
        n_writes += 1
        if moment[:2] == ("replace", n_writes):
            os.kill(os.getpid(), number)
        replace(*paths)

    Display.show, os.replace = show_or_die, replace_or_die  # type: ignore[method-assign]
    sys.argv = ["slackaug", *words]
    cli.main()
