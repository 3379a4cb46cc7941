"""A whole search: what it depends on, what it writes, and when it stops."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import slackaug
import tiny
from searching import config_of
from slackaug.auto import learn, timing
from slackaug.auto.learn import Keeper
from slackaug.auto.stages import N_NUMBERS
from slackaug.auto.timing import StepSeconds
from slackaug.data import load
from slackaug.engine import ways

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


def test_another_seed_another_policy(tiny_npz, finished, tmp_path):
    result = slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments(), seed=1)
    before = slackaug.Policy.load(finished / "policy.json")
    assert not torch.equal(result.policy.pi, before.pi)
    assert not torch.equal(result.policy.mu, before.mu)
    assert result.policy.learned["seed"] == 1


def test_the_same_seed_has_the_same_bits_whatever_the_global_stream(tiny_npz, finished, tmp_path):
    before = torch.get_rng_state()
    torch.rand(7)
    state = torch.get_rng_state()
    slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments())
    assert torch.equal(torch.get_rng_state(), state)
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)
    torch.set_rng_state(before)


@pytest.mark.parametrize("part", ["test", "train"])
def test_test_data_is_never_seen_and_one_pixel_of_training_data_is(part, finished, tmp_path):
    changed = tiny.arrays()
    if part == "test":
        changed["test_images"] = 255 - changed["test_images"]
        changed["test_labels"] = (changed["test_labels"] + 1) % tiny.N_CLASSES
    else:
        changed["train_images"][0, 0, 0, 0] ^= 128
    np.savez(tmp_path / "changed.npz", **changed)
    slackaug.search(str(tmp_path / "changed.npz"), tmp_path / "run", set=tiny.assignments())
    assert (tiny.outcome(tmp_path / "run") == tiny.outcome(finished)) == (part == "test")


def test_metrics(finished):
    found = tiny.metrics(finished)
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


# --- the time limit ---------------------------------------------------------------------------------------------------


def test_the_time_limit_ends_with_the_last_finished_round(command, monkeypatch, tiny_npz, finished, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(learn, "Clock", Ticks)
        done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--time-limit", "32s"))  # two looks at each step
    assert done.returncode == 0
    assert "learning ended with round 1 of 2. To continue:\n  slackaug search " in done.stdout
    first = (tmp_path / "run" / "policy.json").read_text()
    assert first == (tmp_path / "run" / "policies" / "round_01.json").read_text()
    assert tiny.metrics(tmp_path / "run")[-1]["round"] == 2
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
    assert len(tiny.metrics(tmp_path / "run")) > 4
    assert command(*tiny.resume(tiny_npz, tmp_path / "run")).returncode == 0
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)


def test_the_limit_is_on_work_not_on_waiting():
    assert learn.Clock(before=100.0)() == pytest.approx(100, abs=1)


def test_the_cost_grows_with_the_work(monkeypatch, tiny_npz):
    monkeypatch.undo()
    data = load(str(tiny_npz))
    one, many = (timing.search_seconds(config_of(data, search__n_rounds=n), data, "cpu") for n in (1, 1000))
    assert 0 < 20 * one.learning < many.learning


def test_the_cost_of_trials_is_counted(tiny_npz):
    each, data = StepSeconds(48, 10, 1.0, 0.0, 0.0, 0.5, 0.25), load(str(tiny_npz))
    for changes, n_trainings in (({}, 1), ({"n_composed": "null"}, N_NUMBERS)):
        assert timing.whole_seconds(each, config_of(data, **changes)) == (10 * n_trainings, 0, 10 * n_trainings)
    # A training of the race has 36 of the 48 images, twice; pre-training had 24, twice; and it starts in 0.25 s
    raced = config_of(data, race__candidates="[none,uniform-2]", race__n_last=3, evaluate__epochs=2)
    assert timing.whole_seconds(each, raced) == (10, (0.5 * 10 * 36 / 24 + 0.25) * (2 * 2 + 2 * 3), 10)
    assert timing.whole_seconds(each, replace(raced, n_ranks=2)) == (10, 0, 10)  # an ensemble has no race
    assert timing.whole_seconds(each._replace(n_train=39), raced) == (10, 0, 10)  # nor has a handful of images
    # After pre-training and calibration, which has 3 trials of 3 steps, rounds have 3 steps of each kind
    rounds = each._replace(retraining=2.0, policy=5.0)
    found = timing.whole_seconds(rounds, config_of(data, search__n_rounds=4, search__calibrate="true"))
    before, one_round = 10 + 3 * 3 * 2, 3 * 2 + 3 * 5
    assert (found.learning, found.first_round) == (before + 4 * one_round, before + one_round)


def test_trainings_of_a_race_are_timed_as_they_run_with_a_thread_each(tiny_npz, monkeypatch):
    monkeypatch.undo()
    data, n_threads = load(str(tiny_npz)), []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", n_threads.append)
    monkeypatch.setattr(ways, "timed", lambda step: 0.1 if n_threads == [1] else 0.2)
    monkeypatch.setattr(timing, "timed", lambda step: 0.2)
    monkeypatch.setattr(timing, "LEAST_IMAGES", 24)
    raced = config_of(data, race__candidates="[none,uniform-2]")
    each = timing.step_seconds(raced, data, "cpu")
    assert (each.pretraining, each.racing, n_threads) == (0.2, 0.1 / 4, [1, 4])
    assert each.start == timing.START_SECONDS / 4


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "more", "where"),
    [
        ("pretrain.lr", {}, "pre-training, step"),
        ("pretrain.lr", {"pretrain__epochs": 1}, "pre-training, step"),  # found when the model is to be saved
        ("search.model_lr", {"search__n_retrain": 5}, "re-training, round 1, step"),
    ],
)
def test_a_loss_or_a_model_that_is_no_number_stops_the_search(setting, more, where, command, tiny_npz, tmp_path):
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--set", f"{setting}=1e30", **more))
    assert done.returncode == 1
    assert f"the loss or the model is no longer a number ({where}" in done.stderr
    assert ("there was no checkpoint yet" in done.stderr) == (setting == "pretrain.lr")
    assert f"--overwrite --set {setting}=2.5e+29" in done.stderr
    assert "Traceback" not in done.stderr
    assert "NaN" not in (tmp_path / "run" / "metrics.jsonl").read_text()
    assert not (tmp_path / "run" / "policy.json").exists()


def test_divergence_keeps_the_last_good_checkpoint(command, monkeypatch, tiny_npz, finished, tmp_path):
    """At the first step of round 2 the loss becomes NaN; round 1 stays, and without that the run goes on."""
    real = Keeper.check_finite

    def poisoned(self, standing, values):
        return real(self, standing, [torch.tensor(math.nan)] if standing.round == 2 else values)

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "check_finite", poisoned)
        assert command(*tiny.arguments(tiny_npz, tmp_path / "run")).returncode == 1
    assert tiny.metrics(tmp_path / "run")[-1]["round"] == 1
    assert (tmp_path / "run" / "policies" / "round_01.json").exists()
    assert command(*tiny.resume(tiny_npz, tmp_path / "run")).returncode == 0
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)
