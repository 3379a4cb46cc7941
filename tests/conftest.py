"""Shared fixtures, hypothesis's profile, and a torchvision that can be imported beside a CPU build of torch."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import settings

import slackaug
import tiny
from slackaug import cli
from slackaug.auto import learn, timing
from slackaug.engine import ways
from slackaug.engine.gpu.stacked import StackedFits
from slackaug.judge import training
from slackaug.report import live

os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")  # what one test has compiled, another need not
os.unsetenv("COLUMNS")  # which readline, that pytest imports, sets for processes that are started here
torch.set_num_threads(1)  # test tensors are small: a second thread only waits
settings.register_profile("slackaug", derandomize=True, deadline=None, database=None, max_examples=40)
settings.load_profile("slackaug")


def declare_missing_operators() -> torch.library.Library | None:
    """torchvision's wheel is a CUDA build, and beside a CPU torch its library does not load. All that `import
    torchvision` then misses are the schemas of two operators, which no test calls."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return None
    with suppress(OSError):  # the CUDA libraries are not there, or torch is another version
        for library in Path(spec.origin).parent.glob("_C*.so"):
            torch.ops.load_library(library)  # what torchvision does first of all; a second time is harmless
            return None
    declared = torch.library.Library("torchvision", "FRAGMENT")
    declared.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    declared.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return declared


DECLARED = declare_missing_operators()  # kept: the schemas go when the library object does


NEEDS = {  # of tests with a mark: packages, which are looked for and not imported
    "torchvision": ("torchvision",),
    "ray": ("ray",),
    "browser": ("playwright",),
    "figures": ("matplotlib", "tensorboard"),
    "exports": ("torchvision", "timm", "albumentations", "kornia"),
}


SHARE_OF_A_GPU = 0.25


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reasons = {}
    for marker, packages in NEEDS.items():
        missing = [package for package in packages if importlib.util.find_spec(package) is None]
        if missing:
            reasons[marker] = f"not installed: {', '.join(missing)}; `make test` and `make test-browser` have it"
    if not torch.cuda.is_available():
        reasons["gpu"] = "needs a CUDA device, and torch sees none"
    for item in items:
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):  # files may run side by side: one that fills its memory leaves the rest alone
        torch.cuda.set_per_process_memory_fraction(SHARE_OF_A_GPU)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Say whether the libraries of exported files are here, whatever is."""

    def installed(are_here: bool) -> None:
        monkeypatch.setattr("slackaug.export.fidelity.find_spec", lambda name: name if are_here else None)

    return installed


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def images(generator: torch.Generator) -> torch.Tensor:
    return torch.randint(0, 256, (4, 3, 16, 16), generator=generator, dtype=torch.uint8)


@pytest.fixture
def threads_as_before() -> Iterator[None]:
    n = torch.get_num_threads()
    yield
    torch.set_num_threads(n)


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run a command in this process: starting a new one takes seconds."""

    def command(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["slackaug", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return Done(int(stop.value.code or 0), *capsys.readouterr())

    return command


@pytest.fixture
def quick_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of metrics at every step; costs are not measured, and no report is written."""
    monkeypatch.setattr(learn, "METRICS_EVERY", 1)
    monkeypatch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(0.0, 0.0, 0.0))
    monkeypatch.setattr(training, "seconds_of", lambda some: 0.0)
    monkeypatch.setattr(live, "attempt", lambda *_, **__: False)


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings side by side as one step, but neither compiled nor captured."""
    monkeypatch.setattr(ways, "is_eligible", lambda *_: True)
    monkeypatch.setattr(ways, "is_faster", lambda part, found: True)
    monkeypatch.setattr(ways, "precision", lambda: torch.float32)
    monkeypatch.setattr(ways, "StackedFits", partial(StackedFits, compiled=False))


@pytest.fixture(scope="session")
def tiny_npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("data") / "tiny.npz"
    np.savez(path, **tiny.arrays())
    return path


@pytest.fixture(scope="session")
def finished(tiny_npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody interrupted; not to be changed."""
    out: Path = tmp_path_factory.mktemp("runs") / "finished"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learn, "METRICS_EVERY", 1)
        slackaug.search(str(tiny_npz), out, set=tiny.assignments())
    return out
