"""The choice of input preparation."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import slackaug
import tiny
from slackaug.auto import learn, margins
from slackaug.auto.margins import TRIALS
from slackaug.auto.resume import read_config
from slackaug.auto.stages import Learner
from slackaug.config import presets
from slackaug.data import load

SEARCH_SECONDS = learn.search_seconds  # for which quick_search puts another
pytestmark = pytest.mark.usefixtures("quick_search")


class Stub:
    """A learner whose pre-training ends with a loss."""

    def __init__(self, loss: float):
        self.loss = loss

    def pretrain(self):
        return iter(range(3))

    def val_loss(self) -> float:
        return self.loss


@pytest.mark.parametrize(
    ("whole", "with_margin", "expected"),
    [(1.0, 0.9, True), (0.9, 1.0, False), (1.0, 1.0, False), (math.nan, 1.0, True), (1.0, math.nan, False)],
)
def test_the_lower_loss_wins(whole, with_margin, expected):
    said, kept = [], []
    found = margins.compare(lambda margin: Stub(with_margin if margin else whole), said.append, {}, kept.append)
    assert found.margin is expected
    assert len(kept) == 2
    assert f"whole images {whole:.3f}, windows of images with a margin {with_margin:.3f}" in said[-1]
    assert said[-1].endswith(margins.TEXTS[expected])
    json.dumps(found.to_json(), allow_nan=False)


@pytest.fixture
def large(tmp_path):
    arrays = tiny.arrays()
    for part in ("train", "test"):
        arrays[f"{part}_images"] = np.repeat(np.repeat(arrays[f"{part}_images"], 10, 1), 10, 2)
    np.savez(tmp_path / "large.npz", **arrays)
    return tmp_path / "large.npz"


def test_the_run_knows_what_was_chosen(large, tmp_path, monkeypatch):
    for wanted in (False, True):
        losses = {wanted: 1.5, not wanted: 2.5}

        def compare(learner_of, say, done, keep, wanted=wanted, losses=losses):
            learner_of(wanted)
            return margins.Choice(losses)

        monkeypatch.setattr(margins, "compare", compare)
        out = tmp_path / str(wanted)
        slackaug.search(large, out, size=70, try_margin=True, set=tiny.assignments())
        assert read_config(out).data.margin is wanted
        stored = json.loads((out / "preparation.json").read_text())
        assert stored == {
            "margin": wanted,
            "val_loss_of_whole_images": losses[False],
            "val_loss_with_margin": losses[True],
        }


def test_its_pretrainings_are_part_of_the_cost(large, tmp_path, command, monkeypatch):
    each = learn.StepSeconds(n_pretraining=100, pretraining=3.0, retraining=0.0, policy=0.0)
    monkeypatch.setattr(learn, "search_seconds", SEARCH_SECONDS)
    monkeypatch.setattr(learn, "step_seconds", lambda *_: each)
    monkeypatch.setattr(margins, "compare", lambda *_: pytest.fail("a dry run trains nothing"))
    costs = {"": "about 5 min 00 s here, measured over a few steps\n", "--try-margin": "about 15 min 00 s here"}
    for more, says in costs.items():
        done = command(*tiny.arguments(large, tmp_path / "run", "--size", "70", "--dry-run", *more.split()))
        assert (done.returncode, says in done.stdout) == (0, True)
    assert "a few steps, with 2 pre-trainings of --try-margin, which decide data.margin" in done.stdout
    assert not (tmp_path / "run").exists()


# --- trials that were interrupted -------------------------------------------------------------------------------------


@pytest.fixture
def interrupted(large, tmp_path, monkeypatch):
    """The folder of a search that was interrupted while it pre-trained with a margin."""
    pretrain = Learner.pretrain

    def until_the_second(self):
        if self.config.data.margin:
            raise KeyboardInterrupt
        return pretrain(self)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "pretrain", until_the_second)
        with pytest.raises(KeyboardInterrupt):
            search(large, tmp_path / "run")
    return tmp_path / "run"


def search(large, out, **options):
    return slackaug.search(large, out, **({"set": tiny.assignments()} | options), size=70, try_margin=True)


@pytest.fixture
def trials(monkeypatch):
    """Which are done: whether with a margin."""
    found, pretrain = [], Learner.pretrain

    def noted(self):
        found.append(self.config.data.margin)
        return pretrain(self)

    monkeypatch.setattr(Learner, "pretrain", noted)
    return found


def test_a_finished_trial_is_not_done_again(interrupted, trials, large, tmp_path):
    assert [path.name for path in interrupted.iterdir()] == [TRIALS]
    search(large, interrupted)
    first, chosen = trials
    assert first is True
    assert chosen is read_config(interrupted).data.margin
    assert not (interrupted / TRIALS).exists()
    search(large, tmp_path / "whole")
    assert tiny.outcome(interrupted) == tiny.outcome(tmp_path / "whole")
    stored = [(run / "preparation.json").read_text() for run in (interrupted, tmp_path / "whole")]
    assert stored[0] == stored[1]


def test_a_trial_of_other_settings_is_done_again(interrupted, trials, large):
    search(large, interrupted, set=tiny.assignments(pretrain__epochs=1))
    assert trials[:2] == [False, True]


@pytest.mark.parametrize("losses", ["3", '{"whole images": "x"}', '{"whole images": 7}', '{"other": 1.5}'])
def test_losses_that_are_none_are_as_none(losses, tmp_path):
    (tmp_path / TRIALS).write_text(f'{{"key": "k", "val_losses": {losses}}}')
    assert margins.Trials(tmp_path, "k").read() == {}


@pytest.mark.parametrize("content", ["", "[]", "{}", "[" * 100_000])
def test_a_file_that_is_not_ours_is_as_none(content, tmp_path):
    (tmp_path / TRIALS).write_text(content)
    assert margins.Trials(tmp_path, "k").read() == {}


def test_losses_come_back_as_they_were(tmp_path):
    trials = margins.Trials(tmp_path / "new" / "run", "k")
    assert trials.read() == {}
    trials.write({False: 1.25, True: math.nan})
    found = trials.read()
    assert found[False] == 1.25
    assert math.isnan(found[True])
    assert trials._replace(key="other").read() == {}


def test_the_key_is_that_of_what_decides_the_losses(large, tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    config = presets.quick(load(str(large)))
    data = replace(config.data, source="elsewhere", cache="there")
    assert margins.key(replace(config, data=data)) == margins.key(config)
    assert margins.key(replace(config, seed=1)) != margins.key(config)
    found = margins.key(replace(config, weights=str(tmp_path / "a")))
    (tmp_path / "a").write_bytes(b"2")
    assert margins.key(replace(config, weights=str(tmp_path / "a"))) != found


def test_it_needs_a_size_and_no_margin(large, tmp_path, command):
    for more in ([], ["--size", "70", "--margin"]):
        done = command(*tiny.arguments(large, tmp_path / "run", "--try-margin", *more))
        assert done.returncode == 2
        assert "--try-margin needs --size, and stands in place of --margin" in " ".join(done.stderr.split())
