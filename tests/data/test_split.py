import io

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slackaug import rng
from slackaug.data import Batches


@given(n=st.integers(1, 40), batch=st.integers(1, 50), seed=st.integers(0, 100))
def test_an_epoch_has_no_image_twice_and_drops_the_incomplete_batch(n, batch, seed):
    batches = Batches(n, batch, rng.generator(seed))
    for _ in range(3):
        epoch = torch.cat([batches.next() for _ in range(batches.per_epoch)])
        assert len(epoch) == n // min(n, batch) * min(n, batch)
        assert len(epoch.unique()) == len(epoch)
        assert epoch.min() >= 0
        assert epoch.max() < n


@given(n=st.integers(1, 20), batch=st.integers(1, 20), before=st.integers(0, 12))
def test_a_restored_state_continues_with_equal_batches(n, batch, before):
    batches = Batches(n, batch, rng.generator(0))
    for _ in range(before):
        batches.next()
    state, file = batches.get_state(), io.BytesIO()
    expected = [batches.next() for _ in range(10)]
    torch.save(state, file)  # later batches have not changed it
    resumed = Batches(n, batch, rng.generator(1))
    file.seek(0)
    resumed.set_state(torch.load(file, weights_only=True))
    assert all(torch.equal(resumed.next(), indices) for indices in expected)


def test_epochs_differ():
    batches = Batches(50, 50, rng.generator(0))
    assert not torch.equal(batches.next(), batches.next())


def test_writing_into_a_batch_does_not_change_later_ones():
    batches = Batches(4, 2, rng.generator(0))
    batches.order = torch.arange(4)
    batches.next().zero_()
    assert torch.equal(batches.get_state()["order"], torch.arange(4))


def test_refuses_a_state_of_other_sizes_and_empty_data():
    with pytest.raises(ValueError, match="3 out of 9"):
        Batches(10, 3, rng.generator(0)).set_state(Batches(9, 3, rng.generator(0)).get_state())
    with pytest.raises(ValueError, match="at least one image"):
        Batches(0, 3, rng.generator(0))
