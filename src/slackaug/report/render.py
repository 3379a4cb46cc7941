"""Draws a scene: as SVG text, or with matplotlib as PNG or PDF.

The SVG scales, stands alone, and takes the colours of the page it is part of: they are CSS variables, such as `--ink`,
with a default. All rules begin with the figure's id, so a page may hold many. There is no script, no font, and nothing
from elsewhere.
"""

import re
from html import escape
from pathlib import Path
from typing import Any, BinaryIO

from ..foreign import extra
from .geometry import Point, on_circle
from .lettering import clean
from .scene import COLOURS, THEMES, WIDTH, Circle, Line, Rect, Scene, Shape, Text, Wedge

ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
FULL = 359.999  # degrees from which on a slice is drawn as two halves: an arc back to its start would be nothing
UNITS_PER_INCH = 90.0  # of a scene
POINTS = 72 / UNITS_PER_INCH  # of a printer, to a unit
DPI = 200

# --- SVG --------------------------------------------------------------------------------------------------------------


def element(tag: str, *children: str, **attributes: str | float | None) -> str:
    """One element. Texts in attributes are escaped, children are SVG already; `_` in a name stands for `-`."""
    words = [tag]
    for name, value in attributes.items():
        if value is not None:
            text = escape(clean(value)) if isinstance(value, str) else number(value)
            words.append(f'{name.rstrip("_").replace("_", "-")}="{text}"')
    inside = "".join(children)
    return f"<{' '.join(words)}>{inside}</{tag}>" if inside else f"<{' '.join(words)}/>"


def words(text: str) -> str:
    """A text as a child."""
    return escape(clean(text), quote=False)


def number(value: float, digits: int = 3) -> str:
    """Short, and without a minus before zero."""
    return f"{value:z.{digits}f}".rstrip("0").rstrip(".")


def place(point: Point, digits: int = 3) -> str:
    return f"{number(point[0], digits)},{number(point[1], digits)}"


def wedge_path(wedge: Wedge) -> str:
    x, y, radius, start, end = wedge[:5]
    corners = [start, end] if end - start < FULL else [start, (start + end) / 2, end]
    r, is_large = number(radius), int(end - start > 180 and len(corners) == 2)
    arcs = (f"A{r},{r} 0 {is_large} 1 {place(on_circle(x, y, radius, corner))}" for corner in corners[1:])
    return f"M{place((x, y))}L{place(on_circle(x, y, radius, start))}{' '.join(arcs)}Z"


def element_of(shape: Shape) -> str:
    """With classes for the variables, and attributes for programs that know no variables."""
    attributes: dict[str, str | float | None]
    text = ""
    match shape:
        case Wedge():
            tag, attributes = "path", {"d": wedge_path(shape)}
        case Circle(x, y, radius):
            tag, attributes = "circle", {"cx": x, "cy": y, "r": radius}
        case Rect(x, y, width, height):
            opacity = None if shape.opacity == 1 else shape.opacity
            tag, attributes = "rect", {"x": x, "y": y, "width": width, "height": height, "opacity": opacity}
        case Line(points):  # a curve has many, and no eye sees more
            tag, attributes = "polyline", {"points": " ".join(place(point, 1) for point in points)}
        case Text(x, y, text, _, size, anchor, bold):
            tag, attributes = "text", {"x": x, "y": y, "font_size": size}
            attributes |= {"text_anchor": anchor if anchor != "start" else None, "font_weight": "600" if bold else None}
    used = {kind: role for kind in ("fill", "stroke") if (role := getattr(shape, kind, None))}
    return element(
        tag,
        words(text) + (element("title", words(shape.title)) if shape.title else ""),
        **attributes,
        stroke_width=getattr(shape, "thickness", None),
        class_=" ".join(f"{kind}-{role}" for kind, role in used.items()),
        **{"fill": "none"} | {kind: COLOURS[role] for kind, role in used.items()},
        stroke_dasharray="3 3" if getattr(shape, "dashed", False) else None,
    )


def palette() -> str:
    """A rule for a page's style sheet, which all figures on it follow, in its light and in its dark theme."""
    return ":root{" + "".join(f"--{role}:light-dark({light},{dark});" for role, (light, dark) in THEMES.items()) + "}"


def svg(scene: Scene, identity: str) -> str:
    """The whole element. `identity` is its id, which must be unique on a page."""
    if not ID.fullmatch(identity):
        raise ValueError(f"expected an id of letters, digits, - and _, which begins with a letter, got {identity!r}")
    pairs = ((kind, getattr(shape, kind, None)) for shape in scene.shapes for kind in ("fill", "stroke"))
    used = sorted({("fill", "paper"), *((kind, role) for kind, role in pairs if role)})
    rules = (f"#{identity} .{kind}-{role}{{{kind}:var(--{role},{COLOURS[role]})}}" for kind, role in used)
    return element(
        "svg",
        element("title", words(scene.title), id=f"{identity}-title"),
        element("desc", words(scene.desc), id=f"{identity}-desc"),
        element("style", *rules),
        element("rect", width=WIDTH, height=scene.height, class_="fill-paper", fill=COLOURS["paper"]),
        *map(element_of, scene.shapes),
        xmlns="http://www.w3.org/2000/svg",
        id=identity,
        viewBox=f"0 0 {number(WIDTH)} {number(scene.height)}",
        role="img",
        aria_labelledby=f"{identity}-title {identity}-desc",
        font_family=FONT,
        stroke_linejoin="round",
        stroke_linecap="round",
    )


# --- PNG and PDF ------------------------------------------------------------------------------------------------------


def figure(scene: Scene) -> Any:
    """The scene as matplotlib's figure."""
    size = (WIDTH / UNITS_PER_INCH, scene.height / UNITS_PER_INCH)
    drawn = extra("matplotlib.figure").Figure(figsize=size, facecolor=COLOURS["paper"])
    patches = extra("matplotlib.patches")
    axes = drawn.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(scene.height, 0))
    axes.set_axis_off()
    for order, shape in enumerate(scene.shapes):
        add(axes, patches, shape, order)
    return drawn


def save(scene: Scene, to: Path | BinaryIO, kind: str) -> None:
    """Draw the scene; `kind` is png or pdf."""
    matplotlib = extra("matplotlib")
    dates = {"CreationDate": None} if kind == "pdf" else {}  # the same policy gives the same bytes
    with matplotlib.rc_context({"pdf.fonttype": 42, "font.family": "sans-serif"}):
        figure(scene).savefig(to, format=kind, dpi=DPI, metadata={"Title": scene.title, **dates})


def add(axes: Any, patches: Any, shape: Shape, order: int) -> None:
    fill, stroke = (COLOURS.get(getattr(shape, kind, None) or "", "none") for kind in ("fill", "stroke"))
    line = {"linewidth": getattr(shape, "thickness", 0) * POINTS, "zorder": order}
    line["linestyle"] = (0, (3, 3)) if getattr(shape, "dashed", False) else "-"
    match shape:
        case Wedge(x, y, radius, start, end):
            # Its y axis points upwards and angles are measured from the right; ours is turned over with the axes.
            patch = patches.Wedge((x, y), radius, start - 90, end - 90)
        case Circle(x, y, radius):
            patch = patches.Circle((x, y), radius)
        case Rect(x, y, width, height):
            patch = patches.Rectangle((x, y), width, height, alpha=shape.opacity)
        case Line(points):
            axes.plot(*zip(*points, strict=True), color=stroke, **line)
            return
        case Text(x, y, text, _, size, anchor, bold):
            ha = {"start": "left", "middle": "center", "end": "right"}[anchor]
            style = {
                "color": fill,
                "weight": "bold" if bold else "normal",
                "parse_math": False,
            }  # a name may hold dollars
            axes.text(x, y, text, fontsize=size * POINTS, ha=ha, va="baseline", zorder=order, **style)
            return
    patch.set(facecolor=fill, edgecolor=stroke, **line)
    axes.add_patch(patch)
