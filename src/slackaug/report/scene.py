"""A figure as a list of shapes, in units of the figure; `render` draws them as SVG, PNG or PDF.

A colour is the name of a role in COLOURS, so that a page's themes can choose another. y grows downwards.
"""

import math
import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

Point = tuple[float, float]
WIDTH = 400.0  # of every figure: on a phone that is as wide, the smallest text is 11 pixels high
TEXT, SMALL = 12.0, 11.5  # sizes of text
LINE = 15.0  # distance of two lines of text
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


class Circle(NamedTuple):
    x: float
    y: float
    radius: float
    fill: str | None = None
    stroke: str | None = None
    dashed: bool = False
    width: float = 1.0
    title: str = ""


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
    width: float = 1.0
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

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom, as large as common fonts make it."""
        width = text_width(self.text, self.size)
        left = self.x - {"start": 0.0, "middle": width / 2, "end": width}[self.anchor]
        return left, self.y - 0.8 * self.size, left + width, self.y + 0.25 * self.size


Shape = Wedge | Circle | Rect | Line | Text


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
    width: float = WIDTH


def empty(title: str, reason: str, table: Numbers) -> Scene:
    """A figure with nothing to draw yet."""
    shapes = [Text(8, 24, title, bold=True), *paragraph(reason, 44)[0]]
    return Scene(title, reason, 60, shapes, table)


# --- numbers along an axis --------------------------------------------------------------------------------------------


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Round numbers from low to high, about n of them."""
    step = 10 ** math.floor(math.log10((high - low) / n))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (step * factor) <= n)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def padded(values: Sequence[float]) -> tuple[float, float]:
    """A range that holds all values with a little room; it begins at zero if they come near it."""
    low, high = min(values), max(values)
    if 0 <= low < high / 2:
        return 0.0, 1.08 * high
    if low == high == 0:
        return 0.0, 1.0
    room = (high - low) * 0.08 or abs(high) * 0.08 or 1.0
    return low - room, high + room


# --- text -------------------------------------------------------------------------------------------------------------

WIDTHS = (  # in ems, of DejaVu Sans, which is wider than most fonts; and of all characters not listed:
    (0.34, "ijlI.,:;'| "),
    (0.43, "tfr()[]!-/"),
    (0.55, "csz"),
    (0.98, "mwMW%@…"),
    (0.86, "QOGDHNU±"),
)
LOWER, UPPER, ASIAN = 0.64, 0.76, 1.05


def character_width(character: str) -> float:
    for width, characters in WIDTHS:
        if character in characters:
            return width
    if unicodedata.east_asian_width(character) in "WF":
        return ASIAN
    return LOWER if character.islower() or character.isdecimal() else UPPER


def text_width(text: str, size: float) -> float:
    return size * sum(map(character_width, text))


def clean(text: str) -> str:
    """Without what XML does not allow, nor line breaks."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def shorten(text: str, size: float, width: float) -> str:
    """The text, or as much of it as fits and an ellipsis."""
    text = clean(text)
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def break_name(name: str, end: str, size: float, width: float) -> list[str]:
    """A name and what must stand behind it, in one line, in two where only these are wide enough, or shortened."""
    name = clean(name)
    room = width - text_width(end, size)
    if text_width(name, size) <= room:
        return [name + end]
    for joint in reversed(list(re.finditer(r"(?<=[a-z])(?=[A-Z])|(?<=[_ .-])(?=\w)", name))):
        first, rest = name[: joint.start()].rstrip(), name[joint.start() :]
        if text_width(first, size) <= width and text_width(rest, size) <= room:
            return [first, rest + end]
    return [shorten(name, size, room) + end]


def wrap(text: str, size: float, width: float) -> list[str]:
    """Lines of whole words that fit."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(shorten(word, size, width))
    return [line for line in lines if line]


def paragraph(text: str, y: float, width: float = WIDTH - 16, size: float = SMALL) -> tuple[list[Shape], float]:
    """A muted text from the left margin on, and where the next line would be."""
    lines = wrap(text, size, width)
    return [Text(8, y + LINE * i, line, "muted", size) for i, line in enumerate(lines)], y + LINE * len(lines)


def spread(wanted: Sequence[float], gaps: Sequence[float], low: float, high: float) -> list[float]:
    """The places nearest to the wanted ones, which ascend, that keep the gaps between neighbours: least squares, then
    into the bounds. Where these are too narrow the upper one gives way.
    """
    if not wanted:
        return []
    offsets = list(accumulate(gaps, initial=0.0))  # from the first, where all touch
    blocks: list[tuple[float, int]] = []  # mean and number of those that touch one another (pool adjacent violators)
    for place, offset in zip(wanted, offsets, strict=True):
        mean, n = place - offset, 1
        while blocks and blocks[-1][0] >= mean:
            other, m = blocks.pop()
            mean, n = (mean * n + other * m) / (n + m), n + m
        blocks.append((mean, n))
    highest = max(low, high - offsets[-1])
    flat = [min(max(mean, low), highest) for mean, n in blocks for _ in range(n)]
    return [place + offset for place, offset in zip(flat, offsets, strict=True)]
