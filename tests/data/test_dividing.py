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


@given(labels=LABELS, seed=SEEDS)
def test_halves_depend_on_the_seed_alone(labels, seed):
    before = torch.get_rng_state()
    first, again = dividing.halves(labels, seed), dividing.halves(labels, seed)
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert torch.equal(before, torch.get_rng_state())


def test_other_seeds_give_other_halves():
    labels = torch.arange(200) % 4
    assert not torch.equal(dividing.halves(labels, 0)[0], dividing.halves(labels, 1)[0])


@given(labels=LABELS, fraction=st.floats(0, 1), seed=SEEDS)
def test_hold_out_takes_a_share_of_each_class_and_leaves_two(labels, fraction, seed):
    train, test = dividing.hold_out(labels, fraction, seed)
    assert is_partition(train, test, len(labels))
    for label in labels.unique():
        n, n_test = int((labels == label).sum()), int((labels[test] == label).sum())
        assert n - n_test >= min(n, 2)
        assert n_test == pytest.approx(fraction * n, abs=0.5) or n - n_test == 2 or n_test == 0
