"""The policy's step by a KL budget."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oracles import integrate
from slackaug.augment.policy import MU_MAX, MU_MIN, Policy, SmoothedUniform
from slackaug.data import Split
from slackaug.engine.chance import Chance, Drawn, scalar
from slackaug.engine.passes import alone
from slackaug.methods import budget, slack
from slackaug.methods.budget import SearchConfig
from slackaug.rng import streams

CONFIG = SearchConfig(kl_budget=0.016)


def policy(seed: int, spread: float = 1.0) -> Policy:
    phi = Policy.uniform("cifar")
    return replace(phi, pi=spread * torch.randn(phi.pi.shape, generator=generator(seed), dtype=phi.pi.dtype))


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def along(phi: Policy, seed: int, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple(scale * torch.randn(t.shape, generator=generator(seed), dtype=t.dtype) for t in (phi.pi, phi.mu))


@pytest.mark.parametrize("value", [0.0, -0.1, 1.0, float("nan")])
def test_a_budget_without_sense_is_refused(value):
    with pytest.raises(ValueError, match=r"search\.kl_budget must be between 0 and 1"):
        SearchConfig(kl_budget=value)


def test_a_rate_that_is_found_by_trial_needs_steps_to_try_it():
    with pytest.raises(ValueError, match=r"^search\.n_retrain = 0: .* such as search\.model_lr=0\.3$"):
        SearchConfig(calibrate=True, n_retrain=0, n_rounds=1, model_lr=0.3)
    assert SearchConfig(calibrate=True).calibrate


@given(
    st.integers(0, 1000), st.floats(0, 3), st.floats(1e-9, 1e6), st.sampled_from([1e-6, 1e-4, 0.004, 0.016, 0.05, 0.2])
)
def test_the_whole_budget_is_spent_whatever_the_gradient_s_size(seed, spread, scale, kl):
    anchor = policy(seed, spread)
    moved = budget.along(anchor, *along(anchor, seed + 1, scale), scalar(kl))
    assert moved.kl(anchor).item() / len(anchor.pi) == pytest.approx(kl, rel=1e-3)


def test_it_goes_against_the_gradient():
    """Half of the transformations up and half down: the least distance for so much divergence."""
    anchor = Policy.uniform("domainnet")
    gradient = torch.ones_like(anchor.pi)
    gradient[:, ::2] = -1
    moved = budget.along(anchor, gradient, torch.ones_like(anchor.mu), scalar(0.004))
    assert ((moved.probabilities > anchor.probabilities) == (gradient < 0)).all()
    assert (moved.mu < anchor.mu).all()
    assert moved.kl(anchor).item() / len(anchor.pi) == pytest.approx(0.004, rel=0.01)


def test_it_stays_where_the_policy_is():
    anchor = policy(0).to("meta")
    moved = budget.along(anchor, anchor.pi, anchor.mu, scalar(0.004).to("meta"))
    assert moved.pi.is_meta
    assert moved.mu.is_meta


def test_equal_rewards_are_equal_moves_however_often_each_is_drawn():
    """A gradient of logits is p (r - the mean of r) for rewards r; the logits then move by r alone."""
    anchor = policy(3, 0.5)
    reward = torch.randn(anchor.pi.shape[1], generator=generator(4), dtype=torch.float64)
    p = anchor.probabilities
    gradient = -p * (reward - (p * reward).sum(-1, keepdim=True))
    moved = budget.along(anchor, gradient, torch.zeros_like(anchor.mu), scalar(0.004)).pi - anchor.pi
    moved, reward = (value - value.mean(-1, keepdim=True) for value in (moved, reward.expand_as(p)))
    length = (moved * reward).sum(-1, keepdim=True) / (reward**2).sum(-1, keepdim=True)
    assert (length > 0).all()
    assert torch.allclose(moved, length * reward)


def test_no_other_way_to_spend_the_budget_gains_more():
    anchor = policy(5, 0.5)
    gradient, _ = along(anchor, 6, 1.0)
    gradient = gradient - gradient.mean(-1, keepdim=True)  # as of logits: it sums to zero

    def gain(direction: torch.Tensor) -> float:
        length = budget.length_for_pi(anchor, direction, scalar(1e-6))
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
    moved = budget.along(anchor, gradient, torch.zeros_like(anchor.mu), scalar(0.016))
    assert moved.kl(anchor).item() / len(anchor.pi) == pytest.approx(0.016, rel=1e-3)
    assert (moved.probabilities[:, 4] > 0.01 * p[:, 4]).all()


def test_where_the_budget_cannot_be_spent_nothing_is_thrown_away():
    """Nearly all probability lies where the gradient leads already."""
    anchor = Policy.uniform("cifar")
    anchor.pi[:, 0] = 14.0
    gradient = torch.zeros_like(anchor.pi)
    gradient[:, 0] = -1.0
    moved = budget.along(anchor, gradient, torch.zeros_like(anchor.mu), scalar(0.016))
    assert (moved.pi - anchor.pi).abs().max().item() == pytest.approx(budget.FURTHEST, rel=1e-4)
    assert budget.FURTHEST == 40
    assert (moved.probabilities > 0).all()


def test_without_a_gradient_nothing_moves():
    anchor = policy(0)
    moved = budget.along(anchor, torch.zeros_like(anchor.pi), torch.zeros_like(anchor.mu), scalar(0.004))
    assert torch.equal(moved.pi, anchor.pi)
    assert torch.equal(moved.mu, anchor.mu)


def test_mu_spends_the_same_budget():
    """KL of the magnitudes, by integration, averaged over what is drawn."""
    anchor = Policy.uniform("cifar")
    _, gradient = along(anchor, 5, 1.0)
    moved = budget.along(anchor, torch.zeros_like(anchor.pi), gradient, scalar(0.004))
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
        moved = budget.along(anchor, torch.zeros_like(anchor.pi), sign * torch.ones_like(anchor.mu), scalar(0.5))
        assert moved.mu.min() >= MU_MIN
        assert moved.mu.max() <= MU_MAX


@pytest.mark.parametrize("high", [0.1, 0.12, 0.15, 0.18, 0.1999, 0.2, 0.25, 0.3, 0.5, 0.75, 1.0])
def test_the_information_is_the_mean_square_of_the_score(high):
    def log_squared(m: torch.Tensor) -> torch.Tensor:
        bound = torch.full_like(m, high).requires_grad_()
        log_prob = SmoothedUniform(bound, 0.1).log_prob(m)
        (score,) = torch.autograd.grad(log_prob.sum(), bound)
        return log_prob.detach() + torch.log(score**2 + 1e-300)

    found = budget.information(torch.tensor(high, dtype=torch.float64), 0.1).item()
    assert found == pytest.approx(integrate(log_squared), rel=0.15)


def test_the_distance_grows_evenly():
    config = SearchConfig(n_retrain=10, n_unrolled=4, kl_budget=0.016, batch=2)
    data = Split(torch.zeros(4, 3, 2, 2, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64))
    chance = Chance(data, data, 2, 2, streams(0, "test"), flip=False)
    start = slack.start(Policy.uniform("cifar"), torch.zeros(1))
    found = [slack.draw(start._replace(step=step), chance, config).done for step in (9, 10, 11, 12, 13)]
    assert found[0] is None
    assert [config.kl_budget * share.item() ** 2 for share in found[1:]] == pytest.approx([0.001, 0.004, 0.009, 0.016])


def moved(config: SearchConfig = CONFIG, n: int = 5, **state):
    """The state after one move by composites with weights of their own."""
    phi = policy(0, 0.5)
    tau, weight = phi.sample(n, generator(0)), torch.randn(n, generator=generator(1))
    drawn = Drawn(*[torch.empty(0)] * 6, eta=scalar(0.1), done=scalar(0.5))
    before = slack.start(phi, torch.zeros(1))._replace(**state)
    return config.rule.move(before, tau, weight, drawn, alone), tau, weight


def test_a_move_spends_its_share_of_the_nats_along_all_gradients_so_far():
    phi = policy(0, 0.5)
    sums = along(phi, 7, 1e-2)
    state, *_ = moved(pi_momentum=sums[0], mu_momentum=sums[1])
    assert state.phi.kl(phi).item() / len(phi.pi) == pytest.approx(0.004, rel=1e-3)
    expected = budget.along(phi, state.pi_momentum, state.mu_momentum, scalar(0.004))
    assert torch.equal(state.phi.pi, expected.pi)
    assert torch.equal(state.phi.mu, expected.mu)
    alone_state, *_ = moved()
    torch.testing.assert_close(state.pi_momentum - sums[0], alone_state.pi_momentum)
    torch.testing.assert_close(state.mu_momentum - sums[1], alone_state.mu_momentum)


def test_a_composite_is_worth_what_it_is_worth_beyond_the_others_and_positions_share_one_pi():
    """And the anchor does not pull."""
    state, tau, w = moved(anchor=policy(3))
    n = len(w)
    less = torch.stack([w[a] - w[torch.arange(n) != a].mean() for a in range(n)])
    phi = policy(0, 0.5).differentiable()
    objective = -0.1 * (less.double() * phi.log_prob(tau)).mean()
    grad_pi, grad_mu = torch.autograd.grad(objective, (phi.pi, phi.mu))
    torch.testing.assert_close(state.pi_momentum, grad_pi.mean(0).expand_as(grad_pi), rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(40 * state.mu_momentum, grad_mu, rtol=1e-5, atol=1e-9)
    assert (grad_pi[0] - grad_pi[1]).abs().max() > 1e-4


def test_what_others_are_worth_is_taken_off():
    assert budget.minus_the_others(torch.tensor([3.0])).tolist() == [3.0]  # there are no others
    assert budget.minus_the_others(torch.tensor([3.0, 1.0])).tolist() == [2.0, -2.0]
    assert budget.minus_the_others(torch.tensor([3.0, 1.0, 2.0])).tolist() == [1.5, -1.5, 0.0]


def test_mu_counts_by_how_often_it_is_drawn():
    """A transformation that is never drawn costs nothing, so the others move as if it were not there."""
    anchor = policy(1, 2.0)
    length = budget.length_for_mu(anchor, torch.ones_like(anchor.mu), scalar(0.004))
    information = budget.information(anchor.mu, anchor.sigma)
    drawn = torch.where(anchor.space.has_magnitude, anchor.probabilities.mean(0), 0.0)
    assert (length**2 * (drawn * information).sum() / 2).item() == pytest.approx(0.004)


@pytest.mark.parametrize("what", ["learn_pi", "learn_mu"])
def test_what_is_not_to_be_learned_stays(what):
    state, *_ = moved(replace(CONFIG, **{what: False}))
    start = policy(0, 0.5)
    assert torch.equal(state.phi.pi, start.pi) == (what == "learn_pi")
    assert torch.equal(state.phi.mu, start.mu) == (what == "learn_mu")
