"""The stages of a search, all of them or some: left at any moment and taken up again, counted, and in the fast way."""

import copy
import math
import signal
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

import tiny
from searching import finish, let_losses_be, search_of, steps
from slackaug import models, rng
from slackaug.auto import stages
from slackaug.auto.stages import cost, images, plan
from slackaug.config import paper, presets
from slackaug.data import load
from slackaug.engine import ways
from slackaug.engine.gpu.captured import CapturedFit, CapturedPasses
from slackaug.engine.passes import drawing_from

ALL = {"n_composed": "null", "search__calibrate": "true"}
AS_THEY_ARE = {3: 1.0, 2: 0.9, 1: 0.8, 0: 0.7}  # losses of pre-training by the number composed; fewer are better
TWO = {3: 1.0, 2: 0.5, 1: 2.0}


@pytest.fixture(scope="module")
def data(tiny_npz):
    return load(str(tiny_npz))


# --- left and taken up again ------------------------------------------------------------------------------------------


def gone_through(search):
    """Each step with the state after it, and what the stages tell."""
    seen, told = [], []
    for stage in search.stages():
        seen += [(standing, copy.deepcopy(search.state())) for standing in map(search.counted, stage.run())]
        told.append(repr(stage.notice()))
    return seen, told


@pytest.mark.parametrize(
    ("changes", "losses"),
    [
        ({}, {}),
        ({"search__cold_start": "false"}, {}),
        (ALL, TWO),
        (ALL | {"fewest_composed": 3}, TWO),
        (ALL | {"fewest_composed": 3}, TWO | {2: 1.5, 5: 0.8, 8: 0.9}),
        (ALL, AS_THEY_ARE),
    ],
    ids=["rounds alone", "warm start", "two", "two, rounds from three", "five", "none"],
)
def test_any_moment_of_any_stage_can_be_taken_up_again(changes, losses, data, monkeypatch):
    if losses:
        let_losses_be(monkeypatch, losses)
    whole = search_of(data, **changes)
    seen, told = gone_through(whole)
    moments = dict.fromkeys(i for i, (standing, _) in enumerate(seen) if standing.step in (1, 4, standing.n_steps))
    assert len(moments) >= 9
    for i in moments:
        again = search_of(data, seen[i][1], **changes)
        seen_again, told_again = gone_through(again)
        losses_found, expected = ([step.train_loss.item() for step, _ in each] for each in (seen_again, seen[i + 1 :]))
        assert losses_found[len(losses_found) - len(expected) :] == expected
        shares, wanted = ([step.done for step, _ in each] for each in (seen_again, seen[i + 1 :]))
        assert shares[len(shares) - len(wanted) :] == pytest.approx(wanted)
        is_trial = seen[i][0].stage == "calibration"  # which begins anew
        assert is_trial or len(losses_found) == len(expected)
        assert told_again == told[-len(told_again) :]
        assert torch.equal(again.theta, whole.theta)
        assert torch.equal(again.stage.found.phi.pi, whole.stage.found.phi.pi)
        assert torch.equal(again.stage.found.phi.mu, whole.stage.found.phi.mu)


@pytest.fixture(scope="module")
def uninterrupted(tiny_npz, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stages")
    assert tiny.run_until(tiny.arguments(tiny_npz, folder / "run", **ALL), folder / "log", tiny.NEVER) == 0
    return folder / "run"


@pytest.mark.parametrize("moment", [("pre-training", 0, 4), ("calibration", 0, 2), ("policy", 1, 5)])
def test_a_killed_search_ends_with_the_same_bits(moment, uninterrupted, tiny_npz, tmp_path):
    cut, log = tmp_path / "cut", tmp_path / "log"
    assert tiny.run_until(tiny.arguments(tiny_npz, cut, **ALL), log, moment) == -signal.SIGKILL
    assert tiny.run_until(tiny.resume(tiny_npz, cut), log, tiny.NEVER) == 0
    assert tiny.outcome(cut) == tiny.outcome(uninterrupted)
    for file in ("composing.json", "calibration.json"):
        assert (cut / file).read_text() == (uninterrupted / file).read_text()


@pytest.mark.parametrize(("moment", "is_telling"), [(("pre-training", 0, 2), False), (("policy", 2, 5), True)])
def test_the_time_left_is_said_when_there_is_something_to_tell_it_by(moment, is_telling, tiny_npz, tmp_path):
    words = tiny.arguments(tiny_npz, tmp_path / "run", search__n_rounds=5)
    assert tiny.run_until(words, tmp_path / "log", moment) == -signal.SIGKILL
    assert tiny.run_until(tiny.resume(tiny_npz, tmp_path / "run"), tmp_path / "log", tiny.NEVER) == 0
    (said,) = (line for line in (tmp_path / "log").read_text().splitlines() if "% of the search is done" in line)
    assert ("left" in said) == is_telling


class Dropping(nn.Module):
    def forward(self, x):
        return functional.dropout(x + torch.rand_like(x))  # in evaluation, too


@pytest.mark.parametrize("layer", [nn.Dropout(0.5), Dropping()], ids=["a layer", "in forward"])
def test_what_a_model_draws_does_not_spoil_the_seed_or_the_resumption(layer, data, monkeypatch):
    def build(name, n_classes, size, generator):
        with drawing_from(rng.generator(0), torch.device("cpu")):
            return nn.Sequential(nn.Flatten(), layer, nn.Linear(3 * math.prod(size), n_classes))

    monkeypatch.setattr(models, "build", build)
    whole = finish(search_of(data))
    torch.rand(7)  # whatever others draw
    first = search_of(data)
    going = steps(first)
    for _ in range(first.stage.fits[0].n_steps + 3):
        next(going)
    second = search_of(data, copy.deepcopy(first.state()))
    assert torch.equal(finish(second).stage.found.phi.pi, whole.stage.found.phi.pi)


# --- how far it is ----------------------------------------------------------------------------------------------------


def test_trials_add_their_steps_and_a_step_has_the_images_of_all_passes(data):
    config = paper.rounds_alone(presets.preset("quick", data))
    counts = {"n_rounds": 4, "n_retrain": 10, "n_unrolled": 7, "n_composites": 3, "batch": 16}
    config = replace(config, search=replace(config.search, calibrate=False, **counts))
    config = replace(config, pretrain=replace(config.pretrain, batch=64))
    rounds = {"re-training": 40, "policy": 28}
    assert [steps for _, steps in plan(config, 100)] == [{"pre-training": 100}, rounds]
    more = replace(config, n_composed=None, search=replace(config.search, calibrate=True))
    trials = [{"pre-training": 100 * stages.N_NUMBERS}, {"calibration": 10 * stages.N_RATES}]
    assert [steps for _, steps in plan(more, 100)] == [*trials, rounds]
    assert images(config, 1000) == {"pre-training": 64} | dict.fromkeys(("calibration", "re-training", "policy"), 48)
    assert {*images(config, 12).values()} == {12, 36}  # a batch has no more than there are
    assert cost(rounds, images(config, 1000)) == 48 * 68


@pytest.mark.parametrize(
    ("changes", "losses", "n_trainings"),
    [
        ({}, {}, 1),
        ({"search__calibrate": "true"}, {}, 1),
        ({"n_composed": "null"}, TWO, 3),
        ({"n_composed": "null"}, {3: 1.0, 2: 2.0, 5: 0.5, 8: 0.2}, 4),
        (ALL, AS_THEY_ARE, 4),
    ],
)
def test_progress_grows_to_1_stage_by_stage(changes, losses, n_trainings, data, monkeypatch):
    if losses:
        let_losses_be(monkeypatch, losses)
    seen = [(standing.stage, standing.done) for standing in steps(search_of(data, **changes))]
    shares = [done for _, done in seen]
    assert shares[0] > 0
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert sum(stage == "pre-training" for stage, _ in seen) == 6 * n_trainings
    if not changes:  # a step of pre-training has 4 images, and one of a round 2 composites of 4
        gains = [after - before for before, after in zip([0.0, *shares], shares, strict=False)]
        assert gains == pytest.approx([gains[0]] * 6 + [2 * gains[0]] * 12)
    for stage in ("pre-training", "calibration"):
        own = [done for name, done in seen if name == stage]
        if own and n_trainings < stages.N_NUMBERS:
            assert own[-1] > own[0]


# --- what a stage leaves to the next ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "fewest", "number"),
    [
        ({3: 1.0, 2: 2.0, 5: 2.0}, 1, 3),
        (TWO, 1, 2),
        (TWO, 3, 3),
        ({3: 1.0, 2: 2.0, 5: 0.5, 8: 0.2}, 1, 8),
        ({3: 1.0, 2: 2.0, 5: 0.5, 8: 0.7}, 3, 5),
        (AS_THEY_ARE, 1, 1),
    ],
)
def test_a_search_after_trials_is_the_search_with_that_number(losses, fewest, number, data, monkeypatch):
    let_losses_be(monkeypatch, losses)
    found, given = (finish(search_of(data, fewest_composed=fewest, n_composed=n)) for n in ("null", number))
    assert found.stage.found.phi.pi.shape == (number, 17)
    assert torch.equal(found.stage.found.phi.pi, given.stage.found.phi.pi)
    assert torch.equal(found.stage.found.phi.mu, given.stage.found.phi.mu)


def test_a_search_after_a_calibration_is_the_search_at_that_rate(data):
    found = finish(search_of(data, search__calibrate="true")).stage.found
    assert found.model_lr != search_of(data).stage.given.model_lr  # else the next lines would say nothing
    given = finish(search_of(data, search__model_lr=found.model_lr)).stage.found
    assert torch.equal(found.phi.pi, given.phi.pi)
    assert torch.equal(found.phi.mu, given.phi.mu)


# --- the compiled way, here without a compiler and without graphs -----------------------------------------------------


def test_the_captured_way_goes_through_all_stages_on_one_model(data, monkeypatch):
    """One training follows the other, and the search lies between them: each must let go of the model."""
    plain = search_of(data, **ALL)
    expected = [standing.train_loss.item() for standing in steps(plain)]
    for kind in (CapturedFit, CapturedPasses):
        made = partial(kind, compiled=False)
        monkeypatch.setattr(ways, kind.__name__, lambda *rest, made=made, **options: made(*rest, **options))
    monkeypatch.setattr(ways, "is_eligible", lambda *_: True)
    monkeypatch.setattr(ways, "precision", lambda: torch.float32)
    captured = search_of(data, **ALL)
    found = [standing.train_loss.item() for standing in steps(captured)]
    assert isinstance(captured.stage.passes, CapturedPasses)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-4)
    torch.testing.assert_close(captured.stage.found.phi.pi, plain.stage.found.phi.pi, rtol=1e-3, atol=1e-3)
