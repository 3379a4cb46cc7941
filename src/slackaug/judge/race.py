"""The race: each candidate is trained a few times, those plainly behind drop out, and the last two meet afresh.

What is known of a candidate is a table of right and wrong answers, a row for each training. All that is decided here
is a function of these tables: so a stopped race resumes from its files, and it can be simulated, as
research/race_errors.py does.

Training images are in two halves: a race tests on folds of the one, the last word on folds of the other, and each
training has all images but its fold to learn from. A search learned phi by the first and theta on the second.

Two things make an accuracy uncertain, and both are counted: another seed would give another network, and other images
would be other questions. Axes: S seeds, I images.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..config.run_config import RaceConfig
from .intervals import Interval, t_factor
from .verdicts import Score, is_guessing

N_FOLDS = 2  # of each half
Answers = Sequence[NDArray[np.bool_]]  # by seed: whether the training had each image of its fold right
Entry = tuple[str, int]  # a candidate and a seed


# --- two candidates ---------------------------------------------------------------------------------------------------


def difference(a: Answers, b: Answers, n_folds: int = N_FOLDS) -> Interval:
    """Subtract b from a, after trainings with the same seeds, and so on the same images; the seeds do not pair them.

    While each fold is used once, differences by seed are independent, and their variance has all that chance did. From
    then on the same images are asked again, and what two candidates differ by on these very images does not go away.
    """
    n, n_images = len(a), sum(len(answers) for answers in a[:n_folds])
    gaps = np.array([x.mean() - y.mean() for x, y in zip(a, b, strict=True)])
    images = 0.0
    if n > n_folds:
        pairs = [(np.stack(a[f::n_folds]).astype(float), np.stack(b[f::n_folds])) for f in range(n_folds)]
        by_image = np.concatenate([x.mean(0) - y.mean(0) for x, y in pairs])
        again = [pair for pair in pairs if len(pair[0]) > 1]  # single answers differ from seed to seed, too
        single = np.mean([np.mean(sum(answers.var(0, ddof=1) for answers in pair)) / len(pair[0]) for pair in again])
        images = max(by_image.var(ddof=1) - single, 0.0) / n_images * (1 - n_folds / n)
    tie = 2 / n_images**2  # as if one more image spoke for each side: where all agree, nothing is certain yet
    error = math.sqrt(gaps.var(ddof=1) / n + images + tie)
    return Interval(float(gaps.mean()), t_factor(n) * error, n, "training")


# --- the race ---------------------------------------------------------------------------------------------------------


class Runners(NamedTuple):
    """Who is still in, and what to train before more can be said; none: the race is over."""

    challengers: list[str]  # one when it is over
    wanted: list[Entry]
    dropped: dict[str, int]  # after how many trainings each
    is_guessing: bool = False  # the race is over, for none of those who were in did better than guessing


def race(
    found: Mapping[str, Answers], config: RaceConfig, n_rounds: int | None = None, largest: float = 0.0
) -> Runners:
    """Say how far the race is; `found` has a row for each seed from 0 on. After n_rounds the best so far is left.

    `largest`, the share of the largest class: where all guess at the end of a round, there is nothing to compare.

    In each round the worse half of the challengers drops out, and the others get as many trainings again; of the last
    two or three, the best one is left. The incumbent runs along. Whether the one that is left is better is decided by
    the last word alone, so choosing it among many cannot make anything look better than it is.
    """
    alive, dropped = [name for name in config.candidates if name != config.incumbent], dict[str, int]()
    for n_alive, n in config.rounds[:n_rounds]:
        alive, out = alive[:n_alive], alive[n_alive:]
        dropped |= dict.fromkeys(out, n // 2)
        racing = [config.incumbent, *alive]  # first what is used in doubt: a race may be stopped at any time
        if wanted := [(name, seed) for seed in range(n) for name in racing if seed >= len(found.get(name, ()))]:
            return Runners(alive, wanted, dropped)
        alive.sort(key=lambda name: -accuracy(found[name][:n]))
        if is_guessing([score(found[name][:n]) for name in racing], largest):
            return Runners(alive[:1], [], dropped, is_guessing=True)
    return Runners(alive[:1], [], dropped | dict.fromkeys(alive[1:], n))


def behind(found: Mapping[str, Answers], name: str, incumbent: str, n: int) -> float:
    """How far a challenger is from the one that led after n trainings, which need not be the one that leads now."""
    others = (answers[:n] for other, answers in found.items() if other != incumbent and len(answers) >= n)
    return max(map(accuracy, others)) - accuracy(found[name][:n])


def accuracy(answers: Answers) -> float:
    return float(np.mean([one.mean() for one in answers]))


def score(answers: Answers) -> Score:
    return accuracy(answers), sum(map(len, answers))
