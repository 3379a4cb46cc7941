"""A policy or the result of a command in a notebook: a sentence, a picture and a table."""

import hashlib
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from ..augment.policy import Policy
from ..foreign import extra
from ..judge.answer import Answer
from ..judge.intervals import Accuracy, Interval
from . import policy_figures, render
from .geometry import padded, ticks
from .lettering import SMALL, shorten
from .race import in_shares
from .scene import WIDTH, Circle, Line, Numbers, Scene, Shape, Text, empty

NAMES = 120.0  # width of the column of names
ROW = 22.0


class Sheet(NamedTuple):
    sentence: str
    picture: Scene
    table: Numbers  # with numbers for programs


def sheet(shown: Any) -> Sheet:
    """Of a policy, an answer, the results of an evaluation or a study, or of a search, which has the first two."""
    if isinstance(shown, Policy):
        picture = policy_figures.pie(shown)
        return Sheet(repr(shown), picture, picture.table)
    if isinstance(shown, Answer):
        found = [(one.name, in_shares(one)) for one in shown.candidates]
        counted = [[*in_percent(*one), one[1].n] for one in found]
        return Sheet(shown.sentence, intervals(found), Numbers([*HEADERS, "trainings"], counted))
    if hasattr(shown, "policy"):
        own = sheet(shown.policy)
        return own if shown.answer is None else own._replace(sentence=shown.answer.sentence)
    counted = [[*in_percent(row.name, row.accuracy), row.accuracy.n, *gain(row.difference)] for row in shown.rows]
    headers = [*HEADERS, "n", "to the first baseline", "± (95 %)"]
    return Sheet(shown.answer, intervals([row[:2] for row in shown.rows]), Numbers(headers, counted))


HEADERS = ["policy", "accuracy in %", "low", "high"]


def in_percent(name: str, found: Accuracy) -> list[str | float | None]:
    return [name, *(None if share is None else 100 * share for share in found[:3])]


def gain(found: Interval | None) -> list[float | None]:
    """The difference in points, and half of the width of its interval."""
    if found is None:
        return [None, None]
    return [100 * found.mean, None if found.half_width is None else 100 * found.half_width]


def intervals(found: Sequence[tuple[str, Accuracy]]) -> Scene:
    """A line for each candidate: its mean accuracy, and the interval where there is one."""
    title, numbers = "Accuracy in per cent", Numbers(HEADERS, [in_percent(*one) for one in found])
    if not found:
        return empty(title, "Nothing has been trained yet.", numbers)
    low, high = padded([100 * end for _, accuracy in found for end in accuracy.ends])

    def at(value: float) -> float:
        return NAMES + (WIDTH - NAMES - 16) * (value - low) / (high - low)

    bottom = ROW * len(found) + 6
    shapes: list[Shape] = []
    for value in ticks(low, high, 4):
        shapes.append(Line([(at(value), 4), (at(value), bottom)], "rule"))
        shapes.append(Text(at(value), bottom + 14, f"{value:g} %", "muted", SMALL, "middle"))
    for i, (name, accuracy) in enumerate(found):
        y, mean = ROW * (i + 0.5) + 4, 100 * accuracy.mean
        shapes.append(Text(8, y + 4, shorten(name, SMALL, NAMES - 14), "ink", SMALL, title=name))
        if accuracy.low is not None:
            shapes.append(Line([(at(100 * end), y) for end in accuracy.ends], "geometric", 2.5))
        shapes.append(Circle(at(mean), y, 4, "geometric", title=f"{name}: {mean:.2f} %"))
    return Scene(title, f"{title}, with 95 % intervals", bottom + 22, shapes, numbers)


def html(shown: Any) -> str:
    """A part of a page, which needs no network and no script."""
    sentence, picture, _ = sheet(shown)
    identity = f"slackaug-{hashlib.sha256(repr(picture).encode()).hexdigest()[:10]}"
    return f'<div style="max-width:{WIDTH:.0f}px"><p><b>{escape(sentence)}</b></p>{render.svg(picture, identity)}</div>'


def frame(shown: Any) -> Any:
    """The table as a pandas frame."""
    headers, rows = sheet(shown).table
    return extra("pandas").DataFrame(rows, columns=headers)


def plot(shown: Any) -> Any:
    """The picture as a matplotlib figure."""
    return render.figure(sheet(shown).picture)
