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
from . import verdicts
from .intervals import LEAST
from .intervals import accuracy as accuracy_of
from .race import N_FOLDS, Answers, Runners, accuracy, behind, difference, score
from .results import plain
from .verdicts import Case

FILE = "answer.json"  # of a run


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
    is_shortened: bool = False  # to fit into a time limit; with more time there is more to compare

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
    scores = [score(one) for one in (tables if n else raced.values()) if one]
    if runners.is_guessing or (n >= LEAST and verdicts.is_guessing(scores, largest)):
        says = verdicts.guessing(scores, largest, verdicts.longer(config))
        return Answer(says, None, None, Case.GUESSING.value, None, None, None, **rest)
    if n < LEAST:
        few = messages.use(incumbent, messages.too_few(challenger, messages.IT, n, "training"), for_now=True)
        use, says = (incumbent, few) if rest["is_final"] else so_far(raced, config, n_trainings)
        return Answer(says, use, None, Case.UNKNOWN.value, None, None, None, **rest)
    worth = verdicts.zone(config.worth, sum(map(len, tables[0][:N_FOLDS])))
    simpler = min(challenger, incumbent, key=names.index)
    found = verdicts.verdict(challenger, incumbent, difference(tables[0], tables[1]), worth, simpler)
    says = verdicts.answer(found, worth)
    assert found.gain is not None
    if found.use == challenger and (as_good := level(raced, runners)):
        says += f" {messages.close_behind(as_good)}"
    if not any(name.startswith(LEARNED) for name in (challenger, incumbent)):
        says += of_learned(raced, runners, incumbent)
    gain, low, high = verdicts.points(found.gain)
    says += f" {messages.holds_for(config.evaluate.epochs, config.model)}"
    if not rest["is_final"]:
        says = f"So far: {says[:1].lower()}{says[1:]}"
    numbers = gain + 0.0, (low, high), 100 * found.gain.reach()  # + 0.0: no -0.0
    return Answer(says, found.use, found.other, found.case.value, *numbers, **rest, gain_of=found.gain_of)


def so_far(raced: Mapping[str, Answers], config: RunConfig, n: int) -> tuple[str | None, str]:
    """What to use before the final, after n trainings: the default, if it has been trained."""
    incumbent, n_all = config.race.incumbent, config.race.n_trainings
    if not (own := raced.get(incumbent)):
        return None, messages.no_answer(incumbent, n, n_all)
    ahead = {name: gap(rows, own) for name, rows in raced.items() if rows}
    leader = max(ahead, key=lambda name: ahead[name])
    return incumbent, messages.so_far(incumbent, n, n_all, leader, 100 * ahead[leader])


def gap(one: Answers, other: Answers) -> float:
    """By how much one is ahead, over the trainings that both have."""
    n = min(len(one), len(other))
    return accuracy(one[:n]) - accuracy(other[:n])


def level(raced: Mapping[str, Answers], runners: Runners) -> list[str]:
    """The simple choices that dropped out level with the leader, over the trainings that both have: less than TIE
    behind it, or no more than a standard error, which takes two trainings."""
    leader = raced[runners.challengers[0]]
    found = []
    for name in runners.dropped:
        own, n = raced[name], len(raced[name])
        by = gap(leader, own)
        if form_of(name) is None and (100 * by < messages.TIE or (n > 1 and by <= difference(leader[:n], own).error)):
            found.append(name)
    return found


def of_learned(raced: Mapping[str, Answers], runners: Runners, incumbent: str) -> str:
    """What became of the learned policy, where it is not one of the last two."""
    if not raced.get(LEARNED):
        return ""
    n = runners.dropped[LEARNED]
    return f" {messages.learned_dropped(100 * behind(raced, LEARNED, incumbent, n), n)}"


def entrant(name: str, answers: Answers, dropped_after: int | None) -> Entrant:
    found = accuracy_of([float(one.mean()) for one in answers])
    low, high = found.ends
    around = None if found.low is None else (100 * low, 100 * high)
    return Entrant(name, found.n, 100 * found.mean, around, dropped_after)
