"""Trainings as one step against each alone: the same draws, the same numbers. Here without a graph, in float64."""

from dataclasses import replace

import pytest
import torch

from slackaug import models, rng
from slackaug.augment.policy import Policy
from slackaug.data import Split
from slackaug.engine import ways
from slackaug.engine.fit import Fit, FitConfig, Fits, predict
from slackaug.engine.gpu.captured import CapturedFit
from slackaug.engine.gpu.graphs import NotCaptured
from slackaug.engine.gpu.stacked import StackedFits, is_stackable

EXACT = {"precision": torch.float64, "compiled": False}
CONFIG = FitConfig(epochs=2, batch=8, clip=0.5)
POLICIES = [Policy.uniform("cifar"), Policy.uniform("cifar").with_composed(1), Policy.uniform("domainnet")]


def data(seed: int) -> Split:
    images = torch.randint(0, 256, (24, 3, 12, 12), dtype=torch.uint8, generator=rng.generator(seed, "test"))
    return Split(images, torch.arange(24) % 4)


def fit(seed: int, name: str = "wrn-10-1", config: FitConfig = CONFIG) -> Fit:
    """Each with a network, a policy and images of its own."""
    model = models.build(name, 4, (12, 12), rng.generator(seed, "model")).double()
    like = {name: getattr(POLICIES[0], name) for name in ("mean", "std", "fill")}
    found = Fit(model, replace(POLICIES[seed % 3], **like), data(seed), config, rng.streams(seed, "fit"))
    found.normalise.double()
    return found


def assert_same(found: Fit, wanted: Fit) -> None:
    state, expected = found.get_state(), wanted.get_state()
    assert state["done"] == expected["done"]
    assert state["model"].keys() == expected["model"].keys()
    for name, value in expected["model"].items():
        torch.testing.assert_close(state["model"][name], value, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(state["momentum"], expected["momentum"], rtol=1e-9, atol=1e-11)
    assert all(torch.equal(a, b) for a, b in zip(state["streams"].values(), expected["streams"].values(), strict=True))


@pytest.mark.parametrize(("name", "n_steps"), [("small", 6), ("wrn-10-1", 6), ("resnet18", 1)])
def test_each_is_as_it_would_be_alone(name, n_steps):
    alone, together = (
        [fit(seed, name) for seed in range(3)],
        StackedFits([fit(seed, name) for seed in range(3)], **EXACT),
    )
    for _ in range(n_steps):
        losses = torch.stack([one.step() for one in alone])
        torch.testing.assert_close(together.step(), losses, rtol=1e-9, atol=1e-11)
    together.settle()
    for found, wanted in zip(together.fits, alone, strict=True):
        assert_same(found, wanted)
        logits = [predict(one.model, one.normalise, data(9)) for one in (found, wanted)]
        torch.testing.assert_close(*logits, rtol=1e-9, atol=1e-9)


def test_one_that_was_stopped_goes_on_in_other_company():
    first = StackedFits([fit(0), fit(1)], **EXACT)
    for _ in range(3):
        first.step()
    first.settle()
    states = [one.get_state() for one in first.fits]
    second = [fit(1), fit(0)]
    for one, state in zip(second, reversed(states), strict=True):
        one.set_state(state)
    together, alone = StackedFits(second, **EXACT), [fit(1), fit(0)]
    for _ in range(3):
        together.step()
    together.settle()
    for found, wanted in zip(together.fits, alone, strict=True):
        for _ in range(6):
            wanted.step()
        assert_same(found, wanted)


def test_one_that_is_no_longer_a_number_leaves_the_others_alone():
    alone, together = fit(0), StackedFits([fit(0), fit(1)], **EXACT)
    together.theta[1] = torch.nan
    for _ in range(4):
        alone.step()
        losses = together.step()
    together.settle()
    assert losses.isfinite().tolist() == [True, False]
    assert_same(together.fits[0], alone)


# --- what goes on together --------------------------------------------------------------------------------------------


class Own(torch.nn.Sequential):
    """A network that is not the package's."""


def test_only_our_networks_are_stacked():
    assert is_stackable(models.build("small", 4, (12, 12), rng.generator(0, "model")))
    assert not is_stackable(Own(torch.nn.Flatten(), torch.nn.Linear(4, 2)))


def teams(fits):
    return [(list(members), type(some)) for members, some in ways.side_by_side("evaluate", fits)]


def test_on_a_cpu_each_is_alone():
    assert teams([fit(0), fit(1)]) == [([0], Fits), ([1], Fits)]


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(ways, "is_eligible", lambda *_: True)
    for kind in ("StackedFits", "CapturedFit"):
        made = {"StackedFits": StackedFits, "CapturedFit": CapturedFit}[kind]
        monkeypatch.setattr(ways, kind, lambda *given, made=made, precision: made(*given, **EXACT))
    monkeypatch.setattr(ways, "precision", lambda: torch.float64)
    monkeypatch.setattr(ways, "FASTER", {})
    seconds = iter([1.0, 0.6] * 9)
    monkeypatch.setattr(ways, "timed", lambda step: step() is not None and next(seconds))


def test_those_alike_go_together_and_begin_where_they_were(as_on_a_gpu):
    longer = FitConfig(epochs=3, batch=8)
    fits = [fit(0), fit(1, config=longer), fit(2), fit(3, config=longer), fit(4, "small")]
    before = [one.get_state() for one in fits]
    found = [*ways.side_by_side("evaluate", fits)]
    assert [(list(members), type(some)) for members, some in found] == [
        ([0, 2], StackedFits), ([1, 3], StackedFits), ([4], Fits)
    ]  # fmt: skip
    for members, some in found:
        some.settle()
        for i, one in zip(members, some.fits, strict=True):
            assert_same(one, as_begun(fits[i], before[i]))


def as_begun(like: Fit, state) -> Fit:
    fresh = Fit(*ways.parts_of(like))
    fresh.set_state(state)
    return fresh


def test_what_is_slower_together_is_done_alone(as_on_a_gpu, monkeypatch):
    seconds = iter([1.3, 0.6])
    monkeypatch.setattr(ways, "timed", lambda step: next(seconds))
    assert teams([fit(0), fit(1)]) == [([0], Fits), ([1], Fits)]


def test_fewer_at_a_time_where_memory_is_short(as_on_a_gpu, monkeypatch):
    stacked = ways.StackedFits

    def short(fits, **options):
        if len(fits) > 2:
            raise torch.OutOfMemoryError
        return stacked(fits, **options)

    monkeypatch.setattr(ways, "StackedFits", short)
    assert teams([fit(seed) for seed in range(4)]) == [([0, 1], StackedFits), ([2, 3], StackedFits)]


def test_what_cannot_be_captured_together_is_tried_alone(as_on_a_gpu, monkeypatch, caplog):
    def failing(*_, **__):
        raise NotCaptured("no")

    monkeypatch.setattr(ways, "StackedFits", failing)
    assert teams([fit(0), fit(1)]) == [([0], Fits), ([1], Fits)]
    assert "slower (no)" in caplog.text


def test_folds_of_unequal_size_whose_batch_is_all_of_them_are_not_alike(as_on_a_gpu):
    config = FitConfig(epochs=2, batch=100)
    fits = [fit(0, config=config), fit(1, config=config)]
    fits[1] = Fit(fits[1].model, fits[1].policy, data(1).subset(torch.arange(23)), config, fits[1].streams)
    assert [members for members, _ in ways.side_by_side("evaluate", fits)] == [[0], [1]]


def test_a_training_that_does_not_fit_beside_them_halves_them_too(as_on_a_gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2e9, 8e9))

    def full(*_):
        raise ways.OutOfMemory("batches", "evaluate.batch", 8)

    monkeypatch.setattr(ways, "is_faster", full)
    assert teams([fit(0), fit(1)]) == [([0], Fits), ([1], Fits)]
