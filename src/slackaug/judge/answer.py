"""What to use, and how sure that is: the end of a race as a document and a sentence."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .. import schema
from ..augment.display import displayed
from ..config.run_config import RunConfig
from ..messages import answer as messages
from ..messages.names import LEARNED, form_of
from .intervals import LEAST
from .intervals import accuracy as accuracy_of
from .race import N_FOLDS, Answers, Case, Difference, Runners, Verdict, accuracy, difference, is_guessing, verdict
from .results import plain

FILE = "answer.json"  # of a run
LONGER = 4  # times the epochs, where networks have learned nothing
GUESSING = "guessing"  # the verdict where nothing can be compared


class Entrant(NamedTuple):
    """What the race found of a candidate; accuracies are in per cent."""

    name: str
    n: int  # trainings
    accuracy: float
    interval: tuple[float, float] | None
    dropped_after: int | None  # trainings; None: it was in to the end


@displayed
class Answer(NamedTuple):
    """The gain is in points of accuracy, and that of `gain_of` over the other of the two, as the sentence says it."""

    sentence: str
    use: str | None  # None: there is no answer yet
    other: str | None
    verdict: str  # better, ahead, equal, unknown or guessing
    gain: float | None
    interval: tuple[float, float] | None
    smallest_gain: float | None  # that could have been seen
    is_final: bool
    candidates: list[Entrant]
    n_trainings: int
    seconds: float
    last_two: Sequence[Entrant] = ()  # in the final, on new seeds and other images: between these is the gain
    gain_of: str | None = None

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
    config: RunConfig,
    seconds: float,
    largest: float,
) -> Answer:
    """Answer from what is known so far; final if the last two have been trained as often as they should, or all guess.

    `largest`, the share of the largest class.
    """
    challenger, incumbent, names = runners.challengers[0], config.race.incumbent, config.race.candidates
    n = min(len(last.get(name, ())) for name in (challenger, incumbent))
    entrants = [entrant(name, raced[name], runners.dropped.get(name)) for name in names if raced.get(name)]
    n_trainings = sum(map(len, raced.values())) + sum(map(len, last.values()))
    rest: dict[str, Any] = {
        "is_final": not runners.wanted and (runners.is_guessing or n >= config.race.n_last),
        "candidates": entrants,
        "n_trainings": n_trainings,
        "seconds": round(seconds, 1),
        "last_two": [entrant(name, last[name][:n], None) for name in (challenger, incumbent) if n],
    }
    tables = [last.get(name, ())[:n] for name in (challenger, incumbent)]
    if runners.is_guessing or (n >= LEAST and is_guessing(tables, largest)):
        best = max(one.accuracy for one in rest["last_two"] or entrants)
        says = messages.guessing(best, 100 * largest, longer(config))
        return Answer(says, None, None, GUESSING, None, None, None, **rest)
    if n < LEAST:
        says = messages.too_few(incumbent, n) if rest["is_final"] else messages.so_far(incumbent, n_trainings)
        return Answer(says, incumbent, None, Case.UNKNOWN.value, None, None, None, **rest)
    # where one image of those tested counts more than what is worth a change, as much as it does
    worth = max(config.worth, 100 / sum(len(answers) for answers in tables[0][:N_FOLDS]))
    gain = difference(tables[0], tables[1])
    found = verdict(challenger, incumbent, min(challenger, incumbent, key=names.index), gain, worth / 100)
    subject, gain = as_said(found)
    says = sentence(found, gain, worth)
    if found.use == challenger and (as_good := level(raced, runners)):
        says += f" {messages.did_as_well(as_good)}"
    if not any(name.startswith(LEARNED) for name in (challenger, incumbent)):
        says += behind(raced, runners)
    points = 100 * gain.mean + 0.0, ends(gain), 100 * gain.reach(0.05)  # + 0.0: no -0.0
    if not rest["is_final"]:
        says = f"So far: {says[:1].lower()}{says[1:]}"
    return Answer(says, found.use, found.other, found.case.value, *points, **rest, gain_of=subject)


def longer(config: RunConfig) -> list[str]:
    """Settings for a search whose networks have more time to learn."""
    epochs = {"pretrain": config.pretrain.epochs, "evaluate": config.evaluate.epochs}
    return [f"{which}.epochs={LONGER * n}" for which, n in epochs.items()]


def as_said(found: Verdict) -> tuple[str, Difference]:
    """Whose gain the sentence has, and that gain: of what is better, or of what is not shown to be."""
    if found.case in (Case.BETTER, Case.AHEAD):
        return found.use, found.gain
    return found.other, found.gain._replace(mean=-found.gain.mean)


def ends(gain: Difference) -> tuple[float, float]:
    """Return the ends of its interval, in points."""
    reach = gain.reach(0.05)
    return 100 * (gain.mean - reach), 100 * (gain.mean + reach)


def sentence(found: Verdict, gain: Difference, worth: float) -> str:
    said = found.use, found.other, 100 * gain.mean, *ends(gain)
    match found.case:
        case Case.BETTER:
            return messages.better(*said)
        case Case.AHEAD:
            return messages.ahead(*said)
        case Case.EQUAL:
            return messages.equal(*said, round(worth, 2))
        case Case.UNKNOWN:
            return messages.unknown(*said)


def level(raced: Mapping[str, Answers], runners: Runners) -> list[str]:
    """The simple choices that dropped out level with the leader, over the trainings that both have: less than TIE
    behind it, or no more than a standard error, which takes two trainings."""
    leader = raced[runners.challengers[0]]
    found = []
    for name in runners.dropped:
        own, n = raced[name], len(raced[name])
        gap = accuracy(leader[:n]) - accuracy(own)
        if form_of(name) is None and (100 * gap < messages.TIE or (n > 1 and gap <= difference(leader[:n], own).error)):
            found.append(name)
    return found


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
