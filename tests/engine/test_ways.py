"""Which way is taken; on a machine without a GPU it is always the plain one."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from slackaug import rng
from slackaug.augment.policy import Policy
from slackaug.data import Split
from slackaug.engine import ways
from slackaug.engine.fit import Fit, FitConfig
from slackaug.engine.gpu.fast import Fast
from slackaug.engine.gpu.graphs import NotCaptured
from slackaug.engine.passes import Plain
from slackaug.methods.slack import SearchConfig

PHI = Policy.uniform("cifar")
DATA = Split(torch.zeros(16, 3, 8, 8, dtype=torch.uint8), torch.arange(16) % 2)
CONFIG = SearchConfig(batch=4)


def net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 2))


@pytest.mark.parametrize("name", ways.ENGINES)
def test_on_the_cpu_a_search_is_plain(name, caplog):
    made = ways.make_engine(name, CONFIG, net(), PHI, DATA, DATA, CONFIG.batch, rng.streams(0, "search"))
    assert type(made) is Plain
    assert not caplog.records


def test_on_the_cpu_a_training_is_plain():
    assert type(ways.make_fit("evaluate", net(), PHI, DATA, FitConfig(), rng.streams(0, "fit"))) is Fit


def test_an_unknown_engine():
    with pytest.raises(ValueError, match="unknown engine 'complied'; did you mean 'compiled'"):
        ways.make_engine("complied", CONFIG, net(), PHI, DATA, DATA, 4, rng.streams(0, "search"))


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


@pytest.mark.parametrize(
    ("step", "train_batch", "setting"),
    [
        (0, 6, "batches of 6 images do not fit .* search.train_batch=3"),
        (CONFIG.n_retrain, 6, "x 4 images do not fit .* search.batch=2"),
        (0, None, "x 4 images do not fit .* search.batch=2"),
        (CONFIG.n_retrain, 1000, "batches of 16 images do not fit .* search.train_batch=8"),
    ],
)
def test_the_step_that_does_not_fit_says_which_batch_to_halve(step, train_batch, setting, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2e9, 8e9))
    streams, config = rng.streams(0, "search"), replace(CONFIG, n_composites=2, train_batch=train_batch)
    engine = Plain(net(), PHI, DATA, DATA, 4, streams, train_batch=train_batch)
    assert re.search(setting, str(ways.too_large(engine, config, step)))


class Half(Fast):
    """Captures the steps of re-training, and not those of the policy."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options, compiled=False)

    def val_gradient(self):
        raise NotCaptured("for a test")


def test_where_one_kind_of_step_is_not_captured_all_is_as_before(monkeypatch, caplog):
    monkeypatch.setattr(ways, "is_eligible", lambda model, device: True)
    monkeypatch.setattr(ways, "precision", lambda: torch.float32)
    monkeypatch.setattr(ways, "Fast", Half)
    model, streams = net(), rng.streams(0, "search")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    made = ways.make_engine("compiled", CONFIG, model, PHI, DATA, DATA, CONFIG.batch, streams)
    assert type(made) is Plain
    assert "(for a test)" in caplog.text
    for found in (made.model.state_dict(), made.theta_0):
        assert all(torch.equal(found[name], value) for name, value in before.items())
    fresh = rng.streams(0, "search")
    assert all(torch.equal(streams[name].get_state(), fresh[name].get_state()) for name in fresh)
