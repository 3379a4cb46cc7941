"""The design of a race: who is trained next, who drops out, and whether its intervals hold the truth."""

import math

import numpy as np
import pytest
from scipy import stats

from racing import Difference, Kind, RaceConfig, difference, last_two, race, verdict

CONFIG = RaceConfig(n_first=3, n_race=5)


def answers(share, n_seeds, n_images=400, seed=0):
    rng = np.random.default_rng([seed, int(1000 * share)])
    return [rng.random(n_images) < share for _ in range(n_seeds)]


def test_seeds_are_wanted_in_turn_and_those_behind_drop_out():
    names = ["none", "weak", "strong"]
    assert race({}, names, 2, CONFIG).wanted == [(name, seed) for seed in range(3) for name in names]
    found = {"none": answers(0.5, 3), "weak": answers(0.9, 3), "strong": answers(0.91, 3)}
    assert race(found, names, 2, CONFIG) == (["strong", "weak"], [])  # two are left: the race is over
    level = {name: answers(0.9, 3, seed=i) for i, name in enumerate(names)}
    alive, wanted = race(level, names, 2, CONFIG)
    assert sorted(alive) == sorted(names)
    assert sorted(wanted) == [(name, 3) for name in sorted(names)]


def test_the_incumbent_is_among_the_last_two_while_it_is_in_the_race():
    assert last_two(["a", "b", "c"], "c") == ("a", "c")
    assert last_two(["a", "b", "c"], "a") == ("b", "a")
    assert last_two(["a", "b"], "gone") == ("b", "a")


def test_while_each_fold_is_used_once_it_is_student_s_t_by_seed():
    a, b = answers(0.9, 4, seed=1), answers(0.85, 4, seed=2)
    gaps = [x.mean() - y.mean() for x, y in zip(a, b, strict=True)]
    found = difference(a, b, n_folds=4)
    assert found.mean == pytest.approx(np.mean(gaps))
    assert found.error == pytest.approx(math.hypot(stats.sem(gaps), math.sqrt(2) / 1600))
    assert found.reach(0.05) == pytest.approx(found.error * stats.t.ppf(0.975, 3))


def test_equal_answers_are_no_certainty():
    same = answers(0.9, 4)
    assert difference(same, same, n_folds=2).reach(0.05) > 0


@pytest.mark.parametrize("n_folds", [1, 2, 8])
def test_intervals_hold_the_truth_over_seeds_and_images(n_folds):
    """600 comparisons of equals by 8 seeds and 600 images, each with a taste for images of its own. A right interval
    of 95 % fails the lower bound (four standard errors) 3 in 100,000 times."""
    rng, held = np.random.default_rng(0), 0

    def train(logits, seed):
        shown = logits[seed % n_folds :: n_folds] + rng.normal(0, 0.1)
        return rng.random(len(shown)) < 1 / (1 + np.exp(-shown))

    for _ in range(600):
        both = 2 + rng.normal(0, 2, 600) + rng.normal(0, 1, (2, 600))
        a, b = ([train(logits, seed) for seed in range(8)] for logits in both)
        found = difference(a, b, n_folds)
        held += abs(found.mean) <= found.reach(0.05)
    assert held / 600 > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 600)


@pytest.mark.parametrize(
    ("mean", "error", "kind", "use"),
    [
        (0.02, 0.001, Kind.BETTER, "challenger"),
        (-0.02, 0.001, Kind.BETTER, "incumbent"),
        (0.001, 0.0001, Kind.EQUAL, "simpler"),
        (0.01, 0.006, Kind.AHEAD, "challenger"),
        (0.01, 0.02, Kind.UNKNOWN, "incumbent"),
        (-0.01, 0.02, Kind.UNKNOWN, "incumbent"),
    ],
)
def test_the_last_word(mean, error, kind, use):
    found = verdict("challenger", "incumbent", "incumbent", Difference(mean, error, 30), worth=0.0025)
    assert found.kind is kind
    assert found.use == use.replace("simpler", "incumbent")
    assert found.gain.mean == (mean if found.use == "challenger" else -mean)
