"""SIGKILL at random moments: what comes out in the end has the same bits, and nothing that was saved is lost.

A sample of 18 kills runs in `make test`, 210 more in `make test-all` (`-s` shows how often each was finished).
"""

from functools import partial
from pathlib import Path

import pytest
import torch

import crash
from pictures import noises
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


# --- a cache of decoded images ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return noises(tmp_path_factory.mktemp("pictures"), N_PICTURES // 2, size=(64, 64))


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
