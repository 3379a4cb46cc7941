"""How often do the intervals of a study hold the truth? Both variance components, simulated.

    python research/interval_coverage.py [--trials 200000] [--seed 0]

The accuracy of search s, evaluation e is mean + a x_s + b y_se, and that of the baseline with the same seed is
mean + b z_se; x, y, z are standard normal. The table has the share of the trials in which each 95 % interval held the
truth.
"""

import argparse
import math
from typing import NamedTuple

import numpy as np

from slackaug.judge.intervals import t_factor

DESIGNS = ((4, 4), (2, 2), (4, 1))  # searches x evaluations
RATIOS = (0.0, 0.5, 1.0, 2.0)  # a / b: deviation between searches over that within a search
STUDY_MEAN = 0.8


class Coverage(NamedTuple):
    """The shares for one design and one ratio."""

    mean: float  # t over the searches' means
    difference: float  # t over the searches' mean differences to the baseline
    mean_of_all: float  # the paper's: t over all evaluations
    difference_of_all: float  # t over all differences


def holds(values: np.ndarray, truth: float) -> float:
    """The share of rows (trials, n) whose t-interval holds the truth: `intervals.interval`, for many at once."""
    n = values.shape[-1]
    half_width = t_factor(n) * values.std(-1, ddof=1) / math.sqrt(n)
    return float((np.abs(values.mean(-1) - truth) <= half_width).mean())


def draw(n_search: int, n_eval: int, ratio: float, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Accuracies and those of the baseline, 2 x (trials, S, E); b = 1 point."""
    generator = np.random.default_rng([seed, n_search, n_eval, round(100 * ratio)])
    search = ratio * generator.standard_normal((trials, n_search, 1))
    noise = generator.standard_normal((2, trials, n_search, n_eval))
    return STUDY_MEAN + 0.01 * (search + noise[0]), STUDY_MEAN + 0.01 * noise[1]


def coverage(n_search: int, n_eval: int, ratio: float, trials: int, seed: int) -> Coverage:
    accuracies, baseline = draw(n_search, n_eval, ratio, trials, seed)
    differences = accuracies - baseline
    return Coverage(
        mean=holds(accuracies.mean(-1), STUDY_MEAN),
        difference=holds(differences.mean(-1), 0.0),
        mean_of_all=holds(accuracies.reshape(trials, -1), STUDY_MEAN),
        difference_of_all=holds(differences.reshape(trials, -1), 0.0),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| searches x evaluations | a / b | mean: over searches | difference: over searches ", end="")
    print("| mean: over all evaluations (the paper's) | difference: over all evaluations |")
    print("|---|---|---|---|---|---|")
    for n_search, n_eval in DESIGNS:
        for ratio in RATIOS:
            shares = coverage(n_search, n_eval, ratio, arguments.trials, arguments.seed)
            cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
            print(f"| {n_search} x {n_eval} | {ratio:g} | {cells} |")


if __name__ == "__main__":
    main()
