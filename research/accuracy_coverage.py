"""How often does the interval of an accuracy hold the truth, and does it leave 0 to 100 %? By simulation.

    PYTHONPATH=src python research/accuracy_coverage.py [--trials 2000] [--seed 0]

Every test image has a difficulty, every training a level of its own; the truth is the mean accuracy over all trainings
on these images. `logit` is the interval that users see (`intervals.accuracy`), `clipped` is Student's t cut at 0 and 1.
"""

import argparse
from typing import NamedTuple

import numpy as np
from numpy.random import Generator, default_rng

from slackaug.judge import intervals

CASES = ((0.995, 200, 0.2), (0.99, 200, 0.3), (0.98, 200, 0.5), (0.995, 10_000, 0.07), (0.9, 200, 1.0), (0.6, 200, 2.0))
DIFFICULTY = 2.5  # deviation of the logits of images
N_TO_AVERAGE = 64  # levels


class Shares(NamedTuple):
    """What was found in the trials whose accuracies differ."""

    logit: float  # hold the truth
    clipped: float
    leaves: float  # t ends outside 0 to 1
    width: float  # of logit, on average
    clipped_width: float


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def level_for(share: float) -> tuple[float, float]:
    """The mean logit of images of which so many are right, and how much is won there by one unit of it."""
    x = default_rng(0).normal(0, DIFFICULTY, 100_000)
    low, high = -20.0, 20.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if sigmoid(x + middle).mean() < share else (low, middle)
    return low, float((sigmoid(x + low + 0.05).mean() - sigmoid(x + low - 0.05).mean()) / 0.1)


def draw(share: float, n_images: int, noise: float, n: int, rng: Generator, level: float) -> tuple[list[float], float]:
    """The accuracies of n trainings on the same images, and the truth; `noise` is a deviation of levels, in logits."""
    logits = rng.normal(level, DIFFICULTY, n_images)
    right = rng.random((n, n_images)) < sigmoid(logits + rng.normal(0, noise, (n, 1)))
    truth = sigmoid(logits + rng.normal(0, noise, (N_TO_AVERAGE, 1))).mean()
    return right.mean(1).tolist(), float(truth)


def coverage(share: float, n_images: int, seed_noise: float, n: int, trials: int, seed: int) -> Shares:
    """`seed_noise` in points of accuracy."""
    rng, found = default_rng([seed, round(1000 * share), n_images, n]), []
    level, slope = level_for(share)
    while len(found) < trials:
        values, truth = draw(share, n_images, seed_noise / 100 / slope, n, rng, level)
        if intervals.interval(values).has_spread:
            logit, t = intervals.accuracy(values), intervals.interval(values)
            (low, high), half = logit.ends, t.half_width or 0.0
            left, right = max(t.mean - half, 0.0), min(t.mean + half, 1.0)
            is_outside = t.mean - half < 0 or t.mean + half > 1
            found.append((low <= truth <= high, left <= truth <= right, is_outside, high - low, right - left))
    return Shares(*map(float, np.mean(found, 0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| accuracy | test images | seed noise | seeds | logit | t, clipped | t leaves 0 to 100 % | width ", end="")
    print("| width, clipped |\n|---|---|---|---|---|---|---|---|---|")
    for share, n_images, noise in CASES:
        for n in (4, 8, 16):
            one = coverage(share, n_images, noise, n, given.trials, given.seed)
            cells = " | ".join(f"{100 * value:.1f} %" for value in one[:3])
            widths = " | ".join(f"{100 * value:.2f}" for value in one[3:])
            print(f"| {100 * share:g} % | {n_images:,} | {noise:g} | {n} | {cells} | {widths} |", flush=True)


if __name__ == "__main__":
    main()
