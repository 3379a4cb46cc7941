"""benchmarks/sets.py: it reads what studies leave, and adjusts p-values for their number."""

import json
import sys
from pathlib import Path

import pytest
from rich.console import Console
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import sets
import slackaug
import tiny
from slackaug import confirm, learn
from slackaug.evaluation import trial


@pytest.fixture
def study(tiny_npz, tmp_path, monkeypatch):
    """Nothing of what its searches learn is kept."""
    monkeypatch.setattr(trial, "seconds_of", lambda one: 0.0)
    monkeypatch.setattr(learn, "search_seconds", lambda *_: 0.0)
    monkeypatch.setattr(confirm, "MARGIN", 2.0)
    settings = tiny.assignments(confirm="true", search__kl_budget=0.01, evaluate__epochs=1)
    options = {"n_search": 2, "n_eval": 1, "baselines": ["uniform-2", "none"]}
    slackaug.study("quick", tmp_path / "one", data=tiny_npz, set=settings, console=Console(quiet=True), **options)
    return tmp_path / "one"


def test_holm():
    assert sets.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])  # never below one that is smaller
    assert sets.holm([0.5, 0.9]) == [1.0, 1.0]
    assert sets.holm([0.02]) == [0.02]


def test_accuracies_are_paired_by_the_seed_of_the_search(tmp_path):
    (tmp_path / "eval").mkdir()
    rows = ["policy,seed,accuracy", "uniform-2,0,0.5", "uniform-2,1,0.6", '"slack, search 0",0,0.55',
            '"slack, search 1",1,0.7']  # fmt: skip
    (tmp_path / "eval" / "results.csv").write_text("\n".join(rows))
    found = sets.accuracies(tmp_path)
    assert found["uniform-2"] == pytest.approx({0: 50.0, 1: 60.0})
    assert found["slack"] == pytest.approx({0: 55.0, 1: 70.0})


def test_a_study_is_described(study, monkeypatch, capsys):
    out = study.parent / "sets.json"
    monkeypatch.setattr(sys, "argv", ["sets.py", str(study), "--out", str(out)])
    sets.main()
    (found,) = json.loads(out.read_text())
    assert found["set"] == "one"
    assert found["kept"] == [0.0, 0.0]
    assert found["positions of what was learned"] == found["positions of the results"] == [3, 3]
    assert found["stability"]["pi"] < 1  # of what was learned; the results are both uniform
    assert all(share == pytest.approx(1, abs=0.01) for share in found["KL of a round over its budget"])
    difference = found["slack less"]["uniform-2"]
    assert difference["p"] == pytest.approx(stats.ttest_1samp(difference["each"], 0).pvalue, nan_ok=True)
    by_seed = sets.accuracies(study)
    assert difference["each"] == pytest.approx([by_seed["slack"][i] - by_seed["uniform-2"][i] for i in (0, 1)])
    printed = capsys.readouterr().out
    assert "| one | small |" in printed
    assert "slack less none" in printed
