"""The policy's step by a budget: as far from the anchor as a KL divergence allows, instead of a rate and a penalty.

The paper chose policy_lr and kl_weight for each dataset so that "the probability distributions vary at the same speed
for all datasets". Here the speed is what is given. Within a round the gradients add up, and the policy lies on the ray
from the anchor along their sum, at a distance that grows evenly; at the end of the round its KL divergence from the
anchor is the budget, for pi as for mu. Axes: K positions, N transformations.
"""

from dataclasses import replace

import torch
from torch import Tensor

from .policy import MU_MAX, MU_MIN, Policy, SmoothedUniform, magnitude_mask

N_CORRECTIONS = 8  # of the length: the KL divergence is nearly quadratic, so each leaves a small part of the error
LEAST = 1e-30  # keeps the length finite where nothing has a gradient; then it is multiplied by zero


def allowed(budget: float, done: int, n_steps: int) -> float:
    """The KL divergence, per position, after so many policy steps of a round: distance grows with the steps."""
    return budget * (done / n_steps) ** 2


def move(anchor: Policy, along_pi: Tensor, along_mu: Tensor, kl: float | Tensor) -> Policy:
    """Against the gradients along_pi (K, N) and along_mu (N,), each as far as `kl` (per position) allows."""
    pi = anchor.pi - length_for_pi(anchor, along_pi, kl) * along_pi
    mu = anchor.mu - length_for_mu(anchor, along_mu, kl) * along_mu
    return replace(anchor, pi=pi, mu=mu.clamp(MU_MIN, MU_MAX))


def length_for_pi(anchor: Policy, along: Tensor, kl: float | Tensor) -> Tensor:
    """How often `along` can be subtracted from the logits before the mean KL divergence of the positions is `kl`."""
    p = anchor.probabilities
    mean = (p * along).sum(-1, keepdim=True)
    variance = (p * (along - mean) ** 2).sum(-1).mean()
    length = torch.sqrt(2 * kl / variance.clamp(min=LEAST))
    for _ in range(N_CORRECTIONS):
        found = replace(anchor, pi=anchor.pi - length * along).kl(anchor) / len(anchor.pi)
        length = length * torch.sqrt(kl / found.clamp(min=LEAST)).clamp(0.5, 2.0)
    return length


def length_for_mu(anchor: Policy, along: Tensor, kl: float | Tensor) -> Tensor:
    """The same for the magnitudes of what is drawn, with KL = (change of mu)^2 x Fisher information / 2."""
    information = SmoothedUniform(anchor.mu, anchor.sigma).information()
    drawn = anchor.probabilities.mean(0) * magnitude_mask(anchor.space, along.device)  # (N,)
    quadratic = (drawn * information * along**2).sum()
    return torch.sqrt(2 * kl / quadratic.clamp(min=LEAST))
