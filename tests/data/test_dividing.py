import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slackaug.data import dividing

LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=60).map(torch.tensor)
SEEDS = st.integers(0, 1000)


def is_partition(first, second, n):
    return torch.equal(torch.cat([first, second]).sort().values, torch.arange(n))


@given(labels=LABELS, seed=SEEDS)
def test_halves_are_stratified_partitions(labels, seed):
    train, val = dividing.halves(labels, seed)
    assert is_partition(train, val, len(labels))
    assert abs(len(train) - len(val)) <= 1
    for label in labels.unique():
        n_train, n_val = (int((labels[half] == label).sum()) for half in (train, val))
        assert abs(n_train - n_val) <= 1
        assert min(n_train, n_val) >= 1 or n_train + n_val == 1


def test_halves_depend_on_the_seed_alone():
    labels, before = torch.arange(200) % 4, torch.get_rng_state()
    first, again, other = (dividing.halves(labels, seed) for seed in (0, 0, 1))
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], other[0])
    assert torch.equal(before, torch.get_rng_state())


@given(labels=LABELS)
def test_hold_out_takes_a_share_of_each_class_and_leaves_two(labels):
    train, test = dividing.hold_out(labels)
    assert is_partition(train, test, len(labels))
    for label in labels.unique():
        n, n_test = int((labels == label).sum()), int((labels[test] == label).sum())
        assert n - n_test >= min(n, 2)
        assert n_test == pytest.approx(dividing.HOLD_OUT * n, abs=0.5) or n - n_test == 2 or n_test == 0


@pytest.mark.parametrize(("sizes", "n"), [([10, 20, 30], 30), ([2, 2, 100], 11), ([7, 7, 7], 20), ([5] * 9, 31)])
def test_train_on_is_exact_and_stratified(sizes, n):
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    train, test = dividing.train_on(labels, n)
    assert len(train) == n
    assert is_partition(train, test, len(labels))
    for k, size in enumerate(sizes):
        found = int((labels[train] == k).sum())
        assert abs(found - size * n / len(labels)) < 1 + 2 * sizes.count(2) or found == 2


@given(
    sizes=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), min_size=8, max_size=40),
    seed=st.integers(0, 100),
    fraction=st.sampled_from([0.2, 0.5]),
)
def test_groups_whole_and_classes_near_their_share(sizes, seed, fraction):
    groups = torch.cat([torch.full((n,), g) for g, (n, _) in enumerate(sizes)])
    labels = torch.cat([torch.full((n,), label) for n, label in sizes])
    first, second = dividing.by_group(labels, groups, fraction, seed, "test")
    assert is_partition(first, second, len(labels))
    assert not {*groups[first].tolist()} & {*groups[second].tolist()}
    for label in labels.unique():
        wanted, largest = fraction * (labels == label).sum(), max(n for n, own in sizes if own == label)
        assert abs((labels[second] == label).sum() - wanted) <= largest  # groups of one class each: off by one at most


def test_groups_of_different_sizes_have_other_halves_for_other_seeds():
    groups = torch.arange(3, 33).repeat_interleave(torch.arange(3, 33)) - 3
    labels = torch.arange(len(groups)) % 3
    found = {tuple(dividing.halves(labels, seed, groups)[0].tolist()) for seed in range(8)}
    assert len(found) == 8
    assert all(abs(2 * len(first) - len(groups)) < 12 for first in found)


def test_a_class_of_few_groups_is_on_both_sides_of_every_split():
    """Groups of two classes, in which the first has three: one to learn on, one to validate with, one to be tested."""
    sizes = [(0, 9), (0, 1), (0, 1), *((1, 8 + k) for k in range(9))]
    labels = torch.cat([torch.full((n,), label) for label, n in sizes])
    groups = torch.cat([torch.full((n,), g) for g, (_, n) in enumerate(sizes)])
    train, test = dividing.hold_out(labels, groups=groups)
    assert {*labels[test].tolist()} == {0, 1}
    for seed in range(8):
        for half in dividing.halves(labels[train], seed, groups[train]):
            assert {*labels[train][half].tolist()} == {0, 1}


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=50).map(torch.tensor))
def test_balanced_indices_hold_every_image_and_every_class_as_often(labels):
    index = dividing.balanced(labels)
    assert {*index.tolist()} == {*range(len(labels))}
    counts = labels[index].bincount()
    assert {*counts[counts > 0].tolist()} == {int(labels.bincount().max())}
    for label in labels.unique():
        times = index[labels[index] == label].bincount()
        assert times[times > 0].max() - times[times > 0].min() <= 1
