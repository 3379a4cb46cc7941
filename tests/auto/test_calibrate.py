"""The rate of re-training: which rates are tried, which is taken, and which settings stand in its place."""

import json
import math
import signal

import pytest
import torch

import tiny
from searching import search_of
from slackaug.auto import calibrate, learn
from slackaug.auto.calibrate import N_IMAGES, Calibration, mixed_batches, val_loss
from slackaug.auto.learn import Clock, Keeper
from slackaug.auto.stages import Problem
from slackaug.config import parse
from slackaug.config.layers import configure
from slackaug.config.presets import quick
from slackaug.data import Split, load
from slackaug.judge.studies import plan as study_plan
from slackaug.runs.progress import Standing

pytestmark = pytest.mark.usefixtures("quick_search")


def outcome(losses: dict[float, float], before: float = 1.0, first: float = 0.1) -> Calibration:
    """What is tried, and taken, where re-training at these rates has these losses."""
    found = Calibration(before, ())
    while (rate := found.next_rate(first)) is not None:
        found = found.with_trial(rate, losses[round(rate, 6)])
    return found


@pytest.mark.parametrize(
    ("losses", "tried", "taken"),
    [
        ({0.1: 1.0, 0.2: 0.9, 0.4: 1.2}, [0.1, 0.2, 0.4], 0.2),
        ({0.1: 0.9, 0.2: 1.06}, [0.1, 0.2], 0.1),
        ({0.1: 0.9, 0.2: 1.04, 0.4: 1.05, 0.8: 1.0}, [0.1, 0.2, 0.4, 0.8], 0.8),
        ({0.1: 1.2, 0.05: 1.1, 0.025: 1.04}, [0.1, 0.05, 0.025], 0.025),
        ({0.1: math.nan, 0.05: math.inf, 0.025: 1.0}, [0.1, 0.05, 0.025], 0.025),
        (
            {0.1: 9.0, 0.05: 8.0, 0.025: 7.0, 0.0125: 6.0, 0.00625: 6.5, 0.003125: 7.0},
            [0.1, 0.05, 0.025, 0.0125, 0.00625, 0.003125],
            0.0125,
        ),
        (
            dict.fromkeys([0.1, 0.05, 0.025, 0.0125, 0.00625, 0.003125], math.nan),
            [0.1, 0.05, 0.025, 0.0125, 0.00625, 0.003125],
            0.003125,
        ),
    ],
)
def test_rates(losses, tried, taken):
    found = outcome(losses)
    assert [trial.model_lr for trial in found.trials] == pytest.approx(tried)
    assert found.model_lr == pytest.approx(taken)
    assert Calibration.from_dict(json.loads(json.dumps(found.to_dict()))).model_lr == found.model_lr
    json.dumps(found.to_json(), allow_nan=False)


def test_it_is_not_said_that_a_rate_fits_where_none_does():
    rates = [0.1, 0.05, 0.025, 0.0125, 0.00625, 0.003125]
    assert "the highest tried that leaves" in outcome({0.1: 1.0, 0.2: 1.2}).describe()
    text = outcome(dict.fromkeys(rates, 9.0) | {0.025: 7.0}).describe()
    assert text.startswith("re-training at rate 0.025, which comes nearest: none tried leaves the validation loss")


def test_a_loss_far_below_that_of_pre_training_is_said_to_be_so():
    usual, short = outcome({0.1: 0.9, 0.2: 0.6, 0.4: 1.2}), outcome({0.1: 0.4, 0.2: 0.3, 0.4: 0.2, 0.8: 0.1})
    assert (usual.val_loss, short.val_loss) == (0.6, 0.1)
    assert "leaves the validation loss about where pre-training left it" in usual.describe()
    assert calibrate.too_short(usual, 2) is None
    assert short.describe().startswith(
        "re-training at rate 0.8: the highest tried that does not raise the validation loss; it is far lower than "
    )
    assert calibrate.too_short(short, 2) == (
        "re-training lowered the validation loss from 1.000 to 0.100, so pre-training for 2 epochs was short; try "
        "--set pretrain.epochs=8"
    )


@pytest.mark.parametrize("balanced", [False, True])
def test_a_short_pre_training_is_remarked_upon(balanced, tiny_npz, tmp_path, command, monkeypatch):
    losses = iter([0.6, 0.3, 0.2, 0.1, 0.02])
    monkeypatch.setattr(Problem, "val_loss", lambda *_: next(losses))
    options = ["--balanced"] if balanced else []
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", *options, search__calibrate="true"))
    assert done.returncode == 0, done.stderr
    remark = json.loads((tmp_path / "run" / "calibration.json").read_text())["remark"]
    assert remark.startswith("re-training lowered the validation loss from 0.600 to 0.020, so pre-training")
    assert remark in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("n", "batch", "n_batches"), [(700, 128, 5), (9_000, 128, 32), (50, 128, 1), (9_000, 5_000, 1)]
)
def test_validation_batches_mix_classes_that_come_one_after_the_other(n, batch, n_batches):
    batches = mixed_batches(n, batch, seed=0)
    size = min(n, batch, N_IMAGES)
    assert [len(index) for index in batches] == [size] * n_batches
    assert len(torch.cat(batches).unique()) == size * n_batches
    classes = torch.arange(n) * 7 // n
    assert all(len(classes[index].unique()) == 7 for index in batches)


def test_the_validation_loss_of_a_folder_in_order_is_that_of_the_folder_mixed(tiny_npz):
    """A model that tells classes by what batch-norm takes away where a batch has only one."""
    labels = torch.arange(512) // 128
    images = (labels * 60 + 30).to(torch.uint8)[:, None, None, None].expand(-1, 3, 8, 8).contiguous()
    model = torch.nn.Sequential(torch.nn.BatchNorm2d(3), torch.nn.Flatten(), torch.nn.LazyLinear(4))
    model(torch.zeros(2, 3, 8, 8))
    with torch.no_grad():
        model[2].weight.copy_(torch.tensor([-1.5, -0.5, 0.5, 1.5])[:, None].expand(4, 192) / 10)
        model[2].bias.copy_(torch.tensor([-20.0, 0.0, 0.0, -20.0]))
    phi = search_of(load(str(tiny_npz))).pretrain.fit.normalise
    order = torch.randperm(512, generator=torch.Generator().manual_seed(0))
    losses = [val_loss(model, phi, Split(images[i], labels[i]), 128, 0).item() for i in (torch.arange(512), order)]
    assert losses == pytest.approx([0, 0], abs=0.1)


def test_it_is_said_and_stored(tiny_npz, tmp_path, command):
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", search__calibrate="true"))
    assert done.returncode == 0
    stored = json.loads((tmp_path / "run" / "calibration.json").read_text())
    remarks = ("the network has hardly learned these classes", "so pre-training for")
    said = {"remark"} if any(text in " ".join(done.stdout.split()) for text in remarks) else set()
    assert stored.keys() == {"model_lr", "val_loss_after_pretraining", "trials"} | said
    assert f"re-training at rate {stored['model_lr']:g}" in " ".join(done.stdout.split())
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert {row["stage"] for row in rows} == {"pre-training", "re-training", "policy"}


def test_a_network_that_guesses_is_remarked_upon():
    labels = torch.tensor([0] * 30 + [1] * 10)
    guessing = calibrate.guessing_loss(labels)
    assert guessing == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    assert calibrate.remark(0.9 * guessing, labels, 2, 3) is None
    assert calibrate.remark(1.1 * guessing, labels, 2, 3) is None  # more epochs would make that worse
    assert calibrate.remark(math.nan, labels, 2, 3) is None
    said = calibrate.remark(0.97 * guessing, labels, 2, 3)
    assert said is not None
    assert f"left a validation loss of {0.97 * guessing:.3f}, and guessing has {guessing:.3f}" in said
    assert "try --set pretrain.epochs=8" in said


def test_a_network_that_is_nearly_always_right_is_remarked_upon():
    labels = torch.arange(10).repeat(3)
    assert calibrate.remark(0.06 * math.log(10), labels, 1, 3) is None
    said = calibrate.remark(0.04 * math.log(10), labels, 1, 3)
    assert said is not None
    assert "pre-training for 1 epoch, 3 composed, left a validation loss of 0.092, and guessing has 2.303" in said
    assert "nearly every image is right already" in said


def test_a_user_is_told_that_the_network_guesses(tiny_npz, tmp_path, command):
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", search__calibrate="true", pretrain__lr=1e-6))
    assert done.returncode == 0
    assert "the network has hardly learned these classes" in " ".join(done.stdout.split())
    done = command(
        *tiny.arguments(tiny_npz, tmp_path / "balanced", "--balanced", search__calibrate="true", pretrain__lr=1e-6)
    )
    assert "hardly learned" not in " ".join(done.stdout.split())


@pytest.mark.parametrize("moment", [("calibration", 0, 2), ("policy", 1, 5)])
def test_a_killed_search_ends_with_the_same_bits(moment, tiny_npz, tmp_path):
    cut, whole = tiny.killed_and_whole(tiny_npz, tmp_path, moment, search__calibrate="true")
    assert tiny.outcome(cut) == tiny.outcome(whole)
    assert (cut / "calibration.json").read_text() == (whole / "calibration.json").read_text()


@pytest.mark.parametrize(("moment", "is_telling"), [(("pre-training", 0, 2), False), (("policy", 2, 5), True)])
def test_the_time_left_is_said_when_there_is_something_to_tell_it_by(moment, is_telling, tiny_npz, tmp_path):
    words = tiny.arguments(tiny_npz, tmp_path / "run", search__n_rounds=5)
    assert tiny.run_until(words, tmp_path / "log", moment) == -signal.SIGKILL
    assert tiny.run_until(tiny.resume(tiny_npz, tmp_path / "run"), tmp_path / "log", ("never", 0, 0)) == 0
    (said,) = (line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("going on after"))
    assert ("left" in said) == is_telling


@pytest.mark.parametrize(
    ("assignments", "calibrate", "has_budget"),
    [
        ([], True, True),
        (["search.model_lr=0.2"], False, True),
        (["search.policy_lr=0.5"], True, False),
        (["search.kl_weight=0.1"], True, False),
        (["search.kl_weight=0.1", "search.kl_budget=null"], True, False),
        (["search.kl_budget=0.01"], True, True),
        (["search.model_lr=0.2", "search.calibrate=true"], True, True),
        (["search.n_rounds=2"], True, True),
    ],
)
def test_what_is_given_is_not_found(assignments, calibrate, has_budget, tiny_npz):
    found = configure(load(str(tiny_npz)), {"preset": "quick"}, None, assignments).search
    assert found.calibrate is calibrate
    assert (found.kl_budget is not None) is has_budget


@pytest.mark.parametrize(
    ("assignments", "calibrate", "has_budget"),
    [
        ([], True, True),
        (["search.model_lr=0.2"], False, True),
        (["search.policy_lr=0.5"], True, False),
        (["search.model_lr=0.2", "search.calibrate=true"], True, True),
    ],
)
def test_what_is_given_counts_after_the_file_of_a_run(assignments, calibrate, has_budget, tiny_npz, tmp_path):
    """That file has all settings: those of the presets, and rates that are not used."""
    data = load(str(tiny_npz))
    (tmp_path / "config.yaml").write_text(parse.dump(quick(data)))
    found = configure(data, {}, tmp_path / "config.yaml", assignments).search
    assert found.calibrate is calibrate
    assert (found.kl_budget is not None) is has_budget


@pytest.mark.parametrize("name", ["policy_lr", "kl_weight"])
@pytest.mark.parametrize("start", [["search"], ["study", "quick"]])
def test_a_rate_that_a_budget_stands_in_place_of_is_refused(start, name, command, tiny_npz, tmp_path):
    words = [*start, tiny_npz] if start == ["search"] else [*start, "--data", tiny_npz]
    for given in ([f"search.{name}=0.5", "search.kl_budget=0.01"], [f"search={{kl_budget: 0.01, {name}: 0.5}}"]):
        done = command(*words, "-o", tmp_path / "run", *(word for text in given for word in ("--set", text)))
        assert done.returncode == 2
        assert f"--set search.kl_budget=0.01 --set search.{name}=0.5: a budget stands in place of" in done.stderr
        assert "give either the budget or these" in done.stderr
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("assignments", "n_rounds", "kl_budget"),
    [
        ([], 5, 0.016),
        (["search.n_rounds=10"], 10, 0.004),
        (["search.n_rounds=1"], 1, 0.4),
        (["search.n_rounds=10", "search.n_rounds=5"], 5, 0.016),
        (["search.n_rounds=10", "search.kl_budget=0.016"], 10, 0.016),
        (["search.n_rounds=10", "search.policy_lr=0.5"], 10, None),
    ],
)
def test_more_rounds_do_not_take_the_policy_further(assignments, n_rounds, kl_budget, tiny_npz, tmp_path):
    """The distance that all rounds together can go is the root of the budget, times their number."""
    dataset = load(str(tiny_npz))
    (tmp_path / "config.yaml").write_text(parse.dump(quick(dataset)))
    (tmp_path / "double.yaml").write_text("preset: quick\nsearch: {kl_budget: 0.032}")
    for file, factor in ((None, 1), (tmp_path / "config.yaml", 1), (tmp_path / "double.yaml", 2)):
        found = configure(dataset, {} if file else {"preset": "quick"}, file, assignments).search
        assert found.n_rounds == n_rounds
        is_given = any("kl_budget" in text for text in assignments)
        expected = kl_budget if is_given or kl_budget is None else factor * kl_budget
        assert found.kl_budget == (None if expected is None else pytest.approx(expected))


def test_a_study_s_rounds_do_not_take_the_policy_further_either(tiny_npz):
    found = study_plan.configure("quick", str(tiny_npz), {}, {}, {}, ["search.n_rounds=10"]).search
    assert (found.search.n_rounds, found.search.kl_budget) == (10, pytest.approx(0.004))


def test_the_divisor_of_mu_has_no_effect_beside_a_budget_and_is_refused(command, tiny_npz, tmp_path):
    done = command("search", tiny_npz, "-o", tmp_path / "run", "--set", "search.mu_divisor=10")
    assert done.returncode == 2
    assert "--set search.mu_divisor=10: a budget stands in place of the policy's rates" in done.stderr
    found = configure(load(str(tiny_npz)), {}, None, ["search.mu_divisor=10", "search.kl_budget=null"]).search
    assert (found.mu_divisor, found.kl_budget) == (10, None)


def test_a_file_may_have_both_and_what_is_given_after_it_counts(tiny_npz, tmp_path):
    """The file of a run has all fields."""
    data = load(str(tiny_npz))
    (tmp_path / "c.yaml").write_text("preset: quick\nsearch: {kl_budget: 0.01, policy_lr: 0.5}")
    assert configure(data, {}, tmp_path / "c.yaml", []).search.kl_budget == 0.01
    assert configure(data, {}, tmp_path / "c.yaml", ["search.kl_budget=0.02"]).search.kl_budget == 0.02
    found = configure(data, {}, tmp_path / "c.yaml", ["search.policy_lr=0.25"]).search
    assert (found.kl_budget, found.policy_lr) == (None, 0.25)


def test_without_re_training_there_is_nothing_to_try(tiny_npz):
    data = load(str(tiny_npz))
    with pytest.raises(ValueError, match="no rate of re-training can be found by trial"):
        configure(data, {"preset": "quick"}, None, ["search.n_retrain=0", "search.n_rounds=1"])
    given = ["search.n_retrain=0", "search.n_rounds=1", "search.model_lr=0.1"]
    assert configure(data, {"preset": "quick"}, None, given).search.n_retrain == 0


def test_the_advice_after_a_divergence_starts_from_the_rate_that_was_found(tiny_npz):
    search = search_of(load(str(tiny_npz)), search__calibrate="true")
    search.calibrate.found = outcome({0.1: 1.0, 0.2: 0.9, 0.4: 0.9, 0.8: 0.9})
    standing = Standing("policy", 1, 1, 6, torch.tensor(math.nan), None, search.problem.phi)
    with pytest.raises(learn.Diverged, match=r"--set search.model_lr=0.2$"):
        Keeper(search, None, Clock()).check_finite(standing, [standing.train_loss])


def test_a_trial_that_diverges_is_no_error(tiny_npz):
    """With rates so high that the model is no longer one; it is an error when the rounds begin."""
    options = {"search__calibrate": "true", "search__model_lr": 1e30, "search__clip": "null"}
    search, ended = search_of(load(str(tiny_npz)), **options), []
    with pytest.raises(learn.Diverged, match=r"\(re-training, round 1"):
        learn.learn(search, None, learn.Watch(lambda *_: None, lambda stage: ended.append(stage.name)))
    assert ended == ["pre-training", "calibration"]
    assert not math.isfinite(search.calibrate.found.trials[0].val_loss)
