"""What is made of a difference: which of two candidates to use, and the words for it."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from slackaug.config.run_config import RunConfig
from slackaug.judge.intervals import Interval, interval, paired
from slackaug.judge.verdicts import Case, Terms, answer, better_still, is_guessing, judge, longer, verdict, why, zone

accuracies = st.lists(st.floats(0, 1), min_size=2, max_size=20)
TERMS = Terms(worth=0.0025, n_images=100, largest=0.1, longer=["--set", "evaluate.epochs=8"])
LEARNED = [(0.9, 400)]  # a network that does not guess


def says(difference, worth=0.0025):
    return answer(verdict("A", "B", difference, worth), worth)


@pytest.mark.parametrize("simpler", ["challenger", "incumbent"])
@pytest.mark.parametrize(
    ("mean", "error", "case", "use"),
    [
        (0.02, 0.001, Case.BETTER, "challenger"),
        (-0.02, 0.001, Case.BETTER, "incumbent"),
        (0.001, 0.0001, Case.EQUAL, "simpler"),
        (0.01, 0.006, Case.AHEAD, "challenger"),
        (0.01, 0.02, Case.UNKNOWN, "incumbent"),
        (-0.01, 0.02, Case.UNKNOWN, "incumbent"),
    ],
)
def test_the_rule(mean, error, case, use, simpler):
    """The simpler one where they are equal for practice, the incumbent where nothing is known."""
    gain = Interval(mean, error * stats.t.ppf(0.975, 30), 31)
    found = verdict("challenger", "incumbent", gain, 0.0025, simpler)
    assert (found.case, found.use) == (case, use.replace("simpler", simpler))
    assert {found.use, found.other} == {"challenger", "incumbent"}
    assert found.gain_of == (found.use if case in (Case.BETTER, Case.AHEAD) else found.other)
    assert found.gain.mean == (mean if found.gain_of == "challenger" else -mean)


def test_probably_better_is_at_worst_so_much_behind_at_90_per_cent():
    for behind, case in ((0.0024, Case.AHEAD), (0.0026, Case.UNKNOWN)):
        half_width = (0.01 + behind) * stats.t.ppf(0.975, 7) / stats.t.ppf(0.95, 7)
        assert half_width > 0.01
        assert verdict("A", "B", Interval(0.01, half_width, 8), 0.0025).case is case


def test_at_the_edge_nothing_is_shown():
    assert verdict("A", "B", Interval(0.0, 0.0025, 8), 0.0025).case is Case.EQUAL  # as far as it matters, no further
    assert verdict("A", "B", Interval(-0.25, 0.25, 8), 0.0).case is Case.UNKNOWN
    assert verdict("A", "B", Interval(0.25, 0.25, 8), 0.0).case is Case.AHEAD
    assert verdict("A", "B", Interval(0.005, 0.001, 8), 0.0).use == "A"  # any gain matters unless told otherwise


@pytest.mark.parametrize(("points", "n_images", "expected"), [(0.25, 1000, 0.0025), (0.25, 100, 0.01), (0, 50, 0.02)])
def test_what_counts_as_none_is_at_least_what_one_image_counts(points, n_images, expected):
    assert zone(points, n_images) == pytest.approx(expected)


@given(values=accuracies, others=accuracies)
def test_who_is_better_is_so_the_other_way_round(values, others):
    a, b = (dict(enumerate(v)) for v in (values, others))
    one, other = verdict("A", "B", paired(a, b), 0.0), verdict("B", "A", paired(b, a), 0.0)
    assert (one.case is Case.BETTER) is (other.case is Case.BETTER)
    assert one.case is not Case.BETTER or one == other


@pytest.mark.parametrize(
    ("difference", "sentence"),
    [
        (Interval(0.005, 0.002, 8), "Use A. It is 0.5 points better than B (95 % interval 0.3 to 0.7)."),
        (Interval(-0.005, 0.002, 8), "Use B. It is 0.5 points better than A (95 % interval 0.3 to 0.7)."),
        (Interval(0.0055, 0.0005, 8), "Use A. It is 0.55 points better than B (95 % interval 0.50 to 0.60)."),
        (Interval(0.5, 0.2, 8), "Use A. It is 50.0 points better than B (95 % interval 30.0 to 70.0)."),
        (
            Interval(0.01, 0.012, 8),
            "Use A. It is probably better than B: 1.0 points ahead (95 % interval -0.2 to 2.2).",
        ),
        (
            Interval(0.001, 0.0012, 8),
            "Use B. A is within 0.25 points of it (+0.10 points, 95 % interval -0.02 to 0.22).",
        ),
        (
            Interval(0.001, 0.006, 8),
            "Use B for now. A is 0.1 points ahead of it here, which may be chance (95 % interval -0.5 to 0.7). A gain "
            "under 0.6 points could not have been seen.",
        ),
        (
            Interval(0.0001, 0.01, 8),
            "Use B for now. A is level with it here (95 % interval -1.0 to 1.0). A gain under 1.0 points could not "
            "have been seen.",
        ),
        (
            interval([-0.01] * 4),
            "Use B for now. A is 1.00 points behind it in each of 4 seeds: where all are the same there is no "
            "interval.",
        ),
        (
            interval([0.0] * 4),
            "Use B for now. A is level with it in each of 4 seeds: where all are the same there is no interval.",
        ),
        (
            Interval(0.0139, 0.353, 3),
            "Use B for now. With 3 seeds, A cannot be compared with it yet: too few seeds to tell; add --seeds 8.",
        ),
        (
            Interval(0.01, None, 1, "search"),
            "Use B for now. With 1 search, A cannot be compared with it yet: too few searches to tell; add --resume "
            "--searches 4.",
        ),
        (None, "Use B for now. A cannot be compared with it: they share no seed, so there is no interval."),
    ],
)
def test_the_answer_in_words(difference, sentence):
    assert says(difference) == sentence


@pytest.mark.parametrize("difference", [None, Interval(0.5, 0.1, 3), Interval(0.5, None, 1), interval([0.01] * 4)])
def test_without_an_interval_nothing_is_shown(difference):
    found = verdict("A", "B", difference, 0.0025)
    assert (found.case, found.use, "95 %" in says(difference)) == (Case.UNKNOWN, "B", False)


def test_a_name_of_ours_begins_a_sentence_and_that_of_a_file_stays_as_it_is():
    for name, first in (("none", "No augmentation is 2.0 "), ("runs/pets", "runs/pets is 2.0 ")):
        found = verdict(name, "uniform-2", Interval(0.02, 0.001, 8), 0.0)
        assert why(found, name, 0.0).startswith(f"{first}points better than 2 random transformations per image (")


def test_others_are_judged_by_the_same_rule_in_the_same_words():
    gains = {"B": Interval(0.02, 0.001, 8), "C": Interval(0.001, 0.0012, 8), "D": None, "E": Interval(0.01, 0.012, 8)}
    found = judge("A", "B", gains, LEARNED, TERMS)
    assert (found.answer, found.use, found.verdict) == (says(gains["B"]), "A", "better")
    assert found.others == (
        "A is within 0.25 points of C (+0.10 points, 95 % interval -0.02 to 0.22).",
        "A is probably better than E: 1.0 points ahead (95 % interval -0.2 to 2.2).",
    )


@pytest.mark.parametrize(
    ("share", "largest", "n_images", "expected"),
    [
        (0.1, 0.1, 1000, True),
        (0.05, 0.1, 1000, True),  # and worse than guessing
        (0.109, 0.1, 10**6, True),  # more than chance, and still next to nothing
        (0.115, 0.1, 10**6, False),
        (0.115, 0.1, 1000, True),  # within chance
        (0.125, 0.1, 1000, False),
        (0.96, 0.95, 10**6, False),  # a fifth of what there is to gain
        (0.954, 0.95, 10**6, True),
        (1.0, 1.0, 100, False),
        (0.1, 0.0, 100, False),
    ],
)
def test_guessing_is_no_better_than_to_name_the_largest_class(share, largest, n_images, expected):
    assert is_guessing([(share, n_images)], largest) is expected
    assert not is_guessing([(share, n_images), (1.0, n_images)], largest)  # one of them has learned


def test_where_all_guess_nothing_is_compared():
    """However sure the difference is, and where all guesses are the same, too; but not where there are too few."""
    sure, same, few = Interval(0.01, 0.001, 8), interval([0.0] * 4), Interval(0.01, 0.001, 3)
    guesses = [(0.11, 800), (0.1, 800)]
    for gain in (sure, same):
        found = judge("A", "B", {"B": gain, "C": sure}, guesses, TERMS)
        assert found[1:] == (None, "guessing", ())
        assert found.answer == (
            "No answer yet: no network did clearly better than guessing. The best reached 11.0 %, and naming the "
            "largest class each time gives 10.0 %. Try again with longer trainings (--set evaluate.epochs=8), more "
            "images or another --model."
        )
    assert judge("A", "B", {"B": sure}, [*guesses, *LEARNED], TERMS).use == "A"  # one has learned
    assert judge("A", "B", {"B": few}, guesses, TERMS).answer == says(few)


def test_what_verdicts_go_by():
    """Of three test images out of seven, and with four times the epochs where networks learn nothing."""
    config = RunConfig(preset="", model="small", space="cifar")
    config = replace(config, pretrain=replace(config.pretrain, epochs=3), evaluate=replace(config.evaluate, epochs=5))
    found = Terms.of(config, torch.tensor([0, 2, 2, 1, 2, 1, 0]))
    assert found[:3] == (1 / 7, 7, 3 / 7)
    assert found.longer == ["--overwrite", "--set", "pretrain.epochs=12", "--set", "evaluate.epochs=20"]
    assert longer(config, learns=False) == ["--set", "evaluate.epochs=20"]
    assert "is within 14.29 points of it" in says(Interval(0.01, 0.001, 8), found.worth)


def test_of_many_others_only_one_that_is_far_better_is_named():
    narrow, wide = Interval(0.01, 0.008, 8), Interval(0.02, 0.03, 8)
    assert (
        better_still("A", {"B": narrow}) == " But B did better still (+1.0 points, 95 % interval 0.2 to 1.8, over A)."
    )
    assert better_still("A", {"B": narrow, **dict.fromkeys("CDEFG", wide)}) == ""  # one of six may be so by chance
    assert better_still("A", {"B": None, "C": Interval(0.5, 0.1, 3), "D": Interval(-0.5, 0.1, 8)}) == ""
    assert better_still("A", {}) == ""
    surer = Interval(0.01, 0.002, 8)
    assert " But B did better still " in better_still("A", {"B": surer, "C": Interval(0.02, 0.015, 8)})
