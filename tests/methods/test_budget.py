"""The policy's step by a KL budget."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oracles import integrate
from slackaug.augment.policy import MU_MAX, MU_MIN, Policy, SmoothedUniform
from slackaug.methods import budget, slack
from slackaug.methods.slack import SearchConfig


def policy(seed: int, spread: float = 1.0) -> Policy:
    phi = Policy.uniform("cifar")
    return replace(phi, pi=spread * torch.randn(phi.pi.shape, generator=generator(seed), dtype=phi.pi.dtype))


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def along(phi: Policy, seed: int, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple(scale * torch.randn(t.shape, generator=generator(seed), dtype=t.dtype) for t in (phi.pi, phi.mu))


@given(
    st.integers(0, 1000), st.floats(0, 3), st.floats(1e-9, 1e6), st.sampled_from([1e-6, 1e-4, 0.004, 0.016, 0.05, 0.2])
)
def test_the_whole_budget_is_spent_whatever_the_gradient_s_size(seed, spread, scale, kl):
    anchor = policy(seed, spread)
    moved = budget.move(anchor, *along(anchor, seed + 1, scale), kl)
    assert moved.kl(anchor).item() / len(anchor.pi) == pytest.approx(kl, rel=1e-3)


def test_it_goes_against_the_gradient():
    anchor = Policy.uniform("cifar")
    gradient = torch.zeros_like(anchor.pi)
    gradient[:, 3] = 1.0
    moved = budget.move(anchor, gradient, torch.ones_like(anchor.mu), 0.004)
    assert (moved.probabilities[:, 3] < anchor.probabilities[:, 3]).all()
    assert (moved.mu < anchor.mu).all()


def test_equal_rewards_are_equal_moves_however_often_each_is_drawn():
    """A gradient of logits is p (r - the mean of r) for rewards r; the logits then move by r alone."""
    anchor = policy(3, 0.5)
    reward = torch.randn(anchor.pi.shape[1], generator=generator(4), dtype=torch.float64)
    p = anchor.probabilities
    gradient = -p * (reward - (p * reward).sum(-1, keepdim=True))
    moved = budget.move(anchor, gradient, torch.zeros_like(anchor.mu), 0.004).pi - anchor.pi
    moved, reward = (value - value.mean(-1, keepdim=True) for value in (moved, reward.expand_as(p)))
    length = (moved * reward).sum(-1, keepdim=True) / (reward**2).sum(-1, keepdim=True)
    assert (length > 0).all()
    assert torch.allclose(moved, length * reward)


def test_no_other_way_to_spend_the_budget_gains_more():
    anchor = policy(5, 0.5)
    gradient, _ = along(anchor, 6, 1.0)
    gradient = gradient - gradient.mean(-1, keepdim=True)  # as of logits: it sums to zero

    def gain(direction: torch.Tensor) -> float:
        length = budget.length_for_pi(anchor, direction, 1e-6)
        return float((gradient * length * direction).sum())

    best = gain(budget.natural(anchor, gradient))
    assert best > gain(gradient)
    for seed in range(20):
        noise, _ = along(anchor, seed, 0.3)
        assert best > gain(budget.natural(anchor, gradient) + noise)


@pytest.mark.parametrize("rare", [1e-3, 1e-5, 1e-9])
def test_a_single_draw_of_what_is_rare_does_not_decide(rare):
    """All others, with rewards as large, draw it a hundred times as often; by itself it would take the whole budget."""
    anchor = Policy.uniform("cifar")
    anchor.pi[:, 4] = math.log(rare / (1 - rare) * (len(anchor.space) - 1))
    n_draws, p = 1000, anchor.probabilities
    gradient = 0.03 * torch.randn(p.shape, generator=generator(1), dtype=p.dtype) * p  # the noise of many draws
    gradient[:, 4] = 1 / n_draws  # one draw, and a reward of -1
    moved = budget.move(anchor, gradient, torch.zeros_like(anchor.mu), 0.016)
    assert moved.kl(anchor).item() / len(anchor.pi) == pytest.approx(0.016, rel=1e-3)
    assert (moved.probabilities[:, 4] > 0.01 * p[:, 4]).all()


def test_where_the_budget_cannot_be_spent_nothing_is_thrown_away():
    """Nearly all probability lies where the gradient leads already."""
    anchor = Policy.uniform("cifar")
    anchor.pi[:, 0] = 14.0
    gradient = torch.zeros_like(anchor.pi)
    gradient[:, 0] = -1.0
    moved = budget.move(anchor, gradient, torch.zeros_like(anchor.mu), 0.016)
    assert (moved.pi - anchor.pi).abs().max() < 41
    assert (moved.probabilities > 0).all()


def test_without_a_gradient_nothing_moves():
    anchor = policy(0)
    moved = budget.move(anchor, torch.zeros_like(anchor.pi), torch.zeros_like(anchor.mu), 0.004)
    assert torch.equal(moved.pi, anchor.pi)
    assert torch.equal(moved.mu, anchor.mu)


def test_mu_spends_the_same_budget():
    """KL of the magnitudes, by integration, averaged over what is drawn."""
    anchor = Policy.uniform("cifar")
    _, gradient = along(anchor, 5, 1.0)
    moved = budget.move(anchor, torch.zeros_like(anchor.pi), gradient, 0.004)
    total = 0.0
    for p, transform, new, old in zip(anchor.probabilities[0], anchor.space, moved.mu, anchor.mu, strict=True):
        if transform.span is not None:
            now, before = SmoothedUniform(new, anchor.sigma), SmoothedUniform(old, anchor.sigma)

            def divergence(m: torch.Tensor, now=now, before=before) -> torch.Tensor:
                """log of p log(p / q) + a constant that keeps it positive, for the oracle's integral."""
                return now.log_prob(m) + torch.log(now.log_prob(m) - before.log_prob(m) + 100)

            total += float(p) * (integrate(divergence) - 100)
    assert total == pytest.approx(0.004, rel=0.1)


def test_mu_stays_in_its_range():
    anchor = replace(Policy.uniform("cifar"), mu=torch.linspace(MU_MIN, MU_MAX, 17, dtype=torch.float64))
    for sign in (-1, 1):
        moved = budget.move(anchor, torch.zeros_like(anchor.pi), sign * torch.ones_like(anchor.mu), 0.5)
        assert moved.mu.min() >= MU_MIN
        assert moved.mu.max() <= MU_MAX


@pytest.mark.parametrize("high", [0.1, 0.12, 0.15, 0.18, 0.1999, 0.2, 0.25, 0.3, 0.5, 0.75, 1.0])
def test_the_information_is_the_mean_square_of_the_score(high):
    def log_squared(m: torch.Tensor) -> torch.Tensor:
        bound = torch.full_like(m, high).requires_grad_()
        log_prob = SmoothedUniform(bound, 0.1).log_prob(m)
        (score,) = torch.autograd.grad(log_prob.sum(), bound)
        return log_prob.detach() + torch.log(score**2 + 1e-300)

    found = SmoothedUniform(torch.tensor(high, dtype=torch.float64), 0.1).information().item()
    assert found == pytest.approx(integrate(log_squared), rel=0.15)


def test_the_distance_grows_evenly():
    config = SearchConfig(n_retrain=10, n_unrolled=4, kl_budget=0.016)
    found = [slack.kl_allowed(10 + step, config) for step in (1, 2, 3, 4)]
    assert found == pytest.approx([0.001, 0.004, 0.009, 0.016])


@pytest.mark.parametrize("value", [0.0, -0.1, 1.0, float("nan")])
def test_a_budget_without_sense_is_refused(value):
    with pytest.raises(ValueError, match=r"search\.kl_budget must be between 0 and 1"):
        SearchConfig(kl_budget=value)
