"""What the page takes from the files of results: the answer, a table, a chart of intervals."""

import json
import re
from dataclasses import replace

import pytest

import made_up
from slackaug import schema
from slackaug.augment.policy import Policy
from slackaug.judge import baselines, candidates, intervals
from slackaug.messages import names
from slackaug.report import accuracies, outcome, page


@pytest.mark.parametrize(
    "name", [*baselines.BASELINES, "randaugment-3-14", "slack (paper)", "slack (paper, changed)", "auto"]
)
def test_every_name_of_ours_has_a_meaning(name):
    assert names.meaning(name)
    assert not names.meaning(f"file:{name}.json")


def test_the_policy_is_judged_against_every_baseline(tmp_path):
    folder = made_up.evaluation(tmp_path, ("none", "worst", "uniform", "runs/a", "runs/a b"))
    found = outcome.read(folder)
    assert (found.tone, found.reference) == ("better", "none")
    assert [sentence.partition(" (")[0].partition(":")[0] for sentence in found.others] == [
        "runs/a b is 1.20 points ahead of worst in each of 4 seeds",
        "runs/a b is 1.0 points better than 3 random transformations per image",
        "runs/a b is 0.4 points better than runs/a",
    ]
    assert all(sentence in page.render(folder) for sentence in found.others)


def test_a_study_names_the_row_of_what_was_learned(tmp_path):
    found = outcome.read(made_up.study(tmp_path, n_search=2, n_rounds=1))
    assert (found.tone, found.reference, found.kept) == ("better", "uniform", (made_up.LEARNED, "kept in 2 of 2"))
    assert f"<bdi>{made_up.LEARNED}</bdi>, kept in 2 of 2" in page.render(tmp_path)
    assert "<td><bdi>96.20 ± 0.10 %</bdi>" in page.render(tmp_path)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"policies": 3}', '{"answer": "x", "policies": [], "subject": "a", "reference": 1}']
)
def test_foreign_results_are_said_in_one_line(tmp_path, content):
    folder = made_up.evaluation(made_up.run(tmp_path, n_rounds=1))
    (folder / "eval" / "results.json").write_text(content)
    text = page.render(folder)
    assert "The file with the results of the evaluation is broken. The reason: results.json: " in text
    assert str(folder) not in text


def test_the_chart_of_intervals_holds_them_all(tmp_path):
    """Of names that bite."""
    found = outcome.read(made_up.evaluation(tmp_path))
    axis = accuracies.axis(outcome.marks(found))
    for low, high in (row.accuracy.ends for row in found.rows):
        assert 0 < axis.at(low) <= axis.at(high) < 100
    assert len(axis.ticks) > 1
    for place in re.findall(r'class="(?:dot|whisker)" style="left:([^%]*)%', page.render(tmp_path)):
        assert 0 < float(place) < 100
    assert found.tone == "better"


def test_the_chart_names_no_accuracy_that_cannot_be():
    for mean in (1.0, 0.0):
        axis = accuracies.axis([accuracies.Mark("a", intervals.Accuracy(mean, None, None, 3))])
        assert 0 < axis.at(mean) < 100
        assert mean in axis.ticks
        assert all(0 <= tick <= 1 for tick in axis.ticks)


def test_one_policy_without_an_interval(tmp_path):
    accuracy = {"mean": 1.0, "low": None, "high": None, "n": 1, "unit": "seed"}
    row = {"name": "a", "accuracy": accuracy, "balanced_accuracy": accuracy, "difference": None}
    document = {"answer": "Use a.", "use": "b", "subject": "a", "reference": None}
    document["policies"] = [row | {"trials": [], "seconds": 1, "images_per_second": 2}]
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "results.json").write_text(json.dumps(document))
    found = outcome.read(tmp_path)
    assert found.tone == "open"
    assert 'class="whisker" style="left:50.0%;width:0.0%"' in page.render(tmp_path)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"high": 1.01}, "expected 0 <= low <= mean <= high <= 1"),
        ({"low": 0.95}, "expected 0 <= low <= mean <= high <= 1"),
        ({"low": None}, "both ends of an interval, or neither"),
    ],
)
def test_an_interval_that_leaves_the_scale_or_its_mean_is_refused(changed, says):
    one = intervals.Accuracy(0.9, 0.8, 0.99, 4)
    outcome.check(one)
    with pytest.raises(schema.PolicyError, match=says):
        outcome.check(one._replace(**changed))


@pytest.mark.parametrize(
    ("use", "is_policy", "called"),
    [
        ("learned", True, "the learned policy"),
        ("learned-x2", True, "the learned policy taken 2 times as far"),
        ("uniform-2", True, "the answer of this search (2 random transformations per image)"),
        ("trivialaugment-wide", False, "the learned policy"),
    ],
)
def test_the_policy_of_a_run_is_called_what_it_is(tmp_path, use, is_policy, called):
    """Also in sentences; another run that is called alike is not it."""
    folder = made_up.raced(made_up.run(tmp_path / "pets", n_rounds=1), use, is_policy=is_policy)
    own = candidates.digest((folder / "policy.json").read_bytes())
    made_up.evaluation(folder, ("none", "runs/pets-2", "runs/pets"), {"runs/pets-2": "another", "runs/pets": own})
    found = outcome.with_own_names(outcome.read(folder), folder)
    assert [row.name for row in found.rows] == ["none", "runs/pets-2", called]
    assert found.subject == called
    assert called in found.answer
    assert "runs/pets" not in found.answer
    assert re.findall(r"runs/pets[\w-]*", " ".join(found.others)) == ["runs/pets-2"]
    assert "<bdi>runs/pets</bdi>" not in page.render(folder)


def test_a_policy_that_nothing_has_been_learned_of_is_not_called_learned(tmp_path):
    folder = made_up.raced(made_up.run(tmp_path / "pets", n_rounds=1), "trivialaugment-wide", is_policy=False)
    policy = Policy.load(folder / "policy.json")
    replace(policy, learned=policy.learned | {"rounds": 0}).save(folder / "policy.json")
    now = candidates.digest((folder / "policy.json").read_bytes())
    made_up.evaluation(folder, ("none", "runs/pets"), {"runs/pets": now})
    assert outcome.with_own_names(outcome.read(folder), folder).subject == "the policy that learning starts from"


@pytest.mark.parametrize("is_final", [True, False])
def test_an_evaluation_of_an_earlier_policy_is_not_called_the_answer(tmp_path, is_final):
    """By its digest, whatever the folder is called: the run may have been continued since."""
    folder = made_up.run(tmp_path / "pets", n_rounds=1)
    early = candidates.digest((folder / "policy.json").read_bytes())
    made_up.raced(folder, "uniform-2")
    document = json.loads((folder / "policy.json").read_text())
    document["learned"]["is_final"] = is_final
    (folder / "policy.json").write_text(json.dumps(document))
    now = candidates.digest((folder / "policy.json").read_bytes())
    made_up.evaluation(folder, ("none", "copy.json", "runs/pets"), {"copy.json": now, "runs/pets": early})
    found = outcome.with_own_names(outcome.read(folder), folder)
    answer = f"the answer of this search{'' if is_final else ' so far'} (2 random transformations per image)"
    other = "runs/pets (another policy than this run has now)"
    assert [row.name for row in found.rows] == ["none", answer, other]
    assert (found.subject, found.answer.count(other), answer in found.answer) == (other, 1, False)
    made_up.evaluation(folder, ("none", "runs/pets"))  # of a version that wrote no digests: nobody knows
    found = outcome.with_own_names(outcome.read(folder), folder)
    assert "the answer of this search" not in found.answer


def test_a_table_has_no_empty_column(tmp_path):
    headers, rows = outcome.table(outcome.read(made_up.evaluation(tmp_path, ("none", "uniform"))))
    assert headers == ["policy", "accuracy, 95 % interval", "to none, points", "n", "time each"]
    assert [bool(row[2]) for row in rows] == [False, True]
    headers, rows = outcome.table(outcome.read(made_up.evaluation(tmp_path, ("none",))))
    assert headers == ["policy", "accuracy, 95 % interval", "n", "time each"]
    assert all(cell for row in rows for cell in row)
    assert {len(row) for row in rows} == {len(headers)}


@pytest.mark.parametrize("has_race", [True, False])
def test_beside_the_answer_of_a_race_an_evaluation_says_what_it_is(tmp_path, has_race):
    folder = made_up.evaluation(made_up.run(tmp_path / "pets", n_rounds=1), ("none", "uniform"))
    if has_race:
        made_up.raced(folder, "learned")
    text = " ".join(page.render(folder).split())
    for says in ("This is another comparison than the answer at the top.", "If the two disagree, it may be chance"):
        assert (says in text) is has_race


@pytest.mark.parametrize(("epochs", "are_alike"), [(None, True), (200, True), (2, False), (1, False)])
def test_an_evaluation_with_other_epochs_than_the_race_is_not_compared_with_it(tmp_path, epochs, are_alike):
    folder = made_up.raced(made_up.evaluation(made_up.run(tmp_path, n_rounds=1), ("none", "uniform")), "learned")
    path = folder / "eval" / "results.json"
    if epochs is not None:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"protocol": {"fit": {"epochs": epochs}}}))
    text = " ".join(page.render(folder).split())
    assert ("If the two disagree, it may be chance" in text) is are_alike
    assert ("Do not compare the two." in text) is not are_alike
    if not are_alike:
        assert f"A training had {epochs} epoch{'s' * (epochs > 1)} here, and 200 in the race." in text
