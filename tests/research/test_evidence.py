"""research/evidence.py: what is measured next, what is kept of it, and what the table says."""

import io
import json
import os
import signal
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import evidence
import evidence_cells as cells
import evidence_sets
import evidence_table
import tiny
from evidence_cells import AUTO, FIXED, Block, Book
from evidence_table import Demand
from slackaug.augment.policy import Policy
from slackaug.data import load
from slackaug.judge import training
from slackaug.judge.intervals import Interval

SETTINGS = {"preset": "fast", "model": "wrn-16-2", "worth": 0.25}
ORIGIN = {"hardware": "a card", "commit": "abc"}


def auto(use="uniform-2", seed=0, old="learned"):
    return {
        "row": AUTO,
        "seed": seed,
        "seconds": 61.0,
        "answer": {"use": use, "verdict": "unknown", "gain": 0.3, "gain_of": "learned",
                   "interval": [-0.5, 1.1], "other": "learned", "n_trainings": 54},
        "old_rule": old and {"use": old, "loss": 0.9, "loss_before": 1.0},
        "policy": Policy.uniform("cifar", n_composed=2).to_dict(),
    }  # fmt: skip


def fresh(row, accuracies, first=cells.FIRST_SEED):
    return [{"row": row, "seed": first + i, "accuracy": one} for i, one in enumerate(accuracies)]


def book(name="a", *groups):
    found = Book(name, SETTINGS)
    found.add([cell for group in groups for cell in group], ORIGIN)
    return found


def measured(use="uniform-2", old="learned", **means):
    """All fixed candidates at 80 %, but for those that are given; seeds differ by 0.1 points on their own."""
    means = dict.fromkeys(FIXED, 0.8) | {row.replace("_", "-"): mean for row, mean in means.items()}
    rows = (
        fresh(row, [mean + 0.001 * (-1) ** (i + n) for i in range(4)]) for n, (row, mean) in enumerate(means.items())
    )
    return book("a", [auto(use, old=old)], *rows)


# --- what is next -----------------------------------------------------------------------------------------------------


def test_first_all_searches_then_half_of_the_seeds_of_each_row_then_the_others():
    blocks = cells.missing({"a": book("a", [auto()]), "b": book("b")})
    assert blocks[0] == Block("b", AUTO, (0,))
    first, then = tuple(range(7000, 7008)), tuple(range(7008, 7016))
    assert blocks[1:3] == [Block("a", "none", first), Block("b", "none", first)]  # sets take turns
    rows = [*FIXED, "learned@0"]
    half = [block for block in blocks[1:] if block.seeds == first]
    assert [block.row for block in half if block.set == "a"] == rows
    assert [block.row for block in half if block.set == "b"] == [*FIXED]  # its search comes first
    assert blocks[1:] == half + [block._replace(seeds=then) for block in half]


def test_only_what_is_missing_is_measured_and_another_search_comes_last():
    rows = [fresh(row, [0.5] * 16) for row in [*FIXED, "learned@0"] if row != "default"]
    found = book("a", [auto()], *rows, fresh("default", [0.5] * 5))
    wanted = [Block("a", "default", (7005, 7006, 7007)), Block("a", "default", tuple(range(7008, 7016)))]
    assert cells.missing({"a": found}) == wanted
    assert cells.missing({"a": found}, 2)[:3] == [*wanted, Block("a", AUTO, (1,))]
    found.add(fresh("default", [0.5] * 16), ORIGIN)
    found.add([auto("learned", seed=1)], ORIGIN)
    assert [block.row for block in cells.missing({"a": found}, 2)] == ["learned@1"] * 2
    found.add(fresh("learned@1", [0.5] * 16), ORIGIN)
    assert cells.missing({"a": found}, 2) == []


def test_what_either_rule_chose_is_measured_too():
    assert book("a", [auto("none", old="uniform-5")]).rows() == [*FIXED, "learned@0", "uniform-5"]
    assert book("a", [auto("learned", old=None)]).rows() == [*FIXED, "learned@0"]
    assert book("a", [auto("learned-x2", old=None)]).rows() == [*FIXED, "learned@0", "learned-x2@0"]


def test_a_learned_policy_that_was_taken_further_is_trained_as_it_raced():
    found = book("a", [auto("learned-1")])
    assert found.candidate("learned-1@0").augmentation.n_composed == 1
    assert (found.candidate("learned@0").augmentation.n_composed, found.candidate("learned-1@0").name) == (
        2,
        "learned-1@0",
    )
    assert found.candidate("uniform-2").augmentation == "uniform-2"


# --- files ------------------------------------------------------------------------------------------------------------


def test_cells_come_back_from_their_file_with_their_origins(tmp_path):
    found = book("a", fresh("none", [0.5]))
    found.add([auto()], ORIGIN | {"commit": "def"})
    cells.save(tmp_path, found)
    again = cells.opened(tmp_path, "a", SETTINGS)
    assert again == found
    assert [again.origins[cell["origin"]]["commit"] for cell in again.cells.values()] == ["def", "abc"]
    assert again.candidate("learned@0").augmentation.probabilities.shape == (2, 17)
    n_lines = (tmp_path / "a.json").read_text().count("\n")
    again.add(fresh("none", [0.6], first=7001), ORIGIN)
    cells.save(tmp_path, again)
    assert (tmp_path / "a.json").read_text().count("\n") == n_lines + 1  # so that changes can be read


def test_cells_by_other_settings_are_not_mixed(tmp_path):
    cells.save(tmp_path, book("a", fresh("none", [0.5])))
    with pytest.raises(ValueError, match="another preset, size; take another --results"):
        cells.opened(tmp_path, "a", SETTINGS | {"preset": "quick", "size": [32, 32]})


def test_a_write_that_fails_leaves_the_cells_as_they_were(tmp_path, monkeypatch):
    cells.save(tmp_path, book("a", fresh("none", [0.5])))
    before = tiny_contents(tmp_path)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "no space left")))
    with pytest.raises(OSError, match="no space"):
        cells.save(tmp_path, book("a", fresh("none", [0.9])))
    assert tiny_contents(tmp_path) == before


def tiny_contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


# --- sets -------------------------------------------------------------------------------------------------------------


def test_a_set_is_packed_without_loss_and_unpacked_as_slackaug_reads_it(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (2, 6, 12, 12, 3), dtype=np.uint8)
    parts = {part: [evidence_sets.Labelled(one, i % 3) for i, one in enumerate(pixels[n])]
             for n, part in enumerate(evidence_sets.PARTS)}  # fmt: skip
    evidence_sets.pack(tmp_path / "own.npz", parts, ["x", "y", "z"], evidence_sets.ImageSet("own", (12, 12)))
    data = load(evidence_sets.unpacked(tmp_path, "own", tmp_path / "scratch"))
    assert np.array_equal(data.train.images.permute(0, 2, 3, 1).numpy(), pixels[0])
    assert np.array_equal(data.test.images.permute(0, 2, 3, 1).numpy(), pixels[1])
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2]
    with pytest.raises(FileNotFoundError, match="prepare"):
        evidence_sets.unpacked(tmp_path, "other", tmp_path / "scratch")


def test_a_photograph_of_the_right_size_travels_as_it_is(tmp_path):
    path = tmp_path / "photo.jpg"
    Image.new("RGB", (12, 8), (10, 200, 30)).save(path)
    assert evidence_sets.encode(path, (8, 12)) == path.read_bytes()
    smaller = Image.open(io.BytesIO(evidence_sets.encode(path, (4, 6))))
    assert (smaller.format, smaller.size) == ("WEBP", (6, 4))


def test_no_recording_is_in_two_places(tmp_path):
    names = {"train": ["1-7-A-0", "1-7-B-0", "2-8-A-0", "2-9-A-0"], "test": ["5-9-A-0"]}
    for part, stems in names.items():
        (tmp_path / "own" / part / "dog").mkdir(parents=True)
        for stem in stems:
            Image.new("L", (4, 4)).save(tmp_path / "own" / part / "dog" / f"{stem}.png")
    found, classes = evidence_sets.from_folders(tmp_path, evidence_sets.ImageSet("own", (4, 4), "own", recording=1))
    assert [one.picture.stem for one in found["train"]] == ["1-7-A-0", "2-8-A-0"]
    assert ([one.picture.stem for one in found["test"]], classes) == (["5-9-A-0"], ["dog"])


def test_the_first_of_each_class_are_taken():
    images = [evidence_sets.Labelled(np.array(i), i % 2) for i in range(7)]
    assert [int(one.picture) for one in evidence_sets.first_of_each(images, 2)] == [0, 1, 2, 3]
    assert len(evidence_sets.first_of_each(images, None)) == 7


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "half_width", "expected"),
    [
        (0.0, 0.002, Demand.SHOWN),
        (-0.001, 0.002, Demand.OPEN),
        (-0.004, 0.001, Demand.BROKEN),
        (0.004, None, Demand.UNKNOWN),
    ],
)
def test_the_demand_is_judged_by_the_whole_interval(mean, half_width, expected):
    assert evidence_table.demand(Interval(mean, half_width, 4), 0.0025) is expected


def test_a_choice_is_compared_with_the_best_fixed_candidate():
    found = measured(uniform_2=0.81, none=0.82, **{"learned@0": 0.815})
    assert evidence_table.best_fixed(found) == "none"
    behind = evidence_table.standing(found, "uniform-2", 0)
    assert (behind.difference.mean, behind.demand) == (pytest.approx(-0.01), Demand.BROKEN)
    assert evidence_table.standing(found, "none", 0).demand is Demand.BEST
    assert evidence_table.standing(found, "learned", 0).difference.mean == pytest.approx(-0.005)
    assert evidence_table.standing(found, "learned", 1).demand is Demand.UNKNOWN  # of a search that was not measured
    assert evidence_table.best_fixed(book("a", fresh("none", [0.9]))) is None  # before all are there


def test_the_table_says_how_both_rules_did():
    worse = measured("uniform-2", "learned", none=0.82, **{"learned@0": 0.81})
    better = measured("learned", "uniform-1", **{"learned@0": 0.83})
    better.set = "b"
    text = evidence_table.table([worse, better, book("c")])
    of_learned = "learned +0.30 (-0.50 to 1.10) over uniform-2"
    assert f"| a | wrn-16-2 | 0 | uniform-2: unknown | {of_learned} | 54 | 61 | none | -2.00 ± " in text
    assert "The race chose learning in 1 of 2 searches" in text
    assert "1 yes: the whole interval; 1 NO: the whole interval is below" in text
    assert "The old rule chose learning in 1 of 2 searches" in text
    assert "in points: +3.00 ± " in text
    accuracies = next(line for line in text.splitlines() if line.startswith("| b | 80.00"))
    assert accuracies.count("n 4") == len(FIXED) + 1


def test_cells_from_before_the_gain_was_named_have_that_of_what_was_used():
    answer = auto()["answer"]
    del answer["gain_of"]
    assert evidence_table.gain(answer) == "uniform-2 +0.30 (-0.50 to 1.10) over learned"
    assert evidence_table.gain(answer | {"gain": None, "interval": None}) == ""


def test_the_choice_is_set_beside_every_fixed_candidate_and_averaged_over_the_searches():
    worse = measured("uniform-2", none=0.82)
    better = measured("learned", **{"learned@0": 0.84})
    header, _, first, second, mean = evidence_table.choices([worse, better]).splitlines()
    where = [cell.strip() for cell in header.split("|")].index("none")
    cells_of = [[cell.strip() for cell in line.split("|")] for line in (first, second, mean)]
    assert [row[where].split(" ± ")[0] for row in cells_of] == ["-2.00", "+4.00", "+1.00"]
    assert cells_of[0][where + FIXED.index("uniform-2")] == ""  # itself, which counts as no difference in the mean
    assert cells_of[2][where + FIXED.index("uniform-2")].startswith("+2.00 ± ")


def test_seconds_of_a_search_beside_others_are_marked():
    found = book("a", [auto()])
    assert evidence_table.seconds(found, found.autos[0]) == "61"
    found.add([auto()], ORIGIN | {"beside": 2})
    assert evidence_table.seconds(found, found.autos[0]) == "61, beside 2 others"


def test_a_search_without_an_answer_chose_nothing():
    found = measured(None, "none")
    assert evidence_table.standing(found, None, 0).demand is Demand.SILENT
    assert found.rows() == [*FIXED, "learned@0"]
    assert "1 no answer" in evidence_table.table([found])


# --- end to end -------------------------------------------------------------------------------------------------------


def packed(path):
    arrays = tiny.coloured()
    parts = {}
    for part in evidence_sets.PARTS:
        pairs = zip(arrays[f"{part}_images"], arrays[f"{part}_labels"], strict=True)
        parts[part] = [evidence_sets.Labelled(*pair) for pair in pairs]
    one = evidence_sets.ImageSet("neu", (8, 8), flip=False)
    path.parent.mkdir()
    evidence_sets.pack(path, parts, ["x", "y", "z"], one)
    return one


@pytest.fixture
def call(tmp_path, monkeypatch, quick_search):
    """evidence.py on a tiny set, with two seeds a row in blocks of one, and two rows beside those that rules choose."""
    monkeypatch.setitem(evidence_sets.SETS, "neu", packed(tmp_path / "data" / "neu.npz"))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # trainings in this process
    for name, value in {"N_SEEDS": 2, "N_BLOCK": 1, "FIXED": ("none", "uniform-2")}.items():
        monkeypatch.setattr(cells, name, value)
    race = {"race__candidates": "[none,uniform-2,learned]", "race__n_last": 4, "evaluate__epochs": 1,
            "evaluate__batch": 8, "evaluate__lr": 0.05}  # fmt: skip
    settings = tiny.assignments(n_composed="null", search__n_rounds=1, **race)

    def call(*more):
        words = ["evidence.py", "--sets", "neu", "--preset", "quick", "--commit", "abc", "--device", "cpu", *more]
        words += [word for name in ("data", "scratch", "results") for word in (f"--{name}", str(tmp_path / name))]
        monkeypatch.setattr(sys, "argv", words + [word for text in settings for word in ("--set", text)])
        code = evidence.main()
        path = tmp_path / "results" / "neu.json"
        return SimpleNamespace(code=code, cells=json.loads(path.read_text())["cells"] if path.is_file() else [])

    return call


RACED = 3 * 2 + 2 * 4  # trainings


def expected_rows(search):
    """The first two, and what a rule of this search chose beside them, as it goes on this processor."""
    return sorted({"none", "uniform-2", "learned@0", *({search["old_rule"]["use"]} - {"learned"})})


def test_a_call_that_is_stopped_goes_on_where_it_was(call, monkeypatch, capsys):
    run, n_trainings = training.run, 0

    def run_some(trainings, tell):
        nonlocal n_trainings
        n_trainings += 1
        run(trainings, tell)
        if n_trainings in (5, RACED + 3):  # in the race; among fresh trainings
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(training, "run", run_some)
    in_the_race = call()
    assert (in_the_race.code, in_the_race.cells, n_trainings) == (130, [], 5)
    among_fresh = call()
    assert (among_fresh.code, len(among_fresh.cells), n_trainings) == (130, 1 + 3, RACED + 3)
    at_end = call()
    rows = expected_rows(at_end.cells[0])
    assert (at_end.code, n_trainings) == (0, RACED + 2 * len(rows))  # nothing twice
    assert [(one["row"], one["seed"]) for one in at_end.cells[1:]] == [(row, n) for row in rows for n in (7000, 7001)]
    assert "nothing is missing" in capsys.readouterr().err
    assert call().cells == at_end.cells


def test_a_search_is_told_with_what_the_rule_before_the_race_says(call):
    found = call().cells[0]
    assert (found["row"], found["seed"], found["answer"]["is_final"]) == ("auto", 0, True)
    assert found["seconds"] > found["answer"]["seconds"]
    assert found["old_rule"]["use"] in ("learned", "none", *(f"uniform-{n}" for n in (1, 2, 3, 5, 8)))
    assert Policy.from_dict(found["policy"]).n_composed >= 1


def test_the_rule_before_the_race_trains_as_the_search_had_trained(call, tmp_path):
    """So a learned policy that is the uniform one comes to the loss that the search had found for that."""
    call()
    run = tmp_path / "scratch" / "neu" / "search-0"
    composing = json.loads((run / "composing.json").read_text())
    trial = next(one for one in composing["trials"] if one["n_composed"])
    (run / "composing.json").write_text(json.dumps(composing | {"n_composed": trial["n_composed"]}))
    learned = run / "policies" / "round_01.json"
    Policy.load(learned).with_composed(trial["n_composed"]).save(learned)
    bench = evidence.Bench(name="neu", data=tmp_path / "data", scratch=tmp_path / "scratch", preset="quick",
                           assignments=[], device="cpu", threads=1, console=Console(quiet=True))  # fmt: skip
    found = bench.old_rule(run)
    assert found["loss"] == pytest.approx(found["loss_before"], rel=1e-6)
    assert found["loss_before"] == trial["val_loss_after_pretraining"]
    assert found["use"] == f"uniform-{trial['n_composed']}"  # it is not better by the margin


def test_time_that_is_over_is_no_failure(call):
    found = call("--minutes", "0.001")
    assert (found.code, found.cells) == (0, [])


def test_near_the_end_trainings_that_fit_come_before_a_search_that_does_not(call):
    found = call("--minutes", "5", "--search-minutes", "6")
    assert (found.code, {one["row"] for one in found.cells}) == (0, {"none", "uniform-2"})
    assert call().cells[0]["row"] == "auto"


def test_a_row_that_fails_does_not_keep_others_from_being_measured(call, monkeypatch, capsys):
    run = training.run

    def run_most(trainings, tell):
        (one,) = trainings
        if (one.name, one.held_out) == ("none", None):
            raise RuntimeError("it diverged")
        run(trainings, tell)

    monkeypatch.setattr(training, "run", run_most)
    found = call()
    assert found.code == 1
    assert {"none", *(one["row"] for one in found.cells[1:])} == {*expected_rows(found.cells[0])}
    assert "none" not in {one["row"] for one in found.cells}
    said = capsys.readouterr().err
    assert "it diverged" in said
    assert "2 cells are missing" in said
