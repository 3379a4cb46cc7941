"""How many transformations a composite has: which numbers are tried, which is taken, and what is said of it."""

import json
import math
import signal
from dataclasses import replace

import pytest
import torch

import slackaug
import tiny
from searching import config_of, finish, let_losses_be, search_of
from slackaug.augment.policy import Policy
from slackaug.auto import pretrain
from slackaug.auto.pretrain import LADDER, Composing
from slackaug.auto.problem import Problem
from slackaug.auto.stages import Search
from slackaug.data import load
from slackaug.engine.fit import Diverged
from slackaug.messages import search as messages
from slackaug.report import history

pytestmark = pytest.mark.usefixtures("quick_search")
AS_THEY_ARE = {3: 1.0, 2: 0.9, 1: 0.8, 0: 0.7}
NAMES = Policy.uniform("cifar").space.names


def outcome(losses: dict[int, float], ladder: tuple[int, ...] = LADDER) -> Composing:
    """What is tried, and taken, where pre-training with these numbers has these losses."""
    found = Composing({}, ladder)
    while (number := found.next_number()) is not None:
        assert number not in found.losses
        found = found._replace(losses=found.losses | {number: losses[number]})
    return found


@pytest.mark.parametrize(
    ("losses", "taken"),
    [
        ({3: 1.0, 2: 1.1, 5: 1.2}, 3),
        ({3: 1.0, 2: 0.9, 1: 1.2}, 2),
        ({3: 1.0, 2: 0.9, 1: 0.8, 0: 0.85}, 1),
        (AS_THEY_ARE, 0),
        ({3: 1.0, 2: 1.1, 5: 0.9, 8: 0.95}, 5),
        ({3: 1.0, 2: 1.1, 5: 0.9, 8: 0.8}, 8),
        (dict.fromkeys((3, 2, 1, 0), 1.0), 0),
        ({3: math.nan, 2: 2.0, 1: 3.0}, 2),
        ({3: 1.0, 2: math.nan, 5: math.inf}, 3),
        (dict.fromkeys((3, 2, 1, 0), math.nan), 0),
    ],
)
def test_numbers(losses, taken):
    found = outcome(losses)
    assert (list(found.losses), found.best) == ([*losses], taken)
    for fewest in (1, 3):
        start = max(taken, fewest)
        if not math.isfinite(losses[start]):
            start = max(taken, 1)
        assert found._replace(fewest=fewest).n_positions == start
    assert found.to_json()["n_composed"] == taken
    json.dumps(found.to_json(), allow_nan=False)


def test_there_may_be_less_to_choose_from():
    assert [*outcome(AS_THEY_ARE, LADDER[1:]).losses] == [3, 2, 1]
    for number in (1, 3, 7):
        assert [*outcome({number: math.nan}, (number,)).losses] == [number]


@pytest.mark.parametrize(
    ("losses", "asked"),
    [({}, [3, 2, 5, 1]), ({3: 1.0, 2: 1.1}, [5, 8, 1, 0]), (AS_THEY_ARE | {5: 2.0}, []), ({3: 3, 2: 2}, [1, 0, 5, 8])],
)
def test_the_likeliest_are_tried_at_once(losses, asked):
    assert Composing(losses).next_numbers(4) == asked
    assert Composing(losses).next_numbers(1) == asked[:1]


# --- in a search ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("left_out", "best"), [({"Identity"}, 1), ({*NAMES} - {"Identity"}, 1), (set(), 0)])
def test_none_is_a_number_where_identity_is_a_choice(left_out, best, tiny_npz, monkeypatch):
    let_losses_be(monkeypatch, AS_THEY_ARE)
    data = load(str(tiny_npz))
    config = replace(config_of(data, n_composed="null"), exclude=tuple(left_out))
    assert finish(Search(Problem(config, data))).stage.found.n_composed == best


@pytest.mark.parametrize(("numbers", "fewest"), [({2}, 1), ({3}, 3), ({*LADDER}, 1), ({*LADDER} - {0}, 1)])
def test_a_training_that_diverges_is_no_error_unless_all_do(numbers, fewest, tiny_npz, monkeypatch):
    loss = Problem.tempered_loss

    def broken(problem, fit):
        if fit.policy.n_composed in numbers:
            fit.theta.fill_(math.nan)
        return loss(problem, fit)

    monkeypatch.setattr(Problem, "tempered_loss", broken)
    search = search_of(load(str(tiny_npz)), n_composed="null", fewest_composed=fewest)
    stage = search.stage
    if len(numbers) > 1:
        with pytest.raises(Diverged, match="however many transformations are composed"):
            finish(search)
        return
    finish(search)
    found, (number,) = stage.composing, numbers
    assert math.isnan(found.losses[number])
    assert found.n_positions == max(found.best, 1) != number
    assert len(search.stage.found.phi.pi) == found.n_positions
    assert torch.isfinite(search.theta).all()


@pytest.fixture
def at_once(monkeypatch, as_on_a_gpu):
    """Four trainings as one step."""
    monkeypatch.setattr(pretrain, "n_at_once", lambda problem: 4)


def pretrained(saved=None, *, tiny_npz):
    """A search in pre-training."""
    return search_of(load(str(tiny_npz)), saved, n_composed="null")


def test_at_once_the_same_is_found_as_one_after_the_other(tiny_npz, monkeypatch, request):
    one_by_one = pretrained(tiny_npz=tiny_npz).stage
    [*one_by_one.run()]
    request.getfixturevalue("at_once")
    together = pretrained(tiny_npz=tiny_npz).stage
    seen = [standing.phi.n_composed for standing in together.run()]
    assert seen[:8] == [3, 2, 5, 1] * 2
    assert together.composing.losses == pytest.approx(one_by_one.composing.losses, rel=1e-3)
    for name, value in one_by_one.theta_0.items():
        torch.testing.assert_close(together.theta_0[name], value, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("n", [1, 9, 24])
def test_stopped_while_several_are_trained(n, at_once, tiny_npz):
    whole = pretrained(tiny_npz=tiny_npz)
    [*whole.stage.run()]
    first = pretrained(tiny_npz=tiny_npz)
    for _ in zip(range(n), first.stage.run(), strict=False):
        pass
    again = pretrained(first.state(), tiny_npz=tiny_npz)
    [*again.stage.run()]
    assert again.stage.composing == whole.stage.composing
    assert all(torch.equal(again.stage.theta_0[name], value) for name, value in whole.stage.theta_0.items())


def test_a_search_with_several_at_once_leaves_what_it_leaves_otherwise(at_once, tiny_npz, tmp_path, monkeypatch):
    let_losses_be(monkeypatch, {3: 1.0, 2: 0.5, 1: 2.0})
    slackaug.search(tiny_npz, tmp_path / "run", set=tiny.assignments(n_composed="null"), estimate=False)
    stored = json.loads((tmp_path / "run" / "composing.json").read_text())
    assert (stored["n_composed"], [trial["n_composed"] for trial in stored["trials"]]) == (2, [1, 2, 3])
    rows = tiny.metrics(tmp_path / "run")
    assert [row["n_composed"] for row in rows if not row["round"]] == [3, 2, 5, 1] * 6
    past = history.read(tmp_path / "run")
    assert [step.n_composed for step in past.steps if not step.round] == [2] * 6


def test_it_is_said_stored_and_shown(tiny_npz, tmp_path, command, monkeypatch):
    let_losses_be(monkeypatch, {3: 1.0, 2: 0.5, 1: 2.0})
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--verbose", n_composed="null"))
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert messages.COUNTS_NUMBERS in said
    assert "Best in the first short trainings: 2 random transformations per image (tried: 1, 2 and 3)." in said
    assert "Validation loss after pre-training: 2.000 with 1, 0.500 with 2, 1.000 with 3." in said
    stored = json.loads((tmp_path / "run" / "composing.json").read_text())
    assert stored["n_composed"] == 2
    assert [trial["n_composed"] for trial in stored["trials"]] == [1, 2, 3]
    rows = tiny.metrics(tmp_path / "run")
    assert [row["n_composed"] for row in rows if not row["round"]] == [3] * 6 + [2] * 6 + [1] * 6
    past = history.read(tmp_path / "run")
    assert [step.n_composed for step in past.steps if not step.round] == [2] * 6
    assert len(slackaug.Policy.load(tmp_path / "run" / "policy.json").pi) == 2


def test_while_it_is_open_the_newest_trial_is_shown():
    steps = [history.Step("pre-training", 0, step, 1.0, number) for number in (3, 2) for step in (1, 2)]
    assert history.without_other_trials(steps, None) == steps[2:]
    assert history.without_other_trials(steps, 3) == steps[:2]
    assert history.without_other_trials([], None) == []


def test_a_number_may_be_given(tiny_npz, tmp_path, command):
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", n_composed=2))
    assert done.returncode == 0
    assert not (tmp_path / "run" / "composing.json").exists()
    assert len(slackaug.Policy.load(tmp_path / "run" / "policy.json").pi) == 2
    wrong = [{"n_composed": value} for value in (0, 17, "'two'")] + [{"fewest_composed": value} for value in (0, 4)]
    for options in wrong:
        done = command(*tiny.arguments(tiny_npz, tmp_path / "wrong", **options))
        assert done.returncode == 2
        assert next(iter(options)) in done.stderr
        assert not (tmp_path / "wrong").exists()


# --- images as they are -----------------------------------------------------------------------------------------------


def test_none_are_composed_by_identity_alone(images, generator):
    phi = Policy.uniform("cifar").with_composed(0)
    assert phi.n_composed == 0
    assert set(phi.sample(200, generator).op.flatten().tolist()) == {phi.space.index("Identity")}
    assert torch.equal(slackaug.SlackAugment(replace(phi, flip=False))(images), images)
    again = Policy.from_dict(phi.to_dict())
    assert again.n_composed == 0
    for number in (1, 2):
        assert Policy.uniform("cifar", n_composed=number).n_composed == number
    assert Policy.uniform(Policy.uniform("cifar").space.exclude("Identity")).n_composed == 3


def test_where_images_as_they_are_do_best_rounds_start_from_one(tiny_npz, tmp_path, monkeypatch, command):
    let_losses_be(monkeypatch, AS_THEY_ARE)
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--verbose", n_composed="null"))
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "images as they are (tried: none, 1" in said
    assert "0.700 with none, 0.800 with 1, " in said
    assert "starts from 1 transformation." in said
    assert "after 2 epochs of pre-training" in said
    assert "--set pretrain.epochs=8" in said
    assert "collapsed" not in said
    assert Policy.load(tmp_path / "run" / "policy.json").n_composed == 1
    rows = tiny.metrics(tmp_path / "run")
    assert [row["n_composed"] for row in rows if not row["round"]][::6] == [3, 2, 1, 0]
    assert [step.n_composed for step in history.read(tmp_path / "run").steps if not step.round] == [1] * 6


@pytest.mark.parametrize(("flip", "says"), [(True, "with mirror flips"), (False, "without mirror flips")])
def test_a_policy_that_leaves_images_as_they_are_is_shown_so(flip, says, tmp_path, command):
    Policy.uniform("cifar", flip=flip).with_composed(0).save(tmp_path / "policy.json")
    found = command("show", tmp_path / "policy.json")
    assert f"images stay as they are, {says}" in found.stdout
    assert "an image out of" not in found.stdout


def test_a_report_in_the_first_round_has_the_pre_training_that_it_goes_on_from(tiny_npz, tmp_path):
    words = tiny.arguments(tiny_npz, tmp_path / "run", n_composed="null")
    assert tiny.run_until(words, tmp_path / "log", ("policy", 1, 5)) == -signal.SIGKILL
    taken = json.loads((tmp_path / "run" / "composing.json").read_text())["n_positions"]
    past = history.read(tmp_path / "run")
    assert {step.n_composed for step in past.steps if not step.round} == {taken}
    assert len(past.start.pi) == taken
