"""`slackaug evaluate`, on data so small that a training takes a blink."""

import csv
import errno
import io
import itertools
import json
import os
import re
import shutil
import signal
import statistics
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import crash
import slackaug
import tiny
from published_files import DOCUMENTS, FILES
from slackaug import messages
from slackaug.augment.policy import Policy
from slackaug.augment.transforms import get_space
from slackaug.commands import evaluate as evaluation
from slackaug.config import parse, presets
from slackaug.data import DataError, load
from slackaug.data.options import DataConfig
from slackaug.judge import baselines, candidates, protocols, training
from slackaug.judge.candidates import Candidate
from slackaug.judge.intervals import Accuracy, expected_half_width, usual_noise
from slackaug.judge.protocols import Training
from slackaug.messages import comparing
from slackaug.messages.answer import too_few
from slackaug.runs import folders
from slackaug.runs.folders import RunError
from tiny import EVALUATION, TIMES, refused, succeeded
from tiny import evaluate_outcome as outcome
from tiny import evaluate_words as words

pytestmark = pytest.mark.usefixtures("quick_search")


def evaluate(data: object, out: object | None, policies=(), **options) -> evaluation.Results:
    options = {"baselines": ["none", "uniform"], "seeds": 2, "console": Console(quiet=True)} | options
    return slackaug.evaluate(str(data), policies, out=out, set=EVALUATION, **options)


@pytest.fixture(scope="module")
def done(tiny_npz, tmp_path_factory):
    """The folder of an evaluation that nobody interrupted; not to be changed."""
    out = tmp_path_factory.mktemp("done")
    evaluate(tiny_npz, out)
    return out


def results(out: Path) -> dict:
    return json.loads((out / "eval" / "results.json").read_text())


@pytest.fixture
def again(done, tmp_path):
    """A copy of the finished evaluation, which may be changed."""
    return Path(shutil.copytree(done, tmp_path / "run"))


@pytest.fixture
def policy_file(tmp_path):
    policy = Policy.uniform("cifar")
    policy.pi[:, policy.space.index("Rotate")] = 1
    policy.save(tmp_path / "rotating.json")
    return tmp_path / "rotating.json"


# --- end to end -------------------------------------------------------------------------------------------------------


def test_the_command_says_shows_and_writes(command, tiny_npz, policy_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = Path("run")
    done = succeeded(
        command(*words(tiny_npz, out, "-p", policy_file.name, "--baselines", "none,uniform", "--seeds", 4))
    )
    lines, names, document = done.stdout.splitlines(), ["none", "uniform", "rotating.json"], results(out)
    said = [line.split(":")[0] for line in lines if ", seed " in line]
    assert sorted(said) == sorted(f"{name}, seed {seed}" for name in names for seed in range(4))
    assert "24 training and 6 test images of 8 x 8 pixels, 3 classes; network small, 1 epoch, mirror" in lines[0]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    assert [policy["name"] for policy in document["policies"]] == names
    for (name, shown, n, difference, _), policy in zip(rows, document["policies"], strict=True):
        assert (name, shown, n) == (policy["name"], str(Accuracy(**policy["accuracy"])), "4")
        assert bool(difference) == (name != "none")
    assert document["use"] in (None, *names)
    assert ("rotating.json" in document["answer"]) is (document["verdict"] != "guessing")
    where = messages.results(*(str(out / "eval" / name) for name in ("results.json", "results.csv")))
    assert lines[-2:] == [where, document["answer"]]


def test_the_files_hold_what_was_measured(done):
    document = results(done)
    expected = {"schema_version": 1, "class_names": ["0", "1", "2"], "duplicates": 0, "reference": "none"}
    assert expected.items() <= document.items()
    assert (document["protocol"]["fit"]["epochs"], document["environment"]["torch"]) == (1, torch.__version__)
    for policy in document["policies"]:
        for found in policy["trials"]:
            assert found.keys() >= {"accuracy", "top5", "per_class", "ece", "loss"}
        for key in TIMES:
            assert policy[key] == pytest.approx(statistics.mean(found[key] for found in policy["trials"]))
    with (done / "eval" / "results.csv").open() as file:
        header, *rows = csv.reader(file)
    names = "seed", "accuracy", "top5", "ece", "loss", "seconds", "images_per_second", "balanced_accuracy"
    assert header == ["policy", *names]
    trials = [(policy["name"], found) for policy in document["policies"] for found in policy["trials"]]
    assert [(name, found["seed"]) for name, found in trials] == [
        ("none", 0),
        ("none", 1),
        ("uniform", 0),
        ("uniform", 1),
    ]
    cells = [[name, *(found[key] for key in names)] for name, found in trials]
    assert rows == [["" if cell is None else str(cell) for cell in row] for row in cells]


def test_results_go_to_the_run_of_the_policy_with_its_settings(command, tiny_npz, finished, tmp_path):
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    more = ["--baselines", "uniform", "--seeds", 1, "--set", "evaluate.epochs=1"]
    done = succeeded(command("evaluate", tiny_npz, "-p", run, *more))
    stored, protocol = presets.quick(load(str(tiny_npz))), results(run)["protocol"]
    assert (protocol["fit"]["batch"], protocol["model"]) == (stored.evaluate.batch, "small")
    assert f"{run}, seed 0: " in done.stdout
    assert "learned on other data" not in done.stdout


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([], ("small", "cifar", ["Invert"], False, 4)),
        (["--set", "space=imagenet"], ("small", "imagenet", [], False, 4)),
        (["--set", "exclude=[Cutout]", "--set", "flip=true"], ("small", "cifar", ["Cutout"], True, 4)),
        (["--set", "model=wrn-16-1", "--flip"], ("wrn-16-1", "cifar", ["Invert"], True, 32)),
        (["--set", "model=wrn-16-1", "--model", "small"], ("small", "cifar", ["Invert"], False, 4)),
    ],
)
def test_what_is_set_counts_more_than_the_run_and_options_more_than_that(more, expected, tiny_npz):
    data = protocols.dataset(DataConfig(source=str(tiny_npz)))
    stored = replace(presets.quick(data), exclude=("Invert",), flip=False)
    stored = replace(stored, evaluate=replace(stored.evaluate, batch=4))
    assignments = [text for word, text in itertools.pairwise(more) if word == "--set"]
    given = ({"model": "small"} if "--model" in more else {}) | ({"flip": True} if "--flip" in more else {})
    found = evaluation.configure(data, given, stored, None, assignments)
    assert (found.model, found.space, [*found.exclude], found.flip, found.evaluate.batch) == expected


def test_in_python_it_returns_what_it_found(tiny_npz, tmp_path, capsys):
    found = evaluate(tiny_npz, tmp_path, [Policy.uniform("cifar")], baselines=["none"], console=None)
    assert [row.name for row in found.rows] == ["none", "policy 0"]
    assert found.rows[1].accuracies.keys() == {0, 1}
    assert found.answer == "Use no augmentation for now. " + too_few("policy 0", "it", 2, "seed")
    assert capsys.readouterr().out == ""  # a function keeps stdout for its caller


# --- the subject and the reference ------------------------------------------------------------------------------------


def test_the_verdict_is_on_the_first_policy_and_the_first_baseline(tiny_npz, policy_file, tmp_path, done):
    found = evaluate(tiny_npz, tmp_path, [policy_file, Policy.uniform("imagenet")], baselines=["uniform", "none"])
    assert found.reference == "uniform"
    assert found.answer == "Use 3 random transformations per image for now. " + too_few(
        str(policy_file), "it", 2, "seed"
    )
    assert results(done)["subject"] == "uniform"  # without a policy, on the last baseline


@pytest.mark.parametrize(("n_policies", "baselines"), [(1, []), (0, ["none"]), (2, [])])
def test_one_alone_and_policies_alone_are_compared_with_nothing(n_policies, baselines, tiny_npz, tmp_path, policy_file):
    policies = [policy_file, Policy.uniform("cifar")][:n_policies]
    found = evaluate(tiny_npz, tmp_path / "run", policies, baselines=baselines)
    assert found.answer.startswith("Nothing to compare")
    assert found.reference == next(iter(baselines), None)
    assert {row.difference for row in found.rows} == {None}


def rare(path, n, **changes):
    """Two usual classes and one of n training images."""
    labels = np.repeat([0, 1, 2], [12, 12, n])
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 8, 8, 3), dtype=np.uint8)
    arrays = {"train_images": images, "train_labels": labels, "test_images": images[::5], "test_labels": labels[::5]}
    np.savez(path, **{name: array for name, array in (arrays | changes).items() if array is not None})
    return path


@pytest.mark.parametrize("verb", ["evaluate", "search"])
def test_a_class_of_one_image_is_refused_and_of_two_is_remarked_upon(verb, command, tmp_path):
    def given(n):
        data = rare(tmp_path / f"{n}.npz", n)
        if verb == "search":
            return command(*tiny.arguments(data, tmp_path / f"run {n}"))
        return command(*words(data, tmp_path / f"run {n}", "--baselines", "none", "--seeds", 1))

    refused(given(1), "1.npz: every class needs at least 2 training images", "too few in '2' (1). Add images, or take")
    assert not (tmp_path / "run 1").exists()
    says = "classes with fewer than 4 training images, too few to learn from and to test with; add images, or take the "
    assert f"{says}class out: '2' (2)" in succeeded(given(2)).stdout
    assert says not in succeeded(given(4)).stdout


def test_without_test_images_some_are_held_out_and_it_says_which(command, tmp_path):
    data = rare(tmp_path / "x.npz", 12, test_images=None, test_labels=None)
    done = succeeded(command(*words(data, tmp_path / "run", "--baselines", "none", "--seeds", 1)))
    assert "no test set: held out a stratified 20 % (6 of 36 images" in done.stdout
    few = rare(tmp_path / "few.npz", 2, test_images=None, test_labels=None)
    found = np.load(few)
    np.savez(few, train_images=found["train_images"][10:14], train_labels=found["train_labels"][10:14])
    says = "few.npz: no test set, and too few images to hold one out; add images or a test set"
    refused(command(*words(few, tmp_path / "few", "--baselines", "none")), says)


def test_it_says_what_the_seeds_will_show_and_what_they_could_have(command, tiny_npz, tmp_path):
    for more, n in ((["--seeds", 4], 4), (["--seeds", 4, "--until", 100], 8)):
        said = succeeded(command(*words(tiny_npz, tmp_path, "--baselines", "none,uniform", *more))).stdout.splitlines()
        n_test = len(np.load(tiny_npz)["test_labels"])
        noise = usual_noise(n_test)
        assert comparing.expected(n, expected_half_width(noise, n), noise, n_test) in said
    alone = succeeded(command(*words(tiny_npz, tmp_path, "--baselines", "none")))
    assert "points from seed to seed" not in alone.stdout


def test_until_adds_seeds_of_what_the_verdict_compares(command, tiny_npz, tmp_path):
    asked = words(tiny_npz, tmp_path, "--baselines", "none,uniform,uniform-1", "--seeds", 1, "--until", 100)
    succeeded(command(*asked))
    trials = {policy["name"]: len(policy["trials"]) for policy in results(tmp_path)["policies"]}
    assert trials == {"none": 8, "uniform": 1, "uniform-1": 8}
    assert "17 of 17 trainings are done already" in succeeded(command(*asked)).stdout


def test_what_is_said_before_and_of_one_seed(monkeypatch, command, tmp_path):
    measured = []
    monkeypatch.setattr(training, "seconds_of", lambda some: measured.extend(one.name for one in some) or 30.0)
    data = tiny.with_duplicates(tmp_path / "x.npz")
    done = succeeded(command(*words(data, tmp_path, "--baselines", "none,uniform", "--seeds", 1)))
    facts = [
        "2 of 6 test images are exact copies of training images",
        "1 seed is too few for a verdict. Take --seeds 8, or --until 0.5",
        "2 trainings of about 30 s each, measured over a few steps: 1 min 00 s one after the other.",
        "none, seed 0:",
        "too few seeds to tell",
    ]
    places = [done.stdout.find(fact) for fact in facts]
    assert places == sorted(places)
    assert places[0] >= 0
    assert measured == ["none", "uniform"]
    document = results(tmp_path)
    assert document["duplicates"] == 2
    assert [policy["accuracy"]["low"] for policy in document["policies"]] == [None, None]


def test_where_all_guess_there_is_no_answer_on_the_screen_in_the_file_and_on_the_page(command, tiny_npz, tmp_path):
    asked = words(
        tiny_npz, tmp_path, "--baselines", "none,uniform,uniform-1", "--seeds", 4, "--set", "evaluate.lr=1e-9"
    )
    said = succeeded(command(*asked)).stdout.splitlines()[-1]
    document = results(tmp_path)
    assert (document["verdict"], document["use"], document["others"]) == ("guessing", None, [])
    best = max(one["accuracy"]["mean"] for one in document["policies"])
    assert said == document["answer"]
    assert said.startswith("No answer yet: no network did clearly better than guessing. ")
    assert f"The best reached {100 * best:.1f} %, and naming the largest class each time gives 33.3 %." in said
    assert "(--overwrite --set evaluate.epochs=4)" in said
    succeeded(command("report", tmp_path))
    page = " ".join((tmp_path / "report.html").read_text().split())
    assert '<div class="answer open"> <h2 id="answer"><bdi>No answer yet: no network did clearly better' in page


@pytest.mark.parametrize(
    ("learned", "times", "is_said"),
    [({"preset": "quick"}, 2, False), ({"preset": "quick"}, 3, True), ({"preset": ["?"]}, 3, False), ({}, 3, False)],
)
def test_a_policy_for_much_shorter_trainings_is_named(tiny_npz, tmp_path, monkeypatch, learned, times, is_said):
    """It may be worse than uniform there; a file need not say how it was learned."""
    usual = presets.quick(load(str(tiny_npz))).evaluate.epochs
    monkeypatch.setattr(evaluation, "conduct_until", lambda *_: {})
    policy, said = replace(Policy.uniform("cifar"), learned=learned), Console(file=io.StringIO(), width=200)
    changed = [f"evaluate.epochs={times * usual}"]
    slackaug.evaluate(str(tiny_npz), [policy], seeds=2, out=tmp_path, set=changed, console=said)
    expected = f"policy 0 was learned by the preset quick, whose trainings would have {usual} epochs here. These"
    assert (expected in said.file.getvalue()) is is_said
    assert ("worse than uniform" in said.file.getvalue()) is is_said


@pytest.mark.parametrize(
    ("policy", "twin"),
    [
        (Policy.uniform("cifar", n_composed=2), "uniform-2"),
        (Policy.uniform("cifar").with_composed(0), "none"),
        (Policy.uniform("cifar", n_composed=2, flip=False), None),
        (Policy.uniform("cifar", n_composed=2, mu=0.5), None),
        (Policy.uniform("imagenet", n_composed=2), None),
    ],
)
def test_a_policy_that_is_a_baseline_is_trained_once_and_the_answer_says_so(policy, twin, command, tiny_npz, tmp_path):
    policy.save(tmp_path / "p.json")
    words_of = words(tiny_npz, tmp_path, "-p", tmp_path / "p.json", "--baselines", "none,uniform-2", "--seeds", 1)
    said, names = succeeded(command(*words_of)).stdout, [one["name"] for one in results(tmp_path)["policies"]]
    assert names == ["none", "uniform-2", *([] if twin else [str(tmp_path / "p.json")])]
    assert ("so it is trained once" in said) is (twin is not None)
    if twin:
        assert results(tmp_path)["answer"].endswith(comparing.known_as(str(tmp_path / "p.json"), twin))


def test_the_policy_of_a_search_at_work_is_not_taken_for_its_answer(command, tiny_npz, finished, tmp_path):
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    before = tiny.contents(run)
    asked = words(tiny_npz, tmp_path / "out", "--baselines", "none", "--seeds", 1)
    with folders.held(run):
        for path in (run, run / "policy.json"):
            done = command(*asked, "-p", path)
            refused(done, f"{run}: is still being searched", "Wait for it", f"-p {run}/policies/round_02.json -o OTHER")
        shutil.rmtree(run / "policies")
        assert "-p" not in command(*asked, "-p", run).stderr
        assert not (tmp_path / "out").exists()
        shutil.copytree(finished / "policies", run / "policies")
        done = succeeded(command(*asked, "-p", run / "policies" / "round_02.json"))  # that does not change any more
    assert "learned on other data" not in done.stdout
    stored, protocol = presets.quick(load(str(tiny_npz))), results(tmp_path / "out")["protocol"]
    assert protocol["fit"] == parse.to_dict(stored.evaluate) | {"epochs": 1, "batch": 4, "lr": 0.05}
    assert tiny.contents(run) == before


def test_a_policy_that_is_the_only_baseline_is_refused_before_any_training(command, tiny_npz, finished, tmp_path):
    """As the answer of a run often is; what to do instead works."""
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    Policy.uniform("cifar", n_composed=2).save(run / "policy.json")
    asked = words(tiny_npz, tmp_path / "out", "-p", run, "--seeds", 1)
    learned = run / "policies" / "round_02.json"
    done = command(*asked, "--baselines", "uniform-2")
    refused(
        done, f"{run} is 2 random transformations, the only other one", "Add a baseline: --baselines uniform-2,none"
    )
    assert f"or compare the learned policy: -p {learned} -o OTHER" in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "out").exists()
    assert "uniform-2, seed 0: " in succeeded(command(*asked, "--baselines", "uniform-2,none")).stdout
    assert [one["name"] for one in results(tmp_path / "out")["policies"]] == ["uniform-2", "none"]


def test_results_say_which_policy_a_row_is_of(tiny_npz, policy_file, tmp_path):
    named = [policy_file, Policy.uniform("imagenet")]
    evaluate(tiny_npz, tmp_path, named, seeds=1, magnitudes="both")
    own = candidates.digest(policy_file.read_bytes()), candidates.digest(named[1])
    assert results(tmp_path)["digests"] == {str(policy_file): own[0], "policy 1": own[1]}


# --- given again ------------------------------------------------------------------------------------------------------


def test_given_again_it_does_nothing_and_says_so(command, tiny_npz, done, again):
    before = tiny.contents(again / "eval" / "trials")
    found = command(*words(tiny_npz, again, "--baselines", "none,uniform", "--seeds", 2))
    assert "4 of 4 trainings are done already" in found.stdout
    assert "seed 0:" not in found.stdout
    moved = shutil.copy(tiny_npz, again / "moved.npz")  # the same data elsewhere is the same protocol
    assert [row.accuracy.n for row in evaluate(moved, again, seeds=1).rows] == [1, 1]  # fewer throw nothing away
    assert tiny.contents(again / "eval" / "trials") == before
    evaluate(tiny_npz, again)
    assert outcome(again) == outcome(done)


def test_a_policy_by_another_path_is_not_trained_again(command, tiny_npz, tmp_path):
    said = []
    for name in ("a.json", "b.json"):
        Policy.uniform("cifar", mu=0.5).save(tmp_path / name)
        said.append(command(*words(tiny_npz, tmp_path / "run", "-p", tmp_path / name, "--seeds", 2)).stdout)
    assert ["2 of 2 trainings are done already" in text for text in said] == [False, True]
    policies = results(tmp_path / "run")["policies"]
    assert [[each["name"] for each in policy["trials"]] for policy in policies] == [[str(tmp_path / "b.json")] * 2]


def test_more_seeds_and_policies_only_do_what_is_new(command, tiny_npz, again):
    found = command(*words(tiny_npz, again, "--baselines", "none,uniform,default", "--seeds", 3))
    assert "4 of 9 trainings are done already" in found.stdout
    new = [line.split(":")[0] for line in found.stdout.splitlines() if " images/s)" in line]
    assert new == ["default, seed 0", "default, seed 1", "none, seed 2", "uniform, seed 2", "default, seed 2"]


def test_a_policy_that_has_changed_is_trained_with_again(tiny_npz, policy_file, tmp_path, monkeypatch):
    trained, run = [], training.run
    monkeypatch.setattr(training, "run", lambda some, report: (trained.append(some[0].name), run(some, report)))
    evaluate(tiny_npz, tmp_path, [policy_file])
    Policy.uniform("imagenet").save(policy_file)
    evaluate(tiny_npz, tmp_path, [policy_file])
    assert trained.count(str(policy_file)) == 4
    assert trained.count("none") == 2


def test_another_protocol_is_refused_and_may_replace(command, tiny_npz, done, again):
    (again / "eval" / "mine.txt").write_text("not ours")
    before = tiny.contents(again)
    arguments = words(tiny_npz, again, "--baselines", "none,uniform", "--seeds", 2, "--set", "evaluate.lr=0.01")
    refused(command(*arguments), "holds results of another protocol (evaluate.lr was 0.05, is 0.01)", "--overwrite")
    assert tiny.contents(again) == before
    succeeded(command(*arguments, "--overwrite"))
    assert outcome(again) != outcome(done)
    assert (again / "eval" / "mine.txt").exists()


def test_other_test_images_are_another_protocol(tmp_path):
    """The fingerprint of the data is that of its training images."""
    arrays = tiny.arrays()
    np.savez(tmp_path / "x.npz", **arrays)
    evaluate(tmp_path / "x.npz", tmp_path / "run")
    np.savez(tmp_path / "x.npz", **arrays | {"test_images": arrays["test_images"] ^ 255})
    with pytest.raises(RunError, match=r"another protocol \(data_digest was"):
        evaluate(tmp_path / "x.npz", tmp_path / "run")


@pytest.mark.parametrize("content", ["{", "[]", '{"protocol": 3}', '{"protocol": {"data": 1}}'])
def test_damaged_results(content, command, tiny_npz, again):
    (again / "eval" / "results.json").write_text(content)
    found = command(*words(tiny_npz, again, "--baselines", "none"))
    refused(found, "--overwrite")
    assert "results.json" in found.stderr or "another protocol" in found.stderr


# --- interrupted ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code", "share"),
    [(signal.SIGKILL, -9, 0.5), (signal.SIGINT, 130, 0.5), (signal.SIGTERM, 143, 0.5), (signal.SIGTERM, 143, 1.0)],
)
def test_interrupted_and_given_again_equals_uninterrupted(number, code, share, command, tiny_npz, done, tmp_path):
    out, log = tmp_path / "run", tmp_path / "log"
    arguments = words(tiny_npz, out, "--baselines", "none,uniform", "--seeds", 2)
    assert crash.until(arguments, log, "none 1", share, number) == code
    if number != signal.SIGKILL:
        last = log.read_text().splitlines()[-1]
        assert last == "slackaug: stopped; everything is saved. To continue: give the same command again"
    found = succeeded(command(*arguments))
    assert "of 4 trainings are done already" in found.stdout
    assert outcome(out) == outcome(done)
    assert {path.suffix for path in (out / "eval" / "trials").iterdir()} == {".json"}


def test_a_second_process_is_refused(command, tiny_npz, tmp_path):
    with folders.held(tmp_path / "eval"):
        refused(command(*words(tiny_npz, tmp_path, "--baselines", "none")), "another process is working on this run")


# --- disks ------------------------------------------------------------------------------------------------------------


def failed(found, reason):
    assert found.returncode == 1
    assert f"cannot be written ({reason}). What was saved before is intact. Once this is fixed: give" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_folder_that_cannot_be_written_is_one_message(command, tiny_npz, tmp_path):
    (tmp_path / "file").write_text("in the way")
    failed(command(*words(tiny_npz, tmp_path / "file", "--baselines", "none")), "Not a directory")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_fails_is_one_message_and_the_work_goes_on_later(
    number, command, tiny_npz, done, tmp_path, monkeypatch
):
    arguments = words(tiny_npz, tmp_path, "--baselines", "none,uniform", "--seeds", 2)
    with monkeypatch.context() as patch:
        patch.setattr(folders.os, "replace", Mock(side_effect=OSError(number, os.strerror(number))))
        failed(command(*arguments), os.strerror(number))
    succeeded(command(*arguments))
    assert outcome(tmp_path) == outcome(done)


def test_so_it_is_with_several_processes_which_equal_one(command, tiny_npz, done, tmp_path):
    arguments = words(tiny_npz, tmp_path, "--baselines", "none,uniform", "--seeds", 2, "--jobs", 2, "--threads", 1)
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "trials").write_text("a file where a folder must be")
    failed(command(*arguments), "File exists")
    (tmp_path / "eval" / "trials").unlink()
    succeeded(command(*arguments))
    assert outcome(tmp_path) == outcome(done)


# --- policies ---------------------------------------------------------------------------------------------------------


def write_published(folder: Path, names) -> list[Path]:
    paths = []
    for i, name in enumerate(names):  # that of slack is made up in a space that is none of ours
        paths.append(folder / f"published{i}.json")
        paths[-1].write_text(json.dumps(DOCUMENTS[name] | ({"dataset": "cifar10"} if name == "slack" else {})))
    return paths


def test_published_formats_as_policies_and_as_baselines(tiny_npz, tmp_path):
    paths = list(map(str, write_published(tmp_path, DOCUMENTS)))
    baselines = ["none", *(f"file:{path}" for path in paths)]
    rows = evaluate(tiny_npz, tmp_path, paths, baselines=baselines, seeds=1).rows
    assert [row.name for row in rows] == [*baselines, *paths]
    for one, other in zip(rows[1 : len(baselines)], rows[len(baselines) :], strict=True):
        assert one.accuracies == other.accuracies
        assert one.trials[0]["loss"] == other.trials[0]["loss"]


@pytest.mark.data
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_published_files_can_be_evaluated(path, tiny_npz, tmp_path):
    found = evaluate(tiny_npz, tmp_path, [path], baselines=[f"file:{path}"], seeds=1)
    assert found.rows[0].accuracies == found.rows[1].accuracies


@pytest.mark.parametrize(
    ("magnitudes", "names"),
    [
        ("own", ["uniform", "randaugment", "P"]),
        ("uniform", ["uniform", "randaugment, uniform magnitudes", "P, uniform magnitudes"]),
        ("both", ["uniform", "randaugment", "randaugment, uniform magnitudes", "P", "P, uniform magnitudes"]),
    ],
)
def test_magnitudes(magnitudes, names, tiny_npz, tmp_path):
    (path,) = write_published(tmp_path, ["slack"])
    found = evaluate(tiny_npz, tmp_path, [path], baselines=["uniform", "randaugment"], magnitudes=magnitudes, seeds=1)
    assert [row.name.replace(str(path), "P") for row in found.rows] == names
    losses = [row.trials[0]["loss"] for row in found.rows]
    assert len(set(losses)) == len(losses)


def remarks_on(policy: Policy, source, folder: Path, **options) -> tuple[bool, str]:
    """Whether it is trained with flips, and what is said about it."""
    screen = io.StringIO()
    found = evaluate(source, folder, [policy], seeds=1, console=Console(file=screen, width=300), **options)
    one = Training(protocol=found.protocol, candidate=Candidate("x", policy, ""), seed=0, folder=folder)
    return protocols.method_and_data(one)[0].flip, screen.getvalue()


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (Policy.uniform("domainnet"), "policy 0: its space is domainnet, that of the uniform baselines cifar"),
        (replace(Policy.uniform("cifar"), dataset="0" * 16), "policy 0: learned on other data; it is used with the "
         "mean and std of this"),
        (Policy.uniform(get_space("cifar").exclude("Invert")), "policy 0: its space differs from that of the uniform "
         "baselines by Invert"),
    ],
)  # fmt: skip
def test_a_policy_for_other_data_and_another_space_is_said(policy, says, tiny_npz, tmp_path):
    assert says in remarks_on(policy, tiny_npz, tmp_path)[1]


@pytest.mark.parametrize(
    ("allowed", "own", "given", "flips", "says"),
    [
        (True, True, None, True, ""),
        (True, False, None, False, "trained without mirror flips, as its file says; the baselines have them"),
        (False, True, None, False, "trained without mirror flips, unlike what its file says"),
        (False, True, True, True, ""),
        (True, False, True, True, "trained with mirror flips, unlike what its file says"),
        (True, True, False, False, "trained without mirror flips, unlike what its file says"),
    ],
)
def test_flips_that_change_the_label_are_off_and_differences_are_said(
    allowed, own, given, flips, says, tiny_npz, tmp_path, monkeypatch
):
    data = replace(load(str(tiny_npz)), flip=allowed)
    monkeypatch.setattr(protocols, "read", lambda *_: data)
    found, text = remarks_on(Policy.uniform("cifar", flip=own), tiny_npz, tmp_path, flip=given)
    assert found is flips
    assert says in text
    assert bool(says) == ("trained with" in text)


def test_a_wrong_baseline_is_said_before_what_is_wrong_with_a_run(command, tiny_npz, tmp_path):
    """And before the images are read."""
    (tmp_path / "config.yaml").touch()
    words = ["evaluate", tiny_npz, "-p", tmp_path, "--baselines"]
    refused(command(*words, "none,unifrom-2"), "unknown baseline 'unifrom-2'; did you mean 'uniform-K'?")
    refused(command(*words, "none"), f"continue it with slackaug search DATA -o {tmp_path} --resume")
    missing = command("evaluate", tmp_path / "nowhere", "-o", tmp_path / "run", "--baselines", "none,unifrom-2")
    refused(missing, "unknown baseline 'unifrom-2'")


def test_names_with_odd_characters(command, tiny_npz, tmp_path):
    paths = [tmp_path / name for name in ("[red]p.json", "a, b.json", "päper ☃.json", "p" * 200 + ".json")]
    for path in paths:
        Policy.uniform("cifar").save(path)
    options = [word for path in paths for word in ("-p", path)]
    found = succeeded(command(*words(tiny_npz, tmp_path, *options, "--baselines", "none", "--seeds", 1)))
    assert "[red]p.json" in "".join(line.split("│")[1].strip() for line in found.stdout.splitlines() if "│" in line)
    with (tmp_path / "eval" / "results.csv").open() as file:
        assert [row["policy"] for row in csv.DictReader(file)] == ["none", *map(str, paths)]


def test_saved_models_are_kept_and_trained_again_where_they_are_missing(command, tiny_npz, done, tmp_path, again):
    more = ["--baselines", "none,uniform", "--seeds", 2, "--save-models", tmp_path / "models"]
    assert "already" not in command(*words(tiny_npz, again, *more)).stdout
    assert len(list((tmp_path / "models").glob("*.safetensors"))) == 4
    next((tmp_path / "models").iterdir()).unlink()
    assert "3 of 4 trainings are done already" in command(*words(tiny_npz, again, *more)).stdout
    assert outcome(again) == outcome(done)
    succeeded(command(*words(tiny_npz, tmp_path / "other", *more, "--set", "evaluate.lr=0.06")))
    assert len(list((tmp_path / "models").iterdir())) == 8  # those of another protocol are not replaced


def test_randaugments_grid(command, tiny_npz, tmp_path):
    arguments = words(tiny_npz, tmp_path, "--baselines", "none,randaugment", "--randaugment-grid", "1,2x3,20",
                      "--seeds", 1, "--magnitudes", "both")  # fmt: skip
    found = succeeded(command(*arguments))
    document = results(tmp_path)
    grid = document["randaugment_grid"]
    assert list(grid["accuracy"]) == [f"randaugment-{n}-{m}" for n in (1, 2) for m in (3, 20)]
    assert grid["accuracy"][grid["chosen"]] == max(grid["accuracy"].values())
    assert f"{grid['chosen']} is best, with" in found.stdout
    chosen = evaluate(tiny_npz, tmp_path / "b", baselines=[grid["chosen"]], seeds=1, magnitudes="both")
    own, uniform = [policy["trials"][0]["loss"] for policy in document["policies"][1:]]
    assert [row.trials[0]["loss"] for row in chosen.rows] == [own, uniform]
    assert "4 of 4 trainings are done already" in command(*arguments).stdout


# --- settings ---------------------------------------------------------------------------------------------------------


def test_a_run_without_flips_is_compared_without_and_a_users_own_network_must_be_named(tiny_npz, finished, tmp_path):
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    text = (run / "config.yaml").read_text().replace("flip: null", "flip: false")
    (run / "config.yaml").write_text(text.replace("model: small", "model: own_code:net"))
    with pytest.raises(RunError, match="learned with the network own_code:net: give --model own_code:net, or another"):
        evaluate(tiny_npz, None, [run])
    protocol = evaluate(tiny_npz, None, [run], seeds=1, model="small").protocol
    assert (protocol.flip, protocol.model) == (False, "small")


BAD_INPUT = {
    "nothing": ([], "nothing to evaluate: give a policy (-p FILE) or baselines"),
    "a baseline": (["--baselines", "none,unifrm"], "did you mean 'uniform'?"),
    "a file": (["--baselines", "file:nowhere.json"], "nowhere.json: cannot be read"),
    "a policy": (["-p", "nowhere.json"], "nowhere.json: cannot be read (No such file"),
    "no policy": (["-p", __file__], "test_evaluate.py"),
    "a baseline twice": (["--baselines", "none,uniform,none"], "given more than once: none"),
    "a baseline without a name": (["--baselines", ","], "--baselines: a name between commas is missing"),
    "very many seeds": (["--baselines", "none", "--seeds", "99999999999"], "expected at most 10000"),
    "no seeds": (["--baselines", "none", "--seeds", "0"], "--seeds 0: expected at least 1"),
    "magnitudes": (["--baselines", "none", "--magnitudes", "all"], "expected own, uniform or both"),
    "a grid": (["--baselines", "randaugment", "--randaugment-grid", "1-2"], "such as 1,2x5,9,14"),
    "a point of the grid": (["--baselines", "randaugment", "--randaugment-grid", "0x5"], "expected randaugment-N-M"),
    "a point twice": (["--baselines", "randaugment", "--randaugment-grid", "1x5,5"], "given more than once"),
    "a grid of nothing": (["--baselines", "none", "--randaugment-grid", "1x5"], "needs randaugment among"),
    "a backend": (["--baselines", "none", "--backend", "slurm"], "expected local or ray"),
    "jobs": (["--baselines", "none", "--jobs", "0"], "--jobs 0: expected at least 1"),
    "a setting": (["--baselines", "none", "--set", "evaluate.epoch=1"], "did you mean 'evaluate.epochs'"),
    "a setting of searches": (["--baselines", "none", "--set", "search.n_rounds=3"], "a setting of a search, which"),
    "a model": (["--baselines", "none", "--model", "smal"], "did you mean 'small'"),
    "points that matter": (["--baselines", "none", "--worth", "-1"], "--worth -1: expected points of accuracy, from"),
    "until nothing": (["--baselines", "none,uniform", "--until", "0"], "--until 0: expected points of accuracy above"),
    "until, of one": (["--baselines", "none", "--until", "1"], "--until needs two to compare: a policy and a baseline"),
    "a device": (["--baselines", "none", "--device", "abacus"], "--device abacus: cannot be used"),
}


@pytest.mark.parametrize(("more", "says"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_one_message_and_nothing_is_written(more, says, command, tiny_npz, tmp_path):
    refused(command(*words(tiny_npz, tmp_path / "run", *more)), says)
    assert not list(tmp_path.iterdir())


def test_a_policy_twice_and_no_folder_are_refused(command, tiny_npz, policy_file, tmp_path):
    with pytest.raises(ValueError, match="given more than once"):
        evaluate(tiny_npz, tmp_path, [policy_file, str(policy_file)])
    refused(command(*words(tiny_npz, None, "-p", policy_file)), "give a folder for the results: -o runs/x")


def test_trainings_that_fail_do_not_keep_the_others_from_being_done(command, tiny_npz, tmp_path, monkeypatch):
    run = training.run

    def fail(trainings, report):
        (one,) = trainings
        if (one.name, one.seed) == ("none", 1):
            raise training.Diverged("no longer a number")
        run(trainings, report)

    monkeypatch.setattr(training, "run", fail)
    found = command(*words(tiny_npz, tmp_path, "--baselines", "none,uniform", "--seeds", 2))
    assert found.returncode == 1
    assert "1 of 4 failed, the others are saved:\n  none, seed 1: no longer a number" in found.stderr
    policies = results(tmp_path)["policies"]
    assert [len(policy["trials"]) for policy in policies] == [1, 2]


@pytest.mark.parametrize("is_pair", [True, False])
def test_where_there_is_nothing_to_compare_it_says_so_before_the_trainings(
    is_pair, command, tiny_npz, policy_file, tmp_path
):
    other = tmp_path / "other.json"
    other.write_text(json.dumps(Policy.uniform("cifar", n_composed=2).to_dict()))
    given = ("--baselines", "none") if is_pair else ("-p", other)
    said = command(*words(tiny_npz, tmp_path / "run", "-p", policy_file, *given, "--seeds", 4)).stdout
    beginning, _, end = said.partition(", seed 0: ")
    assert ("Nothing to compare: give a policy and a baseline" in beginning) is not is_pair
    assert ("show gains of" in beginning) is is_pair
    assert end


# --- candidates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name"),
    [("runs/pets/policy.json", "runs/pets"), ("policy.json", "policy.json"), ("runs/pets/x.json", "runs/pets/x.json")],
)
def test_policies_are_called_by_their_run(path, name):
    assert candidates.label(Path(path)) == name


def test_what_defines_a_candidate(tmp_path, monkeypatch):
    def digests(document: dict, name: str = "p.json") -> tuple[str, str]:
        """As a baseline, which has the flips of all, and as a policy, which has its own."""
        path = tmp_path / name
        path.write_text(json.dumps(document))
        return candidates.from_name(f"file:{path}").digest, candidates.find_candidates([path], ())[0].digest

    cifar, imagenet = (Policy.uniform(space).to_dict() for space in ("cifar", "imagenet"))
    first, again, other = digests(cifar), digests(cifar), digests(imagenet)
    assert first == again
    assert len({*first, *other}) == 4
    of_svhn, mine, also_mine = (digests(DOCUMENTS["pba"], f"{name}.json")[1] for name in ("rsvhn", "my", "also_my"))
    assert of_svhn != mine == also_mine  # the length of PBA's schedule counts even if a name says it
    before = candidates.from_name("uniform").digest
    monkeypatch.setattr(baselines, "VERSION", baselines.VERSION + 1)  # a new definition is another candidate
    assert candidates.from_name("uniform").digest != before


def test_uniform_leaves_out_what_the_search_left_out(tiny_npz, tmp_path):
    run = tmp_path / "run"
    slackaug.search(str(tiny_npz), run, set=tiny.assignments(), exclude=["Invert", "Solarize"])
    names = ["uniform", "uniform-no-invert-solarize"]
    found = slackaug.evaluate(str(tiny_npz), [run], baselines=names, seeds=1, set=["evaluate.epochs=1"])
    assert found.protocol.exclude == ("Invert", "Solarize")
    one = Training(protocol=found.protocol, candidate=candidates.from_name("uniform"), seed=0, folder=tmp_path)
    assert not {"Invert", "Solarize"} & {*protocols.method_and_data(one)[0].space.names}
    uniform, without, _ = found.rows
    assert uniform.accuracies == without.accuracies  # the same thing by two names


# --- how the data of a run is read ------------------------------------------------------------------------------------

GROUPS = r"film\d+"


def filmed(folder: Path, n: int = 32, name: str = "film{}_{}.png") -> Path:
    for i in range(n):
        path = folder / "ab"[i % 2] / name.format(i // 4, i)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (i, 7 * i, 0)).save(path)
    return folder


@pytest.fixture(scope="module")
def places(tiny_npz, tmp_path_factory):
    """Films, the same elsewhere, and other data with films and without. Not to be changed, as are the runs on them."""
    folder = tmp_path_factory.mktemp("places")
    films, moved = filmed(folder / "films"), filmed(folder / "moved")
    return {"films": films, "moved": moved, "others": filmed(folder / "others", 36), "digits": tiny_npz}


@pytest.fixture(scope="module")
def run_on(places, tmp_path_factory):
    @cache
    def run(**options) -> Path:
        """Of a search on the films with these options."""
        out = tmp_path_factory.mktemp("runs") / "run"
        return search(places["films"], out, **options)

    return run


def search(source, out: Path, **options) -> Path:
    options = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
    slackaug.search(source, out, set=tiny.assignments(), console=Console(quiet=True), **options)
    return out


def read_by(policy, source, out, **more):
    """How an evaluation reads the data."""
    options = {"seeds": 1, "set": ["evaluate.epochs=1"], "out": out, "console": Console(quiet=True)}
    return slackaug.evaluate(source, [policy], baselines=["none"], **options | more).protocol


@pytest.mark.parametrize(
    ("of_run", "place", "given", "expected", "lost"),
    [
        ({"size": 70}, "films", {"margin": True}, (70, True, GROUPS), None),
        ({"size": 70, "margin": True}, "films", {}, (70, True, GROUPS), None),
        ({"size": 70, "margin": True}, "films", {"size": 70}, (70, True, GROUPS), None),
        ({"size": 70, "margin": True}, "films", {"margin": False}, (70, False, GROUPS), None),
        # What is given is no sign of other data
        ({"size": 70, "margin": True}, "films", {"size": 66, "group_by": ""}, (66, True, None), None),
        ({"size": 70, "margin": True}, "moved", {"size": 66, "group_by": ""}, (66, True, None), None),
        # The size of a run is not that of other data, nor are its groups, where that has none
        ({"size": 70, "margin": True}, "moved", {}, (70, True, GROUPS), None),
        ({"size": 70, "margin": True}, "others", {}, (None, False, GROUPS), "--size 70 --margin"),
        ({"size": 70, "margin": True}, "digits", {}, (None, False, None), f"--size 70 --margin --group-by {GROUPS}"),
        ({}, "films", {"size": 6}, (6, False, GROUPS), None),
        ({}, "digits", {}, (None, False, None), f"--group-by {GROUPS}"),
        ({}, "digits", {"size": 8}, (8, False, None), f"--group-by {GROUPS}"),
    ],
)
def test_data_is_read_as_the_run_has_read_it(of_run, place, given, expected, lost, places, run_on, tmp_path):
    screen = io.StringIO()
    run, console = run_on(group_by=GROUPS, **of_run), Console(file=screen, width=300)
    found = read_by(run, places[place], tmp_path, console=console, **given).data
    assert (found.size, found.margin, found.group_by) == expected
    said, is_same = screen.getvalue(), lost is None and given.items() <= of_run.items()
    assert (comparing.read_without(str(lost)) in said) == (lost is not None)
    assert ("This is other data" in said, "learned on other data" in said) == (lost is not None, not is_same)
    assert f"images of {expected[0] or 8} x {expected[0] or 8} pixels" in said


def test_data_that_has_changed_is_still_read_as_the_run_has_read_it(tmp_path):
    own = filmed(tmp_path / "films")
    run = search(own, tmp_path / "run", group_by=GROUPS, size=6, flip=False)
    shutil.copy(own / "a" / "film0_0.png", own / "a" / "film0_99.png")
    found = read_by(run, own, tmp_path / "changed")
    assert (found.data.group_by, found.data.size) == (GROUPS, 6)
    assert found.data.fingerprint != parse.read_yaml(run / "config.yaml")["data"]["fingerprint"]
    copied = Path(shutil.copytree(own, tmp_path / "copied"))  # as good as other data, but that it has the groups
    found = read_by(run, copied, tmp_path / "elsewhere")
    assert (found.data.group_by, found.data.size) == (GROUPS, None)
    (own / "a" / "film1_4.png").write_bytes(b"cut off")
    with pytest.raises(DataError, match="1 of 33 files"):
        read_by(run, own, tmp_path / "damaged")
    Image.new("RGB", (9, 8)).save(copied / "a" / "no group.png")
    with pytest.raises(DataError, match=re.compile("1 of 34 paths.*different sizes", re.DOTALL)):
        read_by(run, copied, tmp_path / "neither")
    with pytest.raises(DataError, match="1 of 34 paths"):
        read_by(run, copied, tmp_path / "neither", size=8, group_by=GROUPS)


def test_a_place_is_known_wherever_the_command_is_given(tmp_path, monkeypatch):
    films, other = filmed(tmp_path / "films"), tmp_path / "other"
    filmed(other / "films", 24, "{}_{}.png")
    monkeypatch.chdir(tmp_path)
    run = search("films", tmp_path / "run", group_by=GROUPS, size=6, cache="decoded")
    shutil.copy(films / "a" / "film0_0.png", films / "a" / "film0_99.png")
    monkeypatch.chdir(other)
    found = read_by(run, "../films", tmp_path / "own").data
    assert (found.group_by, found.size, found.cache) == (GROUPS, 6, str(tmp_path / "decoded"))
    found = read_by(run, "films", tmp_path / "namesake").data
    assert (found.group_by, found.size) == (None, None)


def test_another_preset_changes_the_protocol_and_not_how_the_data_is_read(places, run_on, tmp_path):
    run = run_on(group_by=GROUPS, size=6, flip=False, exclude=("Invert",))
    (tmp_path / "given.yaml").write_text("preset: quick\nevaluate: {batch: 9}\n")
    for more, batch in (({"preset": "quick"}, 32), ({"config": tmp_path / "given.yaml"}, 9)):
        found = read_by(run, places["films"], tmp_path / str(batch), **more)
        assert (found.data.group_by, found.data.size, found.flip, found.exclude) == (GROUPS, 6, False, ("Invert",))
        assert found.fit.batch == batch


def test_the_policy_of_a_study_is_evaluated_as_its_searches_were(places, tmp_path):
    options = {"group_by": GROUPS, "size": 6, "flip": False, "exclude": ["Invert"]}
    counts = {"searches": 2, "evaluations": 1, "baselines": ["uniform"]}
    counts |= {"set": tiny.assignments(evaluate__epochs=1), "console": Console(quiet=True)}
    slackaug.study("quick", tmp_path / "study", data=places["films"], **counts, **options)
    found = read_by(tmp_path / "study", places["films"], tmp_path / "out")
    assert (found.data.group_by, found.data.size, found.flip, found.exclude) == (GROUPS, 6, False, ("Invert",))
    for out, says in ((None, "give a folder"), (tmp_path / "study", "holds a study")):
        with pytest.raises((ValueError, RunError), match=says):  # the results of a study stay its own
            read_by(tmp_path / "study", places["films"], out)
    study = tmp_path / "study" / "study.yaml"
    study.write_text(re.sub("^model: small", "model: wrn-10-1", study.read_text(), flags=re.MULTILINE))
    assert evaluation.origin([tmp_path / "study"])[1].model == "wrn-10-1"  # that of its evaluations
    study.unlink()
    assert evaluation.origin([tmp_path / "study"]) == (None, None)  # search.yaml alone is anybody's


def test_damaged_files_were_left_out_and_what_was_decoded_is_kept_where_the_user_has_room(tmp_path, command):
    source, cache = filmed(tmp_path / "data"), tmp_path / "cache"
    (source / "a" / "bad.png").write_bytes(b"")
    run = search(source, tmp_path / "run", skip_bad=True, cache=cache)
    found = read_by(run, source, tmp_path / "same").data
    assert (found.skip_bad, found.cache) == (True, str(cache))
    (source / "b" / "bad.png").write_bytes(b"")
    Image.new("RGB", (8, 8)).save(source / "b" / "new.png")
    screen = io.StringIO()
    read_by(run, source, tmp_path / "changed", console=Console(file=screen, width=300))
    assert "2 of 35 files" in screen.getvalue()
    other = shutil.copytree(source, tmp_path / "other")
    found = command("evaluate", other, "-p", run, "--baselines", "none", "-o", tmp_path / "x")
    refused(found, "2 of 35 files")  # nobody has said to leave them out
