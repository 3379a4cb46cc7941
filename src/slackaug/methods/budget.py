"""The policy's step by a budget: as far from the anchor as a KL divergence allows, instead of a rate and a penalty.

The paper chose policy_lr and kl_weight for each dataset so that "the probability distributions vary at the same speed
for all datasets". Here the speed is what is given. Within a round the gradients add up, and the policy lies on the ray
from the anchor along their sum, at a distance that grows evenly; at the end of the round its KL divergence from the
anchor is the budget, for pi as for mu. For pi the ray is that of the natural gradient. Axes: K positions, N
transformations.
"""

from dataclasses import replace

import torch
from torch import Tensor

from ..augment.policy import MU_MAX, MU_MIN, Policy, SmoothedUniform, magnitude_mask

RARE = 0.1  # of a uniform share: below, too few draws of a round tell of a transformation
N_HALVINGS = 24  # of the interval, in logarithms, that the length is in
FURTHEST = 40.0  # nats that a round may move two logits apart, where that costs too little to spend the budget
LEAST = 1e-30  # keeps the length finite where nothing has a gradient; then it is multiplied by zero


def allowed(budget: float, done: int, n_steps: int) -> float:
    """The KL divergence, per position, after so many policy steps of a round: distance grows with the steps."""
    return budget * (done / n_steps) ** 2


def move(anchor: Policy, along_pi: Tensor, along_mu: Tensor, kl: float | Tensor) -> Policy:
    """Against the gradients along_pi (K, N) and along_mu (N,), each as far as `kl` (per position) allows."""
    along_pi = natural(anchor, along_pi)
    pi = anchor.pi - length_for_pi(anchor, along_pi, kl) * along_pi
    mu = anchor.mu - length_for_mu(anchor, along_mu, kl) * along_mu
    return replace(anchor, pi=pi, mu=mu.clamp(MU_MIN, MU_MAX))


def natural(anchor: Policy, along: Tensor) -> Tensor:
    """Of all directions in which the logits can move by a given KL divergence, the one in which most is gained.

    A gradient of logits has the probabilities as factors, so that what was once drawn more often would move faster
    from then on, whatever its reward: chance in early rounds would decide. Here equal rewards are equal moves, but for
    what is rare: a single draw of it must not decide either.
    """
    return along / anchor.probabilities.clamp(min=RARE / along.shape[-1])


def length_for_pi(anchor: Policy, along: Tensor, kl: float | Tensor) -> Tensor:
    """How often `along` can be subtracted from the logits before the mean KL divergence of the positions is `kl`."""
    spread = (along.amax() - along.amin()).clamp(min=LEAST)
    least, most = (8 * kl) ** 0.5 / spread, FURTHEST / spread  # the first is short enough by Hoeffding's lemma
    before = anchor.pi.log_softmax(-1)
    for _ in range(N_HALVINGS):
        length = torch.sqrt(least * most)
        after = (anchor.pi - length * along).log_softmax(-1)
        found = (after.exp() * (after - before)).sum() / len(before)  # grows with the length
        least, most = torch.where(found > kl, least, length), torch.where(found > kl, length, most)
    return least


def length_for_mu(anchor: Policy, along: Tensor, kl: float | Tensor) -> Tensor:
    """The same for the magnitudes of what is drawn, with KL = (change of mu)^2 x Fisher information / 2."""
    information = SmoothedUniform(anchor.mu, anchor.sigma).information()
    drawn = anchor.probabilities.mean(0) * magnitude_mask(anchor.space, along.device)  # (N,)
    quadratic = (drawn * information * along**2).sum()
    return torch.sqrt(2 * kl / quadratic.clamp(min=LEAST))
