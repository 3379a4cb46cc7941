"""The steps of a search: the usual number of each kind, and the images that pass in one."""

from dataclasses import replace

import pytest

from slackaug.auto import calibrate, composing, steps
from slackaug.auto.steps import Steps
from slackaug.config import paper, presets
from slackaug.data import load


@pytest.fixture
def config(tiny_npz):
    config = paper.rounds_alone(presets.preset("quick", load(str(tiny_npz))))
    counts = {"n_rounds": 4, "n_retrain": 10, "n_unrolled": 7, "n_composites": 3, "batch": 16}
    return replace(config, search=replace(config.search, calibrate=False, **counts))


def test_trials_add_their_steps(config):
    assert steps.usual(config, 100) == Steps(100, 40, 28)
    rate = replace(config, search=replace(config.search, calibrate=True))
    assert steps.usual(rate, 100) == Steps(100, 40 + 10 * calibrate.N_USUAL, 28)
    assert steps.usual(replace(config, n_composed=None), 100) == Steps(100 * composing.N_USUAL, 40, 28)
    assert steps.usual(replace(config, confirm=True), 100) == Steps(200, 40, 28)


def test_images_are_those_of_all_passes(config):
    assert steps.images(config.search, 1000, 64) == Steps(64, 48, 48)
    assert steps.images(config.search, 12, 64) == Steps(64, 36, 36)  # a batch has no more than there are


def test_what_they_cost_together():
    assert Steps(2, 3, 5).at(Steps(0.5, 10, 1)) == 36
