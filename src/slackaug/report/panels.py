"""Several in one picture: pies of some policies, courses of some searches, or the positions of one.

Each has a panel with its name; the best of them has a frame, if that is known.
"""

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from ..augment.policy import Policy
from .geometry import on_circle, spread
from .history import History
from .lettering import LINE, SMALL, TEXT, shorten, text_width
from .policy_figures import ELBOW, RADIUS, Slice, mu_start, slices
from .run_figures import LEFT, NOTHING_YET, chart, course, evolution_table, rounds_to
from .scene import WIDTH, Circle, Line, Numbers, Rect, Scene, Shape, Text, Wedge, moved, noted
from .strength import by_family, family, is_constant

Shown = TypeVar("Shown", Policy, History)
CELL = WIDTH / 2  # width of a panel with a pie
DISC = 66.0  # radius of such a pie where mu is 1
RIM = DISC + 14  # from the centre to the middle of a number
APART, NEAR = 13.7, 9.0  # degrees: between numbers, at least; from a slice to its number, at most
CENTRE = 110.0  # from the top of a panel to the centre of its pie
CELL_HEIGHT = CENTRE + RIM + 48
COURSE = 158.0  # height of a panel with a course
N_LABELLED = 4  # transformations that it names
BOLD = 1.1  # times as wide as other text
FRAMED = "Framed: the search that did best in its evaluations, which may be chance. "


class Panel(NamedTuple, Generic[Shown]):
    name: str
    shown: Shown
    position: int | None = None  # from 1; None: their average
    is_best: bool = False


def each_position(shown: Shown, n: int) -> list[Panel[Shown]]:
    """The paper's picture: a panel for each position, then their average."""
    return [Panel(f"position {k}" if k else "averaged", shown, k) for k in (*range(1, n + 1), None)]


def heading(panel: Panel[Shown], x: float, width: float, anchor: str = "start") -> Text:
    return Text(x, 16, shorten(panel.name, BOLD * TEXT, width), anchor=anchor, bold=True, title=panel.name)


def framed(panel: Panel[Shown], width: float, height: float) -> list[Shape]:
    corners = [(2.0, 2.0), (width - 2, 2.0), (width - 2, height - 2), (2.0, height - 2), (2.0, 2.0)]
    return [Line(corners, "ink", 1.2)] if panel.is_best else []


# --- pies -------------------------------------------------------------------------------------------------------------


def pies(panels: Sequence[Panel[Policy]]) -> Scene:
    """Two in a row. A transformation has one number in all of them, which the key below explains."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.shown.space.names))
    numbers = {names[n]: number for number, n in enumerate(by_family(names), 1)}
    shapes: list[Shape] = []
    for i, panel in enumerate(panels):
        is_alone = i % 2 == 0 and i == len(panels) - 1
        x, y = (CELL / 2 if is_alone else CELL * (i % 2)), CELL_HEIGHT * (i // 2)
        shapes += [moved(shape, x, y) for shape in disc(panel, numbers)]
    rows, below = key(numbers, CELL_HEIGHT * math.ceil(len(panels) / 2) + LINE)
    starts = {f"{mu_start(panel.shown):g}" for panel in panels}
    note = FRAMED * any(panel.is_best for panel in panels)
    note += f"Width: probability. Radius: mu, the largest magnitude; dashed: where it started, {' or '.join(starts)}. "
    note += "Without a magnitude: full radius. A slice too narrow for its number has none."
    found = [(panel.name, sorted(slices(panel.shown, panel.position), key=lambda s: -s.share)) for panel in panels]
    desc = " ".join(f"{name}: most likely {most[0].name}, least likely {most[-1].name}." for name, most in found)
    headers = ["policy", "transformation", "probability", "mu", "strength"]
    table = Numbers(headers, [[name, *one[:4]] for name, ranked in found for one in ranked])
    return noted(f"{len(panels)} policies beside one another", desc, [*shapes, *rows], note, below + 8, table)


def disc(panel: Panel[Policy], numbers: dict[str, int]) -> list[Shape]:
    """One panel: the name, the pie with its numbers, and in words what is the most and the least likely."""
    middle, policy = CELL / 2, panel.shown
    found, start = slices(policy, panel.position), mu_start(policy) * DISC
    shapes: list[Shape] = [*framed(panel, CELL, CELL_HEIGHT), heading(panel, middle, CELL - 12, "middle")]
    shapes.append(Circle(middle, CENTRE, start, "wash"))
    shapes += [Wedge(middle, CENTRE, s.radius * DISC / RADIUS, s.start, s.end, family(s.name), s.hint) for s in found]
    shapes.append(Circle(middle, CENTRE, start, None, "ink", f"mu at the start: {mu_start(policy):g}", 0.8, True))
    for s, degrees in numbered(found):
        ends = (s.radius * DISC / RADIUS, s.middle), (DISC + ELBOW / 2, s.middle), (RIM - 10, degrees)
        shapes.append(Line([on_circle(middle, CENTRE, *end) for end in ends], "muted", 0.6))
        x, y = on_circle(middle, CENTRE, RIM, degrees)
        shapes.append(Text(x, y + SMALL / 3, str(numbers[s.name]), "ink", SMALL, "middle", title=s.hint))
    ranked = sorted(found, key=lambda s: -s.share)
    words = [("most: ", ranked[0]), ("least: ", ranked[-1])]
    lines = [(start + s.name, f" {100 * s.share:.1f} %") for start, s in words]
    if is_constant(policy) or len(found) == 1:
        lines = [("all equally likely:" if len(found) > 1 else found[0].name, f" {100 * found[0].share:.1f} %")]
    for i, (text, value) in enumerate(lines):
        fits = shorten(text, SMALL, CELL - 12 - text_width(value, SMALL)) + value
        shapes.append(Text(middle, CENTRE + RIM + 22 + LINE * i, fits, "muted", SMALL, "middle", title=text + value))
    return shapes


def numbered(found: Sequence[Slice]) -> list[tuple[Slice, float]]:
    """Where on the rim the numbers stand: near their slices and apart, without the least likely that have no room."""
    kept = list(found)
    while kept:
        places = spread([s.middle for s in kept], [APART] * (len(kept) - 1), APART / 2, 360 - APART / 2)
        far = [s for s, place in zip(kept, places, strict=True) if abs(place - s.middle) > NEAR]
        if not far and places[-1] <= 360 - APART / 2 + 1e-6:
            return list(zip(kept, places, strict=True))
        kept.remove(min(far or kept, key=lambda s: s.share))
    return []


def key(numbers: dict[str, int], y: float) -> tuple[list[Shape], float]:
    """What the numbers mean, in as many columns as there is room for, and where the next line would be."""
    names = sorted(numbers, key=lambda name: numbers[name])
    for n in (3, 2, 1):
        length = math.ceil(len(names) / n)
        columns = [names[i : i + length] for i in range(0, len(names), length)]
        widths = [44 + max(text_width(name, SMALL) for name in column) for column in columns]
        if sum(widths) <= WIDTH:
            break
    shapes: list[Shape] = []
    x, spare = 4.0, max(WIDTH - 4 - sum(widths), 0) / len(columns)
    for column, width in zip(columns, widths, strict=True):
        for i, name in enumerate(column):
            line = y + LINE * i
            shapes.append(Text(x + 16, line, str(numbers[name]), "ink", SMALL, "end"))
            shapes.append(Rect(x + 21, line - 9, 10, 10, family(name)))
            shapes.append(Text(x + 36, line, shorten(name, SMALL, WIDTH - x - 40), "muted", SMALL, title=name))
        x += width + spare
    return shapes, y + LINE * length


# --- courses ----------------------------------------------------------------------------------------------------------


def evolutions(panels: Sequence[Panel[History]]) -> Scene:
    """The probabilities over the rounds, one panel below the other, on the same axes."""
    found = [course(panel.shown, panel.position, N_LABELLED) for panel in panels]
    begun = [one for one in found if one is not None]
    x = max([rounds_to(one.end) for one in begun], default=(0.0, 1.0))
    levels, curves = [y for one in begun for y in one.levels], [curve for one in begun for curve in one.curves]
    shapes: list[Shape] = []
    for i, (panel, one) in enumerate(zip(panels, found, strict=True)):
        drawn: list[Shape] = [Text(LEFT, 45, NOTHING_YET, "muted", SMALL)]
        if one is not None:
            drawn = chart("%", one.curves, x, levels, COURSE - 6, beside=curves)
        drawn += [heading(panel, LEFT, WIDTH - LEFT - 10), *framed(panel, WIDTH, COURSE)]
        shapes += [moved(shape, 0, COURSE * i) for shape in drawn]
    note = FRAMED * any(panel.is_best for panel in panels)
    note += f"Probability in %; in each, the {N_LABELLED} transformations that moved most are named. "
    note += "Dots and dashed lines: where a round began. Only steps in which the policy moves are counted."
    texts = [f"{panel.name}: {one.moved if one else NOTHING_YET}" for panel, one in zip(panels, found, strict=True)]
    tables = [(panel.name, evolution_table(panel.shown, panel.position).rows) for panel in panels]
    rows: list[list[str | float | None]] = [[name, *row[:2], row[-1]] for name, table in tables for row in table]
    table = Numbers(["course", "transformation", "start", "last round"], rows)
    return noted("How the probabilities moved", " ".join(texts), shapes, note, COURSE * len(panels) + 14, table)
