"""research/sets.py: it reads what studies leave, and adjusts p-values for their number."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from rich.console import Console
from scipy import stats

import sets
import slackaug
import tiny
from slackaug.augment.policy import Policy
from slackaug.auto import timing
from slackaug.judge import training


def test_holm_corrects_for_the_number_of_sets():
    assert sets.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])  # never below one that is smaller
    assert (sets.holm([0.5, 0.9]), sets.holm([0.02])) == ([1.0, 1.0], [0.02])
    nothing = sets.p_value([0.0, 0.0, 0.0])  # leaves other sets their p
    assert (sets.holm([nothing, 0.001]), sets.holm([0.001, nothing])) == ([1.0, 0.002], [0.002, 1.0])
    assert sets.p_value([1.0, 2.0, 4.0]) == pytest.approx(stats.ttest_1samp([1.0, 2.0, 4.0], 0).pvalue)


def test_a_study_is_described(tiny_npz, tmp_path, monkeypatch, capsys):
    """One of two searches, of which nothing is kept; one is to leave images as they are."""
    monkeypatch.setattr(training, "seconds_of", lambda one: 0.0)
    monkeypatch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(0.0, 0.0, 0.0))
    study, options = tmp_path / "one", {"searches": 2, "evaluations": 1, "baselines": ["uniform-2", "none"]}
    options["set"] = tiny.assignments(search__kl_budget=0.01, evaluate__epochs=1)
    slackaug.study("quick", study, data=tiny_npz, console=Console(quiet=True), **options)
    found = study / "searches" / "1" / "policy.json"
    Policy.load(found).with_composed(0).save(found)
    rows = ["policy,seed,accuracy", "uniform-2,1,0.6", "uniform-2,0,0.5", "none,0,0.5", "none,1,0.9"]
    rows += ['"auto, search 0",0,0.51', '"auto, search 1",1,0.611']
    (study / "eval" / "results.csv").write_text("\n".join(rows))
    other = Path(shutil.copytree(study, study.parent / "other"))
    out = study.parent / "sets.json"
    monkeypatch.setattr(sys, "argv", ["sets.py", str(study), str(other), "--out", str(out)])
    sets.main()
    found, _ = json.loads(out.read_text())
    assert (found["set"], found["kept"]) == ("one", [None, None])
    assert (found["positions of what was learned"], found["positions of the results"]) == ([3, 3], [3, 0])
    assert found["stability"]["pi"] < 1  # of what was learned, as are the probabilities
    assert found["pi over uniform"]["Identity"] < 2
    assert all(share == pytest.approx(1, abs=0.01) for share in found["KL of a round over its budget"])
    assert found["slack less"]["uniform-2"]["each"] == pytest.approx([1.0, 1.1])  # each with the seed of its search
    assert found["slack less"]["none"]["each"] == pytest.approx([1.0, -28.9])
    assert found["slack less"]["uniform-2"]["p"] == pytest.approx(0.0303, abs=1e-4)
    printed = capsys.readouterr().out
    assert "| one | small |" in printed
    assert "| one | +1.05 ± 0.64 | 0.0303 | 0.0606 | not distinguishable |" in printed  # one set alone would be better
    shutil.rmtree(study / "searches" / "1")
    with pytest.raises(SystemExit, match="expected a study of two searches or more"):
        sets.describe(study)


def test_searches_come_by_number(tmp_path):
    for number in (0, 2, 10):
        (tmp_path / "searches" / str(number)).mkdir(parents=True)
        (tmp_path / "searches" / str(number) / "policy.json").touch()
    assert [path.name for path in sets.searches(tmp_path)] == ["0", "2", "10"]
