"""Intervals against scipy and against simulation: they must hold the truth as often as they say."""

import math
import statistics
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from slackaug.config.paper import DOMAINNET
from slackaug.judge.intervals import (
    USUAL_NOISE,
    Accuracy,
    Interval,
    accuracy,
    average,
    check_until,
    expected_half_width,
    interval,
    n_evaluations_for,
    n_for,
    nested,
    nested_difference,
    paired,
    search_means,
    t_factor,
    usual_noise,
)
from slackaug.judge.studies.paper_tables import FIGURES

sys.path.insert(0, str(Path(__file__).parents[2] / "research"))
import accuracy_coverage
import interval_coverage as coverage

accuracies = st.lists(st.floats(0, 1), min_size=2, max_size=20)


@given(values=accuracies)
def test_is_scipys_t_interval(values):
    mean, half_width, n, unit = interval(values)
    assert (n, unit) == (len(values), "seed")
    assert mean == pytest.approx(statistics.fmean(values))
    error = float(stats.sem(values))
    low, high = stats.t.interval(0.95, n - 1, mean, error) if error > 0 else (mean, mean)
    assert half_width == pytest.approx((high - low) / 2, abs=1e-12)


@given(values=accuracies)
def test_an_accuracy_never_leaves_0_to_100_per_cent(values):
    found, t = accuracy(values), interval(values)
    assert (found.mean, found.n) == (t.mean, t.n)
    if found.low is None:
        assert found.high is None
        assert found.n < 4 or not t.has_spread
        assert found.ends == (found.mean, found.mean)
    else:
        assert 0 <= found.low <= found.mean <= found.high <= 1
        logits = [math.log(end / (1 - end)) for end in (found.low, found.mean, found.high) if 0 < end < 1]
        assert len(logits) < 3 or logits[2] - logits[1] == pytest.approx(logits[1] - logits[0], rel=1e-3)


def test_far_from_the_ends_an_accuracy_has_scipys_t_interval():
    values = [0.60, 0.61, 0.62, 0.61]
    low, high = stats.t.interval(0.95, 3, statistics.fmean(values), float(stats.sem(values)))
    assert accuracy(values).ends == pytest.approx((low, high), abs=2e-4)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.9612], "96.12 %"),
        ([0.95, 0.99, 1.0], "98.00 %"),  # of fewer than four there is none
        ([0.95] * 4, "95.00 % (all equal)"),
        ([1.0] * 5, "100.00 % (all equal)"),
        ([1.0, 0.99, 1.0, 1.0], "99.75 % (94.26 to 99.99)"),
    ],
)
def test_prints_per_cent(values, shown):
    assert str(accuracy(values)) == shown


def test_counts_in_words():
    assert [Interval(0, 0, n, "search").counted() for n in (1, 4)] == ["1 search", "4 searches"]


def test_of_nothing_there_is_no_interval():
    assert interval([0.5]).half_width is None
    with pytest.raises(ValueError, match="at least one seed, got none"):
        interval([])
    with pytest.raises(ValueError, match="at least one evaluation, got none"):
        nested([[0.5], []])


def test_paired_takes_the_seeds_they_share():
    a, b = {0: 0.9, 1: 0.8, 2: 0.7}, {1: 0.7, 2: 0.5, 3: 0.1}
    assert paired(a, b) == interval([0.8 - 0.7, 0.7 - 0.5])
    assert paired({0: 0.9}, {0: 0.8}) == Interval(pytest.approx(0.1), None, 1)
    assert paired(a, {7: 0.5}) is None
    assert paired({}, {}) is None


def test_nested_has_the_papers_interval_and_the_searches():
    rows = [[0.90, 0.92], [0.80, 0.82], [0.70, 0.72]]
    searches, evaluations = nested(rows)
    assert searches == accuracy([0.91, 0.81, 0.71], "search")
    assert evaluations == accuracy([0.90, 0.92, 0.80, 0.82, 0.70, 0.72], "evaluation")
    assert searches.mean == pytest.approx(evaluations.mean)
    assert nested([[0.9, 0.8]]).searches == Accuracy(pytest.approx(0.85), None, None, 1, "search")


def test_nested_difference_is_of_the_searches():
    difference = nested_difference([[0.1, 0.12], [0.0, 0.04]])
    assert difference.mean == pytest.approx(0.065)
    assert difference.half_width == pytest.approx(interval([0.11, 0.02]).half_width)
    assert (difference.n, difference.unit) == (2, "search")


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20), st.floats(0.001, 1))
def test_as_many_values_as_are_needed_and_one_less(values, half_width):
    found = interval(values)
    n, deviation = n_for(found, half_width, 1000), statistics.stdev(values)
    reach = [t_factor(k) * deviation / math.sqrt(k) for k in (n - 1, n) if k > 1]
    assert n == 1000 or reach[-1] <= half_width * (1 + 1e-9)
    assert n == 2 or reach[0] > half_width * (1 - 1e-9)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=6), st.floats(0.001, 1))
def test_as_many_evaluations_as_bring_the_interval_to_this_width(differences, half_width):
    """By the two components of variance: what searches differ by stays, what evaluations differ by becomes less."""
    n, n_search = n_evaluations_for(differences, half_width, 50), len(differences)
    within = statistics.fmean(statistics.variance(row) for row in differences)
    between = max(statistics.variance(search_means(differences)) - within / 3, 0)

    def reach(n_eval: int) -> float:
        return t_factor(n_search) * math.sqrt((between + within / n_eval) / n_search)

    if n is None:
        assert reach(50) >= half_width * (1 - 1e-9)
    else:
        assert n <= 50
        assert n == 0 or reach(n) <= half_width * (1 + 1e-9)
        assert n < 2 or reach(n - 1) > half_width * (1 - 1e-9)


def test_no_evaluations_narrow_what_searches_differ_by():
    rows = [[0.0, 0.001], [0.1, 0.101], [0.2, 0.201]]
    assert n_evaluations_for(rows, 0.05, 10**6) is None
    assert n_evaluations_for(rows, 0.5, 10**6) == 1


def test_what_time_buys_is_half_the_interval_of_noise_that_is_as_usual():
    values = np.random.default_rng(0).normal(0, USUAL_NOISE, (2, 4000, 4, 3)).mean(-1)  # 4 searches, 3 evaluations
    squares = [(interval(row.tolist()).half_width or 0) ** 2 for row in values[0] - values[1]]
    assert math.sqrt(statistics.fmean(squares)) == pytest.approx(expected_half_width(USUAL_NOISE, 4, 3), rel=0.02)
    assert expected_half_width(0.01, 8) < expected_half_width(0.01, 4)


@pytest.mark.parametrize("points", [None, 1e-3, 0.5, 1, 40])
def test_points_that_an_interval_may_reach(points):
    check_until(points)


@pytest.mark.parametrize("points", [0, -1, 101, math.nan, math.inf])
def test_points_that_it_may_not(points):
    with pytest.raises(
        ValueError, match=rf"--until {points:g}: expected points of accuracy above 0, at most 100, such"
    ):
        check_until(points)


def test_what_is_counted_is_kept():
    assert Accuracy(0.5, None, None, 2).counted() == "2 seeds"
    assert accuracy([0.5]).counted() == "1 seed"
    assert accuracy([0.5] * 4, "search").counted() == "4 searches"
    assert accuracy([0.5, 0.6, 0.7, 0.8], "evaluation").counted() == "4 evaluations"
    assert interval([0.5], "evaluation").counted() == "1 evaluation"
    with pytest.raises(ValueError, match="an interval needs at least one search, got none"):
        accuracy([], "search")


def test_intervals_that_hold_together_are_wider():
    assert t_factor(8, 0.05 / 3) == pytest.approx(stats.t.ppf(1 - 0.05 / 6, 7))


def test_usual_noise_is_half_a_point():
    assert expected_half_width(USUAL_NOISE, 8) == pytest.approx(stats.t.ppf(0.975, 7) * 0.5 * 0.005)
    assert usual_noise(10**9) == pytest.approx(USUAL_NOISE, rel=1e-3)


def test_few_test_images_add_their_own_noise():
    """A fifth of the images is a coin toss for each network, and the others are right: 90 %, half of it in common."""
    rng, n_test, own = np.random.default_rng(0), 70, USUAL_NOISE
    right = rng.random((2, 40_000, n_test)) < np.where(np.arange(n_test) < n_test // 5, 0.5, 1.0)
    assert right.mean() == pytest.approx(0.9, abs=1e-3)
    accuracies = right.mean(-1) + rng.normal(0, own, right.shape[:2])
    difference = accuracies[0] - accuracies[1]
    assert difference.std() == pytest.approx(math.sqrt(2) * usual_noise(n_test), rel=0.02)  # six standard errors


# --- coverage ---------------------------------------------------------------------------------------------------------

TRIALS, SEED = 40_000, 1
# Four standard errors of a share of 95 %: 0.44 points. With another seed, a right interval fails one comparison 6 in
# 100,000 times, so any of the 27 two-sided ones below at most 2 in 1,000 times.
BOUND = 4 * math.sqrt(0.95 * 0.05 / TRIALS)

designs = pytest.mark.parametrize(("n_search", "n_eval"), coverage.DESIGNS)
ratios = pytest.mark.parametrize("ratio", coverage.RATIOS)


@designs
@ratios
def test_verdicts_interval_holds_the_truth_95_per_cent_of_the_time(n_search, n_eval, ratio):
    """So a verdict between equals says better or worse 5 % of the time, whatever the deviation between searches."""
    found = coverage.coverage(n_search, n_eval, ratio, TRIALS, SEED)
    assert found.mean == pytest.approx(0.95, abs=BOUND)
    assert found.difference == pytest.approx(0.95, abs=BOUND)


@pytest.mark.parametrize(("ratio", "at_most"), [(0.5, 0.90), (1.0, 0.80), (2.0, 0.70)])
def test_the_papers_interval_claims_too_much_where_searches_differ(ratio, at_most):
    """4 x 4, t over all 16: 87.8, 76.9 and 66.1 % (notebook) instead of 95; for the difference a little more."""
    found = coverage.coverage(4, 4, ratio, TRIALS, SEED)
    assert found.mean_of_all < at_most
    assert found.mean_of_all < found.difference_of_all < 0.95 - BOUND


@designs
def test_the_papers_interval_is_right_where_searches_do_not_differ(n_search, n_eval):
    assert coverage.coverage(n_search, n_eval, 0.0, TRIALS, SEED).mean_of_all == pytest.approx(0.95, abs=BOUND)


@designs
def test_the_simulation_is_of_these_intervals(n_search, n_eval):
    trials = 50
    found = coverage.coverage(n_search, n_eval, 1.0, trials, SEED)
    matrices = [m.tolist() for m in coverage.draw(n_search, n_eval, 1.0, trials, SEED)]

    def share(intervals: list[Interval], truth: float) -> float:
        return statistics.fmean(abs(i.mean - truth) <= (i.half_width or 0) for i in intervals)

    differences = [nested_difference((np.array(a) - np.array(b)).tolist()) for a, b in zip(*matrices, strict=True)]
    means = [interval(search_means(accuracies)) for accuracies in matrices[0]]
    everything = [interval([value for row in accuracies for value in row]) for accuracies in matrices[0]]
    assert share(means, coverage.STUDY_MEAN) == pytest.approx(found.mean)
    assert share(everything, coverage.STUDY_MEAN) == pytest.approx(found.mean_of_all)
    assert share(differences, 0.0) == pytest.approx(found.difference)


def test_near_100_per_cent_the_logit_scale_holds_the_truth_where_t_does_not():
    """99.5 % of 200 images, 8 seeds: 97.0 and 92.4 % (notebook). Of 1,000 trials the standard error is below 0.9."""
    found = accuracy_coverage.coverage(0.995, 200, 0.2, 8, 1000, seed=1)
    assert found.logit > 0.95 > found.clipped + 0.01
    assert found.leaves > 0.2


# --- averages over data sets ------------------------------------------------------------------------------------------


def spread(mean: float, half_width: float, n: int) -> list[float]:
    """n values with this mean and this half-width of t."""
    shape = np.array([-1.0, 1.0] * (n // 2))
    shape *= half_width * n**0.5 / (stats.t.ppf(0.975, n - 1) * shape.std(ddof=1))
    return [*(mean + shape)]


def test_an_average_has_welch_and_satterthwaites_interval():
    first, second = spread(0.6, 0.01, 8), spread(0.8, 0.03, 6)
    found = average([first, second])
    expected = stats.ttest_ind(first, [-value for value in second], equal_var=False).confidence_interval(0.95)
    assert [found.mean, found.n] == [pytest.approx(0.7), 14]
    assert [found.low, found.high] == pytest.approx([expected.low / 2, expected.high / 2])
    alone = interval(first)
    assert average([first])[:3] == pytest.approx((alone.mean, alone.mean - 0.01, alone.mean + 0.01))


def test_an_average_has_no_interval_where_a_mean_has_none():
    assert average([spread(0.6, 0.01, 8), [0.7, 0.8]])[1:3] == (None, None)
    assert average([[0.5] * 8, [0.6] * 8])[:3] == (pytest.approx(0.55), None, None)


def test_the_papers_averages_over_domains_have_this_interval():
    """To a rounding. It has 8 evaluations of each domain, and 16 of SLACK. DomainBed's average is a slip, too."""
    columns = [(f"domainnet-{domain}", "resnet18") for domain in DOMAINNET]
    for row, printed in FIGURES["domainnet-average", "resnet18"].items():
        n = 16 if row == "slack" else 8
        domains = [FIGURES[column][row] for column in columns]
        found = average([spread(one.accuracy / 100, one.half_width / 100, n) for one in domains])
        half_width = 50 * (found.high - found.low)
        is_slip = row == "domainbed"
        assert (abs(100 * found.mean - printed.accuracy) > 0.5) == is_slip
        assert half_width == pytest.approx(printed.half_width, abs=0.011) or is_slip, row
