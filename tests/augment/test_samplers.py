"""The ways of drawing that baselines are made of; their frequencies are tested with the baselines."""

import pytest
import torch

from slackaug.augment.samplers import All, Some
from slackaug.augment.transforms import SPACES

SPACE = SPACES["cifar"]
LEVELS = torch.tensor([0.25, 0.5, 1.0], dtype=torch.float64)


@pytest.mark.parametrize("part", [Some(space=SPACE, n_ops=2), All(space=SPACE, shuffled=True), All(space=SPACE)])
def test_every_transformation_is_drawn_and_none_beyond(part):
    tau = part.sample(2000, torch.Generator().manual_seed(0))
    assert tau.op.unique().tolist() == list(range(len(SPACE)))
    assert ((tau.magnitude >= 0) & (tau.magnitude < 1)).all()
    assert tau.active.all()


def test_levels_and_chance():
    tau = Some(space=SPACE, n_ops=1, levels=LEVELS, chance=0.0).sample(500, torch.Generator().manual_seed(0))
    assert tau.magnitude.unique().tolist() == LEVELS.tolist()
    assert not tau.active.any()


def test_all_are_drawn_once_in_order_or_not():
    generator = torch.Generator().manual_seed(0)
    every = torch.arange(len(SPACE)).expand(50, -1)
    assert torch.equal(All(space=SPACE).sample(50, generator).op, every)
    shuffled = All(space=SPACE, shuffled=True).sample(50, generator).op
    assert not torch.equal(shuffled, every)
    assert torch.equal(shuffled.sort(-1).values, every)
