"""The same scenes as PNG or PDF, by matplotlib (`pip install 'slackaug[figures]'`)."""

import io
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image

from ..foreign import extra
from .scene import COLOURS, Circle, Line, Rect, Scene, Shape, Text, Wedge

UNITS_PER_INCH = 90.0  # of a scene
POINTS = 72 / UNITS_PER_INCH  # of a printer, to a unit
DPI = 200


def image(scene: Scene) -> Image.Image:
    """The scene as pixels."""
    buffer = io.BytesIO()
    save(scene, buffer, "png")
    return Image.open(buffer).convert("RGB")


def save(scene: Scene, to: Path | BinaryIO, kind: str) -> None:
    """Draw the scene; `kind` is png or pdf."""
    figure_module = extra("matplotlib.figure", "figures")
    matplotlib = extra("matplotlib", "figures")
    size = (scene.width / UNITS_PER_INCH, scene.height / UNITS_PER_INCH)
    figure = figure_module.Figure(figsize=size, facecolor=COLOURS["paper"])
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, scene.width), ylim=(scene.height, 0))
    axes.set_axis_off()
    for order, shape in enumerate(scene.shapes):
        draw(axes, matplotlib, shape, order)
    dates = {"CreationDate": None} if kind == "pdf" else {}  # so that the same policy gives the same bytes
    with matplotlib.rc_context({"pdf.fonttype": 42, "font.family": "sans-serif"}):
        figure.savefig(to, format=kind, dpi=DPI, metadata={"Title": scene.title, **dates})


def draw(axes: Any, matplotlib: Any, shape: Shape, order: int) -> None:
    patches = matplotlib.patches
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
