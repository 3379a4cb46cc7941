"""`slackaug study`: 2 searches x 2 evaluations, on tiny data, and on the digits locally and on Ray."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import replace
from functools import wraps
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file
from scipy import stats

import crash
import slackaug
import tiny
from published_files import subpolicies
from slackaug import cli, messages, models
from slackaug.augment.policy import Policy
from slackaug.augment.stability import stability
from slackaug.auto import timing
from slackaug.commands import search as api
from slackaug.commands import study
from slackaug.config import parse, presets
from slackaug.config.run_config import RunConfig
from slackaug.data import load
from slackaug.data.options import DataConfig
from slackaug.engine.fit import FitConfig
from slackaug.exits import Stopped
from slackaug.judge import queue, training
from slackaug.judge.backends.local import InTurn
from slackaug.judge.intervals import Accuracy, Interval, accuracy, expected_half_width, usual_noise
from slackaug.judge.studies import assembly, paper_tables, search_jobs
from slackaug.judge.studies import results as study_results
from slackaug.judge.studies.plan import Study
from slackaug.judge.studies.recipes import STUDIES
from slackaug.judge.studies.search_jobs import SearchJob, search_ensemble
from slackaug.messages import comparing, names, studying
from slackaug.messages import search as said_of_search
from slackaug.messages.answer import too_few
from slackaug.runs import folders
from tiny import refused, succeeded
from tiny import study_outcome as outcome
from tiny import study_resume as resume
from tiny import study_words as words


def assignments() -> list[str]:
    return [*tiny.assignments(), *tiny.EVALUATION]


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch):
    monkeypatch.setattr(training, "seconds_of", lambda one: 0.0)
    monkeypatch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(0.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def done(tiny_npz, tmp_path_factory):
    """The folder of a study that nobody interrupted; not to be changed."""
    out = tmp_path_factory.mktemp("done") / "study"
    studied(tiny_npz, out, baselines=["uniform", "none"])
    return out


def studied(data: Path, out: Path, **options) -> study_results.StudyResults:
    options = {"set": assignments(), "console": Console(quiet=True)} | options
    return slackaug.study("digits", out, data=data, **options)


def document(out: Path) -> dict:
    return json.loads((out / "study.json").read_text())


@pytest.fixture
def again(done, tmp_path):
    """A copy of the finished study, which may be changed."""
    return Path(shutil.copytree(done, tmp_path / "study"))


# --- what it finds ----------------------------------------------------------------------------------------------------


def accuracies(out: Path) -> dict[str, dict[int, float]]:
    document = json.loads((out / "eval" / "results.json").read_text())
    return {
        policy["name"]: {found["seed"]: found["accuracy"] for found in policy["trials"]}
        for policy in document["policies"]
    }


def learned_by(out: Path) -> list[Policy]:
    return [Policy.load(out / "searches" / str(s) / "policy.json") for s in range(2)]


def test_baselines_have_all_seeds_and_each_policy_its_own(done):
    found = {name: list(seeds) for name, seeds in accuracies(done).items()}
    every = [0, 1, 2, 3]
    assert found == {"uniform": every, "none": every, "auto, search 0": [0, 1], "auto, search 1": [2, 3]}
    policies = learned_by(done)
    assert [policy.learned["seed"] for policy in policies] == [0, 1]  # which split the data
    assert not torch.equal(policies[0].pi, policies[1].pi)


def test_intervals_and_differences_by_hand(done):
    rows, found = {row["name"]: row for row in document(done)["rows"]}, accuracies(done)
    learned = [list(found[f"auto, search {s}"].values()) for s in range(2)]
    base = [[found["uniform"][seed] for seed in seeds] for seeds in ([0, 1], [2, 3])]
    means, means_of_base = ([statistics.mean(row) for row in matrix] for matrix in (learned, base))
    expected = {
        ("auto", "accuracy"): (means, "search"),
        ("auto", "over_evaluations"): ([value for row in learned for value in row], "evaluation"),
        ("auto", "difference"): ([a - b for a, b in zip(means, means_of_base, strict=True)], "search"),
        ("uniform", "accuracy"): (list(found["uniform"].values()), "seed"),
        ("none", "difference"): ([found["none"][seed] - found["uniform"][seed] for seed in range(4)], "seed"),
    }
    for (name, key), (values, unit) in expected.items():
        interval, n = rows[name][key], len(values)
        assert (interval["n"], interval["unit"]) == (n, unit)
        assert interval["mean"] == pytest.approx(statistics.mean(values))
        if key == "difference":
            width = stats.t.ppf(0.975, n - 1) * statistics.stdev(values) / n**0.5
            assert interval["half_width"] == pytest.approx(width, abs=1e-12)
        else:
            assert [interval["low"], interval["high"]] == [*accuracy(values)[1:3]]
    assert rows["uniform"]["difference"] is None


def test_stability_is_that_of_the_policies(done):
    assert document(done)["stability"] == pytest.approx(stability(learned_by(done))._asdict())


def test_one_policy_stands_for_all_searches(command, done):
    found = slackaug.load(done / "policy.json")
    log_pi = np.mean([policy.probabilities.log().numpy() for policy in learned_by(done)], 0)
    expected = np.exp(log_pi) / np.exp(log_pi).sum(-1, keepdims=True)
    np.testing.assert_allclose(found.probabilities.numpy(), expected, rtol=1e-6)
    shown = command("show", done)
    assert shown.returncode == 0, shown.stderr
    page = (done / "report.html").read_text()
    assert "How often, all searches together" in page
    assert f"slackaug show PATH/TO/{done.name}" in page  # not where it lies


def test_options_of_a_search_hold_for_all_of_its_searches_and_trainings(command, tiny_npz, tmp_path):
    out = tmp_path / "study"
    options = ["--no-flip", "--exclude", "Invert,Cutout", "--balanced", "--searches", "1", "--baselines", "uniform"]
    found = succeeded(command(*words(tiny_npz, out, *options)))
    policy = Policy.load(out / "searches" / "0" / "policy.json")
    assert not policy.flip
    assert not {"Invert", "Cutout"} & {*policy.space.names}
    config = parse.read_yaml(out / "searches" / "0" / "config.yaml")
    assert (config["flip"], config["balanced"]) == (False, True)
    protocol = json.loads((out / "eval" / "results.json").read_text())["protocol"]
    assert (protocol["flip"], protocol["exclude"]) == (False, ["Invert", "Cutout"])
    lines = found.stdout.splitlines()
    basis = said_of_search.basis("cifar", ["Invert", "Cutout"], "small", "quick", None)
    assert {studying.each_search(text) for text in (basis, said_of_search.BALANCED)} <= {*lines}
    (steps,) = [line for line in lines if line.startswith("Each search: 2 rounds of 3 steps ")]
    assert f"search.kl_budget={config['search']['kl_budget']:g}" in steps


@pytest.mark.parametrize(("recipe", "row"), [("paper", " (the row of cifar100)"), ("cifar10-wrn-40-2-unrolled", "")])
def test_it_says_which_row_of_the_paper_was_chosen_by_name_and_no_other(recipe, row, tiny_npz):
    dataset = load(str(tiny_npz))
    chosen = Study(recipe=recipe, search=STUDIES[recipe].run_config(dataset))
    assert next(iter(study.search_lines(chosen, dataset))).endswith(f"preset paper{row}.")


@pytest.mark.parametrize("times", [2, 3])
def test_it_says_where_trainings_are_much_longer_than_those_of_the_preset(times, tiny_npz, tmp_path):
    dataset = load(str(tiny_npz))
    search = presets.quick(dataset)
    longer = replace(search, evaluate=replace(search.evaluate, epochs=times * search.evaluate.epochs))
    chosen, said = Study(recipe="quick", search=longer), Console(file=io.StringIO(), width=300)
    work = queue.Comparison(chosen.protocol(), tmp_path, None, "cpu", 1, InTurn(), said)
    study.announce(work, dataset, chosen, is_new=False)
    expected = "a policy of these searches was learned by the preset quick, whose trainings would have"
    assert (expected in said.file.getvalue()) is (times == 3)


@pytest.mark.parametrize("is_other", [False, True])
def test_it_says_which_networks_start_from_a_file(is_other, command, tiny_npz, tmp_path, monkeypatch):
    recipe = replace(STUDIES["digits"], model="resnet18" if is_other else None)
    monkeypatch.setitem(STUDIES, "with-weights", recipe)
    path = tmp_path / "w.safetensors"
    save_file(models.build("small", 10, (8, 8), torch.Generator().manual_seed(0)).state_dict(), path)
    more = ["--searches", 1, "--evaluations", 1, "--baselines", "none", "--weights", path]
    found = succeeded(command(*words(tiny_npz, tmp_path / "study", *more, recipe="with-weights")))
    said = messages.starts_from(str(path), 3, 10)
    lines = [line for line in found.stdout.splitlines() if str(path) in line]
    assert lines == [studying.each_search(said) if is_other else said]


def test_the_command_says_and_shows(command, tiny_npz, done, tmp_path):
    out = tmp_path / "study"
    found = succeeded(command(*words(tiny_npz, out, "--baselines", "uniform,none")))
    stored = document(out)
    lines = found.stdout.splitlines()
    assert "Study digits: 2 searches with small, then 12 trainings." in lines
    assert any(line.startswith("A search takes about 0 s here and a training 0 s") for line in lines)
    for s in range(2):
        (said,) = (line for line in lines if line.startswith(f"search {s}: "))
        assert re.search(r"entropy \d\.\d{3}\. The rounds [^(]* \(-?\d\.\d\d; ", said)
        log = (out / "searches" / f"{s}.log").read_text()
        assert ("round 2" in log, "takes about" in log) == (True, False)  # which would be measured once more
    assert f"pi {stored['stability']['pi']:.2f}" in found.stdout
    assert next(line for line in lines if "over all evaluations" in line).endswith("(4 evaluations).")
    where = [studying.one_policy(2, str(out / "policy.json")), messages.results(str(out / "study.json"))]
    assert lines[-4:] == [*stored["others"], *where, stored["answer"]]
    for sentence, name in zip((stored["answer"], *stored["others"]), ("uniform", "none"), strict=True):
        assert names.spoken(name) in sentence
    assert stored["study"]["n_search"] == 2
    assert outcome(out) == outcome(done)


def test_a_network_that_has_learned_nothing_is_remarked_upon(command, tiny_npz, tmp_path):
    parse = ["--set", "search.calibrate=true", "--set", "pretrain.lr=1e-6"]
    done = succeeded(command(*words(tiny_npz, tmp_path / "study", "--searches", 1, "--evaluations", 1, *parse)))
    assert "the network has hardly learned these classes" in " ".join(done.stdout.split())


@pytest.fixture
def like_the_papers(monkeypatch, tiny_npz):
    """A study of a recipe with changes, in data that has as many training images as the paper's CIFAR-10."""
    dataset = load(str(tiny_npz))
    monkeypatch.setitem(paper_tables.N_IMAGES, "cifar10", (len(dataset.train.labels),))

    def changed(recipe: str, **changes) -> str:
        search = replace(presets.quick(dataset), evaluate=FitConfig(epochs=1))
        monkeypatch.setitem(STUDIES, "changed", replace(STUDIES[recipe], search=search, **changes))
        return "changed"

    return changed


@pytest.mark.parametrize("is_other_data", [False, True])
def test_the_papers_numbers_are_not_for_other_data_or_other_trainings(
    is_other_data, command, tiny_npz, tmp_path, request
):
    if not is_other_data:
        request.getfixturevalue("like_the_papers")
    more = ["--model", "small", "--searches", 0, "--evaluations", 1, "--baselines", "uniform"]
    found = succeeded(command(*words(tiny_npz, tmp_path / "study", *more, recipe="cifar10-wrn-40-2")))
    of_data, of_trainings = "24 training images, where it has 50,000", "trainings of 1 epochs, where it has 200"
    reason = of_data if is_other_data else of_trainings
    assert studying.no_figures_of_the_paper(reason) in found.stdout.splitlines()
    assert "gap" not in found.stdout
    assert [row["paper"] for row in document(tmp_path / "study")["rows"]] == [[]]


def test_the_table_has_the_papers_numbers_and_the_gaps(command, tiny_npz, tmp_path, like_the_papers):
    paper = {"paper": ("cifar10", "wrn-40-2"), "row": "slack"}
    recipe = like_the_papers("digits", baselines=("uniform", "none"), **paper)
    text = succeeded(command(*words(tiny_npz, tmp_path / "study", recipe=recipe))).stdout
    rows = {row["name"]: row for row in document(tmp_path / "study")["rows"]}
    assert [figure["accuracy"] for figure in rows["uniform"]["paper"]] == [96.12, 96.22]
    assert rows["auto"]["paper"] == [{"accuracy": 96.29, "half_width": 0.08}]
    assert rows["none"]["paper"] == []
    assert "96.12 ± 0.08 %" in text
    assert "96.29 ± 0.08 %" in text
    for name, figure in (("uniform", 96.12), ("uniform", 96.22), ("auto", 96.29)):
        assert f"{100 * rows[name]['accuracy']['mean'] - figure:+.2f}" in text


def test_the_table_fits_80_columns():
    study = Study(paper=("cifar10", "wrn-40-2"), row="slack", learned="slack (paper)")
    share, difference = Accuracy(0.9612, 0.9604, 0.9620, 16, "search"), Interval(0.9612, 0.0008, 16, "search")
    rows = [
        study_results.StudyRow(name, share, share, difference, [*study.figures(name).values()])
        for name in ("uniform", "trivialaugment-wide-imagenet", "slack (paper)")
    ]
    console = Console(width=80, file=io.StringIO())
    console.print(study_results.table(study, study_results.StudyResults(rows, "")))
    text = console.file.getvalue()
    assert "…" not in text
    assert text.count("(96.04 to 96.20)") == text.count("+96.12 ± 0.08") == 3  # of each row
    assert text.count(" 96.12 ± 0.08 %") == 1  # the paper's


def test_nothing_searched(command, tmp_path):
    data = tiny.with_duplicates(tmp_path / "x.npz")
    found = succeeded(command(*words(data, tmp_path / "study", "--searches", 0, "--baselines", "uniform,none")))
    assert "Nothing was searched, so there is no answer." in found.stdout
    assert "stability" not in found.stdout
    assert "2 of 6 test images are exact copies of training images" in found.stdout
    stored = document(tmp_path / "study")
    assert (stored["stability"], stored["duplicates"]) == (None, 2)
    assert [row["accuracy"]["n"] for row in stored["rows"]] == [2, 2]


def test_one_search_has_no_interval(tiny_npz, tmp_path):
    found = studied(tiny_npz, tmp_path / "study", searches=1, evaluations=1, baselines=["uniform"])
    assert found.answer == "Use 3 random transformations per image for now. " + too_few("auto", "it", 1, "search")
    assert found.rows[-1].accuracy.low is None
    assert study_results.remarks(found)[0].startswith("One search says nothing about stability; entropy 2.")


def test_where_all_guess_there_is_no_answer(command, tiny_npz, tmp_path):
    more = ["--searches", 4, "--evaluations", 1, "--baselines", "uniform,none", "--set", "evaluate.lr=1e-9"]
    said = succeeded(command(*words(tiny_npz, tmp_path / "study", *more))).stdout.splitlines()[-1]
    stored, page = document(tmp_path / "study"), (tmp_path / "study" / "report.html").read_text()
    assert (stored["verdict"], stored["use"], stored["others"], stored["answer"]) == ("guessing", None, [], said)
    assert said.startswith("No answer yet: no network did clearly better than guessing. ")
    assert "(--overwrite --set pretrain.epochs=" in said
    assert "naming the largest class each time gives 33.3 %" in page


def test_no_baseline(tiny_npz, tmp_path):
    found = studied(tiny_npz, tmp_path / "study", baselines=[])
    assert [row.name for row in found.rows] == ["auto"]
    assert found.answer == comparing.NO_BASELINE


def test_a_study_says_that_nothing_was_kept_and_how_alike_it_was(tiny_npz, tmp_path):
    """As if another baseline than uniform had won the race of each search."""
    out = tmp_path / "study"
    studied(tiny_npz, out, evaluations=1, baselines=["uniform"])
    for s in range(2):
        one = out / "searches" / str(s)
        dropped = replace(Policy.load(one / "policy.json").with_composed(3), learned={"use": "none", "is_kept": False})
        dropped.save(one / "policy.json")
        (one / "answer.json").write_text(json.dumps({"use": "none", "is_final": True, "sentence": "Use nothing."}))
    found = slackaug.study(out=out, resume=True)
    expected = studying.kept(0, 2, {"none": 2})
    assert found.kept == document(out)["kept"] == expected
    assert study_results.remarks(found)[-1] == expected
    learned = [folders.read_policies(out / "searches" / str(s))[-1] for s in range(2)]
    assert stability(learned_by(out)).pi is None
    assert found.stability == stability(learned)
    assert found.stability.pi is not None
    assert expected in (out / "report.html").read_text()


UNIFORM = Policy.uniform("cifar")


MAGNITUDES = ("", ", uniform magnitudes")


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([UNIFORM], None),
        ([replace(UNIFORM, learned={"use": "learned-x2"})], studying.kept(1, 1, {})),
        (
            [replace(UNIFORM, learned={"use": use}) for use in ("uniform-1", "none", "uniform-1")],
            studying.kept(0, 3, {"none": 1, "uniform-1": 2}),
        ),
    ],
)
def test_what_is_said_of_what_was_kept(policies, expected):
    assert study_results.kept_text(policies) == expected


def test_remarks_of_a_search_and_its_answer_are_repeated(tmp_path):
    (tmp_path / "calibration.json").write_text(json.dumps({"model_lr": 0.1, "remark": "short"}))
    (tmp_path / "answer.json").write_text(json.dumps({"use": "none", "sentence": "Use nothing."}))
    (tmp_path / "composing.json").write_text(json.dumps({"n_composed": 2}))
    assert search_jobs.remarks(tmp_path) == ["Use nothing.", "short"]


def test_published_policies_with_both_magnitudes(command, tiny_npz, tmp_path, like_the_papers):
    recipe, path = like_the_papers("cifar10-wrn-40-2-magnitudes", n_eval=1), tmp_path / "fast.json"
    path.write_text(json.dumps(subpolicies()))
    found = succeeded(command(*words(tiny_npz, tmp_path / "study", "-p", f"fast-aa={path}", recipe=recipe)))
    assert studying.left_out(["dada", "deepaa"]) in found.stdout.splitlines()
    rows = [(row["name"], len(row["paper"])) for row in document(tmp_path / "study")["rows"]]
    both = [(f"{name}{kind}", 1) for name in ("fast-aa-start", "published fast-aa") for kind in MAGNITUDES]
    assert rows == [("uniform", 2), *both]


# --- folders and options ----------------------------------------------------------------------------------------------


def test_list_names_all_recipes(command):
    assert command("study", "--list").stdout.split() == [*STUDIES, *assembly.NAMES]


BAD_INPUT = {
    "a recipe": ("digit -o OUT", "did you mean 'digits'"),
    "a recipe, and no folder": ("papr", "unknown study 'papr'; did you mean 'paper'?"),
    "no recipe": ("-o OUT", "expected a recipe and -o FOLDER"),
    "no folder": ("digits", "expected a recipe and -o FOLDER"),
    "no data": ("quick -o OUT", "the study quick needs --data, the images to search on"),
    "a baseline": ("digits -o OUT --baselines unifrm", "did you mean 'uniform'"),
    "a policy": ("digits -o OUT -p x.json", "-p x.json: expected NAME=FILE, such as fast-aa=fast_aa.json"),
    "no policy": ("digits -o OUT -p a=nowhere.json", "nowhere.json: cannot be read"),
    "searches": ("digits -o OUT --searches -1", "--searches must be at least 0"),
    "evaluations": ("digits -o OUT --evaluations 0", "--evaluations at least 1"),
    "nothing": ("digits -o OUT --searches 0 --baselines ''", "nothing to do: no searches"),
    "a setting": ("digits -o OUT --set search.n_round=1", "did you mean 'search.n_rounds'"),
    "the seed": ("digits -o OUT --set seed=1", "the searches' seeds are 0, 1, ..."),
    "the data": ("digits -o OUT --set data.size=1", "the data is given by --data"),
    "the preset": ("digits -o OUT --set preset=paper", "the preset is that of the recipe"),
    "excluded": ("digits -o OUT --set exclude=[Invrt]", "did you mean 'Invert'"),
    "excluded by option": ("digits -o OUT --exclude Invrt", "did you mean 'Invert'"),
    "weights": ("digits -o OUT --weights nowhere.safetensors", "nowhere.safetensors"),
    "resume with an option": ("-o OUT --resume --no-flip", "--resume takes all settings"),
    "a model": ("digits -o OUT --model smal", "did you mean 'small'"),
    "no study": ("-o OUT --resume", "holds no study to resume"),
    "resume": ("digits -o OUT --resume", "--resume takes all settings from the study"),
    "resume with a count": ("-o OUT --resume --evaluations 9", "--resume takes all settings"),
    "until nothing": ("digits -o OUT --until 0", "--until 0: expected points of accuracy above 0"),
    "until, of two": ("digits -o OUT --until 0.5", "--until needs --searches 4 or more"),
}


@pytest.mark.parametrize(("line", "says"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_one_message_and_nothing_is_written(line, says, command, tmp_path):
    refused(command("study", *shlex.split(line.replace("OUT", str(tmp_path / "study")))), says)
    assert not list(tmp_path.iterdir())


def test_a_folder_with_a_study_is_refused_and_may_be_replaced(command, tiny_npz, again):
    before, other = tiny.contents(again), words(tiny_npz, again, "--searches", 0, "--baselines", "none")
    refused(command(*other), "is not empty; go on with --resume")
    refused(command(*words(tiny_npz, again, "--overwrite", "--baselines", "unifrm")))  # found before anything is lost
    with folders.held(again):
        refused(command(*resume(again)), "another process is working on this run")
    assert tiny.contents(again) == before
    succeeded(command(*other, "--overwrite"))
    assert not (again / "searches").exists()
    assert list(accuracies(again)) == ["none"]


def test_a_folder_with_anything_else_is_refused(command, tiny_npz, tmp_path):
    (tmp_path / "mine.txt").write_text("not ours")
    refused(command(*words(tiny_npz, tmp_path, "--overwrite")), "holds no study, so --overwrite does not touch it")
    refused(command(*words(tiny_npz, tmp_path / "mine.txt")), "is a file, expected a folder")
    assert (tmp_path / "mine.txt").read_text() == "not ours"


def test_a_finished_study_resumed_does_nothing_new(command, done, again):
    before = tiny.contents(again / "eval" / "trials")
    found = succeeded(command(*resume(again)))
    assert "12 of 12 trainings are done already" in found.stdout
    assert tiny.contents(again / "eval" / "trials") == before
    assert outcome(again) == outcome(done)


def test_a_study_may_get_more_searches_and_keeps_what_it_has(command, done, again):
    before = tiny.contents(again / "eval" / "trials")
    refused(command(*resume(again, "--searches", 1)), "--searches 1: the study has 2 already")
    refused(command(*resume(again, "--until", 0.5)), "--until needs --searches 4 or more")
    found = succeeded(command(*resume(again, "--searches", 3)))
    assert "12 of 18 trainings are done already" in found.stdout
    assert before.items() <= tiny.contents(again / "eval" / "trials").items()
    assert {name: len(seeds) for name, seeds in accuracies(again).items()} == {
        "uniform": 6, "none": 6, "auto, search 0": 2, "auto, search 1": 2, "auto, search 2": 2,
    }  # fmt: skip
    assert parse.read_yaml(again / "study.yaml")["n_search"] == 3


def test_until_goes_on_with_evaluations_and_is_kept_with_the_study(command, tiny_npz, tmp_path):
    out, more = tmp_path / "study", ["--searches", 4, "--evaluations", 1, "--baselines", "uniform"]
    found = succeeded(command(*words(tiny_npz, out, *more, "--until", 99)))
    n_test = len(np.load(tiny_npz)["test_labels"])
    noise = usual_noise(n_test)
    assert comparing.expected_of_study(4, 1, expected_half_width(noise, 4), noise, n_test) in found.stdout.splitlines()
    assert comparing.narrow_by_chance(4, 8) in found.stdout
    stored = document(out)
    assert (stored["study"]["until"], stored["rows"][-1]["over_evaluations"]["n"]) == (99, 8)  # two of each
    assert "16 of 16 trainings are done already" in succeeded(command(*resume(out))).stdout


def test_other_data_and_a_users_own_network_are_refused(command, tmp_path, again):
    np.savez(tmp_path / "other.npz", **tiny.arrays(seed=1))
    source, config = document(again)["study"]["data"]["source"], again / "study.yaml"
    refusal = f"is not the data of this run: its images or labels are not those of {source}"
    refused(command(*resume(again, "--data", tmp_path / "other.npz")), refusal)
    text = config.read_text()
    config.write_text(text.replace(source, str(tmp_path / "other.npz")))
    refused(command(*resume(again)), "its images or labels have changed since this run began; begin another")
    config.write_text(text.replace("model: small", "model: tiny:arrays"))  # is named on the command line only
    refused(command(*resume(again)), "give --model tiny:arrays with --resume")


def test_data_that_was_moved_is_named_with_resume(command, tiny_npz, done, tmp_path):
    """The study died before anything but its settings was written."""
    out, place = tmp_path / "study", shutil.copy(tiny_npz, tmp_path / "moved.npz")
    out.mkdir()
    (out / "study.yaml").write_text((done / "study.yaml").read_text().replace(str(tiny_npz), "gone/tiny.npz"))
    gone = "gone/tiny.npz: there is no such file or folder; if the images have moved, --data names their new place"
    refused(command(*resume(out)), gone)
    found = command(*resume(out, "--data", tmp_path / "nowhere.npz"))
    assert (found.returncode, "--data" in found.stderr) == (2, False)
    assert [path.name for path in out.iterdir()] == ["study.yaml"]
    succeeded(command(*resume(out, "--data", place)))
    assert outcome(out) == outcome(done)


def test_what_is_stored_of_a_study_is_found_from_another_folder(command, tiny_npz, tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    shutil.copy(tiny_npz, "tiny.npz")
    Path("fast.json").write_text(json.dumps(subpolicies()))
    options = ["--searches", 1, "--evaluations", 1, "--baselines", "none", "-p", "mine=fast.json", "--cache", "cache"]
    succeeded(command(*words("tiny.npz", tmp_path / "study", *options)))
    study = parse.read_yaml(tmp_path / "study" / "study.yaml")
    run = parse.read_yaml(tmp_path / "study" / "searches" / "0" / "config.yaml")
    assert [part["data"]["cache"] for part in (study, run)] == [str(tmp_path / "a" / "cache")] * 2
    assert study["data"]["source"] == str(tmp_path / "a" / "tiny.npz")
    monkeypatch.chdir(tmp_path / "b")
    found = command(*resume(tmp_path / "study", "--data", "../a/tiny.npz"))
    assert (found.returncode, "3 of 3 trainings are done already" in found.stdout) == (0, True), found.stderr
    assert not any((tmp_path / "b").iterdir())


# --- interrupted ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [
        (("search 1", 0.45), signal.SIGKILL, -9),
        (("search 1", 0.45), signal.SIGINT, 130),
        (("auto, search 0 1", 0.5), signal.SIGTERM, 143),
    ],
)
def test_stopped_and_resumed_equals_uninterrupted(moment, number, code, command, tiny_npz, done, tmp_path):
    out, log = tmp_path / "a study", tmp_path / "log"
    arguments = words(tiny_npz, out, "--baselines", "uniform,none", "--threads", 1)
    assert crash.until(arguments, log, *moment, number) == code, log.read_text()
    again = resume(out, "--threads", 1)
    if number != signal.SIGKILL:
        says = f"slackaug: stopped; everything is saved. To continue:\n  {shlex.join(['slackaug', *again])}\n"
        assert log.read_text().endswith(says)
    assert not (out / "study.json").exists()
    succeeded(command(*again))
    assert outcome(out) == outcome(done)


def test_how_to_go_on_names_the_new_place_of_the_data(tiny_npz, done, tmp_path):
    out, log, moment = tmp_path / "study", tmp_path / "log", ("auto, search 0 0", 0.5)
    shutil.copytree(done, out, ignore=shutil.ignore_patterns("trials", "study.json"))
    arguments = resume(out, "--data", tiny_npz, "--threads", 1)
    assert crash.until(arguments, log, *moment, signal.SIGTERM) == 143, log.read_text()
    assert log.read_text().endswith(f"To continue:\n  {shlex.join(['slackaug', *arguments])}\n")


def test_two_jobs_equal_one(tiny_npz, done, tmp_path):
    studied(tiny_npz, tmp_path / "study", baselines=["uniform", "none"], jobs=2, threads=1)
    assert outcome(tmp_path / "study") == outcome(done)


# --- ensembles --------------------------------------------------------------------------------------------------------


@pytest.fixture
def torchrun(monkeypatch):
    """In place of torchrun: what was started, how it ends, and whether it waits to be told."""

    class Process:
        started: list[list[str]] = []  # noqa: RUF012
        told: list[str] = []  # noqa: RUF012
        returncode, waits = 0, False

        def __init__(self, words, **_):
            self.started.append(words)

        def poll(self):
            if self.waits:
                signal.raise_signal(signal.SIGTERM)
            return None if self.waits else self.returncode

        def terminate(self):
            self.told.append("to end")

        def wait(self):
            self.told.append("that it is waited for")

    monkeypatch.setattr(search_jobs, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(search_jobs.subprocess, "Popen", Process)
    return Process


@pytest.fixture
def ensemble(tmp_path) -> SearchJob:
    data = DataConfig(source="my data", size=9, margin=True, skip_bad=True)
    config = RunConfig(preset="quick", model="own:net", space="cifar", n_ranks=4)
    one = SearchJob(Study(data=data, search=config), 3, tmp_path, "cuda", 2, is_measured=False)
    one.folder.parent.mkdir()
    return one


def test_an_ensemble_is_started_by_torchrun_and_resumed(torchrun, ensemble, tmp_path, monkeypatch):
    start = "-m torch.distributed.run --standalone --nproc-per-node 4 -m slackaug"
    begun = [sys.executable, *start.split(), "search", "my data", "-o", str(ensemble.folder), "--device", "cuda"]
    begun += ["--threads", "2", "--model", "own:net"]
    search_jobs.search(api.search, ensemble, lambda share: None)
    more = ["--config", str(tmp_path / "search.yaml"), "--seed", "3", "--size", "9", "--margin", "--skip-bad"]
    assert torchrun.started == [[*begun, *more]]
    found = {}  # these are options of the command
    monkeypatch.setattr(api, "search", wraps(api.search)(lambda **options: found.update(options)))
    cli.app(torchrun.started[0][torchrun.started[0].index("slackaug") + 1 :], standalone_mode=False)
    expected = {"data": "my data", "out": str(ensemble.folder), "seed": 3, "size": 9, "margin": True, "skip_bad": True}
    assert found.items() >= (expected | {"model": "own:net", "threads": 2}).items()
    ensemble.folder.mkdir()
    (ensemble.folder / "config.yaml").write_text("")
    search_jobs.search(api.search, ensemble, lambda share: None)
    assert torchrun.started[1] == [*begun, "--resume"]


def test_an_ensemble_that_fails_says_where_to_look(torchrun, ensemble):
    torchrun.returncode = 1
    with pytest.raises(RuntimeError, match=rf"ended with exit code 1; see {ensemble.log}"):
        search_ensemble(ensemble)


def test_an_ensemble_is_stopped_with_the_study(torchrun, ensemble):
    torchrun.waits = True
    with pytest.raises(Stopped) as stopped:
        search_ensemble(ensemble)
    assert stopped.value.signal_number == signal.SIGTERM
    assert torchrun.told == ["to end", "that it is waited for"]


# --- the digits, here and on Ray --------------------------------------------------------------------------------------

SHORT = {
    "pretrain.epochs": 1, "search.n_rounds": 1, "search.n_retrain": 2, "search.n_unrolled": 2, "search.batch": 8,
    "evaluate.epochs": 1,
}  # fmt: skip
DIGITS = [word for name, value in SHORT.items() for word in ("--set", f"{name}={value}")]
DIGITS += ["--baselines", "uniform", "--evaluations", "1", "--threads", "1"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Two searches in the embedded digits and a training with each, in this process."""
    out = tmp_path_factory.mktemp("digits") / "study"
    set = [f"{name}={value}" for name, value in SHORT.items()]
    slackaug.study("digits", out, baselines=["uniform"], evaluations=1, set=set, threads=1, console=Console(quiet=True))
    return out


def test_a_study_of_the_digits(digits):
    stored = document(digits)
    assert [row["name"] for row in stored["rows"]] == ["uniform", "auto"]
    assert stored["rows"][1]["accuracy"]["n"] == 2
    assert all(row["accuracy"]["mean"] > 0.15 for row in stored["rows"])  # better than chance, after one epoch


def processes_with(marker: str) -> dict[int, str]:
    """Ours, by what they were started with: their ids and titles."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


@pytest.fixture
def marker():
    """In the environment of all processes of a test; whatever has it is ended afterwards."""
    text = f"study-test-{uuid.uuid4()}"
    yield text
    for pid in processes_with(text):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def start(arguments: list[str], marker: str, log: Path) -> subprocess.Popen:
    source = str(Path(slackaug.__file__).parents[1])
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": marker}  # made up: nobody else may use a test's cluster
    env = os.environ | token | {"PYTHONPATH": path}
    with log.open("w") as file:
        return subprocess.Popen(arguments, env=env, stdout=file, stderr=subprocess.STDOUT, cwd=log.parent)


def study_on_ray(out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "slackaug", "study", "digits", "-o", str(out), *DIGITS, "--backend", "ray", *more]


@pytest.mark.ray
def test_on_ray_killed_workers_change_nothing(digits, marker, tmp_path):
    """The command starts Ray. A search and a training are killed, as by the system, while they work."""
    process = start(study_on_ray(tmp_path / "study"), marker, tmp_path / "log")
    for title in ("ray::search 1", "ray::auto, search 0, seed 0"):
        killed = None
        while killed is None and process.poll() is None:
            killed = next((pid for pid, found in processes_with(marker).items() if found.startswith(title)), None)
            time.sleep(0.02)
        assert killed is not None, (tmp_path / "log").read_text()
        os.kill(killed, signal.SIGKILL)
    assert process.wait(300) == 0, (tmp_path / "log").read_text()
    assert outcome(tmp_path / "study") == outcome(digits)


@pytest.mark.ray
def test_on_an_existing_cluster_stopped_and_resumed(digits, marker, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--port", str(port)]
    ray += ["--node-ip-address", "127.0.0.1", "--num-cpus", "2", "--include-dashboard", "false"]
    own = tempfile.mkdtemp(prefix="ray")  # a short name, for its sockets; else it would be found as "the" cluster
    ray += ["--temp-dir", own]
    elsewhere = tmp_path / "elsewhere"  # the cluster works in another folder
    elsewhere.mkdir()
    cluster = start(ray, marker, elsewhere / "ray.log")
    try:
        wait_for(port, cluster)
        arguments = study_on_ray(Path("study"), "--address", f"127.0.0.1:{port}")
        process = start(arguments, marker, tmp_path / "log")
        while process.poll() is None and not list((tmp_path / "study").glob("eval/trials/*.json")):
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        text = (tmp_path / "log").read_text
        assert process.wait(100) == 143, text()
        words = shlex.split(text().splitlines()[-1])
        assert words[:5] == ["slackaug", "study", "-o", "study", "--resume"]
        process = start([sys.executable, "-m", *words], marker, tmp_path / "log")
        assert process.wait(300) == 0, text()
        assert "of 4 trainings are done already" in text()
        assert outcome(tmp_path / "study") == outcome(digits)
        assert cluster.poll() is None  # it is not ours to stop
    finally:
        cluster.terminate()
        cluster.wait(60)
        shutil.rmtree(own, ignore_errors=True)


def wait_for(port: int, cluster: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and cluster.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            time.sleep(3)  # it listens before all of it is there
            return
        time.sleep(0.1)
    raise AssertionError("the cluster does not start")


@pytest.mark.ray
def test_a_cluster_that_cannot_be_reached_is_found_before_the_data_is_read(command, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"  # nobody listens
        options = ["--data", "nowhere", "--backend", "ray", "--address", address]
        found = command("study", "quick", "-o", tmp_path / "x", *options)
    assert found.returncode == 1
    assert f"--address {address}: no Ray cluster can be reached there" in found.stderr
    assert not (tmp_path / "x").exists()
