"""Captured and compiled steps on a GPU against plain ones in float32, step by step."""

import copy
import gc
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

import tiny
from slackaug import models, rng
from slackaug.augment.policy import Policy
from slackaug.auto import learn
from slackaug.auto.problem import Problem
from slackaug.auto.stages import Search
from slackaug.config import parse, presets
from slackaug.data import Split, load
from slackaug.engine import ways
from slackaug.engine.chance import Chance
from slackaug.engine.fit import Fit, FitConfig
from slackaug.engine.gpu.captured import CapturedFit, CapturedPasses
from slackaug.engine.gpu.stacked import StackedFits
from slackaug.engine.passes import Passes
from slackaug.methods import slack
from slackaug.methods.budget import SearchConfig

pytestmark = pytest.mark.gpu

CONFIG = SearchConfig(n_rounds=1, n_retrain=2, n_unrolled=2, n_composites=4, batch=64, model_lr=0.05)
PHI = Policy.uniform("cifar")
PHIS = PHI, PHI.with_composed(1), PHI.with_composed(2)
FEW = Policy.uniform(PHI.space.exclude(*(name for name in PHI.space.names if name not in ("Rotate", "Invert"))))
BATCH = CONFIG.n_composites * CONFIG.batch  # images of a training: what augments them is compiled for a search, too
BOUNDS = {torch.float32: (1e-5, 0.01), torch.bfloat16: (1e-2, 0.15)}  # of losses, and of w in shares of its RMS


@pytest.fixture(autouse=True)
def exact_float32():
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


GRAIN = {"resnet18": 32}  # of smoother images its stem leaves so little that w is rounding: 5 % by 1e-7 of the weights


def data(n: int = 512, grain: int = 8) -> Split:
    generator = rng.generator(1, "test")
    coarse = torch.rand(n, 3, grain, grain, generator=generator)
    images = (255 * torch.nn.functional.interpolate(coarse, 32, mode="bilinear")).to(torch.uint8)
    return Split(images.cuda(), (torch.arange(n) % 10).cuda())


def net(name: str = "wrn-16-2") -> torch.nn.Module:
    return models.build(name, 10, (32, 32), rng.generator(2, "test")).cuda()


def make(kind=Passes, name: str = "wrn-16-2", **options):
    """Chance and passes of a search."""
    split, streams = data(grain=GRAIN.get(name, 8)), rng.streams(3, "search")
    chance = Chance(split, split, CONFIG.batch, CONFIG.batch, streams, flip=PHI.flip)
    return chance, kind(net(name), PHI, split, split, streams["model"], **options)


@cache
def compiled(name: str, precision: torch.dtype) -> tuple[Chance, CapturedPasses, dict[str, Any]]:
    """Captured passes, which keep what they have compiled, and the state of chance before any step."""
    chance, passes = make(CapturedPasses, name, precision=precision)
    return chance, passes, chance.get_state()


@pytest.fixture(scope="module", autouse=True)
def freed():
    yield
    compiled.cache_clear()
    gc.collect()  # graphs are freed here, and not while the next file compiles or captures
    torch.cuda.synchronize()


def captured(name: str = "wrn-16-2", precision: torch.dtype = torch.float32) -> tuple[Chance, CapturedPasses]:
    chance, passes, state = compiled(name, precision)
    chance.set_state(state)
    passes.cold_start()
    return chance, passes


@pytest.mark.parametrize("precision", BOUNDS, ids=str)
@pytest.mark.parametrize("name", ["wrn-16-2", "resnet18"])
def test_a_step_of_each_kind_from_the_same_state(name, precision):
    of_loss, of_weight = BOUNDS[precision]
    ways_to_go = make(name=name), captured(name, precision)
    for step in (0, CONFIG.n_retrain):
        reports = []
        for chance, passes in ways_to_go:
            passes.cold_start()
            start = slack.start(PHI, passes.theta)._replace(step=step)
            _, report = next(slack.rounds(start, chance, passes, CONFIG))
            reports.append(report)
        a, b = reports
        assert torch.equal(a.tau.op.cpu(), b.tau.op.cpu())
        assert torch.allclose(a.tau.magnitude.cpu(), b.tau.magnitude.cpu(), rtol=0, atol=1e-12)
        assert b.train_loss.item() == pytest.approx(a.train_loss.item(), rel=of_loss)
        if step:
            assert b.val_loss.item() == pytest.approx(a.val_loss.item(), rel=2 * of_loss)  # at the new theta
            error = (a.weight - b.weight).norm() / a.weight.norm()
            assert error <= of_weight, f"{error:.4f} of the RMS"


def test_a_whole_round_stays_close_and_the_anchor_does_not_move():
    states = []
    for chance, passes in (make(), captured()):
        *_, (state, _) = slack.rounds(slack.start(PHI, passes.theta), chance, passes, CONFIG)
        states.append(state)
    assert torch.allclose(states[0].phi.pi.cpu(), states[1].phi.pi.cpu(), rtol=0.1, atol=1e-4)
    assert torch.equal(states[1].anchor.pi.cpu(), PHI.pi)
    assert not torch.equal(states[1].phi.pi.cpu(), PHI.pi)


def test_a_training_step_and_its_resumption():
    config = FitConfig(epochs=4, batch=BATCH)
    plain = Fit(net(), PHI, data(), config, rng.streams(3, "fit"))
    fast = CapturedFit(net(), PHI, data(), config, rng.streams(3, "fit"), precision=torch.float32)
    assert fast.step().item() == pytest.approx(plain.step().item(), rel=1e-5)
    saved = copy.deepcopy(fast.get_state())
    expected = [fast.step().item() for _ in range(3)]
    again = CapturedFit(net(), PHI, data(), config, rng.streams(9, "other"), precision=torch.float32)
    again.set_state(saved)
    assert [again.step().item() for _ in range(3)] == pytest.approx(expected, rel=1e-4)


def test_several_trainings_at_once():
    """As the plain ones, within the rounding of bfloat16; and before their first step again, after they were tried."""
    config, (of_loss, of_rest) = FitConfig(epochs=2, batch=BATCH), BOUNDS[torch.bfloat16]
    plain, some = ([Fit(net(), policy, data(), config, rng.streams(seed, "fit")) for seed, policy in enumerate(PHIS)]
                   for _ in range(2))  # fmt: skip
    ((members, together),) = ways.side_by_side("evaluate", some)
    assert (list(members), type(together)) == ([0, 1, 2], StackedFits)
    for _ in range(2):
        expected = torch.stack([fit.step() for fit in plain])
        torch.testing.assert_close(together.step(), expected, rtol=of_loss, atol=0)
    together.settle()
    for fit, one in zip(some, plain, strict=True):
        assert fit.done == one.done == 2
        assert (fit.theta - one.theta).norm() <= of_loss * one.theta.norm()
        for found, wanted in zip(fit.model.buffers(), one.model.buffers(), strict=True):
            assert (found - wanted).float().norm() <= of_rest * wanted.float().norm()


def test_what_is_tried_is_taken_back():
    config = FitConfig(epochs=1, batch=64)
    fit = ways.captured("evaluate", Fit(net(), PHI, data(), config, rng.streams(3, "fit")))
    fresh = Fit(net(), PHI, data(), config, rng.streams(3, "fit"))
    assert isinstance(fit, CapturedFit)
    assert torch.equal(fit.theta, fresh.theta)
    assert fit.done == 0
    assert torch.equal(fit.draw()["batch"], fresh.draw()["batch"])


class Asking(torch.nn.Module):
    """A model that waits for the device in the middle of a pass, so that no graph can hold it."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(3 * 32 * 32, 10)

    def forward(self, x):
        if x.abs().max().item() > 1e6:
            x = x / 2
        return self.head(x.flatten(1))


def test_a_model_that_cannot_be_captured_is_trained_in_the_plain_way(caplog):
    fit = ways.captured(
        "evaluate", Fit(Asking().cuda(), FEW, data(), FitConfig(epochs=1, batch=64), rng.streams(3, "fit"))
    )
    assert type(fit) is Fit
    assert "cannot be compiled and captured here" in caplog.text
    assert fit.step().isfinite()


class Dropping(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x + torch.rand_like(x))


def test_what_a_model_draws_on_a_gpu_is_the_same_after_a_resumption(caplog):
    def begin(seed: int) -> Fit:
        model = torch.nn.Sequential(Dropping(), torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10)).cuda()
        for p in model.parameters():
            torch.nn.init.zeros_(p)
        plain = Fit(model, FEW, data(), FitConfig(epochs=1, batch=64), rng.streams(seed, "fit"))
        return ways.captured("evaluate", plain)

    fit = begin(3)
    assert type(fit) is Fit
    assert "the model draws at random" in caplog.text
    fit.step()
    saved, outside = copy.deepcopy(fit.get_state()), torch.cuda.get_rng_state()
    expected = [fit.step().item() for _ in range(3)]
    assert torch.equal(torch.cuda.get_rng_state(), outside)
    again = begin(9)
    torch.rand(7, device="cuda")  # whatever others draw
    again.set_state(saved)
    assert [again.step().item() for _ in range(3)] == pytest.approx(expected, rel=1e-4)


def test_a_search_that_cannot_be_captured_takes_plain_steps(caplog):
    split, streams = data(), rng.streams(3, "search")
    chance = Chance(split, split, CONFIG.batch, CONFIG.batch, streams, flip=True)

    def try_out(passes: Passes) -> None:
        next(slack.rounds(slack.start(FEW, passes.theta), chance, passes, CONFIG))

    passes = ways.make_passes("compiled", try_out, Asking().cuda(), FEW, split, split, streams["model"])
    assert type(passes) is Passes
    assert "cannot be compiled and captured here" in caplog.text
    *_, (state, _) = slack.rounds(slack.start(FEW, passes.theta), chance, passes, CONFIG)
    assert (state.phi.pi.cpu() - FEW.pi).abs().max() > 0


def linear() -> torch.nn.Module:
    """Quickly compiled."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10)).cuda()


def test_too_large_a_batch_names_one_to_try():
    torch.cuda.set_per_process_memory_fraction(0.15)  # 21 GB of an H200's: its images alone are 13 as bytes
    n = 2**22
    images = torch.zeros(1, 3, 32, 32, dtype=torch.uint8, device="cuda").expand(n, -1, -1, -1)
    huge = Split(images, torch.zeros(n, dtype=torch.int64, device="cuda"))
    config = FitConfig(epochs=1, batch=n)
    with pytest.raises(RuntimeError, match=f"do not fit on the GPU.*--set evaluate.batch={n // 2}"):
        ways.captured("evaluate", Fit(linear(), FEW, huge, config, rng.streams(3, "fit")))
    config = replace(config, batch=64)
    assert ways.captured("evaluate", Fit(linear(), FEW, data(), config, rng.streams(3, "fit"))).step().isfinite()


def test_a_search_goes_through_all_of_its_stages_on_one_model(tiny_npz):
    """Trainings are captured one after the other, with different numbers of transformations, and the engine between.

    Two transformations, and eight images in all steps.
    """
    dataset = load(str(tiny_npz))
    left_out = tuple(name for name in PHI.space.names if name not in FEW.space.names)
    config = replace(presets.quick(dataset), exclude=left_out)
    same = {"pretrain__batch": 8, "evaluate__batch": 8, "evaluate__epochs": 2, "search__n_composites": 2}
    for text in tiny.assignments(n_composed="null", search__calibrate="true", **same):
        config = parse.update(config, parse.parse_assignment(text))
    search = Search(Problem(config, dataset, "cuda"))
    stages = []
    learn.learn(search, None, learn.Watch(lambda standing, _: stages.append(standing.stage)))
    assert list(dict.fromkeys(stages)) == ["pre-training", "calibration", "re-training", "policy"]
    assert search.share_done() == 1
    assert search.stage.found.phi.pi.device.type == "cpu"
