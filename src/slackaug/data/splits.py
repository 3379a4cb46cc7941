"""Stratified, seeded splits. A split is two disjoint, sorted vectors of indices that together hold every image."""

import torch
from torch import Tensor

from .. import rng

HOLD_OUT = 0.2  # of each class, where a data set comes without a test set (SPEC section 4)
HOLD_OUT_SEED = 0


def by_class(labels: Tensor, seed: int, purpose: str) -> list[Tensor]:
    """The indices of each class, shuffled."""
    stream = rng.generator(seed, purpose)
    classes = [(labels == label).nonzero().flatten() for label in labels.unique().tolist()]
    return [members[torch.randperm(len(members), generator=stream)] for members in classes]


def halves(labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Train and val, 0.5 / 0.5 (Sec. 3): sizes differ by at most 1, of each class and in total."""
    order = torch.cat(by_class(labels, seed, "halves"))  # class after class, so every second one is half of each
    return order[0::2].sort().values, order[1::2].sort().values


def hold_out(labels: Tensor, fraction: float = HOLD_OUT, seed: int = HOLD_OUT_SEED) -> tuple[Tensor, Tensor]:
    """Train and test: `fraction` of each class, rounded, goes to test; two images of a class always stay in train."""
    train, test = [], []
    for members in by_class(labels, seed, "hold-out"):
        n_test = max(0, min(int(fraction * len(members) + 0.5), len(members) - 2))
        test.append(members[:n_test])
        train.append(members[n_test:])
    return torch.cat(train).sort().values, torch.cat(test).sort().values
