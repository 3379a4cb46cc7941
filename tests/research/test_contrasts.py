"""research/contrasts.py: the design is orthogonal, and finds what a loss that is known depends on."""

import json
import math
import sys
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tiny
from contrasts import LEFT_OUT, Retraining, design, gradients, hadamard, main, orders, sides
from slackaug.augment.policy import MU_MAX, Policy, magnitude_mask
from slackaug.auto.pretrain import Pretrain
from slackaug.auto.problem import Problem
from slackaug.config import presets
from slackaug.data import load
from slackaug.engine.fit import FitConfig

BOUNDED = magnitude_mask(Policy.uniform("cifar").space, torch.device("cpu"))


def test_the_columns_of_a_design_are_orthogonal_and_its_orders_those_of_primes():
    found = list(islice(orders(), 7))
    assert found == [4, 8, 12, 20, 24, 32, 44]
    for order in found:
        matrix = hadamard(order)
        assert np.array_equal(np.abs(matrix), np.ones((order, order)))
        assert np.array_equal(matrix.T @ matrix, order * np.eye(order))


@pytest.mark.parametrize(
    ("n_transforms", "n_factors", "n_pairs"), [(17, 17, 20), (17, 30, 32), (20, 36, 44), (4, 7, 8)]
)
def test_no_half_is_small_and_no_side_is_always_first(n_transforms, n_factors, n_pairs):
    found = design(n_transforms, n_factors, np.random.default_rng(0))
    assert found.shape == (n_pairs, n_factors)
    assert np.array_equal(found.T @ found, n_pairs * np.eye(n_factors))
    assert not found.sum(0).any()
    n_in, least = (found[:, :n_transforms] > 0).sum(1), max(1, n_transforms // 4)
    assert least <= n_in.min() <= n_in.max() <= n_transforms - least


@pytest.mark.parametrize(("n_transforms", "n_factors"), [(3, 3), (4, 8)])
def test_what_has_no_design_is_refused(n_transforms, n_factors):
    expected = f"no design of {n_factors} factors was found that has halves of {n_transforms} transformations"
    with pytest.raises(SystemExit, match=expected):
        design(n_transforms, n_factors, np.random.default_rng(0))


def test_the_sides_of_a_pair_are_opposites():
    phi = Policy.uniform("cifar", mu=0.9)
    row = torch.from_numpy(design(17, 30, np.random.default_rng(1)))[0]
    first, second = sides(phi, row)
    in_first, raised = row[:17] > 0, torch.zeros(17, dtype=torch.bool)
    assert torch.equal(first.probabilities[0] > 0, in_first)
    assert torch.equal(second.probabilities[0] > 0, ~in_first)
    raised[BOUNDED] = row[17:] > 0
    assert torch.equal(first.mu == MU_MAX, raised)  # 0.9 and a quarter are more than all
    assert (first.mu - second.mu).abs()[BOUNDED].tolist() == pytest.approx([0.35] * 13)
    assert torch.equal(first.mu[~BOUNDED], phi.mu[~BOUNDED])


class Known:
    """In place of re-trainings: a loss by what is drawn, how strongly and from how many, and by what a pair shares."""

    problem = SimpleNamespace(config=SimpleNamespace(seed=3))

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.a, self.b = torch.rand(2, 17, generator=generator, dtype=torch.float64)
        self.b[~BOUNDED] = 0
        self.draws = []

    def __call__(self, phi):
        return phi.probabilities.mean(0) @ (self.a + self.b * phi.mu)

    def loss(self, policy, *draws):
        self.draws.append(draws)
        return float(self(policy)) + draws[-1] % 7 - 0.1 * int((policy.probabilities[0] > 0).sum())


@pytest.mark.parametrize("learn_mu", [False, True])
def test_the_gradients_of_a_loss_that_is_known(learn_mu):
    """Far from uniform, too, where halves are drawn unequally often."""
    known, generator = Known(), torch.Generator().manual_seed(1)
    phi = replace(
        Policy.uniform("cifar"),
        pi=torch.randn(17, generator=generator, dtype=torch.float64).repeat(3, 1),
        mu=0.3 + 0.4 * torch.rand(17, generator=generator, dtype=torch.float64),
    )
    grad_pi, grad_mu, losses = gradients(phi, known, 1, learn_mu=learn_mu)
    asked = replace(phi, pi=phi.pi.clone().requires_grad_(), mu=phi.mu.clone().requires_grad_())
    of_pi, of_mu = torch.autograd.grad(known(asked), (asked.pi, asked.mu))
    assert np.array(losses).shape == (32 if learn_mu else 20, 2)
    assert torch.allclose(grad_pi, of_pi, rtol=0, atol=1e-10)
    assert torch.allclose(grad_mu, of_mu * learn_mu, rtol=0, atol=1e-10)
    first, second = known.draws[::2], known.draws[1::2]
    assert first == second  # a pair has its draws in common
    gradients(phi, known, 2, learn_mu=learn_mu)
    assert len({*known.draws}) == len(known.draws) / 2  # and with no other pair


@pytest.fixture
def npz(tmp_path):
    np.savez(tmp_path / "tiny.npz", **tiny.arrays())
    return tmp_path / "tiny.npz"


def test_a_retraining_begins_anew_and_goes_by_the_names_of_its_draws(npz):
    data = load(str(npz))
    config = presets.quick(data)
    problem = Problem(replace(config, pretrain=replace(config.pretrain, epochs=1, batch=4)), data)
    for _ in Pretrain(problem, problem.start()).run():
        pass
    retraining, phi = Retraining(problem, FitConfig(epochs=2, batch=5)), problem.phi
    half = replace(phi, pi=phi.pi - LEFT_OUT * (torch.arange(17) < 8))
    first, other, of_half, again = (retraining.loss(*of) for of in ((phi, "a"), (phi, "b"), (half, "a"), (phi, "a")))
    assert of_half != first != other
    assert again == first
    problem.model.load_state_dict({name: value * math.nan for name, value in problem.weights().items()})
    retraining.first = retraining.fit.get_state()
    with pytest.raises(SystemExit, match="no longer a number after a training; try a lower --lr"):
        retraining.loss(phi, "a")


@pytest.mark.parametrize(("learn_mu", "whole"), [(False, False), (True, False), (True, True)])
def test_the_command_leaves_policies_that_can_be_evaluated(learn_mu, whole, npz, tmp_path, monkeypatch):
    monkeypatch.setattr(presets, "epochs_within", lambda *_: 1)
    words = ["contrasts.py", npz, "--out", tmp_path / "found", "--preset", "quick", "--seeds", 0, 1]
    words += ["--rounds", 2, "--epochs", 1, "--batch", 8, *["--mu"] * learn_mu, *["--whole", "--composed", 2] * whole]
    monkeypatch.setattr(sys, "argv", [str(word) for word in words])
    main()
    searches = json.loads((tmp_path / "found" / "contrasts.json").read_text())["searches"]
    assert [log["seed"] for log in searches] == [0, 1]
    for seed, log in enumerate(searches):
        policy, first = Policy.load(tmp_path / "found" / f"policy_{seed}.json"), np.array(log["rounds"][0]["pi"])
        assert policy.probabilities.mean(0).tolist() == pytest.approx(log["rounds"][-1]["pi"], abs=1e-6)
        assert (policy.mu != 0.75).any() == learn_mu
        assert (first * np.log(17 * first)).sum() == pytest.approx(presets.kl_budget(2), rel=1e-3)
