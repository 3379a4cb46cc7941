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


def train_on(labels: Tensor, n_train: int, seed: int = HOLD_OUT_SEED) -> tuple[Tensor, Tensor]:
    """Train and test: exactly n_train images, of each class its share, are trained on; two of a class at least."""
    classes = by_class(labels, seed, "train-on")
    shares = torch.tensor([len(members) * n_train / len(labels) for members in classes], dtype=torch.float64)
    counts = shares.floor().long().clamp(min=2)
    for k in (shares - shares.floor()).argsort(descending=True, stable=True).tolist():  # the largest rests first
        counts[k] += int(counts.sum() < n_train and counts[k] < len(classes[k]))
    while counts.sum() > n_train and counts.max() > 2:  # what the smallest classes got too much
        counts[counts.argmax()] -= 1
    train = [members[:n] for members, n in zip(classes, counts.tolist(), strict=True)]
    test = [members[n:] for members, n in zip(classes, counts.tolist(), strict=True)]
    return torch.cat(train).sort().values, torch.cat(test).sort().values
