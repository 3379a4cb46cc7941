"""How many transformations a composite has: which numbers are tried, which is taken, and what is said of it."""

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
from searching import let_losses_be
from slackaug.augment.policy import Policy
from slackaug.auto.composing import LADDER, Composing, tempered_loss
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


@pytest.mark.parametrize("moment", [("pre-training", 0, 4), ("policy", 1, 5)])
def test_a_killed_search_ends_with_the_same_bits(moment, tiny_npz, tmp_path):
    cut, whole = tiny.killed_and_whole(tiny_npz, tmp_path, moment, n_composed="null")
    assert tiny.outcome(cut) == tiny.outcome(whole)
    assert (cut / "composing.json").read_text() == (whole / "composing.json").read_text()


def test_it_is_said_stored_and_shown(tiny_npz, tmp_path, command, monkeypatch):
    let_losses_be(monkeypatch, {3: 1.0, 2: 0.5, 1: 2.0})
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


@pytest.mark.parametrize(("loss", "is_kept"), [(0.6, True), (0.75, False)])
def test_a_policy_has_to_do_better_than_images_as_they_are(loss, is_kept, tiny_npz, tmp_path, monkeypatch, command):
    let_losses_be(monkeypatch, AS_THEY_ARE, loss)
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", n_composed="null", confirm="true"))
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "transformations in a composite: none does best (" in said
    assert "1.000 with 3); rounds start from 1" in said
    assert "that is so after 2 epochs of pre-training" in said
    assert "--set pretrain.epochs=8" in said
    assert "validation loss after whole trainings: 0.700 with images as they are" in said
    assert ("; leave images as they are" in said) == (not is_kept)
    assert "collapsed" not in said
    result = Policy.load(tmp_path / "run" / "policy.json")
    assert result.n_composed == is_kept
    assert result.learned["is_kept"] is is_kept
    assert ("Images stay as they are" in run_page.policy_text(result)) == (not is_kept)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["n_composed"] for row in rows if not row["round"]][::6] == [3, 2, 1, 0]
    assert [step.n_composed for step in history.read(tmp_path / "run").steps if not step.round] == [1] * 6


def test_what_is_not_kept_gives_way_to_the_best_number(tiny_npz, tmp_path, monkeypatch):
    """Rounds have three, and the result has two; the report shows both."""
    let_losses_be(monkeypatch, {3: 1.0, 2: 0.5, 1: 2.0}, 0.6)
    run = tmp_path / "run"
    slackaug.search(str(tiny_npz), run, set=tiny.assignments(n_composed="null", fewest_composed=3, confirm="true"))
    result, learned = Policy.load(run / "policy.json"), folders.learned(run)
    assert (len(result.pi), len(learned.pi)) == (2, 3)
    torch.testing.assert_close(result.probabilities, Policy.uniform("cifar", n_composed=2).probabilities)
    stored = json.loads((run / "confirmation.json").read_text())
    assert (stored["is_kept"], stored["n_composed_before"], stored["val_loss_before"]) == (False, 2, 0.5)
    frames = run_page.frames(history.read(run), (8, 8))
    assert [frame.name for frame in frames][-2:] == ["round 2 of 2", "the result"]
    page.write(run, samples=None)
    assert "; use the uniform policy of 2" in (run / "report.html").read_text()


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
