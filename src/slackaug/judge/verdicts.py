"""What to make of the difference between two: one rule and one set of sentences, for races, evaluations and studies.

Accuracies and their differences are shares.
"""

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Self

from torch import Tensor

from ..config.run_config import RunConfig
from ..messages import answer as messages
from .intervals import CHANCE, LEAST, Interval
from .scoring import largest_share

NEAR = 0.1  # of the way from naming the largest class to all right or all wrong: as near to it, little is learned
CHANCE_ERRORS = 2.0  # standard errors that the best of some guesses may be ahead by
LONGER = 4  # times the epochs, where networks have learned nothing
Score = tuple[float, int]  # mean accuracy, and of how many answers


class Case(Enum):
    BETTER = "better"
    AHEAD = "ahead"  # and at worst `worth` behind
    EQUAL = "equal"  # for practice
    UNKNOWN = "unknown"
    GUESSING = "guessing"  # nothing can be compared


class Verdict(NamedTuple):
    case: Case
    use: str
    other: str
    gain_of: str  # whom the sentence is about: what is better, or what is not shown to be
    gain: Interval | None  # of that one over the other of the two


class Judgement(NamedTuple):
    """A verdict in words, with what the documents have of it."""

    answer: str
    use: str | None = None  # None: there is no answer
    verdict: str | None = None  # of a Case; None: there was nothing to judge
    others: Sequence[str] = ()  # sentences on the same subject against all but the incumbent


class Terms(NamedTuple):
    """What verdicts by some test images go by."""

    worth: float
    n_images: int
    largest: float  # share of the largest class
    longer: Sequence[str]  # options for longer trainings

    @classmethod
    def of(cls, config: RunConfig, labels: Tensor, *, learns: bool = True) -> Self:
        """`labels`, of the test images; `learns`, whether there are searches, too."""
        again = ["--overwrite", *longer(config, learns=learns)]
        return cls(zone(config.worth, len(labels)), len(labels), largest_share(labels), again)


def zone(points: float, n_images: int) -> float:
    """What counts as no difference: so many points, or as much as one image of those tested counts."""
    return max(points / 100, 1 / n_images)


def verdict(
    challenger: str, incumbent: str, gain: Interval | None, worth: float, simpler: str | None = None
) -> Verdict:
    """The rule. `gain` is the challenger's, on images by which nothing was chosen; of equals, the incumbent is used
    unless another is `simpler`."""
    case, use = Case.UNKNOWN, incumbent
    if gain is not None and gain.tells:
        if abs(gain.mean) + gain.reach() <= worth:
            case, use = Case.EQUAL, simpler or incumbent
        elif abs(gain.mean) > gain.reach():
            case, use = Case.BETTER, challenger if gain.mean > 0 else incumbent
        elif gain.mean > 0 and gain.mean - gain.reach(0.1) > -worth:
            case, use = Case.AHEAD, challenger
    other = incumbent if use == challenger else challenger
    gain_of = use if case in (Case.BETTER, Case.AHEAD) else other
    if gain is not None and gain_of == incumbent:
        gain = gain._replace(mean=-gain.mean)
    return Verdict(case, use, other, gain_of, gain)


def is_guessing(scores: Sequence[Score], largest: float) -> bool:
    """Whether none of them clearly does better than naming the largest class each time."""
    near, noise = NEAR * min(largest, 1 - largest), math.sqrt(largest * (1 - largest))
    return all(accuracy - largest < max(near, CHANCE_ERRORS * noise / math.sqrt(n)) for accuracy, n in scores)


def judge(
    subject: str, incumbent: str, gains: Mapping[str, Interval | None], scores: Sequence[Score], terms: Terms
) -> Judgement:
    """`gains`, of the subject over the incumbent and others; `scores`, of all that were trained."""
    gain = gains[incumbent]
    if gain is not None and gain.n >= LEAST and is_guessing(scores, terms.largest):
        return Judgement(guessing(scores, terms.largest, terms.longer), None, Case.GUESSING.value)
    found = verdict(subject, incumbent, gain, terms.worth)
    others = [verdict(subject, name, one, terms.worth) for name, one in gains.items() if name != incumbent and one]
    beside = tuple(why(one, one.use, terms.worth) for one in others)
    return Judgement(answer(found, terms.worth), found.use, found.case.value, beside)


# --- in words ---------------------------------------------------------------------------------------------------------


def answer(found: Verdict, worth: float) -> str:
    return messages.use(found.use, why(found, messages.IT, worth), for_now=found.case is Case.UNKNOWN)


def why(found: Verdict, use: str, worth: float) -> str:
    """How the two compare; `use`, what to call the one to use."""
    other, gain = found.other, found.gain
    if gain is None:
        return messages.no_common_seed(other, use)
    if gain.n < LEAST:
        return messages.too_few(other, use, gain.n, gain.unit)
    if not gain.has_spread:
        return messages.no_spread(other, use, 100 * gain.mean, gain.counted())
    said = use, other, *points(gain)
    match found.case:
        case Case.BETTER:
            return messages.better(*said)
        case Case.AHEAD:
            return messages.ahead(*said)
        case Case.EQUAL:
            return messages.equal(*said, round(100 * worth, 2))
    return messages.unknown(*said)


def points(found: Interval, chance: float = CHANCE) -> tuple[float, float, float]:
    """The mean and the ends of the interval that misses the truth with this chance."""
    reach = found.reach(chance)
    return 100 * found.mean, 100 * (found.mean - reach), 100 * (found.mean + reach)


def guessing(scores: Sequence[Score], largest: float, longer: Sequence[str]) -> str:
    return messages.guessing(100 * max(accuracy for accuracy, _ in scores), 100 * largest, longer)


def longer(config: RunConfig, *, learns: bool = True) -> list[str]:
    """Options for trainings in which networks have more time to learn; `learns`, for a search as well."""
    epochs = {"pretrain": config.pretrain.epochs} if learns else {}
    epochs["evaluate"] = config.evaluate.epochs
    return [word for which, n in epochs.items() for word in ("--set", f"{which}.epochs={LONGER * n}")]


def better_still(used: str, gains: Mapping[str, Interval | None]) -> str:
    """A warning where one of the others is better than what is used; corrected for how many there are."""
    told = {name: points(gain, CHANCE / len(gains)) for name, gain in gains.items() if gain is not None and gain.tells}
    best = max(told, key=lambda name: told[name][1], default=None)
    return f" {messages.better_still(best, used, *told[best])}" if best is not None and told[best][1] > 0 else ""
