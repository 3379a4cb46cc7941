"""benchmarks/contrasts.py: the design is orthogonal, and finds what a loss that is known depends on."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import tiny
from contrasts import LEFT_OUT, Retraining, design, gradients, hadamard, main, orders, sides
from slackaug import recipes
from slackaug.data import load
from slackaug.fit import FitConfig
from slackaug.learner import Learner
from slackaug.policy import MU_MAX, Policy, magnitude_mask


@pytest.mark.parametrize("order", [4, 8, 12, 20, 24, 32, 44])
def test_the_columns_of_a_design_are_orthogonal(order):
    matrix = hadamard(order)
    assert np.array_equal(np.abs(matrix), np.ones((order, order)))
    assert np.array_equal(matrix.T @ matrix, order * np.eye(order))


def test_the_orders_are_those_of_primes():
    found = orders()
    assert [next(found) for _ in range(7)] == [4, 8, 12, 20, 24, 32, 44]


@pytest.mark.parametrize(
    ("n_transforms", "n_factors", "n_pairs"), [(17, 17, 20), (17, 30, 32), (20, 36, 44), (4, 7, 8)]
)
def test_no_half_is_small(n_transforms, n_factors, n_pairs):
    found = design(n_transforms, n_factors, np.random.default_rng(0))
    assert found.shape == (n_pairs, n_factors)
    assert np.array_equal(found.T @ found, n_pairs * np.eye(n_factors))
    n_in = (found[:, :n_transforms] > 0).sum(1)
    assert n_transforms // 4 <= n_in.min() <= n_in.max() <= n_transforms - n_transforms // 4


def test_the_sides_of_a_pair_are_opposites():
    phi = Policy.uniform("cifar", mu=0.9)
    row = torch.from_numpy(
        design(17, 17 + int(magnitude_mask(phi.space, torch.device("cpu")).sum()), np.random.default_rng(1))
    )[0]
    (first, second), apart = sides(phi, row)
    in_first = row[:17] > 0
    assert torch.equal(first.probabilities[0] > 0, in_first)
    assert torch.equal(second.probabilities[0] > 0, ~in_first)
    has_magnitude = magnitude_mask(phi.space, torch.device("cpu"))
    raised = torch.zeros(17, dtype=torch.bool)
    raised[has_magnitude] = row[17:] > 0
    assert torch.equal(first.mu == MU_MAX, raised)  # 0.9 and a quarter are more than all
    assert torch.allclose(apart[has_magnitude], torch.tensor(0.35, dtype=torch.float64))
    assert torch.equal(apart[~has_magnitude], torch.zeros(4, dtype=torch.float64))


class Known:
    """In place of re-trainings: a loss that is linear in the probabilities and in the bounds of what is drawn."""

    learner = SimpleNamespace(config=SimpleNamespace(seed=3))

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.of_pi, self.of_mu = torch.rand(2, 17, generator=generator, dtype=torch.float64)

    def loss(self, policy, *draws):
        share = policy.probabilities.mean(0)
        return float(share @ self.of_pi + 0.01 * (policy.mu @ self.of_mu))


def test_the_gradients_of_a_loss_that_is_known():
    phi, known = Policy.uniform("cifar"), Known()
    grad_pi, grad_mu, losses = gradients(phi, known, 1, learn_mu=True)
    assert np.array(losses).shape == (32, 2)
    has_magnitude = magnitude_mask(phi.space, torch.device("cpu"))
    assert torch.corrcoef(torch.stack([grad_pi.sum(0), known.of_pi]))[0, 1] > 0.97  # halves are not all of one size
    assert torch.corrcoef(torch.stack([grad_mu[has_magnitude], known.of_mu[has_magnitude]]))[0, 1] > 0.5
    assert torch.equal(grad_mu[~has_magnitude], torch.zeros(4, dtype=torch.float64))
    again, _, _ = gradients(phi, known, 1, learn_mu=True)
    assert torch.equal(again, grad_pi)
    other, zero, _ = gradients(phi, known, 2, learn_mu=False)
    assert not torch.equal(other, grad_pi)
    assert not zero.any()


def test_a_retraining_begins_anew_and_goes_by_the_names_of_its_draws(tmp_path):
    np.savez(tmp_path / "tiny.npz", **tiny.arrays())
    data = load(str(tmp_path / "tiny.npz"))
    config = recipes.quick(data)
    config = replace(config, pretrain=replace(config.pretrain, epochs=1, batch=4))
    retraining = Retraining(Learner(config, data), FitConfig(epochs=2, batch=5))
    phi = retraining.learner.phi
    first, other = retraining.loss(phi, "a"), retraining.loss(phi, "b")
    half = replace(phi, pi=phi.pi - LEFT_OUT * (torch.arange(17) < 8))
    assert retraining.loss(half, "a") != first != other
    assert retraining.loss(phi, "a") == first


@pytest.mark.parametrize("learn_mu", [False, True])
def test_the_command_leaves_policies_that_can_be_evaluated(learn_mu, tmp_path, monkeypatch):
    np.savez(tmp_path / "tiny.npz", **tiny.arrays())
    monkeypatch.setattr(recipes, "epochs_within", lambda *_: 1)
    words = ["contrasts.py", tmp_path / "tiny.npz", "--out", tmp_path / "found", "--preset", "quick", "--seeds", 0, 1]
    words += ["--rounds", 2, "--epochs", 1, "--batch", 8, *["--mu"] * learn_mu]
    monkeypatch.setattr(sys, "argv", [str(word) for word in words])
    main()
    document = json.loads((tmp_path / "found" / "contrasts.json").read_text())
    assert [log["seed"] for log in document["searches"]] == [0, 1]
    for seed, log in enumerate(document["searches"]):
        policy = Policy.load(tmp_path / "found" / f"policy_{seed}.json")
        assert policy.probabilities.mean(0).tolist() == pytest.approx(log["rounds"][-1]["pi"], abs=1e-6)
        assert (policy.mu != 0.75).any() == learn_mu
        first = np.array(log["rounds"][0]["pi"])
        assert (first * np.log(17 * first)).sum() == pytest.approx(recipes.kl_budget(2), rel=1e-3)
