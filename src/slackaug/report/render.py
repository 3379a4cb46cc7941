"""Draws a scene: as SVG text, or with matplotlib (`pip install 'slackaug[figures]'`) as PNG or PDF.

The SVG scales, stands alone, and takes the colours of the page it is part of: they are CSS variables, such as `--ink`,
with a default. All rules begin with the figure's id, so a page may hold many. There is no script, no font, and nothing
from elsewhere.
"""

import math
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, BinaryIO

from ..foreign import extra
from .scene import COLOURS, THEMES, Circle, Line, Point, Rect, Scene, Shape, Text, Wedge, clean

ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
FULL = 359.999  # degrees from which on a slice is drawn as two halves: an arc back to its start would be nothing
UNITS_PER_INCH = 90.0  # of a scene
POINTS = 72 / UNITS_PER_INCH  # of a printer, to a unit
DPI = 200

# --- SVG --------------------------------------------------------------------------------------------------------------


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


def element_of(shape: Shape) -> str:
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
    return ":root{" + "".join(f"--{role}:light-dark({light},{dark});" for role, (light, dark) in THEMES.items()) + "}"


def svg(scene: Scene, identity: str) -> str:
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
        *map(element_of, scene.shapes),
        xmlns="http://www.w3.org/2000/svg",
        id=identity,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_labelledby=f"{identity}-title {identity}-desc",
        font_family=FONT,
        stroke_linejoin="round",
        stroke_linecap="round",
    )


# --- PNG and PDF ------------------------------------------------------------------------------------------------------


def save(scene: Scene, to: Path | BinaryIO, kind: str) -> None:
    """Draw the scene; `kind` is png or pdf."""
    figure_module = extra("matplotlib.figure", "figures")
    matplotlib = extra("matplotlib", "figures")
    size = (scene.width / UNITS_PER_INCH, scene.height / UNITS_PER_INCH)
    figure = figure_module.Figure(figsize=size, facecolor=COLOURS["paper"])
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, scene.width), ylim=(scene.height, 0))
    axes.set_axis_off()
    for order, shape in enumerate(scene.shapes):
        add(axes, matplotlib.patches, shape, order)
    dates = {"CreationDate": None} if kind == "pdf" else {}  # the same policy gives the same bytes
    with matplotlib.rc_context({"pdf.fonttype": 42, "font.family": "sans-serif"}):
        figure.savefig(to, format=kind, dpi=DPI, metadata={"Title": scene.title, **dates})


def add(axes: Any, patches: Any, shape: Shape, order: int) -> None:
    style: dict[str, Any]
    match shape:
        case Wedge(x, y, radius, start, end, fill):
            # Its y axis points upwards and angles are measured from the right; ours is turned over with the axes.
            angles = (start - 90, end - 90)
            edge = {"edgecolor": COLOURS["paper"], "linewidth": 0.75 * POINTS}
            axes.add_patch(patches.Wedge((x, y), radius, *angles, facecolor=COLOURS[fill], zorder=order, **edge))
        case Circle(x, y, radius, fill, stroke, dashed, width):
            style = {
                "facecolor": COLOURS[fill] if fill else "none",
                "edgecolor": COLOURS[stroke] if stroke else "none",
                "linestyle": (0, (3, 3)) if dashed else "-",
            }
            axes.add_patch(patches.Circle((x, y), radius, linewidth=width * POINTS, zorder=order, **style))
        case Rect(x, y, width, height, fill):
            style = {"facecolor": COLOURS[fill], "alpha": shape.opacity, "linewidth": 0}
            axes.add_patch(patches.Rectangle((x, y), width, height, zorder=order, **style))
        case Line(points, stroke, width, dashed):
            style = {"color": COLOURS[stroke], "linestyle": (0, (3, 3)) if dashed else "-"}
            axes.plot(*zip(*points, strict=True), linewidth=width * POINTS, zorder=order, **style)
        case Text(x, y, text, fill, size, anchor, bold):
            style = {
                "color": COLOURS[fill],
                "ha": {"start": "left", "middle": "center", "end": "right"}[anchor],
                "weight": "bold" if bold else "normal",
                "parse_math": False,  # a name may hold dollars
            }
            axes.text(x, y, text, fontsize=size * POINTS, va="baseline", zorder=order, **style)
