"""Rows, sentences, files and the table of several policies, from made-up results."""

import csv
import io
import json
from functools import partial

import numpy as np
import pytest
from rich.console import Console

import slackaug
import tiny
from slackaug.data.options import DataConfig
from slackaug.engine.fit import FitConfig
from slackaug.judge import results
from slackaug.judge.protocols import Protocol
from slackaug.judge.results import Results, judge, make_rows
from slackaug.judge.verdicts import Terms
from slackaug.messages import comparing
from slackaug.report import outcome

TERMS = Terms(0.0, 1, 0.0, [])
PROTOCOL = Protocol(data=DataConfig(source="x"), data_digest="", model="small", space="cifar", fit=FitConfig())


def found(imbalance: float = 1.0, **accuracies: list[float]) -> dict[str, list[dict]]:
    """With a mean over classes that is half of the accuracy."""
    return {
        name: [
            {"seed": seed, "accuracy": value, "top5": None, "ece": 0.1, "loss": 1.0, "seconds": 60.0 + seed,
             "images_per_second": 1000.0, "balanced_accuracy": value / 2, "imbalance": imbalance}
            for seed, value in enumerate(values)
        ]
        for name, values in accuracies.items()
    }  # fmt: skip


def made(reference: str | None = "none", imbalance: float = 1.0, **accuracies: list[float]) -> Results:
    rows = make_rows(found(imbalance, **accuracies), reference)
    subject = rows[-1].name
    return Results(
        PROTOCOL, ("a", "b"), subject, reference, rows, *judge(rows, subject, reference, TERMS), {"duplicates": 3}
    )


def test_differences_are_of_the_seeds_that_both_have():
    rows = make_rows(found(none=[0.5, 0.6], mine=[0.7, 0.8, 0.9], later=[]), "none")
    assert [row.name for row in rows] == ["none", "mine"]  # one without a finished training has no row yet
    assert rows[1].difference.n == 2
    assert rows[1].difference.mean == pytest.approx(0.2)
    assert rows[0].difference is None


@pytest.mark.parametrize(
    ("none", "mine", "cell"),
    [
        ([0.6] * 4, [0.7, 0.72] * 2, "+11.00 ± 1.84"),
        ([0.5] * 4, [0.6] * 4, "+10.00\n(all equal)"),
        ([0.5] * 4, [0.5] * 4, "+0.00\n(all equal)"),
        ([0.6] * 3, [0.7, 0.72, 0.7], "+10.67"),
        ([0.5] * 2, [0.5] * 2, "+0.00"),
        ([0.5] * 4, [0.6], "+10.00"),
    ],
)
def test_a_difference_without_spread_or_of_too_few_is_shown_without_an_interval(none, mine, cell):
    assert results.points(make_rows(found(none=none, mine=mine), "none")[1].difference) == cell


def test_policies_that_share_no_seed_yet_have_no_verdict():
    """Trainings end in any order, and some may fail: results are written all the while."""
    trials = found(none=[0.5, 0.6], mine=[0.7])
    rows = make_rows(trials | {"none": trials["none"][1:]}, "none")
    assert rows[1].difference is None
    assert judge(rows, "mine", "none", TERMS).answer == (
        "Use no augmentation for now. mine cannot be compared with it: they share no seed, so there is no interval."
    )


def test_the_smallest_gain_that_could_have_been_seen():
    assert results.seen(None, None) == []
    cases = (
        ([0.7, 0.71, 0.7, 0.71], 1, "better"),
        ([0.55, 0.5, 0.55, 0.5], 1, "ahead"),
        ([0.5, 0.52, 0.48, 0.5], 1, "equal"),
        ([0.7] * 4, 0, "unknown"),
        ([0.7, 0.71], 0, "unknown"),
        ([0.3, 0.6, 0.4, 0.7], 0, "unknown"),  # the answer says it
    )
    for mine, n, case in cases:
        rows = make_rows(found(none=[0.5] * 4, mine=mine), "none")
        judged, one = judge(rows, "mine", "none", TERMS._replace(worth=0.05)), rows[1].difference
        assert judged.verdict == case
        assert results.seen(one, judged.verdict) == n * [
            f"A gain under {100 * one.half_width:.1f} points could not have been seen."
        ]


@pytest.mark.parametrize(("subject", "reference"), [("a", None), (None, "a"), ("a", "a"), ("a", "missing")])
def test_nothing_to_compare(subject, reference):
    rows = make_rows(found(a=[0.5, 0.6]), None)
    assert judge(rows, subject, reference, TERMS) == (comparing.NOTHING_TO_COMPARE, None, None, ())


def test_the_answer_names_another_that_is_better_still():
    equal, good, best = [0.5, 0.51, 0.49, 0.5], [0.61, 0.6, 0.59, 0.6], [0.7, 0.71, 0.7, 0.69]
    rows = make_rows(found(none=equal, best=best, same=[0.6, 0.6, 0.6, 0.61], mine=good), "none")
    sentence, use, case, others = judge(rows, "mine", "none", TERMS)
    assert (use, case) == ("mine", "better")
    assert sentence.startswith("Use mine. It is 10.0 points better than no augmentation (95 % interval ")
    assert "But best did better still (+10.0 points, 95 % interval " in sentence
    assert sentence.endswith("over mine).")
    found_of_others = [
        "best is 10.0 points better than mine",
        "mine is 0.3 points behind same here, which may be chance",
    ]
    assert [text.partition(" (")[0] for text in others] == found_of_others
    assert "But" not in judge(rows, "best", "none", TERMS).answer
    assert "over no augmentation" in judge(make_rows(found(none=equal, mine=equal[::-1], best=best), "none"),
                                           "mine", "none", TERMS).answer  # fmt: skip


def test_whether_all_guess_depends_on_how_many_images_they_were_tested_on():
    rows = make_rows(found(none=[0.4, 0.41, 0.39, 0.4], mine=[0.45, 0.44, 0.45, 0.46]), "none")
    for n_images, use in ((10, None), (1000, "mine")):
        assert judge(rows, "mine", "none", Terms(0.0025, n_images, 0.35, [])).use == use


def test_files(tmp_path):
    results.write(made(imbalance=9.0, none=[0.5, 0.25], **{"a, b": [0.75]}), tmp_path)
    document = json.loads((tmp_path / "results.json").read_text())
    assert (document["duplicates"], document["class_names"], document["reference"]) == (3, ["a", "b"], "none")
    assert [document[key] for key in ("subject", "use", "verdict", "others")] == ["a, b", "none", "unknown", []]
    assert document["answer"].startswith(
        "Use no augmentation for now. With 1 seed, a, b cannot be compared with it yet: "
    )
    none, other = document["policies"]
    assert other["accuracy"] == {"mean": 0.75, "low": None, "high": None, "n": 1, "unit": "seed"}
    assert (document["imbalance"], none["balanced_accuracy"]["mean"]) == (9.0, 0.1875)
    assert (other["difference"]["n"], none["difference"]) == (1, None)
    rows = csv.DictReader((tmp_path / "results.csv").read_text().splitlines())
    keys = ("policy", "accuracy", "balanced_accuracy", "top5")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("none", "0.5", "0.25", ""), ("none", "0.25", "0.125", ""), ("a, b", "0.75", "0.375", ""),
    ]  # fmt: skip


def shown(made_up: Results, width: int) -> str:
    screen = io.StringIO()
    Console(file=screen, width=width).print(results.table(made_up, width))
    return screen.getvalue()


def test_the_table_fits_80_columns_and_names_are_no_markup():
    text = shown(made(none=[0.5, 0.6, 0.4, 0.5], **{"[red]trivialaugment-wide": [0.985, 0.995, 0.99, 1.0]}), 80)
    assert "…" not in text
    assert "99.25 % (97.08 to 99.81)" in text
    assert "+49.25 ± 12.70" in text
    assert "1 min 02 s" in text
    assert "".join(line.split("│")[1].strip() for line in text.splitlines() if "│" in line).endswith(
        "[red]trivialaugment-wide"
    )


def test_a_name_is_split_only_where_no_look_has_room_for_it():
    trials = {"none": [0.5, 0.6, 0.4, 0.5], "trivialaugment-wide": [0.985, 0.995, 0.99, 1.0]}
    for width, is_boxed in ((80, False), (100, True)):
        text = shown(made(**trials), width)
        assert [fact for fact in ("trivialaugment-wide", "1 min 02 s", "+49.25 ± 12.70") if fact not in text] == []
        assert (max(map(len, text.splitlines())) <= width, "│" in text) == (True, is_boxed)
    assert "│" in shown(made(none=[0.5, 0.6], mine=[0.7, 0.8]), 80)


def test_a_long_name_to_compare_with_leaves_room_for_the_others():
    trials = {"trivialaugment-wide": [0.5, 0.6, 0.4, 0.5], "mine": [0.715, 0.725, 0.715, 0.725]}
    for results_of in (made, partial(made, imbalance=3.0)):
        narrow, wide = (shown(results_of(reference="trivialaugment-wide", **trials), width) for width in (80, 140))
        assert [line.split()[0] for line in narrow.splitlines()[-2:]] == ["trivialaugment-wide", "mine"]
        assert "+22.00 ± 12.36" in narrow
        assert "to trivialaug…," in narrow
        assert "to trivialaugment-wide," in wide


def test_where_classes_are_rare_the_mean_over_classes_is_shown():
    trials = {"none": [0.5, 0.6, 0.4, 0.5], "trivialaugment-wide": [0.715, 0.725, 0.715, 0.725]}
    text = shown(made(imbalance=3.0, **trials), 80)
    assert [part for part in ("mean over", "36.00 %", "72.00 % (71.07 to 72.91)") if part not in text] == []
    assert "…" not in text
    assert "mean over" not in shown(made(imbalance=2.9, **trials), 80)
    assert "35.75 %" in shown(made(imbalance=3.0, none=[0.5], mine=[0.715]), 80)
    alike = [made(imbalance=n, none=[0.5, 0.5, 0.51, 0.5], mine=[0.7, 0.71, 0.72, 0.7]).answer for n in (1.0, 9.0)]
    assert all(
        text.startswith("Use mine. It is 20.5 points better than no augmentation (95 % interval ") for text in alike
    )


def test_an_evaluation_shows_it(tmp_path):
    arrays = tiny.arrays(n_test=12)
    arrays["test_labels"] = np.array([0] * 9 + [1] * 3)  # and none of the third class
    np.savez(tmp_path / "x.npz", **arrays)
    console = Console(width=160, file=io.StringIO())
    fit = ["evaluate.epochs=1", "evaluate.batch=4"]
    found = slackaug.evaluate(tmp_path / "x.npz", baselines=["none"], seeds=1, out=tmp_path, set=fit, console=console)
    assert found.imbalance == 3.0
    (one,) = found.rows[0].trials
    assert one["balanced_accuracy"] == pytest.approx(sum(one["per_class"][:2]) / 2)
    assert one["per_class"][2] is None
    assert f"{100 * one['balanced_accuracy']:.2f} % │" in console.file.getvalue()
    headers, rows = outcome.table(outcome.read(tmp_path))
    assert dict(zip(headers, rows[0], strict=True))["mean over classes"] == f"{100 * one['balanced_accuracy']:.2f} %"


def test_without_a_baseline_there_is_no_column_for_differences():
    assert "None" not in shown(made(reference=None, a=[0.5], b=[0.6]), 80)


def test_the_sentence_does_not_hide_copies_and_different_ways():
    rows = make_rows(found(none=[0.5, 0.6], mine=[0.7, 0.8]), "none")
    assert results.reservations(rows, 6, 0) == ""
    assert "2 of 6 test images" in results.reservations(rows, 6, 2)
    for row, way in zip(rows, ("cpu, plain", "cuda, captured, bfloat16"), strict=True):
        for trial in row.trials:
            trial["way"] = way
    assert "cpu, plain; cuda, captured, bfloat16" in results.reservations(rows, 6, 0)
