"""What to use, and how sure that is: the end of a race as a document and a sentence."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .. import schema
from ..augment.display import displayed
from ..config.run_config import RaceConfig
from ..messages import answer as messages
from ..messages.names import LEARNED
from .intervals import LEAST
from .intervals import accuracy as accuracy_of
from .race import N_FOLDS, Answers, Case, Difference, Runners, Verdict, accuracy, difference, verdict
from .results import plain

FILE = "answer.json"  # of a run
NOT_GUESSED = 1.1  # times the largest class: accuracies below say little


class Entrant(NamedTuple):
    """What the race found of a candidate; accuracies are in per cent."""

    name: str
    n: int  # trainings
    accuracy: float
    interval: tuple[float, float] | None
    dropped_after: int | None  # trainings; None: it was in to the end


@displayed
class Answer(NamedTuple):
    """Gains are in points of accuracy, and those of `use` over `other`."""

    sentence: str
    use: str
    other: str | None
    verdict: str  # better, ahead, equal or unknown
    gain: float | None
    interval: tuple[float, float] | None
    smallest_gain: float | None  # that could have been seen
    is_final: bool
    candidates: list[Entrant]
    n_trainings: int
    seconds: float
    last_two: Sequence[Entrant] = ()  # in the final, on new seeds and other images: between these is the gain

    def __repr__(self) -> str:
        return f"Answer({self.sentence!r})"

    def to_json(self) -> str:
        return json.dumps({"schema_version": 1} | plain(self), indent=1, allow_nan=False)


def load(folder: Path) -> Answer | None:
    """Read the answer of a run, if it is there and whole."""
    try:
        return schema.record(schema.read_json(folder / FILE), "", Answer)
    except schema.PolicyError:
        return None


def answer(
    runners: Runners,
    raced: Mapping[str, Answers],
    last: Mapping[str, Answers],
    config: RaceConfig,
    worth: float,
    seconds: float,
    largest: float,
) -> Answer:
    """Answer from what is known so far; final if the last two have been trained as often as they should.

    `worth`, in points: where one image of those tested counts more than that, as much as it does. `largest`, the share
    of the largest class.
    """
    challenger, incumbent, names = runners.challengers[0], config.incumbent, config.candidates
    n = min(len(last.get(name, ())) for name in (challenger, incumbent))
    entrants = [entrant(name, raced[name], runners.dropped.get(name)) for name in names if raced.get(name)]
    n_trainings = sum(map(len, raced.values())) + sum(map(len, last.values()))
    rest: dict[str, Any] = {
        "is_final": not runners.wanted and n >= config.n_last,
        "candidates": entrants,
        "n_trainings": n_trainings,
        "seconds": round(seconds, 1),
        "last_two": [entrant(name, last[name][:n], None) for name in (challenger, incumbent) if n],
    }
    best = max((one.accuracy / 100 for one in entrants), default=1.0)
    guessed = f" {messages.guessing(best, largest)}" if best < NOT_GUESSED * largest else ""
    if n < LEAST:
        says = messages.too_few(incumbent, n) if rest["is_final"] else messages.so_far(incumbent, n_trainings)
        says += guessed
        return Answer(says, incumbent, None, Case.UNKNOWN.value, None, None, None, **rest)
    tables = last[challenger][:n], last[incumbent][:n]
    worth = max(worth, 100 / sum(len(answers) for answers in tables[0][:N_FOLDS]))
    gain = difference(*tables)
    found = verdict(challenger, incumbent, min(challenger, incumbent, key=names.index), gain, worth / 100)
    says = sentence(found, worth)
    if not any(name.startswith(LEARNED) for name in (challenger, incumbent)):
        says += behind(raced, runners)
    low, high = ends(found.gain)
    points = 100 * found.gain.mean + 0.0, (low, high), 100 * found.gain.reach(0.05)  # + 0.0: no -0.0
    says += guessed
    if not rest["is_final"]:
        says = f"So far: {says[:1].lower()}{says[1:]}"
    return Answer(says, found.use, found.other, found.case.value, *points, **rest)


def ends(gain: Difference) -> tuple[float, float]:
    """Return the ends of its interval, in points."""
    reach = gain.reach(0.05)
    return 100 * (gain.mean - reach), 100 * (gain.mean + reach)


def sentence(found: Verdict, worth: float) -> str:
    low, high = ends(found.gain)
    names, mean = (found.use, found.other), 100 * found.gain.mean
    match found.case:
        case Case.BETTER:
            return messages.better(*names, mean, low, high)
        case Case.AHEAD:
            return messages.ahead(*names, mean, low, high, round(worth, 2))
        case Case.EQUAL:
            return messages.equal(*names, -mean, -high, -low, round(worth, 2))
        case Case.UNKNOWN:
            return messages.unknown(*names, -mean, -high, -low)


def behind(raced: Mapping[str, Answers], runners: Runners) -> str:
    """What became of the learned policy, where it is not one of the last two."""
    learned = raced.get(LEARNED)
    if not learned:
        return ""
    n = len(learned)
    gap = accuracy(raced[runners.challengers[0]][:n]) - accuracy(learned)
    return f" {messages.learned_dropped(100 * gap, n)}"


def entrant(name: str, answers: Answers, dropped_after: int | None) -> Entrant:
    found = accuracy_of([float(one.mean()) for one in answers])
    low, high = found.ends
    around = None if found.low is None else (100 * low, 100 * high)
    return Entrant(name, found.n, 100 * found.mean, around, dropped_after)
