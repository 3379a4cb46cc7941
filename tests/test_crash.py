"""SIGKILL at random moments: what comes out in the end has the same bits, and nothing that was saved is lost.

A sample of 18 kills runs in `make test`, 210 more in `make test-all` (`-s` shows how often each was finished).
"""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import crash
import tiny
from slackaug.data import load, worker

N_PICTURES = 400


WORKS = {
    "search": crash.search,
    "evaluation": crash.evaluation,
    "evaluation with two jobs": partial(crash.evaluation, more=("--jobs", 2, "--threads", 1)),
    "study": crash.study,
}
MANY = {"search": 80, "evaluation": 50, "evaluation with two jobs": 10, "study": 30}
FEW = {"search": 6, "evaluation": 4, "evaluation with two jobs": 1, "study": 2}
IN_MINUTES = pytest.mark.slow, pytest.mark.timeout(1800)


@pytest.mark.parametrize(("name", "n"), [*FEW.items(), *(pytest.param(*one, marks=IN_MINUTES) for one in MANY.items())])
def test_killed_at_random_moments(name, n, tiny_npz, tmp_path):
    crash.torment(WORKS[name](tiny_npz), crash.command, tmp_path, n)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ['"pre-training"', '"re-training", "round": 2', '"policy", "round": 2'])
def test_the_command_killed_from_outside(wanted, tmp_path):
    """`python -m slackaug` as users have it, killed when a line of metrics shows up."""
    settings = {"pretrain__epochs": 6, "pretrain__batch": 32, "search__n_retrain": 40, "search__n_unrolled": 40}
    program, env = [sys.executable, "-m", "slackaug"], os.environ | {"OMP_NUM_THREADS": "1"}
    whole, cut = (tiny.arguments("digits", tmp_path / name, **settings) for name in ("whole", "cut"))
    subprocess.run([*program, *whole], check=True, env=env, capture_output=True)
    process = subprocess.Popen([*program, *cut], env=env, stdout=subprocess.DEVNULL)
    metrics = tmp_path / "cut" / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and wanted in metrics.read_text()):
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    subprocess.run([*program, *tiny.resume("digits", tmp_path / "cut")], check=True, env=env, capture_output=True)
    assert tiny.outcome(tmp_path / "cut") == tiny.outcome(tmp_path / "whole")


# --- a cache of decoded images ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for i in range(N_PICTURES):
        path = folder / f"class {i % 2}" / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    return folder


def build(pictures: Path) -> crash.Work:
    def words(out: Path) -> list[str]:
        return [str(pictures), str(out)]

    def outcome(out: Path) -> bytes:
        """The pixels, as a later process finds them, and in how many records."""
        found = load(str(pictures), cache=out)
        (folder,) = out.iterdir()
        assert len(worker.unpack((folder / "index.bin").read_bytes())) == N_PICTURES
        return found.train.images[torch.arange(len(found.train.labels))].numpy().tobytes() + bytes(found.train.labels)

    return crash.Work(words, words, "", outcome)


def lost_nothing(out: Path) -> None:
    """Each process decodes what the ledger does not say is done already, and verifies the rest."""
    n_done = 0
    for verb, *rest in crash.lines(crash.ledger(out)):
        if verb == "verifying decoded images":
            assert int(rest[1]) >= n_done
        elif verb == "decoding images":
            n_done = N_PICTURES - int(rest[1]) + int(rest[0])


@pytest.mark.parametrize("n", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_a_cache_that_is_killed_while_it_is_built(n, pictures, tmp_path):
    crash.torment(build(pictures), crash.build_cache, tmp_path, n)
    for path in tmp_path.glob("killed *.ledger"):
        lost_nothing(path.with_suffix(""))
