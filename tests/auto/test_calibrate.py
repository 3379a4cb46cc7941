"""The rate of re-training: which rates are tried, which is taken, and which settings stand in its place."""

import json
import math

import pytest
import torch

import tiny
from searching import search_of
from slackaug.auto import calibrate, learn, problem
from slackaug.auto.calibrate import Calibration
from slackaug.auto.learn import Clock, Keeper
from slackaug.auto.problem import Problem
from slackaug.config import parse
from slackaug.config.layers import configure
from slackaug.config.presets import quick
from slackaug.data import load
from slackaug.judge.studies import plan as study_plan
from slackaug.runs.progress import Standing
from tiny import succeeded

pytestmark = pytest.mark.usefixtures("quick_search")
DOWN = [0.1, 0.05, 0.025, 0.0125, 0.00625, 0.003125]


def outcome(losses: dict[float, float], before: float = 1.0, first: float = 0.1) -> Calibration:
    """What is tried, and taken, where re-training at these rates has these losses."""
    found = Calibration(before, {})
    while (rate := found.next_rate(first)) is not None:
        found = found._replace(losses=found.losses | {rate: losses[round(rate, 6)]})
    return found


@pytest.mark.parametrize(
    ("losses", "taken", "says"),
    [
        ({0.1: 1.0, 0.2: 0.9, 0.4: 1.2}, 0.2, "the highest tried that keeps"),
        ({0.1: 0.9, 0.2: 1.06}, 0.1, "the highest tried that keeps"),
        ({0.1: 0.9, 0.2: 1.04, 0.4: 1.05, 0.8: 1.0}, 0.8, "the highest tried that keeps"),
        ({0.1: 0.4, 0.2: 0.3, 0.4: 0.2, 0.8: 0.1}, 0.8, "far below"),
        ({0.1: 1.2, 0.05: 1.1, 0.025: 1.04}, 0.025, "the highest tried that keeps"),
        ({0.1: math.nan, 0.05: math.inf, 0.025: 1.0}, 0.025, "the highest tried that keeps"),
        (dict(zip(DOWN, (9.0, 8.0, 7.0, 6.0, 6.5, 7.0), strict=True)), 0.0125, "No rate tried keeps"),
        (dict.fromkeys(DOWN, math.nan), 0.003125, "No rate tried keeps"),
    ],
)
def test_rates(losses, taken, says):
    found = outcome(losses)
    assert [*found.losses] == pytest.approx([*losses])
    assert found.model_lr == pytest.approx(taken)
    assert says in found.describe()
    assert all(f"{loss:.3f} at {rate:g}" in found.describe() for rate, loss in found.losses.items())
    stored = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (stored["model_lr"], len(stored["trials"])) == (found.model_lr, len(losses))


@pytest.mark.parametrize(
    ("share", "balanced", "says"),
    [(0.06, False, ""), (0.04, False, "nearly every image is right already"), (0.04, True, "")],
)
def test_a_network_that_is_always_right_is_remarked_upon(share, balanced, says):
    labels = torch.tensor([0] * 30 + [1] * 10)
    guessing = problem.guessing_loss(labels)
    assert guessing == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    said = calibrate.remark(Calibration(share * guessing, {0.1: share * guessing}), labels, 2, balanced=balanced)
    assert (says in said, bool(said)) == (True, bool(says))


# --- in a search ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("balanced", [False, True])
def test_it_is_said_and_stored(balanced, tiny_npz, tmp_path, command, monkeypatch):
    losses = iter([0.6, 0.3, 0.2, 0.1, 0.02])
    monkeypatch.setattr(Problem, "val_loss", lambda *_: next(losses))
    monkeypatch.setattr(Problem, "tempered_loss", lambda *_: 0.5)  # better than guessing
    options = ["--balanced"] if balanced else []
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--verbose", *options, search__calibrate="true"))
    assert done.returncode == 0, done.stderr
    stored, said = json.loads((tmp_path / "run" / "calibration.json").read_text()), " ".join(done.stdout.split())
    assert (stored["model_lr"], stored["val_loss_after_pretraining"]) == (0.8, 0.6)
    assert "Re-training uses rate 0.8," in said
    assert all(text in stored["remark"] for text in ("was short", "--set pretrain.epochs=8"))
    assert stored["remark"] in said
    assert {row["stage"] for row in tiny.metrics(tmp_path / "run")} == {"pre-training", "re-training", "policy"}


@pytest.mark.parametrize("calibrate", ["true", "false"])
@pytest.mark.parametrize("n_composed", [3, "null"])
@pytest.mark.parametrize(("share", "is_said"), [(1.3, True), (0.97, True), (0.93, False)])
def test_a_user_is_told_once_that_the_network_guesses(
    share, is_said, n_composed, calibrate, tiny_npz, tmp_path, command, monkeypatch
):
    monkeypatch.setattr(Problem, "tempered_loss", lambda *_: share * math.log(3))  # of three classes
    changes = {"search__calibrate": calibrate, "n_composed": n_composed}
    said = succeeded(command(*tiny.arguments(tiny_npz, tmp_path / "run", "--balanced", **changes))).stdout
    assert said.count("After 2 epochs of pre-training the network has hardly learned these classes") == is_said
    advice = "(--set pretrain.epochs=8) or in smaller steps (--set pretrain.lr=0.025), or take another --model."
    assert (advice in said) is is_said
    if calibrate == "true":  # where a study finds it
        assert ("hardly" in (tmp_path / "run" / "calibration.json").read_text()) is is_said


def test_the_advice_after_a_divergence_starts_from_the_rate_that_was_found(tiny_npz):
    search = search_of(load(str(tiny_npz)))
    search.stage.given = search.stage.given._replace(model_lr=0.8)
    standing = Standing("policy", 1, 1, 6, torch.tensor(math.nan), None, search.problem.phi)
    with pytest.raises(learn.Diverged, match=r"--set search.model_lr=0.2$"):
        Keeper(search, None, Clock()).check_finite(standing, [standing.train_loss])


def test_a_trial_that_diverges_is_no_error(tiny_npz):
    """With rates so high that the model is no longer one; it is an error when the rounds begin."""
    options = {"search__calibrate": "true", "search__model_lr": 1e30, "search__clip": "null"}
    search, said = search_of(load(str(tiny_npz)), **options), []
    with pytest.raises(learn.Diverged, match=r"\(re-training, round 1"):
        learn.learn(search, None, learn.Watch(lambda *_: None, detail=said.append))
    assert "nan at 1e+30" in said[0]


# --- what is given is not found ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assignments", "calibrate", "n_rounds", "kl_budget"),
    [
        ("", True, 5, 0.016),
        ("model_lr=0.2", False, 5, 0.016),
        ("policy_lr=0.5", True, 5, None),
        ("kl_weight=0.1", True, 5, None),
        ("kl_weight=0.1 kl_budget=null", True, 5, None),
        ("kl_budget=0.01", True, 5, 0.01),
        ("model_lr=0.2 calibrate=true", True, 5, 0.016),
        ("n_rounds=10", True, 10, 0.004),  # the distance that all rounds together can go is its root, times n_rounds
        ("n_rounds=1", True, 1, 0.4),
        ("n_rounds=10 n_rounds=5", True, 5, 0.016),
        ("n_rounds=10 kl_budget=0.016", True, 10, 0.016),
        ("n_rounds=10 policy_lr=0.5", True, 10, None),
    ],
)
def test_what_is_given_counts_after_presets_and_files(assignments, calibrate, n_rounds, kl_budget, tiny_npz, tmp_path):
    """The file of a run has all settings: those of the presets, and rates that are not used."""
    data, given = load(str(tiny_npz)), [f"search.{text}" for text in assignments.split()]
    (tmp_path / "config.yaml").write_text(parse.dump(quick(data)))
    (tmp_path / "double.yaml").write_text("preset: quick\nsearch: {kl_budget: 0.032}")
    for file, factor in ((None, 1), (tmp_path / "config.yaml", 1), (tmp_path / "double.yaml", 2)):
        found = configure(data, {} if file else {"preset": "quick"}, file, given).search
        expected = kl_budget if kl_budget is None or "kl_budget" in assignments else factor * kl_budget
        assert (found.calibrate, found.n_rounds) == (calibrate, n_rounds)
        assert found.kl_budget == (None if expected is None else pytest.approx(expected))


def test_a_file_may_have_both_and_what_is_given_after_it_counts(tiny_npz, tmp_path):
    data, file = load(str(tiny_npz)), tmp_path / "c.yaml"
    file.write_text("preset: quick\nsearch: {kl_budget: 0.01, policy_lr: 0.5}")
    expected = {(): (0.01, 0.5), ("search.kl_budget=0.02",): (0.02, 0.5), ("search.policy_lr=0.25",): (None, 0.25)}
    for given, values in expected.items():
        found = configure(data, {}, file, given).search
        assert (found.kl_budget, found.policy_lr) == values


def test_a_study_s_rounds_do_not_take_the_policy_further_either(tiny_npz):
    found = study_plan.configure("quick", str(tiny_npz), {}, {}, {}, ["search.n_rounds=10"]).search
    assert (found.search.n_rounds, found.search.kl_budget) == (10, pytest.approx(0.004))


@pytest.mark.parametrize("name", ["policy_lr", "kl_weight"])
@pytest.mark.parametrize("start", [["search"], ["study", "quick", "--data"]])
def test_a_rate_that_a_budget_stands_in_place_of_is_refused(start, name, command, tiny_npz, tmp_path):
    for given in ([f"search.{name}=0.5", "search.kl_budget=0.01"], [f"search={{kl_budget: 0.01, {name}: 0.5}}"]):
        done = command(*start, tiny_npz, "-o", tmp_path / "run", *(word for text in given for word in ("--set", text)))
        assert done.returncode == 2
        assert f"--set search.kl_budget=0.01 --set search.{name}=0.5: a budget stands in place of" in done.stderr
        assert "give either the budget or these" in done.stderr
        assert not (tmp_path / "run").exists()


def test_the_divisor_of_mu_has_no_effect_beside_a_budget_and_is_refused(command, tiny_npz, tmp_path):
    done = command("search", tiny_npz, "-o", tmp_path / "run", "--set", "search.mu_divisor=10")
    assert done.returncode == 2
    assert "--set search.mu_divisor=10: a budget stands in place of the policy's rates" in done.stderr
    found = configure(load(str(tiny_npz)), {}, None, ["search.mu_divisor=10", "search.kl_budget=null"]).search
    assert (found.mu_divisor, found.kl_budget) == (10, None)


def test_without_re_training_there_is_nothing_to_try(tiny_npz):
    data, given = load(str(tiny_npz)), ["search.n_retrain=0", "search.n_rounds=1"]
    with pytest.raises(ValueError, match="no rate of re-training can be found by trial"):
        configure(data, {"preset": "quick"}, None, given)
    assert configure(data, {"preset": "quick"}, None, [*given, "search.model_lr=0.1"]).search.n_retrain == 0
