"""Do several searches find the same policy? How alike policies of one space are, and the one that stands for all.

Axes: S policies, K positions, N transformations. The figures of the published policies, the stability to beat, are in
tests/augment/test_stability.py.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import median_low
from typing import NamedTuple

import torch
from torch import Tensor

from .policy import Policy
from .space import Space

DISCARDED = ("Invert", "Solarize")  # what every search discards: they alone make policies look alike
CHANCE = 0.25  # rounds that agree less may have found nothing: on random labels they agree by -0.04 to 0.04
EVERY = slice(None)
CONSTANT = 1e-9  # deviation below which a vector is constant but for rounding


class Stability(NamedTuple):
    """Mean pairwise Pearson correlations, of the policies that are not constant; None with fewer than two of these."""

    n_policies: int
    pi: float | None  # probabilities averaged over positions
    pi_rest: float | None  # without Invert and Solarize, as far as the space has them
    mu: float | None  # over the transformations with a magnitude
    mu_rest: float | None  # without Solarize (Invert has no magnitude)
    entropy: float  # nats, averaged over positions and policies
    entropy_share: float | None  # of log N, that of the uniform policy; None for one transformation


def stability(policies: Sequence[Policy]) -> Stability:
    """How alike the policies of one space are; the spaces must have the same names in the same order."""
    space = common_space(policies)
    pi = [policy.probabilities.detach().mean(0) for policy in policies]  # each (K, N) -> (N,)
    mu = [policy.mu.detach() for policy in policies]
    rest, has_magnitude = without(space.names, DISCARDED), space.has_magnitude
    entropy = math.fsum(policy.entropy().mean().item() for policy in policies) / len(policies)
    return Stability(
        n_policies=len(policies),
        pi=mean_correlation(pi),
        pi_rest=mean_correlation(pi, rest),
        mu=mean_correlation(mu, has_magnitude),
        mu_rest=mean_correlation(mu, has_magnitude & rest),
        entropy=entropy,
        entropy_share=entropy / math.log(len(space)) if len(space) > 1 else None,
    )


def agreement_of_rounds(rounds: Sequence[Policy]) -> float | None:
    """Does a search know where it goes? Mean correlation, over pairs of its rounds, of what they change in log pi.

    Rounds share a split and theta_0, not the draws: 1 is one direction, 0 is chance. `rounds` are their last policies;
    None for fewer than two, or where nothing has changed.
    """
    if len(rounds) < 2:
        return None
    course = [Policy.uniform(rounds[0].space), *rounds]
    log_pi = torch.stack([policy.probabilities.detach().mean(0).log() for policy in course])  # (1 + R, N)
    return mean_correlation([*log_pi.diff(dim=0)])


def consensus(policies: Sequence[Policy]) -> Policy:
    """One policy for several searches of the same data, with less of the chance that was in each.

    Its probabilities are the geometric mean of theirs, position by position: of all distributions the one with the
    least mean divergence KL(it || each). Its mu is the mean of theirs. It has as many positions as the median; of a
    policy with another number, each position is taken to be the mean of its own. Searches that kept nothing of what
    they had learned decide where they are most: it is uniform then, with as many as their median. Where they are not,
    they are left out.
    """
    common_space(policies)
    kept = [policy for policy in policies if is_kept(policy)]
    dropped = [policy for policy in policies if not is_kept(policy)]
    learned = {key: value for key, value in policies[0].learned.items() if key in ("preset", "model", "mu_start")}
    learned["searches"] = len(policies)
    if as_they_are := sum(not policy.n_composed for policy in policies):
        learned["images as they are"] = as_they_are
    if len(kept) < len(dropped):
        return replace(dropped[0].with_composed(median_low(policy.n_composed for policy in dropped)), learned=learned)
    n_positions = median_low(len(policy.pi) for policy in kept)
    log_pi = torch.stack([in_positions(policy, n_positions) for policy in kept])  # (S, K, N)
    mu = torch.stack([policy.mu.detach() for policy in kept])  # (S, N)
    return replace(kept[0], pi=log_pi.mean(0).log_softmax(-1), mu=mu.mean(0), learned=learned)


def is_kept(policy: Policy) -> bool:
    """Whether it is more than what a search starts from; where no search has said so, it is."""
    return policy.n_composed > 0 and policy.learned.get("is_kept", True)


def in_positions(policy: Policy, n: int) -> Tensor:
    """log pi, (n, N)."""
    log_pi = policy.pi.detach().log_softmax(-1)  # (K, N)
    return log_pi if len(log_pi) == n else policy.probabilities.detach().mean(0).log().expand(n, -1)


def common_space(policies: Sequence[Policy]) -> Space:
    if not policies:
        raise ValueError("expected at least one policy, got none")
    space = policies[0].space
    for policy in policies:
        if policy.space.names != space.names:
            raise ValueError(f"expected policies of one space, got {space.names} and {policy.space.names}")
    return space


def without(names: Sequence[str], left_out: Collection[str]) -> Tensor:
    """(N,) bool: all but some."""
    return torch.tensor([name not in left_out for name in names])


def mean_correlation(vectors: Sequence[Tensor], chosen: Tensor | slice = EVERY) -> float | None:
    """Mean over all pairs of Pearson's correlation of the chosen entries. It has no scale: pi need not sum to 1."""
    kept = [vector.double().cpu()[chosen] for vector in vectors]
    kept = [vector for vector in kept if len(vector) > 1 and vector.std().item() >= CONSTANT]
    if len(kept) < 2:
        return None
    table = torch.corrcoef(torch.stack(kept))
    pairs = [table[i, j].item() for i, j in combinations(range(len(kept)), 2)]
    return math.fsum(pairs) / len(pairs)
