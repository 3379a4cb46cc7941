"""Captured steps against plain ones: the same draws, the same numbers within rounding. Here without a graph."""

import copy
from dataclasses import replace
from functools import partial

import pytest
import torch

from slackaug import models, rng
from slackaug.augment import apply
from slackaug.augment.policy import Policy
from slackaug.augment.prepare import AS_STORED, window
from slackaug.augment.space import Space
from slackaug.data import Split
from slackaug.engine.chance import Chance
from slackaug.engine.fit import Fit, FitConfig
from slackaug.engine.gpu.captured import CapturedFit, CapturedPasses
from slackaug.engine.gpu.graphs import Graphs
from slackaug.engine.passes import Passes
from slackaug.engine.state import State
from slackaug.methods import slack
from slackaug.methods.budget import SearchConfig

CONFIG = SearchConfig(n_rounds=2, n_retrain=2, n_unrolled=2, n_composites=3, batch=8, model_lr=0.1, kl_weight=0.1)
PHI = Policy.uniform("cifar")


def data(n: int = 40, size: int = 12) -> Split:
    generator = rng.generator(1, "test")
    images = torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8, generator=generator)
    return Split(images, torch.arange(n) % 4)


class Block(models.BasicBlock):
    """A class that is not known."""


class Basic(torch.nn.Sequential):
    """As many of ResNet's blocks as make it worth to compile one."""

    def __init__(self, kind):
        blocks = [kind(8, 8, 1) for _ in range(4)]
        super().__init__(models.conv3x3(3, 8), *blocks, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        self.append(torch.nn.Linear(8, 4))
        models.initialise(self, rng.generator(2, "test"))


def net(name: str = "wrn-10-1", size: int = 12) -> torch.nn.Module:
    if name in ("basic", "unknown"):
        return Basic(models.BasicBlock if name == "basic" else Block)
    return models.build(name, 4, (size, size), rng.generator(2, "test"))


def make(kind=Passes, preparation=AS_STORED, name="wrn-10-1", model=None, phi=PHI, seed=3, **options):
    """Chance and passes of a search."""
    split, streams = data(), rng.streams(seed, "search")
    model = model or net(name, 12 if preparation is AS_STORED else 10)
    chance = Chance(split, split, CONFIG.batch, CONFIG.batch, streams, flip=phi.flip, preparation=preparation)
    return chance, kind(model, phi, split, split, streams["model"], preparation, **options)


EXACT = {"precision": torch.float32, "compiled": False}
Captured = partial(CapturedPasses, **EXACT)


def trainings(model, preparation=AS_STORED):
    """As it is written, and captured."""
    for kind, options in ((Fit, {}), (CapturedFit, EXACT)):
        given = model(), PHI, data(), FitConfig(epochs=2, batch=8), rng.streams(3, "fit"), preparation
        yield kind(*given, **options)


def searched(kind=Passes, **options):
    chance, passes = make(kind, **options)
    steps = slack.rounds(slack.start(PHI, passes.theta), chance, passes, CONFIG)
    return passes, [(copy.deepcopy(state), copy.deepcopy(report)) for state, report in steps]


@pytest.mark.parametrize("preparation", [AS_STORED, window((10, 10))], ids=["as stored", "window"])
@pytest.mark.parametrize("name", ["wrn-10-1", "small", "basic"])
def test_a_search_is_the_plain_one(name, preparation):
    plain, expected = searched(preparation=preparation, name=name)
    captured, found = searched(Captured, preparation=preparation, name=name)
    for (state, report), (other, other_report) in zip(expected, found, strict=True):
        assert torch.equal(report.tau.op, other_report.tau.op)
        torch.testing.assert_close(report.tau.magnitude, other_report.tau.magnitude, rtol=0, atol=1e-4)
        torch.testing.assert_close(report.train_loss, other_report.train_loss, rtol=1e-4, atol=1e-5)
        assert (report.val_loss is None) == (other_report.val_loss is None)
        assert (state.round, state.step) == (other.round, other.step)
        torch.testing.assert_close(state.phi.pi, other.phi.pi, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(state.anchor.pi, other.anchor.pi, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(plain.theta, captured.theta, rtol=1e-3, atol=1e-4)


class Frozen(torch.nn.Sequential):
    """Keeps its batch-norm as it is, as some do who fine-tune."""

    def train(self, mode: bool = True):
        super().train(mode)
        self[1].eval()
        return self


def test_a_batch_norm_that_the_model_keeps_in_evaluation_mode_stays_there():
    head = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(6, 4)
    model = Frozen(torch.nn.Conv2d(3, 6, 3), torch.nn.BatchNorm2d(6), *head).eval()
    plain, fast = trainings(partial(copy.deepcopy, model))
    torch.testing.assert_close(plain.step(), fast.step(), rtol=1e-5, atol=0)
    assert torch.equal(plain.model[1].running_mean, model[1].running_mean)
    assert torch.equal(fast.model[1].running_mean, model[1].running_mean)


def test_a_search_can_change_engines_in_the_middle():
    """The state of one is the state of the other."""
    plain, expected = searched()
    chance, first = make(Captured)
    steps = slack.rounds(slack.start(PHI, first.theta), chance, first, CONFIG)
    for _ in range(3):
        state, _ = next(steps)
    saved = copy.deepcopy({"search": state.to_dict(), "model": first.model.state_dict(), **chance.get_state()})
    other, second = make(seed=9)
    second.model.load_state_dict(saved["model"])
    other.set_state(saved)
    *_, (state, _) = slack.rounds(State.from_dict(saved["search"], PHI, second.theta), other, second, CONFIG)
    torch.testing.assert_close(state.phi.pi, expected[-1][0].phi.pi, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(second.theta, plain.theta, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("preparation", [AS_STORED, window((10, 10))], ids=["as stored", "window"])
def test_a_training_is_the_plain_one(preparation):
    plain, fast = trainings(partial(net, size=12 if preparation is AS_STORED else 10), preparation)
    for rtol in (1e-5, 1e-4, 1e-3):  # rounding differs, and grows from step to step
        torch.testing.assert_close(plain.step(), fast.step(), rtol=rtol, atol=0)
    torch.testing.assert_close(plain.theta, fast.theta, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kl_budget", [None, 0.01])
def test_a_captured_step_takes_the_rate_that_is_found_later(kl_budget, monkeypatch):
    """A calibration captures steps before it is over. Here steps are replayed on the CPU, as a GPU does."""
    config = replace(CONFIG, kl_budget=kl_budget, model_lr=0.3)
    found = replace(config, model_lr=0.0123)

    def after_a_step(*before):
        chance, passes = make(Captured)
        start, step = chance.get_state(), passes.as_captured(slack.take_step)
        for one in (*before, found):
            passes.cold_start()
            chance.set_state(start)
            state = slack.start(PHI, passes.theta)._replace(step=config.n_retrain)
            state, _ = step(state, passes.send(slack.draw(state, chance, one)), passes, one)
        return copy.deepcopy(state)

    expected = after_a_step()
    first = {}
    monkeypatch.setattr(Graphs, "run", lambda _, kind, body, drawn, changed: first.setdefault(kind, body)(**drawn))
    replayed = after_a_step(config)
    assert not torch.equal(expected.phi.pi, PHI.pi)
    assert torch.equal(expected.phi.pi, replayed.phi.pi)
    assert torch.equal(expected.phi.mu, replayed.phi.mu)


def test_augmentation_stays_compiled_for_many_shapes(monkeypatch):
    """As a study has them, whose networks and searches have batches of their own."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    torch._dynamo.reset()
    phi = Policy.uniform(Space("test*", tuple(PHI.space[name] for name in ("Rotate", "Invert", "Cutout"))))
    _, passes = make(partial(CapturedPasses, precision=torch.float32, compiled=True), phi=phi)
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        for n in range(2, 14):
            images = torch.randint(0, 255, (n, 3, 8, 8), dtype=torch.uint8)
            tau = phi.sample(n, rng.generator(n, "policy"))
            parameters = apply.draw(tau, rng.generator(n, "transform"), flip=True)
            out = passes.way.augment(images, parameters)
            assert torch.equal(out, apply.grouped(images, parameters, phi.fill))
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "block", "n_blocks"),
    [("wrn-28-1", "GroupedWideBlock", 12), ("basic", "GroupedBasicBlock", 4), ("unknown", "CompiledBlock", 4)],
)
@pytest.mark.parametrize(
    ("precision", "of_loss", "of_weight"), [(torch.float32, 1e-5, 0.01), (torch.bfloat16, 1e-2, 0.15)], ids=str
)
def test_compiled_blocks_give_the_plain_numbers(name, block, n_blocks, precision, of_loss, of_weight):
    """By the compiler that a GPU has, too; up to the first policy step, after which rounding has grown."""
    _, expected = searched(name=name)
    passes, found = searched(CapturedPasses, name=name, precision=precision, compiled=True)
    assert sum(kind.__name__ == block for kind in passes.way.kinds.values()) == n_blocks
    for (_, a), (_, b) in list(zip(expected, found, strict=True))[: CONFIG.n_retrain + 1]:
        assert torch.equal(a.tau.op, b.tau.op)
        assert b.train_loss.item() == pytest.approx(a.train_loss.item(), rel=of_loss)
        if a.weight is not None:
            assert (a.weight - b.weight).norm() <= of_weight * a.weight.norm()


class Mirrored(torch.nn.Sequential):
    """Sees each image and its mirror image, as more images."""

    def forward(self, x):
        first, second = super().forward(torch.cat([x, x.flip(3)])).chunk(2)
        return first + second


class Twice(torch.nn.Sequential):
    """Has one batch-norm at two places."""

    def forward(self, x):
        stem, norm, pool, flatten, head = self
        return head(flatten(pool(norm(norm(stem(x)).relu()))))


@pytest.mark.parametrize(("kind", "is_grouped"), [(torch.nn.Sequential, True), (Mirrored, False), (Twice, False)])
def test_a_model_that_cannot_take_groups_goes_through_one_by_one(kind, is_grouped):
    """Their layers are known; what they do with a batch is not."""
    stem = torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.BatchNorm2d(6)
    model = kind(*stem, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(6, 4))
    models.initialise(model, rng.generator(2, "test"))
    thetas = []
    for passes_of in (Passes, Captured):
        one = copy.deepcopy(model)
        before = copy.deepcopy(one.state_dict())
        chance, made = make(passes_of, model=one)
        assert all(torch.equal(value, before[name]) for name, value in one.state_dict().items())
        for _ in slack.rounds(slack.start(PHI, made.theta), chance, made, CONFIG):
            pass
        thetas.append(torch.cat([value.double().flatten() for value in one.state_dict().values()]))
    assert (made.way.grouped is not None) == is_grouped
    torch.testing.assert_close(*thetas, rtol=1e-3, atol=1e-4)
