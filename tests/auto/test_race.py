"""The race at the end of a search: its trainings, its files, its end, and how it is left and taken up again."""

import json
import math
import re
import shlex
import time
from contextlib import closing, nullcontext
from dataclasses import replace
from shutil import copytree
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from rich.console import Console

import slackaug
import tiny
from searching import config_of
from slackaug.augment.policy import Policy
from slackaug.auto import conduct, race, timing
from slackaug.auto.conduct import Session
from slackaug.auto.race import at_strength, candidate
from slackaug.auto.resume import read_config, withdraw
from slackaug.data import load
from slackaug.engine.fit import Diverged
from slackaug.exits import Stopped
from slackaug.judge import answer, training
from slackaug.judge.backends.jobs import BackendError
from slackaug.judge.protocols import HeldOut
from slackaug.messages import studying
from slackaug.report import page
from slackaug.runs import folders
from slackaug.runs.folders import Run
from slackaug.runs.progress import Display, Part

pytestmark = pytest.mark.usefixtures("quick_search")
RACE = {"race__candidates": "[none,uniform-2,learned]", "race__n_last": 4, "evaluate__epochs": 1,
        "evaluate__batch": 8, "evaluate__lr": 0.05}  # fmt: skip
FINAL = 3 * 2 + 2 * 4  # trainings


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    path = tmp_path_factory.mktemp("race") / "images.npz"
    np.savez(path, **tiny.coloured())
    return path


@pytest.fixture(autouse=True)
def in_turn(monkeypatch):
    """In this process: a process for each training takes longer than the training."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


@pytest.fixture(scope="module")
def raced(images, tmp_path_factory):
    run = tmp_path_factory.mktemp("raced") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 1)
        slackaug.search(images, run, set=tiny.assignments(**RACE), estimate=False)
    return run


def read(run):
    return json.loads((run / "answer.json").read_text())


def trials(run):
    return {path.name: path.read_text() for path in (run / "race" / "trials").glob("*.json")}


# --- candidates -------------------------------------------------------------------------------------------------------


def test_strengths_lead_from_uniform_to_the_policy(generator):
    pi = torch.randn(2, 17, generator=generator, dtype=torch.float64)
    phi = replace(Policy.uniform("cifar"), pi=pi, mu=torch.linspace(0.3, 1, 17, dtype=torch.float64))
    none, half, whole, twice = (at_strength(phi, strength) for strength in (0.0, 0.5, 1.0, 2.0))
    torch.testing.assert_close(none.probabilities, torch.full((2, 17), 1 / 17, dtype=torch.float64))
    squares = phi.probabilities**2
    torch.testing.assert_close(twice.probabilities, squares / squares.sum(-1, keepdim=True))
    torch.testing.assert_close(whole.probabilities, phi.probabilities)
    torch.testing.assert_close(whole.mu, phi.mu)
    assert all(torch.equal(policy.mu, phi.mu) for policy in (none, half, twice))
    distances = [policy.kl(none).item() for policy in (none, half, whole, twice)]
    assert distances == sorted(distances)
    weaker, stronger = at_strength(phi, mu_factor=0.75), at_strength(phi, mu_factor=1.25)
    torch.testing.assert_close(weaker.mu, 0.75 * phi.mu)
    assert stronger.mu.max() == 1  # a bound ends there
    torch.testing.assert_close(weaker.probabilities, phi.probabilities)


def test_candidates_are_baselines_or_forms_of_what_was_learned(generator):
    phi = replace(Policy.uniform("cifar"), pi=torch.randn(3, 17, generator=generator, dtype=torch.float64))
    assert candidate("none", phi).augmentation == "none"
    assert candidate("learned", phi).augmentation is phi
    twice, single = candidate("learned-x2", phi).augmentation, candidate("learned-1", phi).augmentation
    assert twice.kl(phi.with_composed(3)) > phi.kl(phi.with_composed(3))
    assert torch.equal(single.pi, phi.pi[:1])
    both = candidate("learned-x2-mu0.75-1", phi).augmentation
    assert torch.equal(both.pi, twice.pi[:1])
    torch.testing.assert_close(both.mu, 0.75 * phi.mu)
    names = "learned", "learned-x2", "learned-x0.5", "learned-1", "learned-mu0.75", "learned-mu1.25"
    assert len({candidate(name, phi).digest for name in names}) == len(names)
    for name in ("learned-twice", "learned-0", "learned-mu", "learned-1-x2"):
        with pytest.raises(ValueError, match=f"unknown .*{name}"):
            candidate(name, phi)


def test_what_is_the_same_is_raced_once(generator):
    """Learned were two transformations of an image, so that its first two are all of it."""
    names = ("uniform-2", "learned-1", "learned-2", "learned", "learned-x2")
    pi = torch.randn(2, 17, generator=generator, dtype=torch.float64)
    phi = replace(Policy.uniform("cifar", n_composed=2), pi=pi)
    found = {name: candidate(name, phi) for name in names}
    assert list(race.different(found, "uniform-2")) == ["uniform-2", "learned-1", "learned", "learned-x2"]
    assert list(race.different(found, "learned-2")) == ["uniform-2", "learned-1", "learned-2", "learned-x2"]


def test_the_parts_that_a_race_tests_on_are_disjoint_and_no_image_is_trained_on_and_tested(images):
    data = load(str(images))
    parts = [HeldOut(half, 3, fold).split(data) for half in (0, 1) for fold in (0, 1)]
    tested = [{image.numpy().tobytes() for image in test.images} for _, test in parts]
    everything = {image.numpy().tobytes() for image in data.train.images}
    assert set.union(*tested) == everything
    assert sum(map(len, tested)) == len(everything)
    for (train, test), own in zip(parts, tested, strict=True):
        assert {image.numpy().tobytes() for image in train.images} == everything - own
        assert len(test.labels) == 12
    both = {image.numpy().tobytes() for image in data.halves(3)[1].images}
    assert tested[2] | tested[3] == both  # the half that a search validates with


# --- in a search ------------------------------------------------------------------------------------------------------


def test_a_search_ends_with_an_answer(raced):
    found, policy = read(raced), Policy.load(raced / "policy.json")
    assert found["is_final"]
    assert found["n_trainings"] == FINAL == len(trials(raced))
    assert [one["name"] for one in found["candidates"]] == ["none", "uniform-2", "learned"]
    assert policy.learned["use"] == found["use"]
    assert policy.learned["is_kept"] == (found["use"] == "learned")
    assert (raced / "finished.json").exists()


def test_the_policy_is_that_of_the_answer(raced, images):
    learned = race.folders.learned(raced)
    known = {name: candidate(name, learned) for name in ("none", "learned", "learned-x2")}
    for name in ("uniform", "uniform-2", "uniform-no-invert-solarize", "trivialaugment-wide", "default"):
        known[name] = candidate(name, learned)
    data = load(str(images))
    blurred = replace(learned, sigma=0.3)
    assert race.policy_of(known["uniform"], data, blurred).sigma == 0.1  # it raced with its own
    used = {name: race.policy_of(one, data, learned) for name, one in known.items()}
    assert used["none"].n_composed == 0
    for name, n in (("uniform", 3), ("uniform-2", 2)):
        assert torch.equal(used[name].probabilities, Policy.uniform("cifar", n_composed=n).probabilities)
    assert not {"Invert", "Solarize"} & {*used["uniform-no-invert-solarize"].space.names}
    assert used["uniform-no-invert-solarize"].dataset == learned.dataset
    assert used["learned"].dumps() == learned.dumps()
    assert used["learned-x2"].dumps() == known["learned-x2"].augmentation.dumps()
    assert used["trivialaugment-wide"] is None is used["default"]


def test_a_learned_policy_that_is_not_the_answer_says_so(raced):
    policy = Policy.load(raced / "policy.json")
    assert policy.learned["is_answer"]
    other = replace(policy, learned=policy.learned | {"use": "trivialaugment-wide", "is_answer": False})
    with pytest.warns(UserWarning, match=r"not its answer, which is TrivialAugment \(Wide\)"):
        slackaug.SlackAugment(other)


def test_a_finished_search_says_its_answer_again(raced, images, capsys):
    result = slackaug.search(images, raced, resume=True)
    assert result.answer.sentence == read(raced)["sentence"]
    assert " ".join(capsys.readouterr().err.split()).endswith(result.answer.sentence)


def test_trainings_that_fail_keep_what_was_learned(images, tmp_path, monkeypatch):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        stopped_after(patch, 0, Diverged("the model is no longer a number"))
        with pytest.raises(
            BackendError, match=r"failed:\n(.|\n)*The learned policy is kept, .*run/policy.json"
        ) as failed:
            slackaug.search(images, run, set=tiny.assignments(**RACE), estimate=False)
    assert "the others are saved" not in str(failed.value)
    assert "slackaug evaluate" in str(failed.value)


def test_where_all_guess_the_race_ends_early_without_an_answer(tmp_path, capsys, command):
    """After its first round, and with what to do in the last lines; on the page nothing is green."""
    noise, run = tmp_path / "noise.npz", tmp_path / "run"
    np.savez(noise, **tiny.arrays(n_train=48, n_test=6))
    result = slackaug.search(noise, run, set=tiny.assignments(**RACE), estimate=False)
    found, said, learned = read(run), capsys.readouterr().err, Policy.load(run / "policy.json")
    assert (found["n_trainings"], found["is_final"], found["use"], found["verdict"]) == (3 * 2, True, None, "guessing")
    assert found["sentence"].startswith("No answer yet: no network did clearly better than guessing. ")
    assert "--set pretrain.epochs=8 --set evaluate.epochs=4" in found["sentence"]
    assert " ".join(said.split()).endswith(found["sentence"])
    (again,) = [line for line in said.splitlines() if line.startswith("  slackaug search ")]
    assert f"-o {run}-longer" in again
    planned = command(*shlex.split(again)[1:], "--dry-run")  # all other settings are those of this run
    before, after = (run / "config.yaml").read_text().splitlines(), planned.stdout.splitlines()
    first = after.index(before[0])
    changed = [new.strip() for new, old in zip(after[first:], before, strict=False) if new != old]
    assert changed == ["epochs: 8", "epochs: 4"]
    assert (learned.learned["is_answer"], learned.learned["is_kept"], learned.learned["use"]) == (False, False, None)
    torch.testing.assert_close(learned.pi, race.folders.read_policies(run)[-1].pi)
    text = page.render(run)
    assert '<div class="answer open">\n<h2 id="answer"><bdi>No answer yet: no network did' in text
    assert ("Nobody did clearly better than guessing." in text, "It ended after 6 trainings" in text) == (True, True)
    assert re.findall("<h2[^>]*>([^<]+)</h2>", text)[:3] == ["What to do", "The race", "The learned policy"]
    assert (">Use it<" in text, 'class="mark first"' in text, "the answer</small>" in text) == (False, False, False)
    assert "The search learned this policy, and nothing shows yet whether it helps." in text
    assert "the search has no answer yet" in command("show", run).stdout
    with pytest.warns(UserWarning, match="the search has no answer yet"):
        slackaug.SlackAugment(run)
    assert slackaug.search(noise, run, resume=True).answer == result.answer


# --- without a learned policy -----------------------------------------------------------------------------------------


SIMPLE = RACE | {"race__candidates": "[none,trivialaugment-wide,uniform-2,learned]"}


@pytest.fixture
def hurried(monkeypatch):
    """The time is over before the end of the first round."""

    def search(*given, **named):
        with monkeypatch.context() as patch:
            patch.setattr(race, "time_to_learn", lambda *_: -1.0)
            return slackaug.search(*given, **named)

    return search


def test_a_search_without_time_to_learn_races_what_needs_no_learning(images, raced, hurried, tmp_path, capsys):
    run = tmp_path / "run"
    result = hurried(images, run, set=tiny.assignments(**RACE), estimate=False)
    assert not (run / "policies").exists()
    assert [one.name for one in result.answer.candidates] == ["none", "uniform-2"]
    assert result.answer.sentence.endswith("There was no time to learn a policy, so only simple choices were compared.")
    said = " ".join(capsys.readouterr().err.split())
    assert "The time limit left no time to learn a policy. To continue: slackaug search" in said
    assert said.endswith(result.answer.sentence)
    assert result.policy.n_composed == {"none": 0, "uniform-2": 2}[result.answer.use]
    assert not (run / "finished.json").exists()
    assert "This is not the answer" not in page.render(run)
    again = hurried(images, run, resume=True)
    assert again.answer._replace(seconds=0) == result.answer._replace(seconds=0)
    before = trials(run)
    slackaug.search(images, run, resume=True)
    whole, expected = read(run), read(raced)
    assert whole | {"seconds": 0} == expected | {"seconds": 0}
    assert before.items() <= trials(run).items()  # not one was trained again
    assert (run / "finished.json").exists()
    assert Policy.load(run / "policy.json").learned["rounds"] == 2


def test_a_limit_too_short_for_a_round_is_all_for_the_race(images, raced, tmp_path, monkeypatch, capsys):
    """By the estimate; the race is whole, and with more time the search learns on."""
    monkeypatch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(7200.0, 3600.0, 3600.0))
    run = tmp_path / "run"
    result = slackaug.search(images, run, set=tiny.assignments(**RACE), time_limit="1h")
    assert "To learn one, give at least 2 h 01 min." in " ".join(capsys.readouterr().err.split())
    assert (result.answer.is_final, [one.name for one in result.answer.candidates]) == (True, ["none", "uniform-2"])
    assert len(tiny.metrics(run)) == 1
    slackaug.search(images, run, resume=True, time_limit="1h")
    assert read(run) | {"seconds": 0} == read(raced) | {"seconds": 0}


@pytest.mark.parametrize(
    ("changes", "left", "racing", "to_learn"),
    [
        ({}, 61, 1000, 30.5),
        ({}, 59, 1000, 0),
        ({}, 61, 20, 41),  # the race needs no more
        ({}, 49, 20, 0),
        ({"race__candidates": "[uniform-2,learned]"}, 59, 1000, 29.5),  # nothing simple to race
        ({"n_ranks": 2}, 59, 0, 59),  # no race
        ({}, math.inf, 1000, math.inf),
    ],
)
def test_the_time_for_learning(changes, left, racing, to_learn, images):
    config, takes = config_of(load(str(images)), **RACE | changes), timing.Seconds(100.0, racing, 30.0)
    assert race.time_to_learn(config, 48, left, takes) == to_learn


@pytest.mark.parametrize("racing", [20, 1000])
def test_the_least_time_in_which_a_policy_is_learned(racing, images):
    config, takes = config_of(load(str(images)), **RACE), timing.Seconds(100.0, racing, 30.0)
    least = race.least_time(takes)
    assert [race.time_to_learn(config, 48, left, takes) for left in (least - 1, least)] == [0, 30]


def test_without_an_estimate_half_of_the_time_is_for_learning(images):
    assert race.time_to_learn(config_of(load(str(images)), **RACE), 48, 59.0) == 29.5


def test_an_answer_that_is_no_policy_and_nothing_learned(images, hurried, tmp_path, monkeypatch, capsys, command):
    """Its files are handled everywhere: the page has the code, and others say that policy.json is not the answer."""
    run = tmp_path / "run"

    def trivial(*given):
        return answer.answer(*given)._replace(use="trivialaugment-wide", sentence="Use TrivialAugment (Wide).")

    monkeypatch.setattr(race, "answer", trivial)
    result = hurried(images, run, set=tiny.assignments(**SIMPLE), estimate=False)
    said = capsys.readouterr().err
    assert "policy is" not in said
    assert f"\n  slackaug export {run} --to torchvision" in said
    assert (result.policy.learned["rounds"], result.policy.learned["is_answer"]) == (0, False)
    text = page.render(run)
    assert "--to torchvision -o augment.py" in text
    assert ("Use TrivialAugment" in text, ">The policy<" in text, "policy below" in text) == (True, False, False)
    assert "there was no time to learn; so far, the race says: TrivialAugment" in command("show", run).stdout
    exported = command("export", run, "--to", "torchvision", "-o", tmp_path / "augment.py")
    assert "this is the answer: TrivialAugment (Wide)" in exported.stdout


EXPORT = "without slackaug in your training:\n  slackaug export {run} --to "


@pytest.mark.parametrize(
    ("use", "has_torchvision", "says"),
    [
        ("learned-x2", True, f"{EXPORT}torchvision -o augment.py\n"),
        ("uniform-2", False, f"{EXPORT}python -o augment.py\n"),
        ("none", True, "Next: train on your images as they are, with mirror flips\n"),
        ("default", True, f"{EXPORT}torchvision -o augment.py\n"),
        ("default", False, f"{EXPORT}python -o augment.py\n"),
        ("uniformaugment", True, "the command that trains with it:\n  slackaug report {run} --open\n"),
    ],
)
def test_the_next_step_follows_from_the_answer(
    use, has_torchvision, says, images, tmp_path, monkeypatch, capsys, installed
):
    installed(has_torchvision)
    names = ",".join(dict.fromkeys(["none", "uniform-2", "learned", use]))
    given = tiny.assignments(**RACE | {"race__candidates": f"[{names}]"})
    monkeypatch.setattr(race, "answer", lambda *given: answer.answer(*given)._replace(use=use))
    slackaug.search(images, tmp_path / "run", set=given, estimate=False)
    assert says.format(run=tmp_path / "run") in capsys.readouterr().err


def test_without_anything_simple_to_race_there_is_no_answer(images, hurried, tmp_path):
    given = tiny.assignments(**RACE | {"race__candidates": "[uniform-2,learned]"})
    with pytest.raises(RuntimeError, match="before the end of the first round, so there is no policy yet"):
        hurried(images, tmp_path / "run", set=given, estimate=False)


# --- left and taken up again ------------------------------------------------------------------------------------------


def test_the_rounds_do_not_depend_on_it(raced, images, tmp_path):
    slackaug.search(images, tmp_path / "run", set=tiny.assignments(), estimate=False)
    for name in ("round_01.json", "round_02.json"):
        ours, theirs = (Policy.load(run / "policies" / name) for run in (raced, tmp_path / "run"))
        assert torch.equal(ours.pi, theirs.pi)
    assert not (tmp_path / "run" / "answer.json").exists()


def stopped_after(monkeypatch, n, error):
    """The race ends in the training after n."""
    done, whole = [], training.run

    def run(trainings, tell):
        if len(done) == n:
            raise error
        done.append(trainings)
        whole(trainings, tell)

    monkeypatch.setattr(training, "run", run)


STOPPED_AFTER = {0: "No answer yet: ", 3: "So far: use ", 8: "So far: use ", FINAL - 1: "So far: use "}


@pytest.mark.parametrize(("n", "says"), STOPPED_AFTER.items())
def test_a_race_that_is_stopped_gives_the_answer_so_far_and_goes_on_to_the_same_end(
    n, says, raced, images, tmp_path, monkeypatch, command
):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        stopped_after(patch, n, Stopped("stopped; everything is saved", 2))
        with pytest.raises(Stopped, match=rf"^{says}(.|\n)*\n.*To continue:\n  slackaug search .* --resume"):
            slackaug.search(images, run, set=tiny.assignments(**RACE), estimate=False)
    so_far = read(run)
    assert not so_far["is_final"]
    assert so_far["sentence"].startswith(says)
    assert so_far["n_trainings"] == n
    shown = "the race was stopped before its end; so far: " if n else "the search has no answer yet"
    assert shown in command("show", run).stdout
    result = slackaug.search(images, run, resume=True)
    assert result.answer.is_final
    for found in (so_far, whole := read(run), expected := read(raced)):
        found.pop("seconds")
    assert whole == expected
    assert Policy.load(run / "policy.json").pi.equal(Policy.load(raced / "policy.json").pi)


def test_an_answer_from_before_is_withdrawn_where_learning_continues(raced, tmp_path):
    run = copytree(raced, tmp_path / "run")
    kept = folders.learned(run)
    for _ in range(2):  # again changes nothing
        with closing(Run(run)) as opened:
            withdraw(opened)
        assert not (run / "answer.json").exists()
        policy = Policy.load(run / "policy.json")
        assert (policy.learned["use"], policy.learned["is_answer"]) == (None, False)
        assert policy.pi.equal(kept.pi)


def test_before_its_race_a_policy_is_not_called_the_answer(images, tmp_path, monkeypatch, command):
    """As after a kill; what a round learned is what it is."""
    run = tmp_path / "run"
    monkeypatch.setattr(race, "hold", Mock(side_effect=EOFError("killed")))
    with pytest.raises(EOFError):
        slackaug.search(images, run, set=tiny.assignments(**RACE), estimate=False)
    assert "the search has no answer yet" in command("show", run).stdout
    with pytest.warns(UserWarning, match="the search has no answer yet"):
        slackaug.SlackAugment(run)
    refused = command("export", run, "--to", "python", "-o", tmp_path / "augment.py")
    assert (refused.returncode, "the search has no answer yet" in refused.stderr) == (2, True)
    assert f"-o {run} --resume" in refused.stderr
    assert Policy.load(run / "policies" / "round_02.json").learned.keys().isdisjoint({"use", "is_answer"})


def test_a_race_that_once_came_to_another_final_ends_as_if_it_had_not(images, tmp_path):
    """As after a time limit: one that drops out now was trained longer then, and met the default in the final."""
    run, given = tmp_path / "run", RACE | {"race__candidates": "[none,uniform-1,uniform-2,uniform-3,learned]"}
    slackaug.search(images, run, set=tiny.assignments(**given), estimate=False)
    expected = read(run)
    session = Session(str(images), run, "cpu", None, None, [], Console(quiet=True))
    config, dataset = read_config(run), load(str(images))
    work = race.comparison(session, config, dataset, run / race.FOLDER)
    one = race.Race(work, dataset, config, race.folders.learned(run), math.inf)
    out = next(entry["name"] for entry in expected["candidates"] if entry["dropped_after"] == 2)
    one.train([one.training(out, seed, race.CHOSEN_BY) for seed in (2, 3)])
    one.train([one.training(out, seed, race.LEARNED_ON) for seed in (0, 1)])
    assert one.n_trained == 4
    (run / "finished.json").unlink()
    slackaug.search(images, run, resume=True)
    assert read(run) | {"seconds": 0} == expected | {"seconds": 0}


def test_no_training_is_begun_when_the_time_is_over(images, tmp_path):
    run = tmp_path / "run"
    found = slackaug.search(images, run, set=tiny.assignments(**RACE), time_limit=0.0, estimate=False)
    assert (found.answer.n_trainings, (run / "race" / "trials").exists()) == (0, False)


@pytest.mark.parametrize(("estimate", "share"), [(True, 0.75), (False, 144 / (144 + 504))])
def test_the_bar_has_learning_and_the_race_by_their_time_where_it_was_measured(
    estimate, share, images, tmp_path, monkeypatch
):
    """Else by images: learning has 12 * 4 of pre-training and 12 * 8 of the rounds, each of 14 trainings 36."""
    monkeypatch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(30.0, 10.0, 5.0))
    starts, learned = [], []
    monkeypatch.setattr(race, "Part", lambda *given: starts.append(given[1]) or Part(*given))
    monkeypatch.setattr(
        conduct, "Display", lambda *given, **named: learned.append(given[3]) or Display(*given, **named)
    )
    slackaug.search(images, tmp_path / "run", set=tiny.assignments(**RACE), estimate=estimate)
    assert (starts[0], learned) == (share, [share])


def test_a_time_limit_ends_the_race_with_the_answer_so_far(images, tmp_path, monkeypatch):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        stopped_after(patch, 5, race.OutOfTime())
        result = slackaug.search(images, run, set=tiny.assignments(**RACE), estimate=False)
    assert (result.answer.is_final, read(run)["n_trainings"]) == (False, 5)
    assert not (run / "finished.json").exists()


@pytest.mark.parametrize(("left", "n"), [(1e9, 9), (60.5, 6), (41, 4), (5, 4), (-1, 4), (math.inf, 9)])
def test_the_last_two_are_trained_as_often_as_time_is_left_for(left, n, raced, images, monkeypatch):
    config = read_config(raced)
    config = replace(config, race=replace(config.race, n_last=9))
    one = race.Race(None, load(str(images)), config, race.folders.learned(raced), time.monotonic() + left)
    assert one.n_last() == 9  # nothing is known of their cost
    one.n_trained, one.seconds = 8, 40.0
    assert one.n_last() == n


def test_a_race_short_of_time_goes_to_its_final(images, tmp_path, monkeypatch, capsys):
    """All four are trained twice; the next round would be of four trainings, and the final takes eight."""
    four, run = RACE | {"race__candidates": "[none,uniform-1,uniform-2,uniform-3,learned]"}, tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(race.Race, "has_time_for", lambda one, n: not one.n_trained)
        result = slackaug.search(images, run, set=tiny.assignments(**four), estimate=False)
    assert (result.answer.is_final, result.answer.is_shortened) == (True, True)
    assert result.answer.n_trainings == 5 * 2 + 2 * 4
    assert sorted(one.dropped_after or 0 for one in result.answer.candidates) == [0, 0, 2, 2, 2]
    said = " ".join(capsys.readouterr().err.split())
    assert "too short for another round" in said
    assert "The time limit shortened the race. To continue: slackaug search" in said
    assert not (run / "finished.json").exists()
    more = slackaug.search(images, run, resume=True).answer  # with all the time it takes
    assert (more.is_final, more.is_shortened, more.n_trainings) == (True, False, 5 * 2 + 3 * 2 + 2 * 4)
    assert (run / "finished.json").exists()


@pytest.mark.parametrize(("seconds_left", "n_raced"), [(1e9, 5), (1.0, 3)])
def test_forms_of_the_learned_policy_race_where_time_is_left(
    seconds_left, n_raced, images, tmp_path, monkeypatch, capsys
):
    """Of the three others, each has been trained once by then."""
    forms = RACE | {"race__candidates": "[none,uniform-2,learned-x2,learned,learned-1]", "race__n_first": 1}
    at_the_start = []

    def has_time_for(one, n, n_last=4):
        if n_last == race.LONG_FINAL:
            at_the_start.append((one.n_trained, n))
        return seconds_left > 1000 or n_last != race.LONG_FINAL

    monkeypatch.setattr(race.Race, "has_time_for", has_time_for)
    found = slackaug.search(images, tmp_path / "run", set=tiny.assignments(**forms), estimate=False).answer
    assert (found.is_final, len(found.candidates)) == (True, n_raced)
    assert at_the_start == [(3, 2 + 3)]  # the forms once, and one more of each of the last three
    assert ("other forms" in " ".join(capsys.readouterr().err.split())) == (n_raced == 3)


def test_a_round_is_begun_if_there_is_time_for_a_final_after_it(raced, images):
    one = race.Race(None, load(str(images)), read_config(raced), race.folders.learned(raced), time.monotonic() + 60)
    assert one.has_time_for(1000)  # nothing is known of their cost
    one.n_trained, one.seconds = 8, 40.0
    assert one.has_time_for(3)  # 3 + 8 trainings of 5 seconds
    assert not one.has_time_for(5)


def test_the_race_looks_at_the_clock_while_trainings_run(raced, images, tmp_path):
    for limit, is_late in ((None, False), (1000.0, False), (1.0, True)):
        session = Session(str(images), tmp_path, "cpu", None, limit, [], Console(quiet=True))
        session = session._replace(began=time.monotonic() - 10)
        work = race.comparison(session, read_config(raced), load(str(images)), tmp_path)
        with pytest.raises(race.OutOfTime) if is_late else nullcontext():
            work.follow()


def test_a_study_evaluates_what_each_search_says_to_use(images, tmp_path):
    out, given = tmp_path / "study", tiny.assignments(**RACE)
    found = slackaug.study(
        "quick", out, data=images, searches=1, evaluations=1, baselines=["none", "uniform-2"], set=given
    )
    use = read(out / "searches" / "0")["use"]
    assert found.kept == studying.kept(int(use == "learned"), 1, {} if use == "learned" else {use: 1})
    rows = {row.name: row.accuracy.mean for row in found.rows}
    assert use == "learned" or rows["auto"] == rows[use]  # the same training


def test_few_images_are_not_raced(tiny_npz, tmp_path, capsys):
    result = slackaug.search(tiny_npz, tmp_path / "run", set=tiny.assignments(**RACE), estimate=False)
    assert result.answer is None
    assert "24 training images are too few for a race" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "run" / "finished.json").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"race__candidates": "[none,learned]"}, "expected uniform-2 among them"),
        ({"race__candidates": "[uniform-2]"}, "two or more different ones"),
        ({"race__candidates": "[uniform-2,uniform-2]"}, "two or more different ones"),
        ({"race__n_first": 0}, "n_first must be at least 1"),
        ({"race__candidates": "[uniform-2,learned-twice]"}, "unknown candidate 'learned-twice'; did you mean 'learned"),
        ({"race__candidates": "[uniform-2,learnt]"}, "unknown candidate 'learnt'; did you mean 'learned'"),
        (
            {"race__candidates": "[uniform-2,what]"},
            "unknown candidate 'what'; known: learned, learned-x2.*trivialaugment-wide",
        ),
        ({"race__candidates": "[uniform-2,trivialaugment]"}, "did you mean 'trivialaugment-wide'"),
        ({"race__candidates": "[uniform-2,uniform-99]"}, "uniform-99: expected uniform-K with K from 1 to"),
        ({"worth": -1}, "--worth -1: expected points of accuracy, from 0 to 100, such as 0.25"),
    ],
)
def test_a_race_that_cannot_be_is_refused_at_once(changes, says, images, tmp_path):
    with pytest.raises(ValueError, match=says):
        slackaug.search(images, tmp_path / "run", set=tiny.assignments(**RACE | changes))
    assert not (tmp_path / "run").exists()
