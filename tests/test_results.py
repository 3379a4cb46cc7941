"""Rows, sentences, files and the table of several policies, from made-up results."""

import csv
import io
import json

import pytest
import torch
from rich.console import Console

from slackaug import data
from slackaug.data import Split
from slackaug.evaluation import results
from slackaug.evaluation.results import Results, judge, make_rows
from slackaug.evaluation.trial import Protocol
from slackaug.fit import FitConfig
from slackaug.recipes import DataConfig

PROTOCOL = Protocol(data=DataConfig(source="x"), data_digest="", model="small", space="cifar", fit=FitConfig())


TRAIN, TEST = (Split(torch.zeros(n, 3, 8, 8, dtype=torch.uint8), torch.arange(n) % 3) for n in (24, 6))


def found(**accuracies: list[float]) -> dict[str, list[dict]]:
    return {
        name: [
            {"seed": seed, "accuracy": value, "top5": None, "ece": 0.1, "loss": 1.0, "seconds": 60.0 + seed,
             "images_per_second": 1000.0}
            for seed, value in enumerate(values)
        ]
        for name, values in accuracies.items()
    }  # fmt: skip


def made(reference: str | None = "none", **accuracies: list[float]) -> Results:
    rows = make_rows(found(**accuracies), reference)
    return Results(PROTOCOL, ("a", "b"), reference, rows, judge(rows, rows[-1].name, reference), {"duplicates": 3})


def test_a_policy_without_a_finished_training_has_no_row_yet():
    assert [row.name for row in made(none=[0.5], mine=[]).rows] == ["none"]


def test_differences_are_of_the_seeds_that_both_have():
    rows = make_rows(found(none=[0.5, 0.6], mine=[0.7, 0.8, 0.9]), "none")
    assert rows[1].difference.n == 2
    assert rows[1].difference.mean == pytest.approx(0.2)
    assert rows[0].difference is None


@pytest.mark.parametrize(
    ("mine", "sentence"),
    [
        ([0.7, 0.71, 0.72], "mine is better than none: "),
        ([0.3, 0.31, 0.32], "mine is worse than none: "),
        ([0.4, 0.61, 0.55], "mine is not distinguishable from none: "),
    ],
)
def test_the_sentence(mine, sentence):
    assert made(none=[0.5, 0.5, 0.51], mine=mine).verdict.startswith(sentence)


@pytest.mark.parametrize(
    ("mine", "cell"),
    [([0.7, 0.72], "+11.00 ± 12.71"), ([0.6, 0.6], "+10.00"), ([0.5, 0.5], "+0.00"), ([0.6], "+10.00")],
)
def test_a_difference_without_spread_is_shown_without_an_interval(mine, cell):
    rows = make_rows(found(none=[0.6, 0.6] if mine[-1] == 0.72 else [0.5, 0.5], mine=mine), "none")
    assert results.points(rows[1].difference) == cell


def test_policies_that_share_no_seed_yet_have_no_verdict():
    """Trainings end in any order, and some may fail: results are written all the while."""
    trials = found(none=[0.5, 0.6], mine=[0.7])
    rows = make_rows(trials | {"none": trials["none"][1:]}, "none")
    assert rows[1].difference is None
    assert "they share no seed" in judge(rows, "mine", "none")


@pytest.mark.parametrize(("subject", "reference"), [("a", None), (None, "a"), ("a", "a"), ("a", "missing")])
def test_nothing_to_compare(subject, reference):
    rows = make_rows(found(a=[0.5, 0.6]), None)
    assert judge(rows, subject, reference).startswith("Nothing to compare")


def test_files(tmp_path):
    made_up = made(none=[0.5], **{"a, b": [0.75]})
    results.write(made_up, tmp_path)
    document = json.loads((tmp_path / "results.json").read_text())
    assert (document["duplicates"], document["class_names"], document["reference"]) == (3, ["a", "b"], "none")
    assert document["policies"][1]["accuracy"] == {"mean": 0.75, "half_width": None, "n": 1, "unit": "seed"}
    text = (tmp_path / "results.csv").read_text()
    (row,) = [row for row in csv.DictReader(text.splitlines()) if row["policy"] == "a, b"]
    assert (row["accuracy"], row["top5"]) == ("0.75", "")


def shown(made_up: Results, width: int) -> str:
    screen = io.StringIO()
    Console(file=screen, width=width).print(results.table(made_up))
    return screen.getvalue()


def test_the_table_fits_80_columns_and_names_are_no_markup():
    text = shown(made(none=[0.5, 0.6], **{"[red]trivialaugment-wide": [0.715, 0.725]}), 80)
    assert "…" not in text
    assert "72.00 ± 6.35 %" in text
    assert "+17.00 ± 57.18" in text
    assert "1 min 00 s" in text
    assert "".join(line.split("│")[1].strip() for line in text.splitlines() if "│" in line).endswith(
        "[red]trivialaugment-wide"
    )


def test_without_a_baseline_there_is_no_column_for_differences():
    assert "None" not in shown(made(reference=None, a=[0.5], b=[0.6]), 80)


def test_the_sentence_does_not_hide_copies_and_different_ways():
    source = data.build("tiny", TRAIN, TEST, ["a", "b", "c"])
    rows = make_rows(found(none=[0.5, 0.6], mine=[0.7, 0.8]), "none")
    assert results.reservations(rows, source, 0) == ""
    assert results.reservations(rows, source, 2) == " But 2 of 6 test images are copies of training images."
    for row, way in zip(rows, ("cpu, plain", "cuda, captured, bfloat16"), strict=True):
        for trial in row.trials:
            trial["way"] = way
    assert "in different ways, which differ by rounding: cpu, plain; cuda, captured, bfloat16." in results.reservations(
        rows, source, 0
    )
