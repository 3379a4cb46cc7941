"""Honest intervals: means with Student's t, differences paired by seed, and studies of several searches.

A study evaluates each of its S searches E times. Evaluations of one search share its policy, so they are not
independent, and t over all S x E of them claims too much: with equal deviations between and within searches, the
paper's interval over 4 x 4 holds the truth 77 % of the time, not 95 % (`research/interval_coverage.py`,
research/notebook.md). The S means of the searches are independent, and verdicts use t over these.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .. import messages

CONFIDENCE = 0.95
LEAST = 4  # values that say better or worse; of two or three, t makes "+1.39 ± 35.30 points"
NO_SPREAD = 1e-12  # below this, the values are equal but for rounding

Matrix = Sequence[Sequence[float]]  # (S, E): one row per search


class Interval(NamedTuple):
    """A mean with its 95 % confidence interval; accuracies are shares, and printed in per cent."""

    mean: float
    half_width: float | None  # None: fewer than two values
    n: int
    unit: str = "seed"  # of what n counts

    def __str__(self) -> str:
        if self.half_width is None:
            return f"{100 * self.mean:.2f} % ({self.counted()}: no interval)"
        return f"{100 * self.mean:.2f} ± {100 * self.half_width:.2f} %"

    @property
    def has_spread(self) -> bool:
        """Whether the values differ. Where they do not, as a few on a small test set may, t would claim certainty."""
        return self.half_width is not None and self.half_width >= NO_SPREAD

    def counted(self) -> str:
        """Such as `1 seed` or `4 searches`."""
        return messages.counted(self.n, self.unit)


def t_factor(n: int) -> float:
    """Half the width of the interval of n values, in standard errors of their mean."""
    from scipy.special import stdtrit  # scipy.stats would take most of a second

    return float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))


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


def n_for(found: Interval, half_width: float, most: int) -> int:
    """How many values would have an interval so narrow, if they differ from one another as those found do."""
    assert found.half_width is not None
    deviation = found.half_width * math.sqrt(found.n) / t_factor(found.n)
    return next((n for n in range(2, most) if t_factor(n) * deviation <= half_width * math.sqrt(n)), most)


def paired(a: Mapping[int, float], b: Mapping[int, float]) -> Interval | None:
    """Of a - b, over the seeds they share; None where they share none."""
    differences = [a[seed] - b[seed] for seed in a if seed in b]
    return interval(differences) if differences else None


# --- studies ----------------------------------------------------------------------------------------------------------


class Nested(NamedTuple):
    """A study's accuracy with both of its intervals."""

    searches: Interval  # t over the means of the searches: the one that verdicts use
    evaluations: Interval  # the paper's: t over all evaluations, as if they were independent


def nested(accuracies: Matrix) -> Nested:
    """(S, E) accuracies. Their means are equal; with rows of unequal length, `searches` weighs each search alike."""
    everything = [accuracy for row in accuracies for accuracy in row]
    return Nested(interval(search_means(accuracies), "search"), interval(everything, "evaluation"))


def nested_difference(accuracies: Matrix, baseline: Matrix) -> Interval:
    """Of D_s = mean_e(accuracy[s, e] - baseline[s, e]): t over the searches, with S - 1 degrees of freedom.

    Every (s, e) has a seed of its own, and the baseline was evaluated with the same seeds, so the D_s are independent:
    each has its own search, its own evaluations and its own evaluations of the baseline.
    """
    rows = zip(accuracies, baseline, strict=True)
    return interval(search_means([[a - b for a, b in zip(*pair, strict=True)] for pair in rows]), "search")


def search_means(matrix: Matrix) -> list[float]:
    return [interval(row, "evaluation").mean for row in matrix]


# --- verdicts ---------------------------------------------------------------------------------------------------------


def verdict(name: str, baseline: str, difference: Interval | None, worth: float = 0.0) -> str:
    """One plain sentence about `name` minus `baseline`; `worth`, in points, is what makes a difference in practice."""
    if difference is None:
        return messages.no_common_seed(name, baseline)
    mean, half_width, over = difference.mean, difference.half_width, difference.counted()
    if half_width is None or difference.n < LEAST:
        return messages.too_few(name, baseline, mean, difference.n, difference.unit, LEAST)
    if not difference.has_spread:
        return messages.no_spread(name, baseline, mean, over)
    if abs(mean) + half_width <= worth / 100:
        return messages.equal(name, baseline, mean, half_width, over, worth)
    says = messages.no_difference if abs(mean) <= half_width else messages.differs
    return says(name, baseline, mean, half_width, over)
