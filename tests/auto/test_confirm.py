"""Whether what was learned is kept, and what a search, its report and a study say of it."""

import json
import math
import signal
from dataclasses import replace

import pytest
import torch

import slackaug
import tiny
from searching import let_losses_be
from slackaug.augment.policy import MU_START, Policy
from slackaug.auto import confirm, learn
from slackaug.auto.confirm import Confirm, Confirmation, at_strength
from slackaug.messages import search as messages
from slackaug.report import history, page, run_page

pytestmark = pytest.mark.usefixtures("quick_search")


@pytest.mark.parametrize(
    ("after", "is_kept"), [(0.9, True), (0.979, True), (0.981, False), (1.2, False), (math.nan, False)]
)
@pytest.mark.parametrize("number", [0, 1, 5])
def test_what_is_kept(after, is_kept, number, generator):
    found, uniform = Confirmation(1.0, after, number), Policy.uniform("cifar")
    pi, mu = torch.randn(3, 17, generator=generator, dtype=torch.float64), torch.full((17,), 0.3, dtype=torch.float64)
    learned = replace(uniform, pi=pi, mu=mu)
    result, expected = found.kept(learned), learned if is_kept else uniform.with_composed(number)
    assert (found.is_kept, result.n_composed) == (is_kept, 3 if is_kept else number)
    torch.testing.assert_close(result.probabilities, expected.probabilities)
    torch.testing.assert_close(result.mu, expected.mu)
    stored = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (stored["is_kept"], stored["remark"]) == (is_kept, found.describe())


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


@pytest.mark.parametrize(("loss", "is_kept"), [(0.5, True), (1.0, False)])
def test_the_result_is_what_is_left_and_the_report_shows_it(loss, is_kept, tiny_npz, tmp_path, monkeypatch, command):
    let_losses_be(monkeypatch, {3: 1.0}, loss)
    run = tmp_path / "run"
    done = command(*tiny.arguments(tiny_npz, run, confirm="true"))
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert messages.CONFIRMS in said
    assert f"{loss:.3f} learned, 1.000 random" in said
    assert ("Use the learned policy" if is_kept else "Use 3 random transformations per image") in said
    assert json.loads((run / "confirmation.json").read_text())["is_kept"] is is_kept
    last, result = Policy.load(run / "policies" / "round_02.json"), Policy.load(run / "policy.json")
    assert result.learned["is_kept"] is is_kept
    assert "is_kept" not in last.learned
    expected = last if is_kept else Policy.uniform("cifar")
    torch.testing.assert_close(result.probabilities, expected.probabilities)
    torch.testing.assert_close(result.mu, expected.mu)
    assert {row["stage"] for row in tiny.metrics(run)} == {"pre-training", "re-training", "policy"}
    past = history.read(run)
    assert (past.policy.learned["is_kept"], past.is_finished) == (is_kept, True)
    parts = run_page.policy_parts(past, past.policy, (8, 8))
    names = ["round 1 of 2", "round 2 of 2", *["the result"] * (not is_kept)]
    assert [frame.name for frame in parts["frames"]][1:] == names
    assert (past.confirmation in run_page.cautions(past)) == (not is_kept)
    assert bool(parts["most"]) == is_kept
    page.write(run, samples=None)
    text = (run / "report.html").read_text()
    assert ("All are equally likely" in text, past.confirmation in text) == (not is_kept, not is_kept)


def test_the_rounds_do_not_depend_on_it(tiny_npz, finished, tmp_path):
    slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments(confirm="true"))
    ours, theirs = tiny.outcome(tmp_path / "run"), tiny.outcome(finished)
    for name in ("round_01.json", "round_02.json"):
        assert ours[name] == theirs[name]


def test_a_training_that_diverges_is_no_error(tiny_npz, tmp_path, monkeypatch):
    train = confirm.train

    def broken(name, fit, phi):
        yield from train(name, fit, phi)
        fit.theta.fill_(math.nan)

    monkeypatch.setattr(confirm, "train", broken)
    slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments(confirm="true"))
    found = json.loads((tmp_path / "run" / "confirmation.json").read_text())
    assert (found["is_kept"], found["val_loss"]) == (False, None)


def test_a_run_that_was_left_in_it_is_not_finished(tiny_npz, tmp_path):
    words = tiny.arguments(tiny_npz, tmp_path / "run", confirm="true")
    assert tiny.run_until(words, tmp_path / "log", ("confirmation", 0, 3)) == -signal.SIGKILL
    past = history.read(tmp_path / "run")
    assert not past.is_finished
    assert "all rounds are done, and what they have learned is not confirmed yet" in run_page.state(past, False)
    assert "To go on: slackaug search" in run_page.state(past, False)


def test_a_time_limit_in_it_is_said(tiny_npz, tmp_path, command, monkeypatch):
    seconds, confirming = [0.0], Confirm.run

    def late(self):
        seconds[0] = 100.0
        yield from confirming(self)

    monkeypatch.setattr(Confirm, "run", late)
    monkeypatch.setattr(learn.Clock, "__call__", lambda self: seconds[0])
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--time-limit", "1min", confirm="true"))
    assert done.returncode == 0
    assert "The policy is that of round 2 of 2, not confirmed yet" in " ".join(done.stdout.split())
    assert not (tmp_path / "run" / "confirmation.json").exists()


def test_a_study_says_which_of_its_searches_kept_nothing(tiny_npz, tmp_path, monkeypatch, command):
    let_losses_be(monkeypatch, {3: 1.0})
    settings_given = [word for text in tiny.assignments(confirm="true", evaluate__epochs=1) for word in ("--set", text)]
    done = command("study", "quick", "--data", tiny_npz, "-o", tmp_path / "study", "--searches", 2, "--evaluations", 1,
                   "--baselines", "uniform", *settings_given)  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert said.count("Use 3 random transformations per image") >= 2
