"""The policy's step by a budget: as far from the anchor as a KL divergence allows, instead of a rate and a penalty.

The paper chose policy_lr and kl_weight for each dataset so that "the probability distributions vary at the same speed
for all datasets". Here the speed is what is given, for data that nobody has tuned. Within a round the gradients add up,
and the policy lies on the ray from the anchor along their sum, at a distance that grows evenly; at the end of the round
its KL divergence from the anchor is the budget, for pi as for mu. For pi the ray is that of the natural gradient.

Against noise, a composite counts by how much better it is than the others, and all positions share one pi.
Axes: A composites, K positions, N transformations.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import torch
from torch import Tensor

from ..augment.apply import Composites
from ..augment.policy import MU_MAX, MU_MIN, Policy, magnitude_mask
from ..engine.chance import Drawn
from ..engine.passes import Average
from ..engine.state import State
from .slack import Rule, SlackConfig, phi_gradient

RARE = 0.1  # of a uniform share: below, too few draws of a round tell of a transformation
N_HALVINGS = 24  # of the interval, in logarithms, that the length is in
FURTHEST = 40.0  # nats that a round may move two logits apart, where that costs too little to spend the budget
LEAST = 1e-30  # keeps the length finite where nothing has a gradient; then it is multiplied by zero
EDGE = 0.9032  # the integral of phi(z)^2 / Phi(z)


@dataclass(frozen=True, kw_only=True)
class SearchConfig(SlackConfig):
    """The settings of Algorithm 1, and what finds rates for data that nobody has tuned."""

    kl_budget: Annotated[
        float | None, "nats, per position, that a round moves the policy by; null: it moves at policy_lr"
    ] = None
    calibrate: Annotated[bool, "the rate of the network is found by trials after pre-training, from model_lr on"] = (
        False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kl_budget is not None and not 0 < self.kl_budget < 1:
            raise ValueError(f"search.kl_budget must be between 0 and 1, or null for none, got {self.kl_budget}")
        if self.calibrate and self.n_retrain == 0:
            raise ValueError(
                "search.n_retrain = 0: no rate of re-training can be found by trial; give one, such as "
                f"search.model_lr={self.model_lr:g}"
            )

    @cached_property
    def rule(self) -> Rule:
        return super().rule if self.kl_budget is None else Budget(self.kl_budget, self.divisors)


@dataclass(frozen=True)
class Budget:
    """A rule that spends so many nats, per position, in a round. The state's momenta are sums of its gradients."""

    nats: float
    divisors: tuple[float, float]

    def move(self, state: State, tau: Composites, weight: Tensor, drawn: Drawn, average: Average) -> State:
        assert drawn.done is not None
        grad_pi, grad_mu = phi_gradient(state, tau, minus_the_others(weight), drawn, self.divisors)
        pi_sum = state.pi_momentum + average(grad_pi.mean(0).expand_as(grad_pi))
        mu_sum = state.mu_momentum + average(grad_mu)  # however long: the nats settle how far mu goes along it
        phi = along(state.anchor, pi_sum, mu_sum, self.nats * drawn.done**2)  # 11
        return state._replace(phi=phi, pi_momentum=pi_sum, mu_momentum=mu_sum)


def minus_the_others(weight: Tensor) -> Tensor:
    """w_a minus the mean of the other composites' w: the expected gradient stays the same, with less noise."""
    n = len(weight)
    return weight if n == 1 else (weight - weight.mean()) * (n / (n - 1))


def along(anchor: Policy, pi_sum: Tensor, mu_sum: Tensor, kl: Tensor) -> Policy:
    """Against the gradients pi_sum (K, N) and mu_sum (N,), each as far as `kl` (per position) allows."""
    direction = natural(anchor, pi_sum)
    pi = anchor.pi - length_for_pi(anchor, direction, kl) * direction
    mu = anchor.mu - length_for_mu(anchor, mu_sum, kl) * mu_sum
    return replace(anchor, pi=pi, mu=mu.clamp(MU_MIN, MU_MAX))


def natural(anchor: Policy, pi_sum: Tensor) -> Tensor:
    """Of all directions in which the logits can move by a given KL divergence, the one in which most is gained.

    A gradient of logits has the probabilities as factors, so what was once drawn more often would move faster from then
    on, whatever its reward: chance in early rounds would decide. Here equal rewards are equal moves, but for what is
    rare: a single draw of it must not decide either.
    """
    return pi_sum / anchor.probabilities.clamp(min=RARE / len(anchor.space))


def length_for_pi(anchor: Policy, direction: Tensor, kl: Tensor) -> Tensor:
    """How often `direction` can be subtracted from the logits until the mean KL divergence of positions is `kl`."""
    spread = (direction.amax() - direction.amin()).clamp(min=LEAST)
    least, most = torch.sqrt(8 * kl) * spread.reciprocal(), FURTHEST / spread  # the first: by Hoeffding's lemma
    before = anchor.pi.log_softmax(1)
    for _ in range(N_HALVINGS):
        length = torch.sqrt(least * most)
        after = (anchor.pi - length * direction).log_softmax(1)
        is_too_far = (after.exp() * (after - before)).sum() / len(before) > kl  # the divergence grows with the length
        least, most = torch.where(is_too_far, least, length), torch.where(is_too_far, length, most)
    return least


def length_for_mu(anchor: Policy, mu_sum: Tensor, kl: Tensor) -> Tensor:
    """The same for the magnitudes of what is drawn, with KL = (change of mu)^2 x Fisher information / 2."""
    drawn = anchor.probabilities.mean(0) * magnitude_mask(anchor.space, mu_sum.device)  # (N,)
    quadratic = (drawn * information(anchor.mu, anchor.sigma) * mu_sum**2).sum()
    return torch.sqrt(2 * kl * quadratic.clamp(min=LEAST).reciprocal())


def information(high: Tensor, scale: float) -> Tensor:
    """The Fisher information about the bound of a `SmoothedUniform`, to within 15 %: of its blurred edge, or, if low,
    of the mean.
    """
    edge = (EDGE / scale - 1 / high) / high
    return torch.where(high >= 2 * scale, edge, 0.25 / scale**2)
