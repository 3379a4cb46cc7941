"""research/steadier.py: ways to end a training, and how their deviations between seeds compare."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import steadier
import tiny
from slackaug.config import presets
from slackaug.engine.fit import FitConfig
from slackaug.judge import records, training


def test_the_last_weights_are_those_that_an_evaluation_tests(tmp_path, monkeypatch):
    """However often the network is tested on the way. The means are over something else."""
    np.savez(tmp_path / "images.npz", **tiny.arrays(n_train=48, n_test=30))
    quick = presets.quick
    fit = FitConfig(epochs=4, batch=8, lr=0.05)
    monkeypatch.setattr(presets, "quick", lambda data: replace(quick(data), evaluate=fit))
    done = []

    def train(one):
        done.append(one)
        return found(one)

    found = steadier.train
    monkeypatch.setattr(steadier, "train", train)
    (ways,) = steadier.measure(str(tmp_path / "images.npz"), 1, tmp_path)
    training.run(done[:1], lambda _: None)
    (usual,) = records.read(done)
    assert ways[steadier.LAST] == pytest.approx(usual["accuracy"])
    assert len(ways) == 1 + 3 * len(steadier.SHARES)
    assert len({*ways.values()}) > 1


def test_a_training_is_tested_at_its_last_step_and_evenly_before_it():
    assert steadier.moments(1000, 0.1) == [1000, 980, 960, 940, 920]


def test_means_follow_the_weights_at_their_own_speed():
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.zero_()
    short, long = (steadier.Averaged(model, n) for n in (1, 4))
    model.weight.data.fill_(1.0)
    for mean in (short, long):
        mean.see(model)
    assert (short.mean["weight"].item(), long.mean["weight"].item()) == (1.0, 0.25)
    model.weight.data.fill_(5.0)
    assert short.mean["weight"].item() == 1.0  # it is no view of the weights


def test_the_ratio_of_deviations_has_the_truth_in_its_interval():
    generator = np.random.default_rng(0)
    last = generator.normal(0, 1, 64)
    own, low, high = steadier.ratio(0.5 * last + generator.normal(0, 0.1, 64), last)
    assert low < 0.51 < high
    assert low < own < high
    assert high < 0.7
    assert steadier.ratio(last, last) == (1, 1, 1)
