"""Adding seeds until an interval is narrow."""

import io
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from slackaug.judge import queue
from slackaug.judge.candidates import from_name
from slackaug.judge.intervals import paired
from slackaug.judge.queue import Comparison, conduct_until, seeds_needed, with_seeds
from slackaug.judge.results import by_seed
from slackaug.messages import comparing

NAMES = ["none", "uniform", "uniform-2"]
PAIR = "uniform-2", "none"


@pytest.fixture
def trained(monkeypatch):
    """A function that has trainings differ by some points from seed to seed; it tells what was trained in each turn."""

    def run(until, *, points, n_seeds=2):
        turns = []

        def conduct(work, trainings, on_result, *, is_announced):
            assert is_announced == bool(turns)
            turns.append([(one.name, one.seed) for one in trainings])
            found = {}
            for one in trainings:
                noise = np.random.default_rng([NAMES.index(one.name), one.seed]).normal(0, points / 100)
                found.setdefault(one.name, []).append({"seed": one.seed, "accuracy": 0.8 + noise, "seconds": 2.0})
            on_result(found, len(trainings))
            return found

        monkeypatch.setattr(queue, "conduct", conduct)
        work = Comparison(None, None, None, "cpu", None, SimpleNamespace(), Console(file=io.StringIO(), width=200))
        seen = []
        wanted = partial(with_seeds, work, [from_name(name) for name in NAMES], PAIR, n_seeds)
        needed = partial(seeds_needed, work, PAIR, until / 100)
        found = conduct_until(work, wanted, max(n_seeds, 8), needed, lambda *result: seen.append(result))
        assert seen[-1] == (found, len(turns[-1]))
        return found, turns, work.console.file.getvalue()

    return run


def half_width(found):
    """In points."""
    return 100 * paired(*(by_seed(found[name]) for name in PAIR)).half_width


@pytest.mark.parametrize("points", [0.5, 1.0, 2.0])
def test_the_two_compared_get_seeds_until_the_interval_is_narrow(trained, points):
    found, turns, said = trained(0.6, points=points)
    assert half_width(found) <= 0.6
    assert [one["seed"] for one in found["uniform"]] == [0, 1]  # it is not in the verdict
    assert len(found["none"]) == len(found["uniform-2"])
    before = [half_width({name: found[name][:n] for name in PAIR}) for n in map(n_of_pair, turns[:-1])]
    assert all(width > 0.6 for width in before)
    assert said.count("more seed") == len(before)
    assert n_of_pair(turns[0]) == 8
    assert all(a < b <= 2 * a for a, b in zip(map(n_of_pair, turns), map(n_of_pair, turns[1:]), strict=False))


def n_of_pair(turn):
    return sum(name == PAIR[0] for name, _ in turn)


def test_seeds_are_trained_in_turn(trained):
    _, (turn, *_), _ = trained(50, points=1.0)
    assert turn[:6] == [(name, seed) for seed in (0, 1) for name in NAMES]
    assert turn[6:8] == [("none", 2), ("uniform-2", 2)]


def test_more_seeds_than_needed_are_all_used(trained):
    found, turns, _ = trained(50, points=1.0, n_seeds=12)
    assert len(turns) == 1
    assert [len(found[name]) for name in NAMES] == [12, 12, 12]


def test_it_ends_where_there_is_no_certainty_to_be_had(trained, monkeypatch):
    monkeypatch.setattr(queue, "MAX_SEEDS", 30)
    found, turns, _ = trained(1e-6, points=5.0)
    assert len(found["none"]) == 30
    assert [n_of_pair(turn) for turn in turns] == [8, 16, 30]


def test_it_says_how_many_more_and_how_long_they_take(trained):
    _, turns, said = trained(0.6, points=2.0)
    line = said.splitlines()[0]
    assert "For 0.6 points" in line
    n = int(line.partition("about ")[2].split()[0])
    minutes, seconds = divmod(4 * n, 60)  # two trainings of 2 s for each seed
    assert f"{minutes} min {seconds:02d} s" in line
    assert n > n_of_pair(turns[1]) - 8  # more than in one turn


# --- how many at a time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "is_elsewhere", "sizes"),
    [("cpu", False, [1] * 10), ("cuda", False, [8, 2]), ("cuda:1", False, [8, 2]), ("cuda", True, [1] * 10)],
)
def test_trainings_go_side_by_side_on_a_gpu(device, is_elsewhere, sizes, monkeypatch):
    ran, names = [], []
    monkeypatch.setattr(queue.training, "run", lambda some, tell: ran.append(some))

    class Backend:
        def run(self, jobs, shown):
            names.extend(shown.names)
            for index, job in enumerate(jobs):
                job(lambda share: None)
                shown.done(index)

    Backend.is_elsewhere = is_elsewhere
    console = Console(file=io.StringIO(), width=200)
    work = Comparison(None, None, None, device, None, Backend(), console)
    wanted = [SimpleNamespace(name="uniform-2", seed=seed) for seed in range(10)]
    queue.train(work, wanted, lambda some: f"done: {len(some)}")
    assert [len(some) for some in ran] == sizes
    assert [one for some in ran for one in some] == wanted
    assert names[0] == ("8 trainings side by side" if sizes[0] == 8 else "uniform-2, seed 0")
    assert console.file.getvalue().splitlines() == [f"done: {n}" for n in sizes]


def test_the_cost_is_the_mean_over_candidates_one_of_each_and_not_of_all_of_a_large_grid(monkeypatch):
    measured = []
    monkeypatch.setattr(queue.training, "seconds_of", lambda some: measured.append(some) or float(some[-1].name))
    twice = [SimpleNamespace(name=str(n), seed=seed) for seed in (0, 1) for n in (30, 20, 7)]
    assert queue.seconds_each(twice, 1) == 19.0
    assert [len(some) for some in measured] == [1, 1, 1]
    assert queue.seconds_each(twice, 4) == 7.0  # on a GPU those that go side by side
    assert measured.pop() == twice[-4:]
    measured.clear()
    assert queue.seconds_each([SimpleNamespace(name=str(n), seed=0) for n in range(30)], 1) == 14.0  # 0, 4, ... 28
    assert len(measured) == 8


def test_the_cost_is_said_as_it_comes():
    assert comparing.cost(10, 30, 1) == (
        "10 trainings of about 30 s each, measured over a few steps: 5 min 00 s one after the other."
    )
    assert comparing.cost(10, 6, 8) == "10 trainings, 8 at once: about 1 min 00 s, measured over a few steps."
    assert comparing.cost(3, 6, 8).startswith("3 trainings, 3 at once: ")
    assert "14 min 00 s one after the other" in comparing.study_cost(4, 120, 12, 30)
