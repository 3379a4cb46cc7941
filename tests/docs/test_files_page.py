"""docs/reference/files.md names every file of a run and an evaluation, and every key in them."""

import json
import re
from pathlib import Path

import pytest

import slackaug
import tiny
from slackaug.judge import results
from slackaug.judge.studies.results import StudyResults

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "files.md"
WRITTEN = {word for code in re.findall(r"`([^`]+)`", PAGE.read_text(encoding="utf-8")) for word in code.split(", ")}
KEYED = ("policy.json", "answer.json", "results.json")
PART = re.compile(r"(theta_0|theta|momentum)-.*\.pt|\d{6}\.pt|round_\d\d\.json")
SHOWN_AS = {"round": "round_01.json", "theta": "theta-….pt", "theta_0": "theta_0-….pt", "momentum": "momentum-….pt"}


@pytest.fixture(scope="module")
def run(tiny_npz, tmp_path_factory):
    """One that pre-trains with several, calibrates, and is evaluated."""
    out = tmp_path_factory.mktemp("run") / "run"
    slackaug.search(tiny_npz, out, set=tiny.assignments(n_composed="null", search__calibrate="true"))
    slackaug.evaluate(tiny_npz, [out], baselines=["none"], seeds=1, set=tiny.EVALUATION)
    return out


def shown(path: Path) -> str:
    """The name that the page has for it."""
    if not PART.fullmatch(path.name):
        return path.name + "/" * path.is_dir()
    return SHOWN_AS.get(path.name.partition("_0" if "round" in path.name else "-")[0], "000042.pt")


def test_every_file_of_a_run_is_named(run):
    found = {shown(path) for path in run.rglob("*") if "trials" not in path.parts}
    assert {"finished.json", "theta-….pt"} <= found
    assert found - {"trials/"} <= WRITTEN | {"eval/"}


def keys(document: object) -> set[str]:
    """Of the object, and of the objects in its lists."""
    if isinstance(document, list):
        return {key for one in document for key in keys(one)}
    if not isinstance(document, dict):
        return set()
    return {*document} | {key for one in document.values() if isinstance(one, list) for key in keys(one)}


def test_every_key_is_named(run):
    files = [path for name in KEYED for path in run.rglob(name)]
    found = {key for path in files for key in keys(json.loads(path.read_text()))}
    found |= {key for line in tiny.metrics(run) for key in line}
    assert {"schema_version", "answer", "train_loss", "val_loss", "balanced_accuracy"} <= found
    assert found <= WRITTEN, f"not on the page: {found - WRITTEN}"


def test_columns_and_the_summary_of_a_study_are_named():
    assert {*results.COLUMNS, *StudyResults._fields} <= WRITTEN
