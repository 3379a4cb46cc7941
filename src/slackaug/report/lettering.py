"""How wide a text is, and what of it fits: nobody has set it in type yet, and fonts differ."""

import re
import unicodedata
from collections.abc import Callable

TEXT, SMALL = 12.0, 11.5  # sizes of text in a figure
LINE = 15.0  # distance of two lines of text
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


def shorten(text: str, size: float, width: float, measure: Callable[[str, float], float] = text_width) -> str:
    """The text, or as much of it as fits and an ellipsis."""
    text = clean(text)
    if measure(text, size) <= width:
        return text
    while text and measure(text + "…", size) > width:
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
