"""research/effects.py: costs that are known are found, and known not to be found where there are none."""

import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import contrasts
import effects
from slackaug.augment.policy import Policy
from slackaug.augment.transforms import get_space

NAMES = get_space("cifar").names
COSTS = dict.fromkeys(NAMES, 0.0) | {"Equalize": -0.4, "TranslateX": 0.3}
WORTH = -1000 / 16 * (np.array([*COSTS.values()]) - np.mean([*COSTS.values()]))


class Known:
    """Trainings whose losses are known: what the transformations of a policy cost on average, their number, noise."""

    def __init__(self, seed, costs, size, noise):
        self.problem, self.rng = SimpleNamespace(config=SimpleNamespace(seed=seed)), np.random.default_rng(seed)
        self.costs, self.size, self.noise = torch.tensor([*costs.values()], dtype=torch.float64), size, noise

    def loss(self, policy, *_):
        p = policy.probabilities.mean(0)
        return float(1 + p @ self.costs + self.size * (p > 0).sum().item() + self.noise * self.rng.normal())


def search(seed, costs, size=-0.01, noise=0.02):
    """As contrasts.py stores one, with its own halves."""
    known = Known(seed, costs, size, noise)
    *_, losses = contrasts.gradients(Policy.uniform("cifar", n_composed=2), known, 1, learn_mu=False)
    return {"seed": seed, "names": NAMES, "rounds": [{"losses": losses}]}


def test_the_halves_are_those_that_were_trained_with():
    found = effects.pairs(search(3, COSTS, noise=0.0))
    np.testing.assert_allclose(found.apart @ [*COSTS.values(), -0.01], found.losses, atol=1e-12)
    np.testing.assert_allclose(found.apart[:, :-1].sum(1), 0, atol=1e-12)  # each half has all of its draws
    in_first = (found.apart[:, :-1] > 0).sum(1)
    assert np.array_equal(found.apart[:, -1], 2 * in_first - 17)
    assert np.array_equal((found.apart[:, :-1] > 0).sum(0), np.full(17, 10))


def test_costs_are_found_predict_another_split_and_explain_what_f_says():
    first, second = (effects.pairs(search(seed, COSTS)) for seed in (0, 1))
    assert effects.explained(second, effects.fit(first).costs) > 0.8
    by_size = effects.fit(effects.sizes(first)).costs
    assert effects.explained(effects.sizes(second), by_size) < 0.5
    both = effects.together([first, second])
    mean, width = effects.worth(both)
    assert np.abs(mean - WORTH).max() < 2 * width.max()
    assert (NAMES[mean.argmax()], NAMES[mean.argmin()]) == ("Equalize", "TranslateX")
    assert mean.sum() == pytest.approx(0, abs=1e-9)
    share, (ratio, p) = effects.explained(both, effects.fit(both).costs), effects.f_test(both)
    assert ratio == pytest.approx(share / 17 / ((1 - share) / 23))
    assert p < 1e-9


def test_intervals_hold_the_truth():
    """Of 60 x 17 intervals; with other seeds outside of these bounds about once in 2,000."""
    held = []
    for seed in range(60):
        mean, width = effects.worth(effects.together([effects.pairs(search(seed + k, COSTS)) for k in (0, 100)]))
        held.append(np.abs(mean - WORTH) < width)
    assert 0.92 < np.mean(held) < 0.98


def test_what_is_chance_predicts_nothing():
    """With other seeds the mean is -0.96 with a standard deviation of 0.15, and the last line fails once in 125."""
    none = dict.fromkeys(NAMES, 0.0)
    found = [effects.pairs(search(seed, none, size=0.0)) for seed in range(8)]
    said = [effects.explained(found[i + 1], effects.fit(found[i]).costs) for i in range(7)]
    assert np.mean(said) < 0
    assert min(effects.f_test(one)[1] for one in found) > 0.001


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """The command on a file with these searches, and other settings; without any, on none."""

    def run(*searches, **settings):
        file = tmp_path / "contrasts.json"
        if searches or settings:
            settings = {"whole": True, "rounds": 1} | settings
            file.write_text(json.dumps({"settings": settings, "searches": searches}))
        monkeypatch.setattr(sys, "argv", ["effects.py", str(file)])
        effects.main()

    return run


def test_the_command(judge, capsys):
    judge(search(0, COSTS), search(1, COSTS))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("search 0: 20 pairs, ")
    assert [line.split(" of the pairs of search ")[1][0] for line in lines[2:4]] == ["1", "0"]
    assert float(lines[4].split(": ")[-1].split()[0]) == pytest.approx(2 * -0.01, abs=0.01)
    assert (lines[5].split()[0], lines[-1].split()[0]) == ("Equalize", "TranslateX")
    assert len(lines) == 5 + 17


@pytest.mark.parametrize(
    ("seeds", "changes", "settings", "says"),
    [
        ((0, 1), {"names": NAMES[::-1]}, {}, "the searches are over different spaces"),
        ((0, 0), {}, {}, "a search is there twice"),
        ((0,), {}, {"whole": False}, "not of one round of whole trainings"),
        ((0,), {}, {"rounds": 3}, "not of one round of whole trainings"),
        ((), {}, {"rounds": 1}, "not what contrasts.py leaves"),
        ((), {}, {}, "not what contrasts.py leaves (FileNotFoundError"),
    ],
)
def test_what_is_no_such_file_is_refused(seeds, changes, settings, says, judge, capsys):
    with pytest.raises(SystemExit):
        judge(*(search(seed, COSTS) | (changes if i else {}) for i, seed in enumerate(seeds)), **settings)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("losses", [[[1.0, 1.0]] * 32, [[1.0, math.nan]] * 20])
def test_losses_that_are_no_pairs_are_refused(losses):
    with pytest.raises(SystemExit, match="search 0: expected 20 pairs of losses, as without --mu"):
        effects.pairs(search(0, COSTS) | {"rounds": [{"losses": losses}]})
