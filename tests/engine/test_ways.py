"""Which way is taken, on a machine without a GPU always the plain one; and how long a step takes."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from slackaug import rng
from slackaug.augment.policy import Policy
from slackaug.auto.problem import Problem
from slackaug.config.run_config import BLANK
from slackaug.data import Split, load
from slackaug.engine import ways
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


def test_a_model_that_draws_is_not_captured(caplog):
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(192, 2))
    assert not ways.is_eligible(model, torch.device("cuda"))
    assert "dropout" in caplog.text
    assert ways.is_eligible(net(), torch.device("cuda"))


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
    monkeypatch.setattr(ways, "is_eligible", lambda model, device: True)
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
