"""Every table and figure of the paper end to end, on small images that lie as the published sets do.

Networks have one layer, searches two steps.
"""

import io
import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from torch import nn

import slackaug
import tiny
from pictures import noise
from published_files import subpolicies
from slackaug import models
from slackaug.auto import timing
from slackaug.commands import study as study_command
from slackaug.config import parse
from slackaug.data import layouts
from slackaug.exits import Stopped
from slackaug.judge import results, training
from slackaug.judge.intervals import accuracy, nested
from slackaug.judge.studies import assembly, search_jobs
from slackaug.judge.studies.assembly import TableResults, TableRow
from slackaug.judge.studies.evaluations import evaluate_all
from slackaug.judge.studies.paper_tables import AVERAGE, DOMAINNET, FIGURES, QUOTED, TABLES
from slackaug.judge.studies.plan import Study
from slackaug.judge.studies.recipes import STUDIES
from slackaug.judge.studies.results import StudyResults, StudyRow
from slackaug.judge.studies.search_jobs import SearchJob
from slackaug.messages import studying
from slackaug.messages.terminal import how
from tiny import refused, succeeded

CLASSES = ("n01440764", "n02085620", "n03000684")
STEPS = ["pretrain.epochs=1", "pretrain.batch=2", "search.n_rounds=1", "search.n_retrain=1", "search.n_unrolled=1",
         "search.n_composites=2", "search.batch=2", "evaluate.epochs=1", "evaluate.batch=2",
         "pretrain.warmup_epochs=0", "evaluate.warmup_epochs=0"]  # fmt: skip
OPTIONS = {"set": STEPS, "searches": 1, "evaluations": 1}
LARGE = {"size": 72}  # above 64 pixels, where defaults are those of photographs


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """CIFAR as npz files, ImageNet-100 with its list, and the six domains, two of them reduced."""
    root = tmp_path_factory.mktemp("data")
    for name in ("cifar10", "cifar100"):
        np.savez(root / f"{name}.npz", **tiny.arrays(12, 3))
    imagenet = root / "imagenet100"
    for k, name in enumerate((*CLASSES, "n09999999")):
        for i in range(4):
            noise(imagenet / "train" / name / f"{name}_{i}.JPEG", 10 * k + i, (40, 30))
        noise(imagenet / "val" / name / f"ILSVRC2012_val_{k:08d}.JPEG", 1000 + k, (30, 50))
    (imagenet / "imagenet100.txt").write_text("\n".join(CLASSES))
    for d, domain in enumerate(layouts.DOMAINS):
        lines = []
        for k, name in enumerate(("ant", "The_Eiffel_Tower", "zebra")):
            for i in range(5):
                file = f"{domain}/{name}/{domain}_{k:03d}_{i:06d}.jpg"
                noise(root / "domainnet" / file, 1000 * d + 100 * k + i, (40, 30))
                lines.append(f"{file} {k}\n")
        (root / "domainnet" / f"{domain}_train.txt").write_text("".join(lines[:10]))
        (root / "domainnet" / f"{domain}_test.txt").write_text("".join(lines[10:]))
    return root


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(layouts, "N_REDUCED", 12)
    for name in ("WideResNet", "ResNet18"):
        monkeypatch.setattr(models, name, OneLayer)
    monkeypatch.setattr(training, "seconds_of", lambda one: 0.0)
    monkeypatch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(0.0, 0.0, 0.0))
    monkeypatch.setattr(search_jobs, "search_ensemble", alone)


class OneLayer(nn.Sequential):
    def __init__(self, *numbers: int, small_stem: bool = False):
        pooled = nn.AdaptiveAvgPool2d(1), nn.Flatten()
        super().__init__(
            nn.Conv2d(3, 4, 3, stride=4, bias=False), nn.BatchNorm2d(4), *pooled, nn.Linear(4, numbers[-1])
        )


def alone(one: SearchJob) -> None:
    """An ensemble's search in this process: that it takes several is tests/runs/test_ensemble.py's."""
    options = one.options()
    more = {} if "resume" in options else {"set": ["n_ranks=1"]}
    slackaug.search(one.study.data.source, one.folder, **options, **more, console=Console(quiet=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of all tables: each study is done once."""
    return tmp_path_factory.mktemp("runs") / "paper"


def made(root: Path, folder: Path, label: str, **options) -> TableResults:
    """The table, with the least of everything; what is in the folder goes on."""
    is_there = (folder / "paper.json").is_file()
    options = {"resume": True} if is_there else OPTIONS | {"data": root} | options
    return slackaug.study(f"paper/{label.lower()}", folder, console=Console(quiet=True), **options)


def rows_of(found: TableResults) -> list[tuple[tuple[str, str], TableRow]]:
    return [((column.data, column.model), row) for column in found.columns for row in column.rows]


def stamps(folder: Path) -> dict[Path, int]:
    """When each training and each policy was written."""
    kinds = ("*/eval/trials/*.json", "*/searches/*/policies/*.json")
    return {path: path.stat().st_mtime_ns for kind in kinds for path in folder.glob(kind)}


# --- every table and figure -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", TABLES)
def test_every_table_and_figure_of_the_paper_runs_end_to_end(label, root, folder):
    table = TABLES[label]
    is_large = any(not column[0].startswith("cifar") for column in table.columns)
    where = folder / ("large" if is_large else "small")
    before = stamps(where)
    found = made(root, where, label, **(LARGE if is_large else {}))
    assert before.items() <= stamps(where).items()  # what another table has done is not done again
    rows = rows_of(found)
    assert [at for at, _ in rows] == [column for column in table.columns for _ in table.rows]
    for column, row in rows:
        assert row.paper == FIGURES.get(column, {}).get(row.name)
        if row.name in QUOTED:
            assert (row.evaluations, row.note) == (None, QUOTED[row.name])
        elif row.name.startswith("published"):
            assert (row.evaluations, "it needs a file" in row.note) == (None, True)
        else:
            assert 0 <= row.evaluations.mean <= 1, (column, row.note)
            assert row.evaluations.n == (len(DOMAINNET) if column == AVERAGE else 1)
    assert "None can be compared with the paper's" in found.answer or table.figure
    assert json.loads((where / f"{label}.json").read_text())["answer"] == found.answer
    page = (where / f"{label}.html").read_text()
    assert page.count("<svg ") == (2 * len(assembly.parts(label, root)) if table.figure else 0)
    if not table.figure:
        assert page.count("say nothing about these") == len(table.columns)
        assert all(str(row.paper) in page for _, row in rows if row.paper)
        assert all(str(row.evaluations) in page for _, row in rows if row.evaluations)


def test_every_study_of_the_paper_is_in_a_table_or_a_variant_of_our_own():
    needed = {part.name for label in TABLES for part in assembly.parts(label, None)}
    others = {name for name, one in STUDIES.items() if one.paper} - needed
    assert {STUDIES[name].variant for name in others} <= {"unrolled-without-kl", "unrolled-without-kl-0.25",
                                                          "without-kl-0.5"}  # fmt: skip


def test_the_average_is_over_the_six_domains(root, folder):
    found = made(root, folder / "large", "domainnet", **LARGE)
    *domains, average = found.columns
    assert (average.data, average.model) == AVERAGE
    for i, row in enumerate(average.rows):
        accuracies = [column.rows[i].evaluations.mean for column in domains]
        assert row.evaluations.mean == pytest.approx(sum(accuracies) / len(domains))


# --- what is missing --------------------------------------------------------------------------------------------------


def test_a_domain_that_is_missing_is_named_and_the_others_are_done(root, tmp_path):
    some = tmp_path / "some"
    for domain in layouts.DOMAINS[1:]:
        place = some / "domainnet" / domain
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(root / "domainnet" / domain, place)
    told = io.StringIO()
    options = OPTIONS | LARGE | {"data": some, "console": Console(file=told, width=300), "size": 8}
    found = slackaug.study("paper/domainnet", tmp_path / "out", **options)
    lack = f"no images of domainnet-clipart: expected {some}/domainnet/clipart"
    assert lack in told.getvalue()
    by_data = {column.data: column for column in found.columns}
    assert {row.note for row in by_data["domainnet-clipart"].rows} == {lack}
    assert {row.note for row in by_data["domainnet-average"].rows} == {"5 of 6 domains are there"}
    assert all(row.evaluations for row in by_data["domainnet-sketch"].rows)
    assert "no images of domainnet-clipart" in (tmp_path / "out" / "domainnet.html").read_text()


def test_a_published_policy_goes_where_it_has_rows(root, tmp_path):
    path = tmp_path / "fast.json"
    path.write_text(json.dumps(subpolicies()))
    found = made(root, tmp_path / "out", "magnitude-ablations", policies=[f"fast-aa={path}"])
    there = {row.name for _, row in rows_of(found) if row.evaluations}
    assert there == {f"{name}{kind}" for name in ("fast-aa-start", "published fast-aa")
                     for kind in ("", ", uniform magnitudes")}  # fmt: skip


NO_IMAGES = "no images of imagenet100: expected ROOT/imagenet100 with --data ROOT"
BAD_INPUT = {
    "a table": ("paper/sata -o OUT", "unknown table 'paper/sata'; did you mean 'paper/sota'"),
    "no folder": ("paper/sota", "expected -o FOLDER, or --list to read what paper/sota needs"),
    "no images": ("paper/imagenet-100 -o OUT", NO_IMAGES),
    "a network": ("paper/sota -o OUT --model small", "--model: a table has its own"),
    "baselines": ("paper/sota -o OUT --baselines none", "--baselines: a table has its own"),
    "a policy": ("paper/sota -o OUT -p dada=x.json", "-p dada: this table has no such row; known: none"),
    "another policy": ("paper/magnitude-ablations -o OUT -p x=x.json", "known: dada, deepaa, fast-aa"),
    "nothing to resume": ("paper/sota -o OUT --resume", "holds no table of the paper to go on with (no paper.json)"),
    "options": ("paper/sota -o OUT --resume --searches 2", "--resume takes all settings from the folder"),
    "to list": ("digits --list", "unknown table 'digits'"),
}


@pytest.mark.parametrize("given", BAD_INPUT)
def test_bad_input(given, command, tmp_path):
    line, message = BAD_INPUT[given]
    refused(command("study", *(str(tmp_path / "out") if word == "OUT" else word for word in line.split())), message)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_empty_is_kept(root, tmp_path, command):
    (tmp_path / "mine").write_text("")
    words = ("study", "paper/ev-unrolled", "-o", tmp_path, "--data", root)
    refused(command(*words), "is not empty; go on with --resume")
    refused(command(*words, "--overwrite"), "holds no table, so --overwrite does not touch it")


# --- going on, beginning anew -----------------------------------------------------------------------------------------


def test_what_was_interrupted_goes_on_with_the_settings_that_it_began_with(root, tmp_path, monkeypatch, command):
    out, label = tmp_path / "out", "ev-nkl"
    settings = [word for text in STEPS for word in ("--set", text)]
    words = ["study", f"paper/{label}", "-o", out, "--data", root, "--searches", 1, "--evaluations", 1, *settings]

    def stop(work, study, fixed, searched, write_results):
        if study.recipe.endswith("0.5"):
            raise Stopped(f"stopped. {how('To go on', work.again)}", signal.SIGINT)
        return evaluate_all(work, study, fixed, searched, write_results)

    monkeypatch.setattr(study_command, "evaluate_all", stop)
    stopped = command(*words)
    assert stopped.returncode == 130
    again = stopped.stderr.strip().splitlines()[-1].split()
    assert again == ["slackaug", "study", f"paper/{label}", "-o", str(out), "--resume"]
    page = (out / f"{label}.html").read_text()
    assert "This page renews itself" in page
    before = stamps(out)
    monkeypatch.setattr(study_command, "evaluate_all", evaluate_all)
    succeeded(command(*again[1:]))
    assert before.items() <= stamps(out).items()
    assert len(stamps(out)) == 2 * (1 + 2)  # a policy and two trainings of each of the two studies
    assert "This page renews itself" not in (out / f"{label}.html").read_text()
    shutil.copytree(out, tmp_path / "moved")
    succeeded(command("study", f"paper/{label}", "-o", tmp_path / "moved", "--resume", "--data", root))
    succeeded(command(*words, "--overwrite"))
    assert before.keys() & stamps(out).keys() == before.keys()
    assert not before.items() & stamps(out).items()


# --- listings ---------------------------------------------------------------------------------------------------------


def test_the_listing_says_what_every_table_needs_and_what_is_missing(root, command):
    def listed(*words: object) -> dict[str, str]:
        lines = succeeded(command("study", "paper", "--list", *words)).stdout.splitlines()
        return {line.partition(":")[0]: line for line in lines if line.startswith("paper/")}

    there, nowhere = listed("--data", root), listed()
    assert [*there] == [*nowhere] == [*assembly.NAMES]
    assert "no images" not in "".join(there.values())
    assert "186 H200 hours; no images of domainnet)" in nowhere["paper/domainnet"]
    assert "(8 studies, 56 H200 hours)" in there["paper/sota"]


def test_the_details_of_a_table_have_its_studies_and_what_the_paper_prints(root, command):
    text = succeeded(command("study", "paper/domainnet", "--list", "--data", root)).stdout
    assert f"domainnet:{root}/domainnet/real" in text
    (row,) = [line for line in text.splitlines() if line.startswith("trivialaugment-wide-imagenet")]
    assert row.split()[1:3] == ["5", "4"]
    assert row.rstrip().endswith("63.03 ± 0.07 %")


def test_hours_are_those_of_the_images_that_pass():
    """The main study of CIFAR-10 with WRN-40-2 takes about 4 x 7.6 minutes and 48 trainings of 4.5 minutes on an H200,
    as measured (docs/science/performance.md)."""
    hours = assembly.part_of("cifar10-wrn-40-2", None).gpu_hours
    assert hours == pytest.approx((4 * 7.6 + 48 * 4.5) / 60, rel=0.05)


# --- beside the paper -------------------------------------------------------------------------------------------------


def written(folder: Path, name: str, accuracies: dict[str, list[list[float]]]) -> None:
    """A study with the paper's images and trainings, and these accuracies."""
    recipe, rows = STUDIES[name], []
    for row, matrix in accuracies.items():
        both = nested(matrix) if len(matrix) > 1 else (accuracy(matrix[0]),) * 2
        rows.append(StudyRow(row, *both, None, [], matrix))
    (folder / name).mkdir(parents=True)
    study = Study(recipe=name, paper=recipe.paper, row=recipe.row, learned="slack (paper)")
    (folder / name / "study.yaml").write_text(parse.dump(study))
    found = StudyResults(rows, "", learned="slack (paper)")
    (folder / name / "study.json").write_text(results.to_json(**found._asdict()))


def test_ours_agree_with_the_papers_where_the_gap_is_within_both_intervals(tmp_path):
    def around(mean: float) -> list[list[float]]:
        return [[mean - 0.001, mean + 0.001, mean, mean] for _ in range(4)]

    accuracies = {"uniform": [[one for row in around(0.9611) for one in row]], "slack (paper)": around(0.97)}
    written(tmp_path, "cifar10-wrn-40-2", accuracies)
    found = assembly.summarise("norm", tmp_path, assembly.parts("norm", None))
    rows = {row.name: row for row in found.columns[0].rows}
    uniform, slack = rows["uniform (ablation table)"], rows["slack"]
    assert (uniform.agrees, slack.agrees) == (False, False)
    assert slack.gap == pytest.approx(0.71)
    assert (slack.evaluations.n, slack.searches.n) == (16, 4)
    assert rows["pi-only"].note.startswith("no images of cifar10") or "is not done yet" in rows["pi-only"].note
    assert found.answer == studying.answer_of_table(2, 2, 0)
    first = assembly.summarise("sota", tmp_path, assembly.parts("sota", None))
    by_name = {row.name: row for row in first.columns[0].rows}
    assert by_name["uniform"].agrees  # 96.12 there
    assert first.answer == studying.answer_of_table(2, 2, 1)
    assert "1 of 2 accuracies agree with the paper" in first.answer


def test_where_nothing_is_done_it_says_so(tmp_path):
    found = assembly.summarise("ablation-warm", tmp_path, assembly.parts("ablation-warm", None))
    assert found.answer == "There is no answer yet: none of the studies is done."
