"""Every command and every line of Python in the README and the guide runs, in order, on a few tiny images.

The text is what a reader would type; `shrink` alone makes it quick. An HTML comment above a block says why it is `not
run`, or which library it `needs`: such a page runs as a whole where that library is installed.
"""

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import slackaug
from slackaug.auto import timing
from slackaug.config import presets
from slackaug.config.run_config import RaceConfig, RunConfig
from slackaug.data import Dataset
from slackaug.judge import training

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
SHOWN = re.compile(r"^(?:<!-- (not run|needs): ([^\n]*) -->\n)?```(bash|python)\n(.*?)^```", re.S | re.M)
CLASSES = ("cat", "dog")


class Block(NamedTuple):
    mark: str  # "not run", "needs" or nothing
    why: str
    kind: str
    text: str


def blocks(path: Path) -> list[Block]:
    return [Block(*found) for found in SHOWN.findall(path.read_text(encoding="utf-8"))]


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Presets of a blink, whose cost is not measured; no browser."""

    def tiny(made: Callable[..., RunConfig]) -> Callable[..., RunConfig]:
        def preset(data: Dataset, model: str | None = None) -> RunConfig:
            config = made(data, model)
            fit = replace(config.pretrain, epochs=1, batch=4)
            steps = replace(
                config.search, n_rounds=2, n_retrain=1, n_unrolled=1, n_composites=2, batch=4, calibrate=False
            )
            return replace(config, pretrain=fit, search=steps, evaluate=fit, race=RaceConfig())

        return preset

    patch.setattr(presets, "PRESETS", {name: tiny(made) for name, made in presets.PRESETS.items()})
    patch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(0.0, 0.0, 0.0))
    patch.setattr(timing, "step_seconds", lambda *_: timing.StepSeconds(8, 1, 0.0, 0.0, 0.0, 0.0))
    patch.setattr(training, "seconds_of", lambda one: 0.0)
    patch.setattr("webbrowser.open", lambda address: True)


def picture(path: Path, seed: int, width: int = 16, height: int = 16) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder: images, what pages take for granted, and the run of the quickstart."""
    home = tmp_path_factory.mktemp("home")
    lines = ["path,label,patient"]
    for i, name in enumerate(CLASSES * 6):
        picture(home / "pets" / ("test" if i > 7 else "train") / name / f"{i}.png", i)
        picture(home / "photos" / name / f"{i}.png", 100 + i, 18 + i, 16)
        picture(home / "scans" / name / f"patient{i // 2:03}_{i}.png", 200 + i)
        lines.append(f"scans/{name}/patient{i // 2:03}_{i}.png,{name},{i // 2}")
    (home / "scans.csv").write_text("\n".join(lines))
    shutil.copytree(home / "pets", home / "elsewhere" / "pets")
    for name in CLASSES:
        picture(home / f"{name}.jpg", 300)
    Image.fromarray(np.full((16, 16), 4095, dtype=np.uint16)).save(home / "scan.png")
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        patch.chdir(home)
        slackaug.search("pets/", "runs/pets")
        slackaug.evaluate("pets/", baselines=["none"], seeds=1, save_models="made", out="runs/made")
    shutil.copy(next((home / "made").iterdir()), home / "trained.safetensors")
    return home


def names() -> dict[str, Any]:
    """What a training loop of a reader has already."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, len(CLASSES)))
    batch = torch.rand(4, 3, 16, 16)
    return {
        "slackaug": slackaug,
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "criterion": nn.CrossEntropyLoss(),
        "normalize": lambda images: (images - 0.5) / 0.25,
        "loader": [(batch, torch.tensor([0, 1, 0, 1]))],
        "batch": batch,
        "image": Image.new("RGB", (16, 16)),
    }


def run(path: Path, folder: Path, command: Callable[..., Any], installed: set[str]) -> None:
    """The page's blocks, in order: one namespace for all its Python, one folder for all its files."""
    given = names()
    for block in blocks(path):
        if block.mark == "not run" or (block.mark == "needs" and block.why not in installed):
            continue
        if block.kind == "python":
            exec(compile(block.text, path.name, "exec"), given)
            continue
        for line in block.text.splitlines():
            program, *words = shlex.split(line, comments=True)
            assert program == "slackaug"
            if words[0] == "search" and "runs/pets" in words and "--resume" not in words:
                shutil.rmtree(folder / "runs" / "pets")  # this page makes that run itself
            done = command(*words)
            assert done.returncode == 0, f"{line}\n{done.stderr}"


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(home, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    shrink(monkeypatch)
    return tmp_path / "here"


def needing(library: str) -> list[Path]:
    return [path for path in PAGES if any(block[:2] == ("needs", library) for block in blocks(path))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_a_page_shows_runs(path, here, command):
    run(path, here, command, set())


@pytest.mark.torchvision
@pytest.mark.parametrize("path", needing("torchvision"), ids=lambda path: path.name)
def test_it_runs_with_torchvision(path, here, command):
    run(path, here, command, {"torchvision"})


@pytest.mark.figures
@pytest.mark.parametrize("path", needing("tensorboard"), ids=lambda path: path.name)
def test_it_runs_with_tensorboard(path, here, command):
    run(path, here, command, {"tensorboard"})


def test_every_mark_says_why_and_stands_above_a_block():
    for path in PAGES:
        marks = re.findall(r"<!-- (?:not run|needs):", path.read_text(encoding="utf-8"))
        found = [block for block in blocks(path) if block.mark]
        assert len(found) == len(marks), f"{path.name}: a mark without a block of bash or Python below it"
        for block in found:
            assert block.why in ("torchvision", "tensorboard") if block.mark == "needs" else len(block.why.split()) > 3


def test_there_are_pages_and_blocks():
    assert sum(len(blocks(path)) for path in PAGES) > 30
