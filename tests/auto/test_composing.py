"""How many transformations a composite has: which numbers are tried, which is taken, and that nothing else depends on
the trials."""

import copy
import json
import math
import signal
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

import slackaug
import tiny
from slackaug.augment.policy import Policy
from slackaug.auto import composing, learn
from slackaug.auto.composing import LADDER, Composing, tempered_loss
from slackaug.auto.stages import Learner
from slackaug.config import parse, presets
from slackaug.config.run_config import RunConfig
from slackaug.data import load
from slackaug.report import history, page, run_page
from slackaug.runs import folders

pytestmark = pytest.mark.usefixtures("quick_search")


def outcome(losses: dict[int, float]) -> Composing:
    """What is tried, and taken, where pre-training with these numbers has these losses."""
    found = Composing({})
    while (number := found.next_number()) is not None:
        assert number not in found.losses
        found = Composing(found.losses | {number: losses[number]})
    return found


@pytest.mark.parametrize(
    ("losses", "tried", "taken"),
    [
        ({3: 1.0, 2: 1.1, 5: 1.2}, [3, 2, 5], 3),
        ({3: 1.0, 2: 0.9, 1: 1.2}, [3, 2, 1], 2),
        ({3: 1.0, 2: 0.9, 1: 0.8, 0: 0.85}, [3, 2, 1, 0], 1),
        ({3: 1.0, 2: 0.9, 1: 0.8, 0: 0.7}, [3, 2, 1, 0], 0),
        ({3: 1.0, 2: 1.1, 5: 0.9, 8: 0.95}, [3, 2, 5, 8], 5),
        ({3: 1.0, 2: 1.1, 5: 0.9, 8: 0.8}, [3, 2, 5, 8], 8),
        (dict.fromkeys(LADDER, 1.0), [3, 2, 1, 0], 0),
        ({3: math.nan, 2: 2.0, 1: 3.0}, [3, 2, 1], 2),
        ({3: 1.0, 2: math.nan, 5: math.inf}, [3, 2, 5], 3),
        (dict.fromkeys(LADDER, math.nan), [3, 2, 1, 0], 0),
    ],
)
def test_numbers(losses, tried, taken):
    found = outcome(losses)
    assert (list(found.losses), found.best) == (tried, taken)
    for fewest in (1, 3):
        started, start = found._replace(fewest=fewest), max(taken, fewest)
        if not math.isfinite(losses[start]):
            start = max(taken, 1)
        assert started.n_positions == start
        assert (f"; rounds start from {start}" in started.describe()) == (start != taken)
    assert f" {taken or 'none'} {'do' if taken > 1 else 'does'} best (validation loss" in found.describe()
    assert found.to_json()["n_composed"] == taken
    json.dumps(found.to_json(), allow_nan=False)


@given(scale=st.floats(0.02, 50), seed=st.integers(0, 99))
def test_the_loss_does_not_depend_on_how_sure_a_network_is(scale, seed):
    generator = torch.Generator().manual_seed(seed)
    logits, labels = torch.randn(60, 4, generator=generator), torch.randint(4, (60,), generator=generator)
    logits[torch.arange(60), labels] += 1  # right more often than not, or the best scale would be none at all
    found = tempered_loss(logits, labels).item()
    assert tempered_loss(scale * logits, labels).item() == pytest.approx(found, rel=1e-6)
    tried = [cross_entropy(s * logits.double(), labels).item() for s in torch.logspace(-2, 2, 200).tolist()]
    assert found <= min(tried) + 1e-12
    assert found == pytest.approx(min(tried), rel=1e-3)


def test_the_loss_of_a_network_that_is_always_right_is_near_zero():
    labels = torch.arange(5)
    assert 0 <= tempered_loss(torch.eye(5), labels).item() < 1e-6


# --- in a search ------------------------------------------------------------------------------------------------------


def config_of(data, **changes) -> RunConfig:
    config = presets.quick(data)
    for text in tiny.assignments(**({"n_composed": "null"} | changes)):
        config = parse.update(config, parse.parse_assignment(text))
    return config


def losses_by_number(monkeypatch: pytest.MonkeyPatch, losses: dict[int, float]) -> None:
    monkeypatch.setattr(Learner, "tempered_loss", lambda self: losses[len(self.phi.pi)])


@pytest.mark.parametrize(
    ("losses", "fewest", "number"),
    [
        ({3: 1.0, 2: 2.0, 5: 2.0}, 1, 3),
        ({3: 1.0, 2: 0.5, 1: 2.0}, 1, 2),
        ({3: 1.0, 2: 0.5, 1: 2.0}, 3, 3),
        ({3: 1.0, 2: 2.0, 5: 0.5, 8: 0.2}, 1, 8),
        ({3: 1.0, 2: 2.0, 5: 0.5, 8: 0.7}, 3, 5),
    ],
)
def test_a_search_after_trials_is_the_search_with_that_number(losses, fewest, number, tiny_npz, monkeypatch):
    data = load(str(tiny_npz))
    losses_by_number(monkeypatch, losses)
    options = {"fewest_composed": fewest}
    found, given = (Learner(config_of(data, **options | more), data) for more in ({}, {"n_composed": number}))
    for learner in (found, given):
        for _ in learn.work(learner):
            pass
    assert found.state is not None
    assert given.state is not None
    assert found.state.phi.pi.shape == (number, 17)
    assert torch.equal(found.state.phi.pi, given.state.phi.pi)
    assert torch.equal(found.state.phi.mu, given.state.phi.mu)


def test_the_loss_is_that_of_validation_images_as_they_are(tiny_npz):
    data = load(str(tiny_npz))
    learner = Learner(config_of(data), data)
    learner.fit.step()
    before = learner.weights()
    found = learner.tempered_loss()
    learner.model.eval()
    with torch.no_grad():
        logits = learner.model(learner.fit.normalise(learner.preparation.test(learner.val.images)))
    assert found == pytest.approx(tempered_loss(logits, learner.val.labels).item())
    assert all(torch.equal(value, learner.weights()[name]) for name, value in before.items())


def test_of_many_validation_images_some_are_looked_at(tiny_npz, monkeypatch):
    data = load(str(tiny_npz))
    learner = Learner(config_of(data), data)
    monkeypatch.setattr("slackaug.auto.calibrate.N_IMAGES", 5)
    seen: list[int] = []
    monkeypatch.setattr(composing, "tempered_loss", lambda _, labels: seen.append(len(labels)) or torch.tensor(1.0))
    learner.tempered_loss()
    assert seen == [5]


@pytest.mark.parametrize("losses", [{3: 1.0, 2: 0.5, 1: 2.0}, {3: 1.0, 2: 2.0, 5: 3.0}])
def test_any_moment_of_the_trials_can_be_taken_up_again(losses, tiny_npz, monkeypatch):
    data = load(str(tiny_npz))
    losses_by_number(monkeypatch, losses)
    whole = Learner(config_of(data), data)
    states = [copy.deepcopy(whole.get_state()) for _ in whole.pretrain()]
    states.append(copy.deepcopy(whole.get_state()))  # settled; what an interrupted calibration leaves, too
    assert len(states) == 3 * 6 + 1
    for state in states[3:]:
        again = Learner(config_of(data, seed=0), data)
        again.set_state(state)
        for _ in again.pretrain():
            pass
        assert again.is_composed
        assert again.phi.pi.shape == whole.phi.pi.shape
        assert torch.equal(again.make_engine().theta, whole.make_engine().theta)


def test_progress_counts_the_trials(tiny_npz, monkeypatch):
    data = load(str(tiny_npz))
    for losses in ({3: 1.0, 2: 0.5, 1: 2.0}, {3: 1.0, 2: 2.0, 5: 0.5, 8: 0.2}):
        losses_by_number(monkeypatch, losses)
        seen = [(progress.stage, progress.done) for progress in learn.work(Learner(config_of(data), data))]
        shares = [done for _, done in seen]
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1)
        assert sum(stage == "pre-training" for stage, _ in seen) == 6 * len(losses)


@pytest.mark.parametrize("moment", [("pre-training", 0, 4), ("policy", 1, 5)])
def test_a_killed_search_ends_with_the_same_bits(moment, tiny_npz, tmp_path):
    cut, whole = tiny.killed_and_whole(tiny_npz, tmp_path, moment, n_composed="null")
    assert tiny.outcome(cut) == tiny.outcome(whole)
    assert (cut / "composing.json").read_text() == (whole / "composing.json").read_text()


def test_it_is_said_stored_and_shown(tiny_npz, tmp_path, command, monkeypatch):
    losses_by_number(monkeypatch, {3: 1.0, 2: 0.5, 1: 2.0})
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", n_composed="null"))
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "pre-training with 3 transformations in a composite, and with fewer or more, says how many do best" in said
    assert "composite: 2 do best (validation loss after pre-training: 2.000 with 1, 0.500 with 2, 1.000 with 3)" in said
    stored = json.loads((tmp_path / "run" / "composing.json").read_text())
    assert stored["n_composed"] == 2
    assert [trial["n_composed"] for trial in stored["trials"]] == [1, 2, 3]
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
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


def test_its_cost_is_counted(tiny_npz):
    each = learn.StepSeconds(n_pretraining=10, pretraining=1.0, retraining=0.0, policy=0.0)
    data = load(str(tiny_npz))
    assert learn.whole_seconds(each, config_of(data, n_composed=3)) == 10
    assert learn.whole_seconds(each, config_of(data)) == 10 * composing.N_USUAL
    assert learn.whole_seconds(each, config_of(data), n_pretrainings=3) == 10 * (composing.N_USUAL + 2)


# --- images as they are -----------------------------------------------------------------------------------------------

AS_THEY_ARE = {3: 1.0, 2: 0.9, 1: 0.8, 0: 0.7}


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


def test_rounds_then_start_from_one(tiny_npz, monkeypatch):
    data = load(str(tiny_npz))
    monkeypatch.setattr(Learner, "tempered_loss", lambda self: AS_THEY_ARE[self.phi.n_composed])
    found, given = Learner(config_of(data), data), Learner(config_of(data, n_composed=1), data)
    for learner in (found, given):
        for _ in learn.work(learner):
            pass
    assert found.state is not None
    assert given.state is not None
    assert torch.equal(found.state.phi.pi, given.state.phi.pi)
    assert found.state.phi.pi.shape == (1, 17)


@pytest.mark.parametrize(("loss", "strength"), [(0.6, 1.0), (0.75, 0.0)])
def test_a_policy_has_to_do_better_than_images_as_they_are(loss, strength, tiny_npz, tmp_path, monkeypatch, command):
    def found(learner: Learner) -> float:
        return loss if learner.state is not None else AS_THEY_ARE[learner.phi.n_composed]

    monkeypatch.setattr(Learner, "tempered_loss", found)
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", n_composed="null", confirm="true"))
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "transformations in a composite: none does best (" in said
    assert "1.000 with 3); rounds start from 1" in said
    assert "that is so after 2 epochs of pre-training" in said
    assert "--set pretrain.epochs=8" in said
    assert "validation loss after whole trainings: 0.700 with images as they are" in said
    assert ("to leave images as they are is the result" in said) == (strength == 0)
    assert "collapsed" not in said
    result = Policy.load(tmp_path / "run" / "policy.json")
    assert result.n_composed == (1 if strength else 0)
    assert result.learned["kept"] == strength
    assert ("Images stay as they are" in run_page.policy_text(result)) == (strength == 0)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["n_composed"] for row in rows if not row["round"]][::6] == [3, 2, 1, 0]
    assert [step.n_composed for step in history.read(tmp_path / "run").steps if not step.round] == [1] * 6


def test_without_identity_at_least_one_is_composed(tiny_npz):
    data = load(str(tiny_npz))
    learner = Learner(replace(config_of(data), exclude=("Identity",)), data)
    assert learner.composing is not None
    assert learner.composing._replace(losses={3: 1.0, 2: 0.9, 1: 0.8}).next_number() is None


def test_what_is_not_kept_gives_way_to_the_best_number(tiny_npz, tmp_path, monkeypatch):
    """Rounds have three, and the result has two; the report shows both."""
    losses = {3: 1.0, 2: 0.5, 1: 2.0}
    monkeypatch.setattr(
        Learner, "tempered_loss", lambda self: 0.6 if self.state is not None else losses[len(self.phi.pi)]
    )
    run = tmp_path / "run"
    slackaug.search(str(tiny_npz), run, set=tiny.assignments(n_composed="null", fewest_composed=3, confirm="true"))
    result, learned = Policy.load(run / "policy.json"), folders.learned(run)
    assert (len(result.pi), len(learned.pi)) == (2, 3)
    torch.testing.assert_close(result.probabilities, Policy.uniform("cifar", n_composed=2).probabilities)
    stored = json.loads((run / "confirmation.json").read_text())
    assert (stored["kept"], stored["n_composed_before"], stored["val_loss_before"]) == (0, 2, 0.5)
    assert [trial["share"] for trial in stored["trials"]] == [1.0]  # half of the way leads to three, which is worse
    frames = run_page.frames(history.read(run), (8, 8))
    assert [frame.name for frame in frames][-2:] == ["round 2 of 2", "the result"]
    page.write(run, samples=None)
    assert "so that the uniform policy of 2 is the result" in (run / "report.html").read_text()


@pytest.mark.parametrize("best", [1, 2])
def test_trials_before_rounds_from_three_can_be_taken_up_again(best, tiny_npz, monkeypatch):
    losses = {3: 1.0, 2: 0.9, 1: 0.8 if best == 1 else 2.0, 0: 3.0}
    monkeypatch.setattr(Learner, "tempered_loss", lambda self: losses[self.phi.n_composed])
    data = load(str(tiny_npz))
    whole = Learner(config_of(data, confirm="true", fewest_composed=3), data)
    states = [copy.deepcopy(whole.get_state()) for _ in whole.pretrain()]
    for state in states[4::5]:
        again = Learner(config_of(data, confirm="true", fewest_composed=3), data)
        again.set_state(state)
        for _ in again.pretrain():
            pass
        assert again.confirmation == whole.confirmation
        assert len(again.phi.pi) == 3
        assert torch.equal(again.make_engine().theta, whole.make_engine().theta)
    old = {key: value for key, value in states[-2].items() if key != "theta_0"}
    with pytest.raises(KeyError, match="theta_0"):  # which is said of a checkpoint that is not ours
        Learner(config_of(data, confirm="true", fewest_composed=3), data).set_state(old)


def test_a_trial_without_any_can_be_taken_up_again(tiny_npz, monkeypatch):
    data = load(str(tiny_npz))
    monkeypatch.setattr(Learner, "tempered_loss", lambda self: AS_THEY_ARE[self.phi.n_composed])
    whole = Learner(config_of(data, confirm="true"), data)
    states = [copy.deepcopy(whole.get_state()) for _ in whole.pretrain()]
    again = Learner(config_of(data, confirm="true"), data)
    again.set_state(states[-2])
    for _ in again.pretrain():
        pass
    assert again.composing == whole.composing
    assert again.confirmation == whole.confirmation
    assert torch.equal(again.make_engine().theta, whole.make_engine().theta)


def test_where_only_identity_is_left_none_is_no_other_number(tiny_npz):
    data = load(str(tiny_npz))
    others = tuple(name for name in Policy.uniform("cifar").space.names if name != "Identity")
    learner = Learner(replace(config_of(data), exclude=others), data)
    for _ in learner.pretrain():
        pass
    assert learner.composing is not None
    assert 0 not in learner.composing.losses


def test_a_trial_that_diverges_is_no_error_unless_all_do(tiny_npz, tmp_path, monkeypatch):
    judge = Learner.judge_composed

    def broken(numbers):
        def judge_broken(self):
            if self.phi.n_composed in numbers:
                self.fit.theta.fill_(math.nan)
            judge(self)

        return judge_broken

    monkeypatch.setattr(Learner, "judge_composed", broken({2}))
    slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments(n_composed="null"))
    found = json.loads((tmp_path / "run" / "composing.json").read_text())
    assert {trial["n_composed"]: trial["val_loss_after_pretraining"] for trial in found["trials"]}[2] is None
    monkeypatch.setattr(Learner, "judge_composed", broken({3}))
    slackaug.search(str(tiny_npz), tmp_path / "three", set=tiny.assignments(n_composed="null", fewest_composed=3))
    found = json.loads((tmp_path / "three" / "composing.json").read_text())
    assert found["n_positions"] == max(found["n_composed"], 1) < 3
    assert len(Policy.load(tmp_path / "three" / "policies" / "round_02.json").pi) == found["n_positions"]
    for name, numbers in (("all", {*LADDER}), ("all but none", {*LADDER} - {0})):
        monkeypatch.setattr(Learner, "judge_composed", broken(numbers))
        with pytest.raises(learn.Diverged, match="however many transformations are composed"):
            slackaug.search(str(tiny_npz), tmp_path / name, set=tiny.assignments(n_composed="null"))


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
