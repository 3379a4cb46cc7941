"""A figure as a list of shapes, in units of the figure; `render` draws them as SVG, PNG or PDF.

A colour is the name of a role in COLOURS, so that a page's themes can choose another. y grows downwards.
"""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from .geometry import Point
from .lettering import LINE, SMALL, TEXT

NOTE = 58  # letters in a line of small text
WIDTH = 400.0  # of every figure: on a phone that is as wide, the smallest text is 11 pixels high
THEMES = {  # the colour of each role on a light page, and on a dark one
    "ink": ("#1d2129", "#e8e9ec"),
    "muted": ("#585f6b", "#a7adb8"),
    "faint": ("#b3bbc3", "#59626c"),
    "rule": ("#dcdee3", "#363b45"),
    "wash": ("#eceff2", "#2b3038"),
    "paper": ("#ffffff", "#1e2127"),
    # The families of transformations; Okabe and Ito's colours, which colour-blind people can tell apart
    "geometric": ("#0072b2", "#3b9ddd"),
    "tone": ("#e69f00", "#f0b429"),
    "colour": ("#cc79a7", "#db8fbb"),
    "crop": ("#009e73", "#26b88a"),
    "identity": ("#5a6169", "#858d97"),
    "own": ("#a3471f", "#d07a52"),
}
COLOURS = {role: light for role, (light, _) in THEMES.items()}


class Wedge(NamedTuple):
    """A slice of a disc; angles in degrees, clockwise from the top."""

    x: float
    y: float
    radius: float
    start: float
    end: float
    fill: str
    title: str = ""
    stroke: str = "paper"
    thickness: float = 0.75  # of the stroke


class Circle(NamedTuple):
    x: float
    y: float
    radius: float
    fill: str | None = None
    stroke: str | None = None
    title: str = ""
    thickness: float = 1.0
    dashed: bool = False


class Rect(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    fill: str
    title: str = ""
    opacity: float = 1.0


class Line(NamedTuple):
    points: Sequence[Point]
    stroke: str
    thickness: float = 1.0
    dashed: bool = False
    title: str = ""


class Text(NamedTuple):
    """`y` is the base line; `anchor` is start, middle or end."""

    x: float
    y: float
    text: str
    fill: str = "ink"
    size: float = TEXT
    anchor: str = "start"
    bold: bool = False
    title: str = ""


Shape = Wedge | Circle | Rect | Line | Text


def moved(shape: Shape, dx: float, dy: float) -> Shape:
    if isinstance(shape, Line):
        return shape._replace(points=[(x + dx, y + dy) for x, y in shape.points])
    return shape._replace(x=shape.x + dx, y=shape.y + dy)


class Numbers(NamedTuple):
    """The table behind a figure, for those who do not see it."""

    headers: list[str]
    rows: list[list[str | float | None]]


class Scene(NamedTuple):
    """A whole figure."""

    title: str
    desc: str
    height: float
    shapes: Sequence[Shape]
    table: Numbers


def noted(title: str, desc: str, shapes: Sequence[Shape], note: str, y: float, table: Numbers) -> Scene:
    """A figure with a muted text below it, whose first line is at `y`."""
    lines = textwrap.wrap(note, NOTE)
    text = [Text(8, y + LINE * i, line, "muted", SMALL) for i, line in enumerate(lines)]
    return Scene(title, desc, y + LINE * len(lines) - 4, [*shapes, *text], table)


def empty(title: str, reason: str, table: Numbers) -> Scene:
    """A figure with nothing to draw yet."""
    return noted(title, reason, [Text(8, 24, title, bold=True)], reason, 44, table)._replace(height=60)
