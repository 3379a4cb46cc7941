"""How phi moves, lines 10 and 11 of Algorithm 1, once a step knows what its composites were worth.

Axes: A composites, K positions, N transformations.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from ..augment.apply import Composites
from ..augment.policy import MU_MAX, MU_MIN, Policy
from ..engine.chance import Drawn
from ..engine.passes import Average
from ..engine.state import State


class Rule(Protocol):
    def move(self, state: State, tau: Composites, weight: Tensor, drawn: Drawn, average: Average) -> State:
        """The state with another phi, by the weights w_a (A,); `average` is over the models of an ensemble."""
        ...


def score_objective(log_prob: Tensor, weight: Tensor, eta: Tensor | float, share: Tensor | float) -> Tensor:
    """10: -eta sum_a share_a w_a log p_phi(tau_a); its gradient is G_phi (Sec. 3.3), with shares of 1 / A."""
    return -eta * (share * weight.to(log_prob) * log_prob).sum()


def differentiable(phi: Policy) -> Policy:
    return replace(phi, pi=phi.pi.detach().requires_grad_(), mu=phi.mu.detach().requires_grad_())


@dataclass(frozen=True, kw_only=True)
class Rate:
    """The published rule: SGD with momentum on G_phi and on the gradient of a KL divergence from the anchor."""

    lr: float  # alpha
    kl_weight: float  # lambda
    mu_divisor: float
    momentum: float
    learn_pi: bool
    learn_mu: bool

    def move(self, state: State, tau: Composites, weight: Tensor, drawn: Drawn, average: Average) -> State:
        assert drawn.eta is not None
        phi = differentiable(state.phi)
        objective = score_objective(phi.log_prob(tau), weight, drawn.eta, 1 / len(weight))  # 10
        objective = objective + self.kl_weight * phi.kl(state.anchor)
        grad_pi, grad_mu = torch.autograd.grad(objective, (phi.pi, phi.mu))
        grad_pi = average(grad_pi * self.learn_pi)
        grad_mu = average(grad_mu * self.learn_mu / self.mu_divisor)
        pi_momentum = self.momentum * state.pi_momentum + grad_pi  # 11
        mu_momentum = self.momentum * state.mu_momentum + grad_mu
        pi = state.phi.pi - self.lr * pi_momentum
        mu = (state.phi.mu - self.lr * mu_momentum).clamp(MU_MIN, MU_MAX)
        return state._replace(phi=replace(state.phi, pi=pi, mu=mu), pi_momentum=pi_momentum, mu_momentum=mu_momentum)
