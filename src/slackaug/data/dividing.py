"""Stratified, seeded splits. A split is two disjoint, sorted vectors of indices that together hold every image.

Where images come in groups (frames of a film, slides of a patient), a group stays on one side: images of one group are
alike, so that a model is tested on what it has seen otherwise. Axes: B images, G groups, C classes.
"""

import torch
from torch import Tensor

from .. import rng

HOLD_OUT = 0.2  # of each class, where a data set comes without a test set (Sec. 4.1, DomainNet)
HOLD_OUT_SEED = 0


def by_class(labels: Tensor, seed: int, purpose: str) -> list[Tensor]:
    """The indices of each class, shuffled."""
    stream = rng.generator(seed, purpose)
    classes = [(labels == label).nonzero().flatten() for label in labels.unique().tolist()]
    return [members[torch.randperm(len(members), generator=stream)] for members in classes]


def halves(labels: Tensor, seed: int, groups: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Train and val, 0.5 / 0.5 (Sec. 3): without groups, sizes differ by at most 1, of each class and in total."""
    if groups is not None:
        return by_group(labels, groups, 0.5, seed, "halves")
    order = torch.cat(by_class(labels, seed, "halves"))  # class after class, so every second one is half of each
    return order[0::2].sort().values, order[1::2].sort().values


def hold_out(labels: Tensor, groups: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Train and test: HOLD_OUT of each class goes to test, of which two images or groups always stay in train."""
    if groups is not None:
        return by_group(labels, groups, HOLD_OUT, HOLD_OUT_SEED, "hold-out", wanted=(2, 1))
    classes = by_class(labels, HOLD_OUT_SEED, "hold-out")
    test, train = first_of(classes, [int(HOLD_OUT * len(members) + 0.5) for members in classes])
    return train, test


def train_on(labels: Tensor, n_train: int) -> tuple[Tensor, Tensor]:
    """Train and test: exactly n_train images, of each class its share, are trained on; two of a class at least."""
    classes = by_class(labels, HOLD_OUT_SEED, "train-on")
    shares = torch.tensor([len(members) * n_train / len(labels) for members in classes], dtype=torch.float64)
    counts = shares.floor().long().clamp(min=2)
    for k in (shares - shares.floor()).argsort(descending=True, stable=True).tolist():  # the largest rests first
        counts[k] += int(counts.sum() < n_train and counts[k] < len(classes[k]))
    while counts.sum() > n_train and counts.max() > 2:  # what the smallest classes got too much
        counts[counts.argmax()] -= 1
    return first_of(classes, counts.tolist())


def first_of(classes: list[Tensor], counts: list[int]) -> tuple[Tensor, Tensor]:
    """So many of each class, and the others."""
    parts = [members.split([n, len(members) - n]) for members, n in zip(classes, counts, strict=True)]
    first, others = (torch.cat(some).sort().values for some in zip(*parts, strict=True))
    return first, others


def by_group(
    labels: Tensor, groups: Tensor, fraction: float, seed: int, purpose: str, wanted: tuple[int, int] = (1, 1)
) -> tuple[Tensor, Tensor]:
    """Two sides, about `fraction` of each class on the second; no group is on both.

    Each group goes where it brings the classes nearer to their shares, or, where few groups of a class are left, to the
    side that has fewer of them than `wanted`. Large groups go first, which leaves small ones to even things out, but in
    a random order up to a factor of two: by size alone, groups of different sizes would be split alike for every seed.
    """
    stream = rng.generator(seed, purpose)
    n_groups, n_classes = int(groups.max()) + 1, int(labels.max()) + 1
    counts = torch.zeros(n_groups, n_classes, dtype=torch.float64)  # (G, C)
    counts.index_put_((groups, labels), torch.ones(len(labels), dtype=torch.float64), accumulate=True)
    total, there = counts.sum(0), counts > 0
    left = torch.stack([(1 - fraction) * total, fraction * total])  # (2, C), images that each side still wants
    to_come = there.sum(0)  # (C,) groups
    first = to_come.clamp(max=wanted[0])
    short = torch.stack([first, (to_come - first).clamp(max=wanted[1])])  # (2, C), groups that each side still needs
    shuffled = torch.randperm(n_groups, generator=stream)
    order = shuffled[counts[shuffled].sum(1).clamp(min=1).log2().floor().argsort(descending=True, stable=True)]
    either = torch.randint(2, (n_groups,), generator=stream)  # where a group goes that fits on both sides alike
    is_second = torch.zeros(n_groups, dtype=torch.bool)
    for g in order.tolist():
        off = ((left - counts[g]).square() - left.square()) / total.clamp(min=1)  # (2, C), change of the distance
        is_urgent = there[g] & (to_come <= short.sum(0))
        needs = (is_urgent & (short > 0)).sum(1).tolist()
        on_first, on_second = ((-need, change) for need, change in zip(needs, off.sum(1).tolist(), strict=True))
        side = int(either[g]) if on_first == on_second else int(on_second < on_first)
        left[side] -= counts[g]
        short[side] -= (there[g] & (short[side] > 0)).long()
        to_come -= there[g].long()
        is_second[g] = bool(side)
    chosen = is_second[groups]
    return (~chosen).nonzero().flatten(), chosen.nonzero().flatten()


def balanced(labels: Tensor) -> Tensor:
    """Indices in which every class occurs as often as the largest does: the mean loss over them is that of classes."""
    classes = [(labels == label).nonzero().flatten() for label in labels.unique().tolist()]
    most = max(len(members) for members in classes)
    repeated = [members.repeat(-(-most // len(members)))[:most] for members in classes]
    return torch.cat(repeated).sort().values
