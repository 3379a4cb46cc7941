"""The race: each candidate is trained a few times, those plainly behind drop out, and the last two meet afresh.

What is known of a candidate is a table of right and wrong answers, a row for each training. All that is decided here
is a function of these tables: so a race that was stopped goes on from its files, and it can be simulated, as
`race_errors.py` does. This is a design to be measured; nothing in the package races yet.

Images are in two halves: a race tests on folds of the one, the last word on folds of the other, and each training has
all images but its fold to learn from. A search can learn theta on the second and phi by the first.

Two things make an accuracy uncertain, and both are counted: another seed would give another network, and other images
would be other questions. Axes: S seeds, I images.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slackaug.schema import check_bounds

Answers = Sequence[NDArray[np.bool_]]  # by seed: whether the training had each image of its fold right
Entry = tuple[str, int]  # a candidate and a seed


@dataclass(frozen=True, kw_only=True)
class RaceConfig:
    """How a race is run; its error rates are in notebook.md."""

    worth: Annotated[float, "points of accuracy that are worth a change; less is equal for practice"] = 0.25
    n_first: Annotated[int, "trainings of each candidate before the first drops out"] = 3
    n_race: Annotated[int, "trainings, at most, of those that stay in the race"] = 9
    n_last: Annotated[int, "trainings of each of the last two, with seeds and on images that nothing was chosen by"] = 9
    alpha: Annotated[float, "chance, over all rounds and candidates, that one drops out which is not behind"] = 0.1

    def __post_init__(self) -> None:
        check_bounds(self, "race.", at_least_1=("n_first", "n_race", "n_last"), not_negative=("worth",))
        if self.n_first < 2 or self.n_last < 2:
            raise ValueError("race.n_first and race.n_last must be at least 2: one training tells nothing of chance")


# --- two candidates ---------------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """Of two accuracies, over all seeds and all images of the kind."""

    mean: float
    error: float  # standard error
    freedom: float  # degrees of freedom

    def reach(self, chance: float) -> float:
        """The half-width of the interval that misses the truth with this chance, half of it on each side."""
        from scipy.special import stdtrit  # scipy.stats would take most of a second

        return self.error * float(stdtrit(self.freedom, 1 - chance / 2))


def difference(a: Answers, b: Answers, n_folds: int, spread: "Spread | None" = None) -> Difference:
    """Of a less b, after trainings with the same seeds, and so on the same images; the seeds themselves do not pair.

    While each fold is used once, differences by seed are independent, and their variance has all that chance did. From
    then on the same images are asked again, and what two candidates differ by on these very images does not go away.
    """
    n, n_images = len(a), sum(len(answers) for answers in a[:n_folds])
    gaps = np.array([x.mean() - y.mean() for x, y in zip(a, b, strict=True)])
    variance, freedom = spread or Spread(float(gaps.var(ddof=1)), n - 1)
    images = 0.0
    if n > n_folds:
        pairs = [(np.stack(a[f::n_folds]).astype(float), np.stack(b[f::n_folds])) for f in range(n_folds)]
        by_image = np.concatenate([x.mean(0) - y.mean(0) for x, y in pairs])
        again = [pair for pair in pairs if len(pair[0]) > 1]  # single answers differ from seed to seed, too
        single = np.mean([np.mean(sum(answers.var(0, ddof=1) for answers in pair)) / len(pair[0]) for pair in again])
        images = max(by_image.var(ddof=1) - single, 0.0) / n_images * (1 - n_folds / n)
    tie = 2 / n_images**2  # as if one more image spoke for each side: where all agree, nothing is certain yet
    return Difference(float(gaps.mean()), math.sqrt(variance / n + images + tie), freedom)


class Spread(NamedTuple):
    """The variance of a difference by seed, over the pairs of several candidates."""

    variance: float
    freedom: int

    @classmethod
    def of(cls, tables: Sequence[Answers]) -> "Spread":
        """What is left of accuracies (C, S) when each candidate and each seed, that is fold, has its own mean."""
        accuracies = np.array([[answers.mean() for answers in table] for table in tables])
        rest = accuracies - accuracies.mean(1, keepdims=True) - accuracies.mean(0) + accuracies.mean()
        freedom = (len(tables) - 1) * (accuracies.shape[1] - 1)
        return cls(2 * float((rest**2).sum()) / freedom, freedom)


# --- the race ---------------------------------------------------------------------------------------------------------


class Standing(NamedTuple):
    """Who is still in, best first, and what to train before more can be said; none: the race is over."""

    alive: list[str]
    wanted: list[Entry]


def race(found: Mapping[str, Answers], candidates: Sequence[str], n_folds: int, config: RaceConfig) -> Standing:
    """The race so far, of candidates in the order of their simplicity; `found` has a row for each seed from 0 on."""
    alive, n = list(candidates), config.n_first
    n_tests = (len(candidates) - 1) * len(range(config.n_first, config.n_race + 1))
    while True:
        if wanted := [(name, seed) for seed in range(n) for name in alive if seed >= len(found.get(name, ()))]:
            return Standing(alive, wanted)
        tables = {name: found[name][:n] for name in alive}
        alive = sorted(alive, key=lambda name: -float(np.mean([answers.mean() for answers in tables[name]])))
        spread = Spread.of(list(tables.values()))
        leader = tables[alive[0]]
        behind = [difference(leader, tables[name], n_folds, spread) for name in alive[1:]]
        alive = alive[:1] + [
            name for name, d in zip(alive[1:], behind, strict=True) if d.mean < d.reach(2 * config.alpha / n_tests)
        ]
        if len(alive) <= 2 or n >= config.n_race:
            return Standing(alive, [])
        n += 1


def last_two(alive: Sequence[str], incumbent: str) -> tuple[str, str]:
    """The challenger and the incumbent. Where that is out of the race, the leader takes its place."""
    if incumbent not in alive:
        incumbent = alive[0]
    return next(name for name in alive if name != incumbent), incumbent


class Kind(Enum):
    BETTER = "better"
    AHEAD = "ahead, and at most the zone worse"
    EQUAL = "equal for practice"
    UNKNOWN = "cannot tell"


class Verdict(NamedTuple):
    use: str
    other: str
    kind: Kind
    gain: Difference  # of what to use over the other


def verdict(challenger: str, incumbent: str, simpler: str, gain: Difference, worth: float) -> Verdict:
    """The last word: `gain` is that of the challenger, where nothing was chosen by; `worth` a share."""
    reach = gain.reach(0.05)
    if abs(gain.mean) + reach <= worth:
        kind, use = Kind.EQUAL, simpler
    elif abs(gain.mean) > reach:
        kind, use = Kind.BETTER, challenger if gain.mean > 0 else incumbent
    elif gain.mean > 0 and gain.mean - gain.reach(0.1) > -worth:
        kind, use = Kind.AHEAD, challenger
    else:
        kind, use = Kind.UNKNOWN, incumbent
    if use == challenger:
        return Verdict(challenger, incumbent, kind, gain)
    return Verdict(incumbent, challenger, kind, gain._replace(mean=-gain.mean))
