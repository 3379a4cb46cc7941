"""A whole search: what it depends on, what it writes, and when it stops."""

import copy
import json
import math

import numpy as np
import pytest
import torch

import slackaug
import tiny
from slackaug import models, rng
from slackaug.auto import learn
from slackaug.auto.stages import Learner
from slackaug.config import parse, presets
from slackaug.data import load

pytestmark = pytest.mark.usefixtures("quick_search")
KEYS = {"stage", "round", "step", "train_loss"}
POLICY_KEYS = {"val_loss", "entropy", "pi", "mu"}


class Ticks:
    """A clock that moves on by a second whenever it is looked at."""

    def __init__(self, before=0.0):
        self.now = before

    def __call__(self):
        self.now += 1
        return self.now


def tiny_config(data, **changes):
    config = presets.quick(data)
    for text in tiny.assignments(**changes):
        config = parse.update(config, parse.parse_assignment(text))
    return config


def rows(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_same_seed_same_bits(tiny_npz, finished, tmp_path):
    slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments())
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)


def test_another_seed_another_policy(tiny_npz, finished, tmp_path):
    result = slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments(), seed=1)
    before = slackaug.Policy.load(finished / "policy.json")
    assert not torch.equal(result.policy.pi, before.pi)
    assert not torch.equal(result.policy.mu, before.mu)
    assert result.policy.learned["seed"] == 1


def test_the_global_stream_is_neither_used_nor_moved(tiny_npz, finished, tmp_path):
    before = torch.get_rng_state()
    torch.rand(7)
    state = torch.get_rng_state()
    slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments())
    assert torch.equal(torch.get_rng_state(), state)
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)
    torch.set_rng_state(before)


def test_test_data_is_never_seen(tiny_npz, finished, tmp_path):
    poisoned = tiny.arrays()
    poisoned["test_images"] = 255 - poisoned["test_images"]
    poisoned["test_labels"] = (poisoned["test_labels"] + 1) % tiny.N_CLASSES
    np.savez(tmp_path / "poisoned.npz", **poisoned)
    slackaug.search(str(tmp_path / "poisoned.npz"), tmp_path / "run", set=tiny.assignments())
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)


def test_training_data_is_seen(finished, tmp_path):
    """The test above can fail: one pixel of a training image changes everything."""
    changed = tiny.arrays()
    changed["train_images"][0, 0, 0, 0] ^= 128
    np.savez(tmp_path / "changed.npz", **changed)
    slackaug.search(str(tmp_path / "changed.npz"), tmp_path / "run", set=tiny.assignments())
    assert tiny.outcome(tmp_path / "run") != tiny.outcome(finished)


def test_a_held_out_test_set_is_never_seen():
    data = load("digits")
    learner = Learner(tiny_config(data), data)
    held_out = {image.numpy().tobytes() for image in data.test.images}
    seen = [image.numpy().tobytes() for half in (learner.train, learner.val) for image in half.images]
    assert len(seen) == len(data.train.labels)
    assert not held_out & set(seen)


def test_metrics(finished):
    found = rows(finished)
    stages = [("pre-training", 0, step, 6) for step in range(1, 7)]
    for number in (1, 2):
        stages += [("re-training" if step <= 3 else "policy", number, step, 6) for step in range(1, 7)]
    assert [(row["stage"], row["round"], row["step"]) for row in found] == [stage[:3] for stage in stages]
    for row in found:
        more = {"policy": POLICY_KEYS, "pre-training": {"n_composed"}}
        assert row.keys() == KEYS | more.get(row["stage"], set())
        assert math.isfinite(row["train_loss"])
    last, policy = found[-1], slackaug.Policy.load(finished / "policy.json")
    torch.testing.assert_close(torch.tensor(last["pi"]).double(), policy.probabilities, atol=1e-6, rtol=0)
    learned = [mu if t.span else None for mu, t in zip(policy.mu.tolist(), policy.space, strict=True)]
    assert last["mu"] == pytest.approx(learned, abs=1e-6)


def test_progress_goes_from_0_to_1(tiny_npz):
    data = load(str(tiny_npz))
    learner = Learner(tiny_config(data), data)
    shares = [progress.done for progress in learn.work(learner)]
    assert shares[0] > 0
    assert shares == sorted(set(shares))
    assert shares[-1] == pytest.approx(1)
    assert learner.is_finished


@pytest.mark.parametrize("n", [6, 8])
def test_a_learner_left_and_taken_up_again(n, tiny_npz):
    data = load(str(tiny_npz))
    config = tiny_config(data, search__cold_start="false")
    whole, first, second = (Learner(config, data) for _ in range(3))
    expected = [progress.train_loss for progress in learn.work(whole)]
    work = learn.work(first)
    losses = [next(work).train_loss for _ in range(n)]
    second.set_state(first.get_state())
    losses += [progress.train_loss for progress in learn.work(second)]
    assert torch.equal(torch.stack(losses), torch.stack(expected))
    assert torch.equal(second.state.phi.pi, whole.state.phi.pi)
    assert torch.equal(second.state.phi.mu, whole.state.phi.mu)


# --- the time limit ---------------------------------------------------------------------------------------------------


def test_the_time_limit_ends_with_the_last_finished_round(command, monkeypatch, tiny_npz, finished, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(learn, "Clock", Ticks)
        done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--time-limit", "32s"))  # two looks at each step
    assert done.returncode == 0
    assert "time limit: the policy is that of round 1 of 2. To go on: slackaug search " in done.stdout
    first = (tmp_path / "run" / "policy.json").read_text()
    assert first == (tmp_path / "run" / "policies" / "round_01.json").read_text()
    assert rows(tmp_path / "run")[-1]["round"] == 2
    assert command(*tiny.resume(tiny_npz, tmp_path / "run")).returncode == 0
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)


def test_the_time_limit_before_the_first_round(command, monkeypatch, tiny_npz, finished, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(learn, "Clock", Ticks)
        done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--time-limit", "5s"))
        assert done.returncode == 1
        assert "the time limit came before the end of the first round, so there is no policy yet" in done.stderr
        again = command(*tiny.resume(tiny_npz, tmp_path / "run", "--time-limit", "5s"))  # from now on, not in all
        assert again.returncode == 1
    assert len(rows(tmp_path / "run")) > 4
    assert command(*tiny.resume(tiny_npz, tmp_path / "run")).returncode == 0
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)


def test_the_limit_is_on_work_not_on_waiting():
    assert learn.Clock(before=100.0)() == pytest.approx(100, abs=1)


def test_the_cost_grows_with_the_work(monkeypatch, tiny_npz):
    monkeypatch.undo()
    data = load(str(tiny_npz))
    one, many = (learn.search_seconds(tiny_config(data, search__n_rounds=n), data, "cpu") for n in (1, 1000))
    assert 0 < 20 * one < many


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "where"), [("pretrain.lr", "pre-training, step"), ("search.model_lr", "re-training, round 1, step")]
)
def test_a_loss_that_is_no_number_stops_the_search(setting, where, command, tiny_npz, tmp_path):
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--set", f"{setting}=1e30", search__n_retrain=5))
    assert done.returncode == 1
    assert f"the loss or the model is no longer a number ({where}" in done.stderr
    assert f"--overwrite --set {setting}=2.5e+29" in done.stderr
    assert "Traceback" not in done.stderr
    assert "NaN" not in (tmp_path / "run" / "metrics.jsonl").read_text()
    assert not (tmp_path / "run" / "policy.json").exists()


def test_divergence_keeps_the_last_good_checkpoint(command, monkeypatch, tiny_npz, finished, tmp_path):
    """At the first step of round 2 the loss becomes NaN; round 1 stays, and without that the run goes on."""
    real = learn.check_finite

    def poisoned(learner, run, progress, values):
        return real(learner, run, progress, [torch.tensor(math.nan)] if progress.round == 2 else values)

    with monkeypatch.context() as patch:
        patch.setattr(learn, "check_finite", poisoned)
        assert command(*tiny.arguments(tiny_npz, tmp_path / "run")).returncode == 1
    assert rows(tmp_path / "run")[-1]["round"] == 1
    assert (tmp_path / "run" / "policies" / "round_01.json").exists()
    assert command(*tiny.resume(tiny_npz, tmp_path / "run")).returncode == 0
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)


class Dropping(torch.nn.Module):
    """A model that draws random numbers of its own."""

    def __init__(self, n_classes):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.LazyLinear(n_classes))

    def forward(self, images):
        return self.layers(images)


def test_dropout_does_not_spoil_the_seed_or_the_resumption(tiny_npz, monkeypatch):
    monkeypatch.setattr(models, "build", lambda name, n, size, generator: fixed(Dropping(n), size))
    data = load(str(tiny_npz))
    config = tiny_config(data)
    whole = last(Learner(config, data))
    torch.rand(7)  # whatever others draw
    first = Learner(config, data)
    steps = learn.work(first)
    for _ in range(first.fit.n_steps + 3):
        next(steps)
    second = Learner(config, data)
    second.set_state(copy.deepcopy(first.get_state()))
    assert torch.equal(last(second).pi, whole.pi)


def fixed(model, size):
    with rng.as_default(rng.generator(0)):
        model(torch.zeros(2, 3, *size))
    return model


def last(learner):
    for progress in learn.work(learner):
        phi = progress.phi
    return phi


def test_a_model_that_ends_its_pretraining_as_nan_is_found_there(command, tiny_npz, tmp_path):
    parse = ("--set", "pretrain.lr=1e30", "--set", "pretrain.epochs=1")
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", *parse))
    assert done.returncode == 1
    assert "(pre-training, step" in done.stderr
    assert "there was no checkpoint yet" in done.stderr
