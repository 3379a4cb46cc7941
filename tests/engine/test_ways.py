"""Which way is taken, on a machine without a GPU always the plain one; and how long a step takes."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

from slackaug import rng
from slackaug.augment.policy import Policy
from slackaug.auto.problem import Problem
from slackaug.config.run_config import BLANK
from slackaug.data import Split, load
from slackaug.engine import trying, ways
from slackaug.engine.chance import Chance
from slackaug.engine.fit import Fit, FitConfig
from slackaug.engine.gpu.captured import CapturedPasses
from slackaug.engine.gpu.graphs import NotCaptured
from slackaug.engine.passes import Passes
from slackaug.methods import slack
from slackaug.methods.budget import SearchConfig

PHI = Policy.uniform("cifar")
DATA = Split(torch.zeros(16, 3, 8, 8, dtype=torch.uint8), torch.arange(16) % 2)
CONFIG = SearchConfig(batch=4, n_composites=3)
CONFIG_OF_A_RUN = replace(BLANK, search=CONFIG)


def net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 2))


def make(name: str, model: nn.Module, streams, try_out=lambda passes: None) -> Passes:
    return ways.make_passes(name, try_out, model, PHI, DATA, DATA, streams["model"])


def test_on_the_cpu_all_is_plain(caplog):
    assert {type(make(name, net(), rng.streams(0, "search"))) for name in ways.ENGINES} == {Passes}
    assert type(ways.captured("evaluate", Fit(net(), PHI, DATA, FitConfig(), rng.streams(0, "fit")))) is Fit
    assert not caplog.records


def test_an_unknown_engine():
    with pytest.raises(ValueError, match="unknown engine 'plian'; did you mean 'plain'"):
        make("plian", net(), rng.streams(0, "search"))


class Drawing(nn.Module):
    """What a `forward` may do, which no layer shows."""

    def __init__(self, draw, *layers):
        super().__init__()
        self.draw, self.layers = draw, nn.Sequential(nn.Flatten(), *layers, nn.Linear(192, 2))

    def forward(self, x):
        return self.layers(self.draw(x))


def as_it_is(x):
    return x


DRAWS = {
    "no draws": (False, Drawing(as_it_is, nn.BatchNorm1d(192))),
    "nn.Dropout(p=0)": (False, Drawing(as_it_is, nn.Dropout(0.0))),
    "F.dropout(p=0)": (False, Drawing(lambda x: functional.dropout(x, 0.0))),
    "a generator of its own": (False, Drawing(lambda x: x + torch.rand(8, generator=torch.Generator()))),
    "nn.Dropout": (True, Drawing(as_it_is, nn.Dropout(0.5))),
    "nn.RReLU": (True, Drawing(as_it_is, nn.RReLU())),
    "F.dropout": (True, Drawing(lambda x: functional.dropout(x, 0.1))),
    "torch.rand_like": (True, Drawing(lambda x: x + torch.rand_like(x))),
    "a coin for the whole batch": (True, Drawing(lambda x: x if torch.rand(()) < 0.5 else 2 * x)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_model_that_draws_is_not_captured(name, caplog):
    """It would draw from a graph's own numbers, which no checkpoint holds."""
    draws, model = DRAWS[name]
    plain = Fit(model, PHI, DATA, FitConfig(), rng.streams(0, "fit"))
    before, default = plain.get_state(), torch.get_rng_state()
    assert trying.draws(plain.way, DATA.images[:6]) == draws
    assert ways.is_eligible(plain.way, DATA, torch.device("cuda")) != draws
    assert ("the model draws at random (dropout?), so steps are not captured" in caplog.text) == draws
    assert not ways.is_eligible(plain.way, DATA, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), default)  # and trying it leaves no trace
    after = plain.get_state()
    assert all(torch.equal(after["model"][name], value) for name, value in before["model"].items())
    assert all(torch.equal(after["streams"][name], value) for name, value in before["streams"].items())


@pytest.mark.parametrize("name", [name for name, (draws, _) in DRAWS.items() if draws])
def test_where_a_model_draws_all_is_plain(name, monkeypatch, caplog):
    _, model = DRAWS[name]
    captured = ways.is_eligible
    monkeypatch.setattr(ways, "is_eligible", lambda way, train, device: captured(way, train, torch.device("cuda")))
    plain = Fit(model, PHI, DATA, FitConfig(), rng.streams(0, "fit"))
    assert ways.captured("evaluate", plain) is plain
    made = make("compiled", model, rng.streams(0, "search"))
    assert type(made) is Passes
    assert made.model is model
    assert "the model draws at random" in caplog.text


def test_out_of_memory_says_what_to_try(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2e9, 8e9))
    text = str(ways.OutOfMemory("batches of 128 images", "evaluate.batch", 128))
    assert text == (
        "batches of 128 images do not fit on the GPU (8 GB, 2 GB of it free); try half of it: --set evaluate.batch=64"
    )


class Half(CapturedPasses):
    """Captures the steps of re-training, and not those of the policy."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options, compiled=False)

    def val_gradient(self, drawn):
        raise NotCaptured("for a test")


def test_where_one_kind_of_step_is_not_captured_all_is_as_before(monkeypatch, caplog):
    monkeypatch.setattr(ways, "is_eligible", lambda *_: True)
    monkeypatch.setattr(ways, "precision", lambda: torch.float32)
    monkeypatch.setattr(ways, "CapturedPasses", Half)
    model, streams = net(), rng.streams(0, "search")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    chance = Chance(DATA, DATA, 4, 4, streams, flip=True)

    def try_out(passes: Passes) -> None:
        for step in (0, CONFIG.n_retrain):
            next(slack.rounds(slack.start(PHI, passes.theta)._replace(step=step), chance, passes, CONFIG))

    made = make("compiled", model, streams, try_out)
    assert type(made) is Passes
    assert "(for a test)" in caplog.text
    for found in (made.model.state_dict(), made.theta_0):
        assert all(torch.equal(found[name], value) for name, value in before.items())


def test_a_step_that_does_not_fit_names_a_batch_to_try(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2e9, 8e9))

    def too_large(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(ways, "make_passes", too_large)
    problem = Problem(CONFIG_OF_A_RUN, load("digits"))
    with pytest.raises(ways.OutOfMemory, match=r"3 x 4 images do not fit .* search\.batch=2"):
        problem.make_search(problem.start()._replace(theta_0=problem.weights()))


def test_other_programs_do_not_make_a_step_seem_slow(monkeypatch):
    now, steps = [0.0], count()

    def step():
        now[0] += 0.005 if next(steps) % 3 == 0 else 0.5  # two of three are held up

    monkeypatch.setattr(ways, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert ways.timed(step) == pytest.approx(0.005)


def test_steps_of_a_gpu_are_timed_together_and_those_of_a_cpu_alone(monkeypatch):
    now, waits = [0.0], []

    def wait(seconds):
        now[0] += seconds
        waits.append(seconds)

    def step():
        now[0] += 0.003

    monkeypatch.setattr(ways, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: wait(0.001))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert ways.timed(step) == pytest.approx(0.003)
    assert not waits
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert ways.timed(step) == pytest.approx(0.003 + 0.001 / 20)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: wait(2.0))  # a slow step: few of them
    waits.clear()
    assert ways.timed(step) == pytest.approx(2.003)
    assert len(waits) == 3
