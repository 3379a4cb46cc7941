"""Honest intervals: means with Student's t, differences paired by seed, and studies of several searches.

An accuracy cannot leave 0 to 100 %, so its interval is t on the logit scale: with 99.5 % of 200 images right and 8
seeds it holds the truth in 97 % of cases, where t, clipped or not, holds it in 92 %, and ends above 100 % in 27 %
(`research/accuracy_coverage.py`, research/notebook.md).

A study evaluates each of its S searches E times. Evaluations of one search share its policy, so they are not
independent, and t over all S x E of them claims too much: with equal deviations between and within searches, the
paper's interval over 4 x 4 holds the truth 77 % of the time, not 95 % (`research/interval_coverage.py`,
research/notebook.md). The S means of the searches are independent, and verdicts use t over these.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, variance
from typing import NamedTuple

from .. import messages

CHANCE = 0.05  # that an interval misses the truth
LEAST = 4  # values that say better or worse; of two or three, t makes "+1.39 ± 35.30 points"
NO_SPREAD = 1e-12  # below this, the values are equal but for rounding

Matrix = Sequence[Sequence[float]]  # (S, E): one row per search


class Interval(NamedTuple):
    """A mean with its 95 % confidence interval, such as of a difference of accuracies, which are shares."""

    mean: float
    half_width: float | None  # None: fewer than two values
    n: int
    unit: str = "seed"  # of what n counts

    @property
    def has_spread(self) -> bool:
        """Whether the values differ. Where they do not, as a few on a small test set may, t would claim certainty."""
        return self.half_width is not None and self.half_width >= NO_SPREAD

    @property
    def tells(self) -> bool:
        """Whether it can say better or worse."""
        return self.n >= LEAST and self.has_spread

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.reach() / t_factor(self.n)

    def reach(self, chance: float = CHANCE) -> float:
        """The half-width of the interval that misses the truth with this chance, half of it on each side."""
        assert self.half_width is not None
        return self.half_width * (t_factor(self.n, chance) / t_factor(self.n))

    def counted(self) -> str:
        """Such as `1 seed` or `4 searches`."""
        return messages.counted(self.n, self.unit)


class Accuracy(NamedTuple):
    """A mean accuracy, a share, with its 95 % confidence interval, which need not be symmetric."""

    mean: float
    low: float | None  # None, and high: too few values, or all equal, of which t would claim certainty
    high: float | None
    n: int
    unit: str = "seed"  # of what n counts

    def __str__(self) -> str:
        around = " (all equal)" if self.n >= LEAST else ""
        if self.low is not None and self.high is not None:
            around = f" ({100 * self.low:.2f} to {100 * self.high:.2f})"
        return f"{100 * self.mean:.2f} %{around}"

    @property
    def ends(self) -> tuple[float, float]:
        """Return the ends of the interval; where there is none, both are the mean."""
        return self.mean if self.low is None else self.low, self.mean if self.high is None else self.high

    def counted(self) -> str:
        return messages.counted(self.n, self.unit)


def t_factor(n: float, chance: float = CHANCE) -> float:
    """Half the width of the interval of n values, in standard errors of their mean."""
    from scipy.special import stdtrit  # scipy.stats would take most of a second

    return float(stdtrit(n - 1, 1 - chance / 2))


def interval(values: Sequence[float], unit: str = "seed") -> Interval:
    """Student's t over independent values."""
    n = len(values)
    if n == 0:
        raise ValueError(f"an interval needs at least one {unit}, got none")
    mean = math.fsum(values) / n
    if n == 1:
        return Interval(mean, None, n, unit)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    return Interval(mean, t_factor(n) * deviation / math.sqrt(n), n, unit)


def accuracy(values: Sequence[float], unit: str = "seed") -> Accuracy:
    """Average independent shares; the interval is that of t on the logit scale, whose slope scales the deviation."""
    found = interval(values, unit)
    if not found.tells:
        return Accuracy(found.mean, None, None, found.n, unit)
    odds = found.mean / (1 - found.mean)
    reach = math.exp(found.reach() / (found.mean * (1 - found.mean)))
    return Accuracy(found.mean, odds / (odds + reach), odds * reach / (1 + odds * reach), found.n, unit)


def n_for(found: Interval, half_width: float, most: int) -> int:
    """How many values would have an interval so narrow, if they differ from one another as those found do."""
    deviation = found.error * math.sqrt(found.n)
    return next((n for n in range(2, most) if t_factor(n) * deviation <= half_width * math.sqrt(n)), most)


def paired(a: Mapping[int, float], b: Mapping[int, float]) -> Interval | None:
    """Average a - b over the seeds they share; None where they share none."""
    differences = [a[seed] - b[seed] for seed in a if seed in b]
    return interval(differences) if differences else None


def average(samples: Matrix, unit: str = "seed") -> Accuracy:
    """The mean over several data sets, such as domains, of the mean accuracy on each; a row of values for each of them.

    Trainings on different data are independent, so the squares of the standard errors of the means add up, and t has
    Welch and Satterthwaite's degrees of freedom. A mean by seed over the data sets, then t over the seeds, would pair
    trainings that share nothing but a number: as true, and wider. The paper's averages are as this one
    (tests/judge/test_intervals.py). There is no interval where one of the means has none.
    """
    means = [accuracy(row, unit) for row in samples]
    mean, n = math.fsum(one.mean for one in means) / len(means), sum(one.n for one in means)
    if any(one.n < LEAST for one in means) or not any(interval(row).has_spread for row in samples):
        return Accuracy(mean, None, None, n, unit)
    squares = [variance(row) / len(row) for row in samples]
    freedom = sum(squares) ** 2 / sum(square**2 / (len(row) - 1) for square, row in zip(squares, samples, strict=True))
    reach = t_factor(freedom + 1) * math.sqrt(sum(squares)) / len(samples)
    return Accuracy(mean, max(mean - reach, 0.0), min(mean + reach, 1.0), n, unit)


# --- studies ----------------------------------------------------------------------------------------------------------


class Nested(NamedTuple):
    """A study's accuracy with both of its intervals."""

    searches: Accuracy  # over the means of the searches, as verdicts count
    evaluations: Accuracy  # over all evaluations, as if they were independent: as the paper counts


def nested(accuracies: Matrix) -> Nested:
    """(S, E) accuracies. Their means are equal; with rows of unequal length, `searches` weighs each search alike."""
    everything = [value for row in accuracies for value in row]
    return Nested(accuracy(search_means(accuracies), "search"), accuracy(everything, "evaluation"))


def nested_difference(differences: Matrix) -> Interval:
    """Average D_s = mean_e(accuracy[s, e] - baseline[s, e]), given these: t over searches, S - 1 degrees of freedom.

    Every (s, e) has a seed of its own, and the baseline was evaluated with the same seeds, so the D_s are independent:
    each has its own search, its own evaluations and its own evaluations of the baseline.
    """
    return interval(search_means(differences), "search")


def search_means(matrix: Matrix) -> list[float]:
    return [interval(row, "evaluation").mean for row in matrix]


def n_evaluations_for(differences: Matrix, half_width: float, most: int) -> int | None:
    """How many evaluations of each of these searches, (S, E) with E > 1, would have so narrow an interval.

    None: searches differ so much from one another that `most` would not.
    """
    n_search, n_eval, reach = len(differences), len(differences[0]), t_factor(len(differences))
    within = fmean(variance(row) for row in differences)
    between = max(variance(search_means(differences)) - within / n_eval, 0.0)
    left = n_search * (half_width / reach) ** 2 - between  # for the noise of the evaluations
    return math.ceil(within / left) if within < left * most else None


# --- how sure an answer will be ---------------------------------------------------------------------------------------

USUAL_NOISE = 0.005  # of accuracies on many images, from seed to seed; 0.2 to 1 point in research/notebook.md
DISAGREEMENT = 0.1  # share of images that just one of two networks has right: each is wrong on 10 %, both on 5 %


def usual_noise(n_test: int) -> float:
    """The deviation of accuracies from seed to seed on so many test images.

    On the same n images just one of two equally good networks is right for the share d of them, by chance, so the
    difference of their accuracies has the variance d / n, and each accuracy half of it: sqrt(USUAL_NOISE^2 + d / 2n).
    On 72 images that is 2.7 points, on 10,000 it is 0.5.
    """
    return math.sqrt(USUAL_NOISE**2 + DISAGREEMENT / (2 * n_test))


def expected_half_width(noise: float, n: int, n_eval: int = 1) -> float:
    """Of a difference over n seeds, or over n searches with n_eval evaluations each, which do not differ themselves."""
    return t_factor(n) * math.sqrt(2 / (n * n_eval)) * noise


def check_until(points: float | None) -> None:
    if points is not None and not 0 < points <= 100:
        raise ValueError(f"--until {points:g}: expected points of accuracy above 0, at most 100, such as 0.5")
