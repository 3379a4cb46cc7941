"""Accuracies with their intervals on one axis: those of a race, and those of an evaluation."""

from collections.abc import Sequence
from typing import NamedTuple

from ..judge.intervals import Accuracy
from .geometry import ticks


class Mark(NamedTuple):
    """A line of the chart: a name, what is known of it, and where it stands."""

    name: str
    accuracy: Accuracy
    note: str = ""
    kind: str = ""  # first, out, or empty
    digits: int = 1  # after the point

    @property
    def value(self) -> str:
        mean, *ends = (f"{100 * share:.{self.digits}f}" for share in (self.accuracy.mean, *self.accuracy.ends))
        return f"{mean} % ({' to '.join(ends)})" if self.accuracy.low is not None else f"{mean} %"


class Axis(NamedTuple):
    """The range of accuracies that the chart shows."""

    low: float
    high: float

    @property
    def ticks(self) -> list[float]:
        return [tick for tick in ticks(self.low, self.high, 4) if 0 <= tick <= 1]  # there is room on both sides

    def at(self, value: float) -> float:
        """Where a value lies, in per cent of the width."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)


def axis(marks: Sequence[Mark]) -> Axis:
    """From the lowest end of an interval to the highest, with a little room."""
    ends = [end for mark in marks for end in mark.accuracy.ends]
    room = max(0.06 * (max(ends) - min(ends)), 0.001)
    return Axis(min(ends) - room, max(ends) + room)
