"""What a run's answer.json says: what to use, and how each candidate did in the race."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..judge.answer import FILE, Answer, Entrant
from ..judge.intervals import Accuracy
from ..messages import answer as messages
from ..messages import counted
from ..messages.names import LEARNED, spoken
from .accuracies import Mark
from .outcome import BETTER, check, read_as


class Raced(NamedTuple):
    """The two that were in to the end come first, and of them the one to use."""

    sentence: str
    use: str | None  # None: there is no answer yet
    is_final: bool
    tone: str  # better or open
    marks: list[Mark]
    final: list[Mark]  # of the last two alone, on new seeds and other images
    n_trainings: str

    @property
    def is_learned(self) -> bool:
        """Whether to use the learned policy, perhaps taken further."""
        return self.use is not None and self.use.startswith(LEARNED)

    @property
    def about(self) -> str:
        """What the dots and bars show, and how far the race went."""
        has_bars = any(one.accuracy.low is not None for one in self.marks)
        bars = "; bars are 95 % intervals, from four trainings on" if has_bars else ""
        if not self.use and self.is_final:
            came = "Nobody did clearly better than guessing."
        elif self.is_final or self.final:
            came = "The race chose who meets the default in the final."
        else:
            came = "It was stopped before it chose who meets the default in the final."
        how = "With the final, it took" if self.is_final and self.final else "It ended after"
        return f"{came} Dots are accuracies on held-out images{bars}. {how} {self.n_trainings}."


def read(run: Path, default: str) -> Raced | None:
    """None where there is no answer yet; `default` is always in the final. Raises a PolicyError on a file that is not
    whole or not ours."""
    path = run / FILE
    return read_as(path, Answer, partial(of_answer, default=default)) if path.is_file() else None


def of_answer(found: Answer, default: str) -> Raced:
    order = sorted(found.candidates, key=lambda one: (one.dropped_after is not None, one.name != found.use,
                                                      -(one.dropped_after or 0), -one.accuracy))  # fmt: skip
    return Raced(
        found.sentence,
        found.use,
        found.is_final,
        "better" if found.verdict in BETTER else "open",
        [mark(one, found.use, default, is_final=found.is_final) for one in order],
        [in_final(one, found.use, default) for one in sorted(found.last_two, key=lambda one: one.name != found.use)],
        counted(found.n_trainings, "training"),
    )


def mark(one: Entrant, use: str | None, default: str, *, is_final: bool) -> Mark:
    name, trained, accuracy = messages.capital(spoken(one.name)), counted(one.n, "training"), in_shares(one)
    if use is None:
        return Mark(name, accuracy, trained, "out")
    if one.dropped_after is not None:
        return Mark(name, accuracy, f"dropped out after {trained}", "out")
    stays = "the default, always in the final" if one.name == default else "in to the end"
    note = "the answer" if one.name == use else stays
    return Mark(name, accuracy, note if is_final else trained, "first")


def in_final(one: Entrant, use: str | None, default: str) -> Mark:
    """With two decimals, for the difference is in the answer with one: with one each, rounding could contradict it."""
    found = mark(one, use, default, is_final=False)
    return found._replace(note=f"the answer, {found.note}" if one.name == use else found.note, digits=2)


def in_shares(one: Entrant) -> Accuracy:
    """Its accuracy, which is in per cent."""
    low, high = (end / 100 for end in one.interval) if one.interval else (None, None)
    found = Accuracy(one.accuracy / 100, low, high, one.n, "training")
    check(found)
    return found
