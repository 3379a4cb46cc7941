"""Line charts: a frame with axes, which maps data to the figure, and the curves of a search."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from .scene import (
    LINE,
    SMALL,
    TEXT,
    WIDTH,
    Circle,
    Line,
    Point,
    Scene,
    Shape,
    Text,
    paragraph,
    shorten,
    spread,
    text_width,
)

LEFT, RIGHT, TOP, BOTTOM = 34.0, 12.0, 26.0, 40.0  # margins around a frame


class Frame(NamedTuple):
    """The rectangle in which a chart draws, and the ranges of the data."""

    x: tuple[float, float]
    y: tuple[float, float]
    height: float  # of the whole chart
    right: float = RIGHT  # margins
    left: float = LEFT

    def __call__(self, x: float, y: float) -> Point:
        (x0, x1), (y0, y1) = self.x, self.y
        across = (x - x0) / (x1 - x0)
        down = (y1 - y) / (y1 - y0)
        return self.left + across * (self.end - self.left), TOP + down * (self.floor - TOP)

    @property
    def end(self) -> float:
        return WIDTH - self.right

    @property
    def floor(self) -> float:
        return self.height - BOTTOM


class Curve(NamedTuple):
    name: str
    points: Sequence[Point]  # in the data's units
    stroke: str
    width: float = 1.8
    dots: Sequence[Point] = ()
    is_labelled: bool = True  # at its end
    hint: str = ""
    dashed: bool = False
    value: str = ""  # stands behind the name, however short that must become


MAX_MARKS = 20  # of rounds
STEPS: list[int] = [factor * 10**power for power in range(9) for factor in (1, 2, 5)]  # from one mark to the next
LEADER = 15.0  # from the end of a curve to its name
MOST_FOR_NAMES = 0.44  # of the width


def room_for_names(curves: Sequence[Curve]) -> float:
    """A right margin in which the names fit, as far as the curves can spare it."""
    widths = [text_width(curve.name + curve.value, TEXT) for curve in curves if curve.is_labelled]
    return min(LEADER + 4 + max(widths, default=0.0), MOST_FOR_NAMES * WIDTH)


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Round numbers from low to high, about n of them."""
    step = 10 ** math.floor(math.log10((high - low) / n))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (step * factor) <= n)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def padded(values: Sequence[float]) -> tuple[float, float]:
    """A range that holds all values with a little room; from zero on, where they come near it."""
    low, high = min(values), max(values)
    if 0 <= low < high / 2:
        return 0.0, 1.08 * high
    if low == high == 0:
        return 0.0, 1.0
    room = (high - low) * 0.08 or abs(high) * 0.08 or 1.0
    return low - room, high + room


def with_room(frame: Frame) -> Frame:
    """The frame with a left margin in which its numbers fit."""
    return frame._replace(left=max(LEFT, 10 + max(text_width(f"{value:g}", SMALL) for value in ticks(*frame.y))))


def axes(frame: Frame, y_label: str) -> list[Shape]:
    """Levels with their numbers, rounds with theirs, and what they count."""
    shapes: list[Shape] = [Text(4, 14, y_label, "muted", SMALL)]
    for value in ticks(*frame.y):
        _, y = frame(frame.x[0], value)
        shapes.append(Line([(frame.left, y), (frame.end, y)], "rule", 0.7))
        shapes.append(Text(frame.left - 6, y + 4, f"{value:g}", "muted", SMALL, "end"))
    if frame.x[1] > 0:
        middle = (frame(0, frame.y[0])[0] + frame.end) / 2
        shapes.append(Text(middle, frame.height - 6, "rounds done", "muted", SMALL, "middle"))
    return shapes + round_ticks(frame)


def rounds_apart(n_rounds: float) -> int:
    """Of the marks of rounds, so that there are not too many."""
    return next(k for k in STEPS if n_rounds / k <= MAX_MARKS)


def round_ticks(frame: Frame) -> list[Shape]:
    """A line at the start of rounds, where the anchor is set, and numbers as far as there is room."""
    first, last = math.ceil(frame.x[0]), math.floor(frame.x[1] + 1e-9)
    apart = rounds_apart(last - first)
    every = next(k for k in STEPS if k >= apart and k * (frame.end - frame.left) >= 26 * (last - first))
    shapes: list[Shape] = []
    for k in range(first, last + 1):
        if k not in (first, last) and k % apart:
            continue
        x, _ = frame(k, frame.y[0])
        shapes.append(Line([(x, TOP), (x, frame.floor)], "rule", 0.7, k not in (first, last)))
        if k >= 0 and k % every == 0:
            shapes.append(Text(x, frame.floor + 16, str(k), "muted", SMALL, "middle"))
    if first < 0:
        x = (frame.left + frame(0, frame.y[0])[0]) / 2
        shapes.append(Text(x, frame.height - 6, "pre-training", "muted", SMALL, "middle"))
    return shapes


def curve_shapes(frame: Frame, curves: Sequence[Curve]) -> list[Shape]:
    """Muted curves first; names of the labelled ones at their ends, apart from one another."""
    shapes: list[Shape] = []
    for curve in sorted(curves, key=lambda c: c.is_labelled):
        shapes.append(Line([frame(*p) for p in curve.points], curve.stroke, curve.width, curve.dashed, curve.hint))
        shapes += [Circle(*frame(*p), 3.0, curve.stroke, "paper", title=curve.hint) for p in curve.dots]
    named = sorted((c for c in curves if c.is_labelled), key=lambda c: -c.points[-1][1])
    wanted = [frame(*c.points[-1])[1] for c in named]
    x = frame.end + LEADER - 1
    for curve, y in zip(named, spread(wanted, [LINE] * (len(named) - 1), TOP, frame.floor), strict=True):
        shapes.append(Line([frame(*curve.points[-1]), (x - 2, y)], curve.stroke, 0.8))
        name = shorten(curve.name, TEXT, WIDTH - x - 2 - text_width(curve.value, TEXT)) + curve.value
        shapes.append(Text(x + 1, y + TEXT / 3, name, "muted" if curve.dashed else "ink", title=curve.hint))
    return shapes


def empty(title: str, reason: str) -> Scene:
    """Where there is nothing to draw yet."""
    return Scene(title, reason, 60, [Text(8, 24, title, bold=True), *paragraph(reason, 44)[0]])
