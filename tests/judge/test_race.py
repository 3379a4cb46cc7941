"""A race: who is trained next, who drops out, and whether its intervals hold the truth."""

import math

import numpy as np
import pytest
from scipy import stats

from slackaug.config.run_config import RaceConfig
from slackaug.judge.race import difference, race, score
from slackaug.judge.verdicts import is_guessing

CONFIG = RaceConfig(candidates=("none", "a", "b", "c", "uniform-2", "learned"))


def answers(share, n_seeds, n_images=400, seed=0):
    rng = np.random.default_rng([seed, int(1000 * share)])
    return [rng.random(n_images) < share for _ in range(n_seeds)]


def test_the_worse_half_drops_out_and_the_others_are_trained_again():
    names = list(CONFIG.candidates)
    assert race({}, CONFIG).wanted == [
        (name, seed) for seed in range(2) for name in ["uniform-2", *names[:-2], "learned"]
    ]
    shares = dict(zip(names, (0.5, 0.6, 0.7, 0.8, 0.2, 0.9), strict=True))
    found = {name: answers(share, 2) for name, share in shares.items()}
    middle = race(found, CONFIG)
    assert (middle.challengers, middle.dropped) == (["learned", "c"], {"b": 2, "a": 2, "none": 2})
    assert middle.wanted == [(name, seed) for seed in (2, 3) for name in ("uniform-2", "learned", "c")]
    for name, share in (("c", 0.8), ("uniform-2", 0.2), ("learned", 0.3)):
        found[name] += answers(share, 2)
    assert race(found, CONFIG) == (["c"], [], middle.dropped | {"learned": 4}, False)


def test_a_race_may_end_after_any_round_with_the_best_so_far():
    shares = dict(zip(CONFIG.candidates, (0.5, 0.6, 0.7, 0.8, 0.2, 0.9), strict=True))
    found = {name: answers(share, 2) for name, share in shares.items()}
    others = dict.fromkeys(("none", "a", "b", "c"), 2)
    assert race(found, CONFIG, n_rounds=1) == (["learned"], [], others, False)


def test_where_all_guess_after_a_round_the_race_is_over():
    """By the results alone: a race that goes on from its files ends likewise."""
    guesses = [np.arange(400) < 40] * 4
    found = dict.fromkeys(CONFIG.candidates, guesses[:2])
    assert race(found, CONFIG, largest=0.1)[1:] == ([], {}, True)
    assert race(found, CONFIG).wanted  # nothing is known of the classes
    first = {name: one[:1] for name, one in found.items()}
    assert len(race(first, CONFIG, largest=0.1).wanted) == len(CONFIG.candidates)  # not before the end of the round
    learned = race(found | {"a": answers(0.3, 2)}, CONFIG, largest=0.1)
    assert (learned.challengers[0], learned.is_guessing, len(learned.wanted)) == ("a", False, 3 * 2)
    found |= dict.fromkeys([*learned.challengers, "uniform-2"], guesses)
    found["a"] = [np.arange(400) < n for n in (60, 60, 20, 20)]  # by luck until then
    assert race(found, CONFIG, largest=0.1).is_guessing


def test_few_races_of_guesses_go_on():
    """Of 200 with seven candidates, where each has the chance of 1 in 23 to be two errors ahead: about one in seven,
    and 60 or more once in ten million times."""
    going_on = 0
    for i in range(200):
        tables = [answers(0.2, 2, 500, seed=1000 * i + k) for k in range(7)]
        going_on += not is_guessing([score(one) for one in tables], 0.2)
    assert going_on < 60


def test_the_trainings_of_a_race_are_as_many_as_are_counted():
    for n in range(2, 12):
        config = RaceConfig(candidates=tuple(map(str, range(n))), incumbent="0", n_first=3, n_last=5)
        found = {}
        while (runners := race(found, config)).wanted:
            for name, seed in runners.wanted:
                found.setdefault(name, []).append(answers(0.1 * int(name) % 1, 1, 50, seed)[0])
        assert len(runners.challengers) == 1
        assert sum(map(len, found.values())) + 2 * 5 == config.n_trainings
        assert max(map(len, found.values())) == config.rounds[-1][1]


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
