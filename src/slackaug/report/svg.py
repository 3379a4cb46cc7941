"""A scene as SVG text: it scales, stands alone, and takes the colours of the page it is part of.

Colours are CSS variables, such as `--ink`, with a default; all rules begin with the figure's id, so that a page may
hold many. No script, no font, nothing from elsewhere.
"""

import math
import re
from collections.abc import Iterable
from html import escape

from .scene import COLOURS, DARK, Circle, Line, Point, Rect, Scene, Shape, Text, Wedge, clean

ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
FULL = 359.999  # degrees from which on a slice is drawn as two halves: an arc back to its start would be nothing


def element(tag: str, *children: str, **attributes: object) -> str:
    """One element. Texts in attributes are escaped, children are SVG already; `_` in a name stands for `-`."""
    words = [tag]
    for name, value in attributes.items():
        if value is not None:
            words.append(f'{name.rstrip("_").replace("_", "-")}="{escape(clean(str(value)))}"')
    inside = "".join(children)
    return f"<{' '.join(words)}>{inside}</{tag}>" if inside else f"<{' '.join(words)}/>"


def words(text: str) -> str:
    """A text as a child."""
    return escape(clean(text), quote=False)


def number(value: float, digits: int = 3) -> str:
    """Short, and without a minus before zero."""
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def place(point: Point, digits: int = 3) -> str:
    return f"{number(point[0], digits)},{number(point[1], digits)}"


def on_circle(x: float, y: float, radius: float, degrees: float) -> Point:
    """Clockwise from the top."""
    angle = math.radians(degrees)
    return x + radius * math.sin(angle), y - radius * math.cos(angle)


def wedge_path(wedge: Wedge) -> str:
    x, y, radius, start, end = wedge[:5]
    corners = [start, end] if end - start < FULL else [start, (start + end) / 2, end]
    r, is_large = number(radius), int(end - start > 180 and len(corners) == 2)
    arcs = (f"A{r},{r} 0 {is_large} 1 {place(on_circle(x, y, radius, corner))}" for corner in corners[1:])
    return f"M{place((x, y))}L{place(on_circle(x, y, radius, start))}{' '.join(arcs)}Z"


def colours(fill: str | None, stroke: str | None, dashed: bool = False) -> dict[str, object]:
    """Classes for the variables, and attributes for programs that know no variables."""
    names = [f"fill-{fill}" if fill else "", f"stroke-{stroke}" if stroke else ""]
    return {
        "class_": " ".join(filter(None, names)),
        "fill": COLOURS[fill] if fill else "none",
        "stroke": COLOURS[stroke] if stroke else None,
        "stroke_dasharray": "3 3" if dashed else None,
    }


def draw(shape: Shape) -> str:
    hint = element("title", words(shape.title)) if shape.title else ""
    match shape:
        case Wedge():
            return element("path", hint, d=wedge_path(shape), stroke_width=0.75, **colours(shape.fill, "paper"))
        case Circle(x, y, radius, fill, stroke, dashed, width):
            size = {"cx": number(x), "cy": number(y), "r": number(radius)}
            return element("circle", hint, **size, stroke_width=width, **colours(fill, stroke, dashed))
        case Rect(x, y, width, height, fill):
            size = {"x": number(x), "y": number(y), "width": number(width), "height": number(height)}
            opacity = None if shape.opacity == 1 else number(shape.opacity)
            return element("rect", hint, **size, opacity=opacity, **colours(fill, None))
        case Line(points, stroke, width, dashed):
            path = " ".join(place(point, 1) for point in points)  # a curve has many, and no eye sees more
            return element("polyline", hint, points=path, stroke_width=width, **colours(None, stroke, dashed))
        case Text(x, y, text, fill, size, anchor, bold):
            return element(
                "text",
                words(text) + hint,
                x=number(x),
                y=number(y),
                font_size=number(size),
                text_anchor=None if anchor == "start" else anchor,
                font_weight="600" if bold else None,
                **colours(fill, None),
            )


def rules(identity: str, shapes: Iterable[Shape]) -> str:
    """A rule for each colour in use."""
    used = {("fill", "paper")}
    for shape in shapes:
        for kind in ("fill", "stroke"):
            role = "paper" if kind == "stroke" and isinstance(shape, Wedge) else getattr(shape, kind, None)
            if role:
                used.add((kind, role))
    return "".join(f"#{identity} .{kind}-{role}{{{kind}:var(--{role},{COLOURS[role]})}}" for kind, role in sorted(used))


def palette() -> str:
    """A rule for a page's style sheet, which all figures on it follow, in its light and in its dark theme."""
    return ":root{" + "".join(f"--{role}:light-dark({COLOURS[role]},{DARK[role]});" for role in COLOURS) + "}"


def render(scene: Scene, identity: str) -> str:
    """The whole element. `identity` is its id, which must be unique on a page."""
    if not ID.fullmatch(identity):
        raise ValueError(f"expected an id of letters, digits, - and _, which begins with a letter, got {identity!r}")
    width, height = number(scene.width), number(scene.height)
    return element(
        "svg",
        element("title", words(scene.title), id=f"{identity}-title"),
        element("desc", words(scene.desc), id=f"{identity}-desc"),
        element("style", rules(identity, scene.shapes)),
        element("rect", width=width, height=height, **colours("paper", None)),
        *map(draw, scene.shapes),
        xmlns="http://www.w3.org/2000/svg",
        id=identity,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_labelledby=f"{identity}-title {identity}-desc",
        font_family=FONT,
        stroke_linejoin="round",
        stroke_linecap="round",
    )
