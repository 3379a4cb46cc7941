"""The stages of a search, all of them or some: left at any moment and taken up again, counted, and in the fast way."""

import copy
import math
from dataclasses import replace
from functools import partial

import pytest
import torch

import searching
from searching import config_of, finish, let_losses_be, search_of, steps
from slackaug import models, rng
from slackaug.augment.policy import Policy
from slackaug.auto import composing, confirm, stages
from slackaug.auto.stages import Problem, Search
from slackaug.data import load
from slackaug.engine import ways
from slackaug.engine.fit import Diverged
from slackaug.engine.gpu.captured import CapturedFit, CapturedPasses
from slackaug.engine.passes import drawing_from

ALL = {"n_composed": "null", "confirm": "true", "search__calibrate": "true"}
AS_THEY_ARE = {3: 1.0, 2: 0.9, 1: 0.8, 0: 0.7}  # losses of pre-training by the number composed; fewer are better
TWO = {3: 1.0, 2: 0.5, 1: 2.0}


@pytest.fixture(scope="module")
def data(tiny_npz):
    return load(str(tiny_npz))


def findings(search):
    return [stage.finding() for stage in search.stages]


# --- left and taken up again ------------------------------------------------------------------------------------------


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
    seen = [(standing, copy.deepcopy(whole.get_state())) for standing in steps(whole)]
    moments = dict.fromkeys(i for i, (standing, _) in enumerate(seen) if standing.step in (1, 4, standing.n_steps))
    assert len(moments) >= 9
    for i in moments:
        again = search_of(data, **changes)
        again.set_state(seen[i][1])
        losses_found = [standing.train_loss.item() for standing in steps(again)]
        is_trial = seen[i][0].stage == "calibration"  # which begins anew
        expected = [standing.train_loss.item() for standing, _ in seen[i + 1 :]]
        assert losses_found[len(losses_found) - len(expected) :] == pytest.approx(expected, abs=0, nan_ok=True)
        assert is_trial or len(losses_found) == len(expected)
        assert repr(findings(again)) == repr(findings(whole))
        assert torch.equal(again.theta, whole.theta)
        assert torch.equal(again.result.pi, whole.result.pi)
        assert torch.equal(again.result.mu, whole.result.mu)


class Dropping(torch.nn.Module):
    """A model that draws random numbers of its own."""

    def __init__(self, n_classes):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.LazyLinear(n_classes))

    def forward(self, images):
        return self.layers(images)


def test_dropout_does_not_spoil_the_seed_or_the_resumption(data, monkeypatch):
    def build(name, n, size, generator):
        model = Dropping(n)
        with drawing_from(rng.generator(0)):
            model(torch.zeros(2, 3, *size))
        return model

    monkeypatch.setattr(models, "build", build)
    whole = finish(search_of(data))
    torch.rand(7)  # whatever others draw
    first, second = search_of(data), search_of(data)
    going = steps(first)
    for _ in range(first.pretrain.fit.n_steps + 3):
        next(going)
    second.set_state(copy.deepcopy(first.get_state()))
    assert torch.equal(finish(second).result.pi, whole.result.pi)


def test_a_state_without_what_pre_training_left_is_not_ours(data, monkeypatch):
    let_losses_be(monkeypatch, TWO)
    search = search_of(data, **ALL)
    state = [copy.deepcopy(search.get_state()) for _ in steps(search)][-1]
    del state["stages"][0]["theta_0"]
    with pytest.raises(KeyError, match="theta_0"):
        search_of(data, **ALL).set_state(state)


# --- how far it is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "losses", "n_trainings"),
    [
        ({}, {}, 1),
        ({"search__calibrate": "true"}, {}, 1),
        ({"confirm": "true"}, {3: 1.0}, 1),
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
    assert shares[-1] == pytest.approx(1)
    assert sum(stage == "pre-training" for stage, _ in seen) == 6 * n_trainings
    if not changes:
        assert len(set(shares)) == len(shares)
    for stage in ("pre-training", "calibration", "confirmation"):
        own = [done for name, done in seen if name == stage]
        if own and n_trainings < composing.N_USUAL:
            assert own[-1] > own[0]
    if "confirm" in changes:
        searched = max(done for stage, done in seen if stage == "policy")
        assert searched < min(done for stage, done in seen if stage == "confirmation") < 1


def test_progress_is_by_images(data):
    """A step of pre-training has 4 images, and one of a round 2 composites of 4."""
    shares = [standing.done for standing in steps(search_of(data))]
    gains = [after - before for before, after in zip([0.0, *shares], shares, strict=False)]
    assert gains == pytest.approx([gains[0]] * 6 + [2 * gains[0]] * 12)


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
    found, given = (finish(search_of(data, fewest_composed=fewest, n_composed=n)).result for n in ("null", number))
    assert found.pi.shape == (number, 17)
    assert torch.equal(found.pi, given.pi)
    assert torch.equal(found.mu, given.mu)


def test_a_search_after_a_calibration_is_the_search_at_that_rate(data):
    found = finish(search_of(data, search__calibrate="true"))
    assert len(found.calibrate.found.trials) >= 2
    given = finish(search_of(data, search__model_lr=found.calibrate.found.model_lr))
    assert torch.equal(found.result.pi, given.result.pi)
    assert torch.equal(found.result.mu, given.result.mu)


def test_a_confirmation_is_the_pre_training_with_the_policy(data, monkeypatch):
    let_losses_be(monkeypatch, {3: 1.0}, 0.5)
    search, again = finish(search_of(data, confirm="true")), search_of(data)
    fit = again.pretrain.fit
    fit.policy = confirm.at_strength(search.rounds.learned)
    while fit.done < fit.n_steps:
        fit.step()
    assert torch.equal(search.theta, again.theta)


# --- losses -----------------------------------------------------------------------------------------------------------


def test_the_loss_of_a_training_is_that_of_validation_images_as_they_are(data):
    search = search_of(data)
    problem, fit = search.problem, search.pretrain.fit
    fit.step()
    before = problem.weights()
    found = problem.tempered_loss(fit)
    problem.model.eval()
    with torch.no_grad():
        logits = problem.model(fit.normalise(problem.val.images))
    assert found == pytest.approx(composing.tempered_loss(logits, problem.val.labels).item())
    assert all(torch.equal(value, problem.weights()[name]) for name, value in before.items())


def test_of_many_validation_images_some_are_looked_at(data, monkeypatch):
    search, seen = search_of(data), []
    monkeypatch.setattr("slackaug.auto.calibrate.N_IMAGES", 5)
    monkeypatch.setattr(composing, "tempered_loss", lambda _, labels: seen.append(len(labels)) or torch.tensor(1.0))
    search.problem.tempered_loss(search.pretrain.fit)
    assert seen == [5]


def test_the_validation_loss_leaves_no_trace(data):
    problem = search_of(data).problem
    chance, passes = problem.make_search(problem.phi)
    before, streams = problem.weights(), chance.get_state()["streams"]
    assert problem.val_loss(passes) == problem.val_loss(passes)
    assert all(torch.equal(value, before[name]) for name, value in problem.weights().items())
    assert all(torch.equal(streams[name], value) for name, value in chance.get_state()["streams"].items())


def test_the_validation_loss_is_that_of_the_images_as_they_are(data):
    problem = search_of(data).problem
    _, passes = problem.make_search(problem.phi)
    problem.model.train()
    images, labels = problem.val.images, problem.val.labels
    losses = [
        torch.nn.functional.cross_entropy(problem.model(passes.normalise(images[i])), labels[i])
        for i in stages.calibrate.mixed_batches(len(labels), problem.config.search.n_val, 0)
    ]
    assert problem.val_loss(passes) == pytest.approx(torch.stack(losses).mean().item(), rel=1e-5)


def test_a_held_out_test_set_is_never_seen():
    digits = load("digits")
    problem = Problem(config_of(digits), digits)
    held_out = {image.numpy().tobytes() for image in digits.test.images}
    seen = [image.numpy().tobytes() for half in (problem.train, problem.val) for image in half.images]
    assert len(seen) == len(digits.train.labels)
    assert not held_out & set(seen)


# --- where there is less to choose from -------------------------------------------------------------------------------


def test_without_identity_at_least_one_is_composed(data):
    search = Search(Problem(replace(config_of(data, n_composed="null"), exclude=("Identity",)), data))
    assert search.pretrain.composing._replace(losses={3: 1.0, 2: 0.9, 1: 0.8}).next_number() is None


def test_where_only_identity_is_left_none_is_no_other_number(data):
    others = tuple(name for name in Policy.uniform("cifar").space.names if name != "Identity")
    search = finish(Search(Problem(replace(config_of(data, n_composed="null"), exclude=others), data)))
    assert 0 not in search.pretrain.composing.losses


@pytest.mark.parametrize(
    ("numbers", "fewest"), [({2}, 1), ({3}, 3), ({*composing.LADDER}, 1), ({*composing.LADDER} - {0}, 1)]
)
def test_a_training_that_diverges_is_no_error_unless_all_do(numbers, fewest, data, monkeypatch):
    loss = Problem.tempered_loss

    def broken(problem, fit):
        if fit.policy.n_composed in numbers:
            fit.theta.fill_(math.nan)
        return loss(problem, fit)

    monkeypatch.setattr(Problem, "tempered_loss", broken)
    search = search_of(data, n_composed="null", fewest_composed=fewest)
    if len(numbers) > 1:
        with pytest.raises(Diverged, match="however many transformations are composed"):
            finish(search)
        return
    found = finish(search).pretrain.composing
    (number,) = numbers
    assert math.isnan(found.losses[number])
    assert found.n_positions == max(found.best, 1) != number
    assert len(search.rounds.learned.pi) == found.n_positions
    assert torch.isfinite(search.theta).all()


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
    found = [standing.train_loss.item() for standing in searching.steps(captured)]
    assert isinstance(captured.confirm.fit, CapturedFit)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-4, nan_ok=True)
    assert captured.confirm.found == pytest.approx(plain.confirm.found, rel=1e-3)
    torch.testing.assert_close(captured.result.pi, plain.result.pi, rtol=1e-3, atol=1e-3)
