"""A search that takes a blink: in this process, or in one that a signal ends at a chosen moment."""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from slackaug import cli, models, rng
from slackaug.auto import learn, timing
from slackaug.data import Dataset, Split, build
from slackaug.runs.progress import Display, Standing

SETTINGS = {  # 6 steps of pre-training
    "n_composed": 3, "race.candidates": "[]", "pretrain.epochs": 2, "pretrain.batch": 4, "search.n_rounds": 2,
    "search.n_retrain": 3, "search.n_unrolled": 3, "search.n_composites": 2, "search.batch": 4,
    "search.calibrate": "false",
}  # fmt: skip
EVALUATION = ["evaluate.epochs=1", "evaluate.batch=4", "evaluate.lr=0.05"]  # 6 steps
TIMES = ("seconds", "images_per_second")
N_CLASSES = 3
Moment = tuple[str, int, int]  # stage, round and step; or "replace", the number of a write, 0
NEVER = "never", 0, 0

FORK = multiprocessing.get_context("forkserver")  # imports torch once for all processes
FORK.set_forkserver_preload(["crash", "slackaug.commands.study", "slackaug.report.page", "slackaug.report.live",
                             "torch.fx.experimental.symbolic_shapes"])  # fmt: skip


def arrays(n_train: int = 24, n_test: int = 6, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "train_images": random.integers(0, 256, (n_train, 8, 8, 3), dtype=np.uint8),
        "train_labels": np.arange(n_train) % N_CLASSES,
        "test_images": random.integers(0, 256, (n_test, 8, 8, 3), dtype=np.uint8),
        "test_labels": np.arange(n_test) % N_CLASSES,
    }


def coloured(n_train: int = 48, n_test: int = 6) -> dict[str, Any]:
    """As many as a race needs; a class is a colour, which a network learns in a few steps."""
    found = arrays(n_train, n_test)
    for part in ("train", "test"):
        colours = 190 * np.eye(N_CLASSES, dtype=np.uint8)[found[f"{part}_labels"]]
        found[f"{part}_images"] = found[f"{part}_images"] // 4 + colours[:, None, None]
    return found


def with_duplicates(path: Path) -> Path:
    """Two of the six test images are training images, too."""
    found = arrays()
    found["test_images"][:2] = found["train_images"][3:5]
    np.savez(path, **found)
    return path


def dataset(name: str = "own", n: int = 40, size: int = 32) -> Dataset:
    images = torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(n) % 2
    return build(name, Split(images, labels), Split(images[:4], labels[:4]), ["a", "b"])


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
    settings = SETTINGS | {name.replace("__", "."): value for name, value in changes.items()}
    return [f"{name}={value}" for name, value in settings.items()]


def arguments(data: object, out: object, *more: object, **changes: Any) -> list[str]:
    """Of the command, with tiny settings."""
    settings = [word for text in assignments(**changes) for word in ("--set", text)]
    return ["search", str(data), "-o", str(out), *settings, *map(str, more)]


def resume(data: object, out: object, *more: object) -> list[str]:
    return ["search", str(data), "-o", str(out), "--resume", *map(str, more)]


def evaluate_words(data: object, out: object | None, *more: object) -> list[str]:
    found = ["evaluate", str(data), *(["-o", str(out)] if out is not None else [])]
    return [*found, *(word for text in EVALUATION for word in ("--set", text)), *map(str, more)]


def study_words(data: object, out: object, *more: object, recipe: str = "digits") -> list[str]:
    """The recipe for the digits has 2 searches and 2 evaluations of each."""
    settings = [word for text in (*assignments(), *EVALUATION) for word in ("--set", text)]
    return ["study", recipe, "-o", str(out), "--data", str(data), *settings, *map(str, more)]


def study_resume(out: object, *more: object) -> list[str]:
    return ["study", "-o", str(out), "--resume", *map(str, more)]


def policy(path: Path) -> dict[str, Any]:
    """The document, without how long it took."""
    document: dict[str, Any] = json.loads(path.read_text())
    document["learned"].pop("seconds")
    return document


def outcome(run: Path) -> dict[str, Any]:
    """All that must not depend on whether a run was interrupted."""
    policies = {path.name: policy(path) for path in (run / "policy.json", *sorted((run / "policies").iterdir()))}
    return {"metrics.jsonl": (run / "metrics.jsonl").read_text()} | policies


def evaluate_outcome(out: Path) -> list[dict[str, Any]]:
    """All of the results that must not depend on interruptions, jobs or the machine."""
    document = json.loads((out / "eval" / "results.json").read_text())
    for found in [one for row in document["policies"] for one in (row, *row["trials"])]:
        for key in TIMES:
            del found[key]
    return [
        document[key] for key in ("protocol", "class_names", "reference", "answer", "use", "duplicates", "policies")
    ]


def study_outcome(out: Path) -> dict[str, Any]:
    """Likewise: accuracies and policies."""
    document = json.loads((out / "study.json").read_text())
    found = {key: document[key] for key in ("rows", "answer", "use", "others", "stability", "duplicates")}
    found |= {path.parent.name: policy(path) for path in sorted(out.glob("searches/*/policy.json"))}
    for path in sorted(out.glob("eval/trials/*.json")):
        result = json.loads(path.read_text())
        found[path.name] = {key: value for key, value in result.items() if key not in TIMES}
    return found


def succeeded(found: Any) -> Any:
    """Of a command."""
    assert found.returncode == 0, found.stderr
    return found


def refused(found: Any, *facts: str) -> None:
    """Of a command: in one message, as wrong input."""
    text = " ".join(found.stderr.replace("│", " ").split())
    assert found.returncode == 2, text
    assert [fact for fact in facts if fact not in text] == []
    assert "Traceback" not in text


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def start(target: Callable[..., None], *given: object, daemon: bool = True) -> Any:
    """A process of its own, with torch in it already."""
    process = FORK.Process(target=target, args=given, daemon=daemon)
    process.start()
    return process


def ended(process: Any, seconds: float = 60.0) -> int:
    """The exit code."""
    process.join(seconds)
    code = process.exitcode
    process.kill()
    assert code is not None
    return int(code)


def run_until(words: list[str], log: Path, moment: Moment, number: int = signal.SIGKILL) -> int:
    """The exit code of a command that sends itself the signal at the moment."""
    return ended(start(live_and_die, words, str(log), moment, number))


def prepare(log: str | Path) -> None:
    """What it says goes to a file; a checkpoint after every step; the cost is not measured."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    torch.set_num_threads(1)
    learn.CHECKPOINT_SECONDS, learn.METRICS_EVERY = -1.0, 1
    timing.search_seconds = lambda *_: timing.Seconds(0.0, 0.0, 0.0)


def live_and_die(words: list[str], log: str, moment: Moment, number: int) -> None:
    prepare(log)
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
