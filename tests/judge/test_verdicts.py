"""What is made of a difference: a sentence, and which of two candidates to use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackaug.judge.intervals import Interval, interval, paired
from slackaug.judge.verdicts import answer, better_still, verdict
from slackaug.messages import comparing

NEITHER = f"A {comparing.ALIKE} B"
accuracies = st.lists(st.floats(0, 1), min_size=2, max_size=20)


@pytest.mark.parametrize(
    ("difference", "says", "facts"),
    [
        (Interval(0.002, 0.001, 4), "A is better than B", ["+0.20 points", "+0.10 to +0.30", "4 seeds"]),
        (Interval(-0.02, 0.01, 4, "search"), "A is worse than B", ["-2.0 points", "-3.0 to -1.0", "4 searches"]),
        (Interval(0.001, 0.001, 4), NEITHER, ["+0.10 points", "+0.00 to +0.20", "under 0.10"]),
        (interval([0.0] * 4), NEITHER, ["+0.00 points in each of 4 seeds", "no interval"]),
        (Interval(0.01, None, 1), "With 1 seed, A cannot be", ["too few seeds to tell; add --seeds 8."]),
        (Interval(0.0139, 0.353, 3), "With 3 seeds, A cannot be", ["too few seeds to tell; add --seeds 8."]),
        (
            Interval(0.01, 0.002, 3, "search"),
            "With 3 searches,",
            ["too few searches to tell; add --resume --searches 4."],
        ),
        (interval([0.01] * 4), NEITHER, ["+1.00 points", "4 seeds", "no interval"]),
    ],
)
def test_verdict(difference, says, facts):
    sentence = verdict("A", "B", difference)
    assert sentence.startswith(says)
    assert [fact for fact in facts if fact not in sentence] == []


@given(values=accuracies, others=accuracies)
def test_verdict_says_the_opposite_the_other_way_round(values, others):
    a, b = (dict(enumerate(v)) for v in (values, others))
    opposite = {"better": "worse", "worse": "better"}
    words = [
        next((w for w in opposite if f"is {w} than" in s), "neither")
        for s in (verdict("A", "B", paired(a, b)), verdict("A", "B", paired(b, a)))
    ]
    assert words[1] == opposite.get(words[0], "neither")


@pytest.mark.parametrize(
    ("difference", "worth", "use", "sentence"),
    [
        (Interval(0.005, 0.002, 8), 0.25, "A", "Use A: 0.5 points better than B (95 % interval 0.3 to 0.7)."),
        (Interval(-0.005, 0.002, 8), 0.25, "B", "Use B: 0.5 points better than A (95 % interval 0.3 to 0.7)."),
        (
            Interval(0.001, 0.004, 8), 0.25, None,
            "No measurable difference between A and B (+0.1 points, 95 % interval -0.3 to 0.5); a gain under 0.4 "
            "points could not have been seen.",
        ),
        (
            Interval(0.001, 0.0012, 8), 0.25, "B",
            "Use B. A makes no difference of more than 0.25 points (+0.1 points, 95 % interval -0.0 to 0.2).",
        ),
        (Interval(0.001, 0.0005, 8), 0.0, "A", "Use A: 0.10 points better than B (95 % interval 0.05 to 0.15)."),
    ],
)  # fmt: skip
def test_answer(difference, worth, use, sentence):
    assert answer("A", "B", difference, worth) == (sentence, use)


@pytest.mark.parametrize("difference", [None, Interval(0.5, 0.1, 3), Interval(0.5, None, 1), interval([0.01] * 4)])
def test_without_an_interval_there_is_no_answer(difference):
    sentence, use = answer("A", "B", difference)
    assert (use, "95 %" in sentence) == (None, False)
    assert ("too few seeds to tell; add --seeds 8" in sentence) == (difference is not None and difference.n < 4)


def test_of_many_others_only_one_that_is_far_better_is_named():
    narrow, wide = Interval(0.01, 0.008, 8), Interval(0.02, 0.03, 8)
    assert (
        better_still("A", {"B": narrow}) == " But B did better still (+1.0 points, 95 % interval 0.2 to 1.8, over A)."
    )
    assert better_still("A", {"B": narrow, **dict.fromkeys("CDEFG", wide)}) == ""  # one of six may be so by chance
    assert better_still("A", {"B": None, "C": Interval(0.5, 0.1, 3), "D": Interval(-0.5, 0.1, 8)}) == ""
    assert better_still("A", {}) == ""


def test_at_the_edge_nothing_is_shown():
    assert answer("A", "B", Interval(0.0, 0.0025, 8), worth=0.25).use == "B"  # as far as it matters, and no further
    assert answer("A", "B", Interval(0.25, 0.25, 8)).use is None
    assert answer("A", "B", Interval(-0.25, 0.25, 8)).use is None
    assert answer("A", "B", Interval(0.005, 0.001, 8)).use == "A"  # any gain matters unless told otherwise


def test_gains_are_in_points():
    wide = Interval(0.5, 0.2, 8)
    assert answer("A", "B", wide).sentence == "Use A: 50.0 points better than B (95 % interval 30.0 to 70.0)."
    assert (
        better_still("A", {"B": wide}) == " But B did better still (+50.0 points, 95 % interval 30.0 to 70.0, over A)."
    )


def test_both_are_named_where_nothing_can_be_said():
    sentence = answer("mine", "none", None).sentence
    assert sentence.startswith("mine cannot be compared with no transformations")
