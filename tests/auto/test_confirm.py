"""Whether what was learned is kept: what is tried, what is the result, and that an interruption changes nothing."""

import copy
import json
import math
import signal
from dataclasses import replace
from functools import partial

import pytest
import torch
from slackaug.engine.gpu.fast import Fast, FastFit

import slackaug
import tiny
from slackaug.augment.policy import MU_START, Policy
from slackaug.auto import confirm, learn
from slackaug.auto.confirm import Confirmation, at_strength
from slackaug.auto.stages import Learner
from slackaug.config import parse, presets
from slackaug.data import load
from slackaug.engine import ways
from slackaug.report import history, page, run_page

pytestmark = pytest.mark.usefixtures("quick_search")


@pytest.mark.parametrize(
    ("losses", "tried", "strength"),
    [
        ({1.0: 0.9}, [1.0], 1.0),
        ({1.0: 0.979}, [1.0], 1.0),
        ({1.0: 0.981, 0.5: 0.9}, [1.0, 0.5], 0.5),
        ({1.0: 1.2, 0.5: 1.1}, [1.0, 0.5], 0.0),
        ({1.0: math.nan, 0.5: math.inf}, [1.0, 0.5], 0.0),
    ],
)
def test_what_is_kept(losses, tried, strength):
    found = Confirmation(1.0, {}, 3, 3)
    while (following := found.next_strength()) is not None:
        found = found._replace(losses=found.losses | {following: losses[following]})
    assert (list(found.losses), found.strength) == (tried, strength)
    stored = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (stored["kept"], stored["remark"]) == (strength, found.describe())
    assert ("the uniform policy of 3 is the result" in found.describe()) == (strength == 0)


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_where_nothing_is_kept_the_result_is_that_of_the_best_pre_training(number, generator):
    pi, mu = torch.randn(3, 17, generator=generator, dtype=torch.float64), torch.full((17,), 0.3, dtype=torch.float64)
    phi = replace(Policy.uniform("cifar"), pi=pi, mu=mu)
    found = Confirmation(1.0, {1.0: 1.1}, number, 3)
    assert found.next_strength() is None  # half of the way would lead to three, which did worse
    result = found.kept(phi)
    assert result.n_composed == number
    assert (result.mu == MU_START).all()
    if number:
        torch.testing.assert_close(result.probabilities, Policy.uniform("cifar", n_composed=number).probabilities)


def test_strengths_lead_from_uniform_to_the_policy(generator):
    pi = torch.randn(2, 17, generator=generator, dtype=torch.float64)
    phi = replace(Policy.uniform("cifar"), pi=pi, mu=torch.linspace(0.3, 1, 17, dtype=torch.float64))
    none, half, whole = (at_strength(phi, strength) for strength in (0.0, 0.5, 1.0))
    torch.testing.assert_close(none.probabilities, torch.full((2, 17), 1 / 17, dtype=torch.float64))
    assert (none.mu == MU_START).all()
    torch.testing.assert_close(whole.probabilities, phi.probabilities)
    torch.testing.assert_close(whole.mu, phi.mu)
    distances = [policy.kl(none).item() for policy in (none, half, whole)]
    assert distances == sorted(distances)
    torch.testing.assert_close(half.mu, (none.mu + whole.mu) / 2)


# --- in a search ------------------------------------------------------------------------------------------------------


def config_of(data, **changes):
    config = presets.quick(data)
    for text in tiny.assignments(**({"confirm": "true"} | changes)):
        config = parse.update(config, parse.parse_assignment(text))
    return config


def losses_in_turn(monkeypatch: pytest.MonkeyPatch, uniform: float, *losses: float) -> None:
    """Of pre-training with three, which is best, and then of each trial."""

    def loss(learner: Learner) -> float:
        if learner.state is None:
            return uniform if len(learner.phi.pi) == 3 else uniform + 1
        return losses[len(learner.confirmation.losses)]

    monkeypatch.setattr(Learner, "tempered_loss", loss)


@pytest.mark.parametrize(("losses", "strength"), [((0.5,), 1.0), ((1.0, 0.5), 0.5), ((1.0, 1.0), 0.0)])
def test_the_result_is_what_is_left(losses, strength, tiny_npz, tmp_path, monkeypatch, command):
    losses_in_turn(monkeypatch, 1.0, *losses)
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", confirm="true"))
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "after the rounds a whole training decides whether the policy does better than pre-training did" in said
    assert "validation loss after whole trainings: 1.000 with the uniform policy of 3" in said
    assert json.loads((tmp_path / "run" / "confirmation.json").read_text())["kept"] == strength
    last = Policy.load(tmp_path / "run" / "policies" / "round_02.json")
    result = Policy.load(tmp_path / "run" / "policy.json")
    assert result.learned["kept"] == strength
    assert "kept" not in last.learned
    torch.testing.assert_close(result.probabilities, at_strength(last, strength).probabilities)
    torch.testing.assert_close(result.mu, at_strength(last, strength).mu)
    past = history.read(tmp_path / "run")
    assert past.policy is not None
    assert past.policy.learned["kept"] == strength
    assert past.is_finished
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert {row["stage"] for row in rows} == {"pre-training", "re-training", "policy"}


def test_the_rounds_do_not_depend_on_it(tiny_npz, finished, tmp_path):
    slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments(confirm="true"))
    for name in ("round_01.json", "round_02.json"):
        ours, theirs = (json.loads((run / "policies" / name).read_text()) for run in (tmp_path / "run", finished))
        for document in (ours, theirs):
            document["learned"].pop("seconds")
        assert ours == theirs


def test_a_trial_is_the_pre_training_with_the_policy(tiny_npz, monkeypatch):
    data = load(str(tiny_npz))
    losses_in_turn(monkeypatch, 1.0, 0.5)
    learner = Learner(config_of(data), data)
    for _ in learn.work(learner):
        pass
    again = Learner(config_of(data), data)
    again.fit.policy = at_strength(learner.learned, 1.0)
    while again.fit.done < again.fit.n_steps:
        again.fit.step()
    assert torch.equal(learner.fit.theta, again.fit.theta)


def test_any_moment_can_be_taken_up_again(tiny_npz, monkeypatch):
    data = load(str(tiny_npz))
    losses_in_turn(monkeypatch, 1.0, 1.0, 0.5)
    whole = Learner(config_of(data, n_composed="null"), data)
    states = [(step.stage, copy.deepcopy(whole.get_state())) for step in learn.work(whole)]
    kept = [state for stage, state in states if stage in ("policy", "confirmation")][::3]
    assert sum(state["stage"] == "confirmation" for state in kept) >= 4
    for state in [*kept, states[-1][1]]:
        again = Learner(config_of(data, n_composed="null"), data)
        again.set_state(state)
        for _ in learn.work(again):
            pass
        assert again.is_finished
        assert again.confirmation == whole.confirmation
        assert torch.equal(again.result.pi, whole.result.pi)
        assert torch.equal(again.fit.theta, whole.fit.theta)


def test_progress_counts_it(tiny_npz, monkeypatch):
    data = load(str(tiny_npz))
    for losses in ((0.5,), (1.0, 1.0)):
        losses_in_turn(monkeypatch, 1.0, *losses)
        seen = [(progress.stage, progress.done) for progress in learn.work(Learner(config_of(data), data))]
        shares = [done for _, done in seen]
        assert shares == sorted(shares)
        assert shares[-1] == 1
        assert max(shares[:-1]) < 1 or len(losses) == 2
        searched = max(done for stage, done in seen if stage == "policy")
        assert searched < 1
        assert min(done for stage, done in seen if stage == "confirmation") > searched


def test_a_killed_search_ends_with_the_same_bits(tiny_npz, tmp_path):
    cut, whole = tiny.killed_and_whole(tiny_npz, tmp_path, ("confirmation", 0, 4), confirm="true")
    assert tiny.outcome(cut) == tiny.outcome(whole)
    assert (cut / "confirmation.json").read_text() == (whole / "confirmation.json").read_text()


def test_a_trial_that_diverges_is_no_error(tiny_npz, tmp_path, monkeypatch):
    train_on = Learner.train_on

    def broken(self, stage, phi):
        yield from train_on(self, stage, phi)
        if stage == "confirmation":
            self.fit.theta.fill_(math.nan)

    monkeypatch.setattr(Learner, "train_on", broken)
    slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments(confirm="true"))
    found = json.loads((tmp_path / "run" / "confirmation.json").read_text())
    assert found["kept"] == 0
    assert [trial["val_loss"] for trial in found["trials"]] == [None, None]


def test_its_cost_is_counted(tiny_npz):
    each = learn.StepSeconds(n_pretraining=10, pretraining=1.0, retraining=0.0, policy=0.0)
    data = load(str(tiny_npz))
    assert learn.whole_seconds(each, config_of(data)) == 10 * (1 + len(confirm.STRENGTHS))


# --- what is shown of it ----------------------------------------------------------------------------------------------


@pytest.fixture
def unconfirmed(tiny_npz, tmp_path):
    """A run that was left in its confirmation."""
    words = tiny.arguments(tiny_npz, tmp_path / "run", confirm="true")
    assert tiny.run_until(words, tmp_path / "log", ("confirmation", 0, 3)) == -signal.SIGKILL
    return tmp_path / "run"


def test_a_run_that_was_left_in_it_is_not_finished(unconfirmed):
    past = history.read(unconfirmed)
    assert not past.is_finished
    assert "all rounds are done, and what they have learned is not confirmed yet" in run_page.state(past, False)
    assert "To go on: slackaug search" in run_page.state(past, False)


def test_a_time_limit_in_it_is_said(tiny_npz, tmp_path, command, monkeypatch):
    seconds, confirming = [0.0], Learner.confirm

    def late(self):
        seconds[0] = 100.0
        yield from confirming(self)

    monkeypatch.setattr(Learner, "confirm", late)
    monkeypatch.setattr(learn.Clock, "__call__", lambda self: seconds[0])
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--time-limit", "1min", confirm="true"))
    assert done.returncode == 0
    assert "the policy is that of round 2 of 2, and is not confirmed yet" in " ".join(done.stdout.split())
    assert not (tmp_path / "run" / "confirmation.json").exists()


@pytest.mark.parametrize(("losses", "n_frames"), [((0.5,), 3), ((1.0, 1.0), 4), ((1.0, 0.5), 4)])
def test_the_report_shows_the_result_and_says_what_became_of_the_rounds(
    losses, n_frames, tiny_npz, tmp_path, monkeypatch
):
    losses_in_turn(monkeypatch, 1.0, *losses)
    slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments(confirm="true"))
    past = history.read(tmp_path / "run")
    assert past.policy is not None
    parts = run_page.policy_parts(past, past.policy, (8, 8))
    names = [frame.name for frame in parts["frames"]]
    assert len(names) == n_frames
    assert names[-1] == ("the result" if n_frames == 4 else "round 2 of 2")
    assert any("validation loss after whole trainings" in text.lower() for text in run_page.cautions(past)) == (
        n_frames == 4
    )
    is_uniform = len(losses) == 2 and losses[1] == 1.0
    assert bool(parts["most"]) != is_uniform
    page.write(tmp_path / "run", samples=None)
    text = (tmp_path / "run" / "report.html").read_text()
    assert ("All are equally likely" in text) == is_uniform
    assert ("is the result" in text) == (n_frames == 4)


def test_a_study_says_which_of_its_searches_kept_nothing(tiny_npz, tmp_path, monkeypatch, command):
    losses_in_turn(monkeypatch, 1.0, 1.0, 1.0)
    settings_given = [word for text in tiny.assignments(confirm="true", evaluate__epochs=1) for word in ("--set", text)]
    done = command("study", "quick", "--data", tiny_npz, "-o", tmp_path / "study", "--searches", 2, "--evaluations", 1,
                   "--baselines", "uniform", *settings_given)  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert said.count("so that the uniform policy of 3 is the result") >= 2


# --- the fast way, here without a graph -------------------------------------------------------------------------------


def test_the_fast_way_goes_through_all_stages_on_one_model(tiny_npz, monkeypatch):
    """One training follows the other, and the engine lies between them: each must let go of the model."""
    data = load(str(tiny_npz))
    plain = Learner(config_of(data, n_composed="null"), data)
    expected = [progress.train_loss.item() for progress in learn.work(plain)]
    for name, kind in (("Fast", Fast), ("FastFit", FastFit)):
        made = partial(kind, compiled=False)
        monkeypatch.setattr(ways, name, lambda *arguments, made=made, **options: made(*arguments, **options))
    monkeypatch.setattr(ways, "is_eligible", lambda *_: True)
    monkeypatch.setattr(ways, "precision", lambda: torch.float32)
    monkeypatch.setattr(ways, "way", lambda fit: "fast")
    fast = Learner(config_of(data, n_composed="null"), data)
    found = [progress.train_loss.item() for progress in learn.work(fast)]
    assert isinstance(fast.fit, FastFit)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert fast.confirmation is not None
    assert plain.confirmation is not None
    assert fast.confirmation.strength == plain.confirmation.strength
    assert fast.confirmation.losses == pytest.approx(plain.confirmation.losses, rel=1e-3)
    torch.testing.assert_close(fast.result.pi, plain.result.pi, rtol=1e-3, atol=1e-3)
