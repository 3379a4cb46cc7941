"""benchmarks/effects.py: costs that are known are found, and known not to be found where there are none."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import effects
from slackaug.spaces import get_space

NAMES = get_space("cifar").names
COSTS = dict.fromkeys(NAMES, 0.0) | {"Equalize": -0.4, "TranslateX": 0.3}
NOISE = 0.02


def search(seed: int, costs: dict[str, float], size: float = -0.01) -> dict[str, object]:
    """As contrasts.py stores one whose losses are what the transformations of a half cost, and noise."""
    blank = {"seed": seed, "names": NAMES, "rounds": [{"losses": np.zeros((20, 2)).tolist()}]}
    apart = effects.pairs(blank).apart
    rng = np.random.default_rng(seed)
    losses = apart @ [*costs.values(), size] + NOISE * rng.normal(size=20)
    return blank | {"rounds": [{"losses": [[1 + loss / 2, 1 - loss / 2] for loss in losses]}]}


def test_the_halves_are_those_that_were_trained_with():
    apart = effects.pairs(search(3, COSTS)).apart
    assert apart.shape == (20, 18)
    np.testing.assert_allclose(apart[:, :-1].sum(1), 0, atol=1e-12)  # each half has all of its draws
    in_first = (apart[:, :-1] > 0).sum(1)
    assert np.array_equal(apart[:, -1], 2 * in_first - 17)
    assert np.array_equal((apart[:, :-1] > 0).sum(0), np.full(17, 10))


def test_costs_are_found_and_predict_another_split():
    first, second = (effects.pairs(search(seed, COSTS)) for seed in (0, 1))
    assert effects.explained(second, effects.fit(first).costs) > 0.8
    by_size = effects.fit(effects.sizes(first)).costs
    assert effects.explained(effects.sizes(second), by_size) < 0.5
    mean, width = effects.worth(effects.together([first, second]))
    centred = np.array([*COSTS.values()]) - np.mean([*COSTS.values()])
    assert np.abs(mean + 1000 / 16 * centred).max() < 2 * width.max()
    assert (NAMES[mean.argmax()], NAMES[mean.argmin()]) == ("Equalize", "TranslateX")
    assert mean.sum() == pytest.approx(0, abs=1e-9)


def test_intervals_hold_the_truth():
    held = []
    for seed in range(60):
        mean, width = effects.worth(effects.together([effects.pairs(search(seed + k, COSTS)) for k in (0, 100)]))
        truth = -1000 / 16 * (np.array([*COSTS.values()]) - np.mean([*COSTS.values()]))
        held.append(np.abs(mean - truth) < width)
    assert 0.92 < np.mean(held) < 0.98


def test_what_is_chance_predicts_nothing():
    none = dict.fromkeys(NAMES, 0.0)
    found = [effects.pairs(search(seed, none, size=0.0)) for seed in range(8)]
    said = [effects.explained(found[i + 1], effects.fit(found[i]).costs) for i in range(7)]
    assert np.mean(said) < 0


def test_the_command(tmp_path, monkeypatch, capsys):
    file = tmp_path / "contrasts.json"
    file.write_text(json.dumps({"searches": [search(0, COSTS), search(1, COSTS)]}))
    monkeypatch.setattr(sys, "argv", ["effects.py", str(file)])
    effects.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("search 0: 20 pairs, ")
    assert [line.split(" of the pairs of search ")[1][0] for line in lines[2:4]] == ["1", "0"]
    assert (lines[5].split()[0], lines[-1].split()[0]) == ("Equalize", "TranslateX")
    assert len(lines) == 5 + 17


def test_what_is_no_such_file_is_refused(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit, match="search 0 has 32 pairs instead of 20; it had --mu"):
        effects.pairs(search(0, COSTS) | {"rounds": [{"losses": [[1.0, 1.0]] * 32}]})
    file = tmp_path / "contrasts.json"
    file.write_text(json.dumps({"searches": [search(0, COSTS), search(1, COSTS) | {"names": NAMES[::-1]}]}))
    monkeypatch.setattr(sys, "argv", ["effects.py", str(file)])
    with pytest.raises(SystemExit):
        effects.main()
    assert "the searches are over different spaces" in capsys.readouterr().err
