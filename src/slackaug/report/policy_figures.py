"""Figures of a policy, the paper's pie; and of several policies side by side.

The width of a slice is a probability, its radius the bound mu. All policies that are compared are over one space.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from ..augment.policy import MU_MAX, MU_MIN, Policy
from ..augment.policy_file import MU_START
from .geometry import Point, on_circle, padded, spread, ticks
from .lettering import LINE, SMALL, TEXT, break_name, shorten, text_width
from .scene import WIDTH, Circle, Line, Numbers, Rect, Scene, Shape, Text, Wedge, noted
from .strength import WORDS, bounds_text, by_family, family, is_constant, position_words, shares

RADIUS = 74.0  # of mu = 1, and of transformations without a magnitude
ELBOW = 5.0  # from the circle to the bend of a leader
GAP = 11.0  # from the circle to the labels
CENTRE = WIDTH / 2
ROOM = CENTRE - RADIUS - GAP - 5  # width of a label
TURNS = range(0, 360, 10)  # degrees by which a pie may be turned, so that no leader crosses it
NAMES = 130.0  # width of the column of names: the longest of the paper fits
ROW = 19.0

# --- the pie ----------------------------------------------------------------------------------------------------------


class Slice(NamedTuple):
    name: str
    share: float
    mu: float | None  # None: parameter-free
    strength: str
    start: float  # degrees clockwise from the top
    end: float
    side: int = 0  # of its label: 1 to the right of the pie, -1 to the left
    y: float = 0.0  # of the label's middle, relative to the centre
    lines: Sequence[str] = ()  # of the label

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2

    @property
    def radius(self) -> float:
        return RADIUS * (1 if self.mu is None else self.mu)

    @property
    def hint(self) -> str:
        bound = self.strength if self.mu is None else f"mu {self.mu:.2f}, {self.strength}"
        return f"{self.name}: probability {100 * self.share:.2f} %, {bound}"

    @property
    def leader(self) -> list[Point]:
        """From the edge outwards, then to the label; relative to the centre."""
        edge, elbow = (on_circle(0, 0, radius, self.middle) for radius in (self.radius, RADIUS + ELBOW))
        return [edge, elbow, (self.side * (RADIUS + GAP), self.y)]

    def crosses(self) -> bool:
        """Whether the leader runs through the pie."""
        _, (x, y), (end_x, end_y) = self.leader
        points = ((x + t / 20 * (end_x - x), y + t / 20 * (end_y - y)) for t in range(21))
        return any(math.hypot(*point) < RADIUS for point in points)

    def label(self, centre: float) -> list[Shape]:
        """The leader and the text, with the pie's centre at that height."""
        x, anchor = CENTRE + self.side * (RADIUS + GAP + 3), "start" if self.side > 0 else "end"
        first, lines = centre + self.y + SMALL / 3 - LINE * (len(self.lines) - 1) / 2, enumerate(self.lines)
        leader = Line([(CENTRE + dx, centre + dy) for dx, dy in self.leader], "muted", 0.6)
        return [leader, *(Text(x, first + LINE * i, t, "ink", SMALL, anchor, title=self.hint) for i, t in lines)]


def slices(policy: Policy, position: int | None = None, turn: float = 0.0) -> list[Slice]:
    """Clockwise from the top, or from `turn` degrees on; transformations of a family side by side."""
    probabilities, found, start = shares(policy, position), [], turn
    for n in by_family(policy.space.names):
        transform, mu, end = policy.space.transforms[n], policy.mu[n].item(), start + 360 * probabilities[n]
        bound = None if transform.span is None else mu
        found.append(Slice(transform.name, probabilities[n], bound, bounds_text(transform, mu), start, end))
        start = end
    return found


def labelled(found: list[Slice]) -> list[Slice]:
    """With places for their labels, side by side in the order in which they stand."""
    placed = []
    for side in (1, -1):
        beside = [s for s in found if (s.middle % 360 < 180) == (side > 0)]
        beside.sort(key=lambda s: s.middle % 360, reverse=side < 0)
        wanted = [on_circle(0, 0, RADIUS + ELBOW, s.middle)[1] for s in beside]
        lines = [break_name(s.name, f" {100 * s.share:.1f}", SMALL, ROOM) for s in beside]
        gaps = [LINE * (len(a) + len(b)) / 2 for a, b in pairwise(lines)]
        half = max(RADIUS + ELBOW, sum(gaps) / 2)
        places = zip(beside, spread(wanted, gaps, -half, half), lines, strict=True)
        placed += [s._replace(side=side, y=y, lines=text) for s, y, text in places]
    return placed


def layout(policy: Policy, position: int | None = None) -> list[Slice]:
    """Slices with labels; turned no further than it takes to keep the leaders outside the pie."""
    found: list[tuple[int, list[Slice]]] = []
    for turn in TURNS:
        placed = labelled(slices(policy, position, turn))
        found.append((sum(s.crosses() for s in placed), placed))
        if not found[-1][0]:
            break
    return min(found, key=lambda one: one[0])[1]


def legend(names: list[str], y: float) -> tuple[list[Shape], float]:
    """A chip for each family that there is, and where the next line would be."""
    shapes: list[Shape] = []
    x = 8.0
    for role in dict.fromkeys(family(names[n]) for n in by_family(names)):
        width = 16 + text_width(WORDS[role], SMALL) + 12
        if x + width > WIDTH:
            x, y = 8.0, y + LINE
        shapes += [Rect(x, y - 9, 10, 10, role), Text(x + 15, y, WORDS[role], "muted", SMALL)]
        x += width
    return shapes, y + LINE


def mu_start(policy: Policy) -> float:
    """Where the search started that learned it, as far as its file says so."""
    found = policy.learned.get("mu_start")
    return found if isinstance(found, int | float) and MU_MIN <= found <= MU_MAX else MU_START


def pie(policy: Policy, position: int | None = None) -> Scene:
    """The paper's pie, averaged over the positions or of one of them (from 1); the table has the most likely first."""
    placed = layout(policy, position)
    half = max(RADIUS + ELBOW, *(abs(s.y) + LINE * len(s.lines) / 2 for s in placed)) + LINE / 2
    wedges = [Wedge(CENTRE, half, s.radius, s.start, s.end, family(s.name), s.hint) for s in placed]
    start = mu_start(policy)
    shapes: list[Shape] = [Circle(CENTRE, half, start * RADIUS, "wash"), *sorted(wedges, key=lambda w: w.start)]
    shapes.append(Circle(CENTRE, half, start * RADIUS, None, "ink", f"mu at the start: {start:g}", 0.8, True))
    shapes += [shape for s in placed for shape in s.label(half)]
    chips, y = legend(policy.space.names, 2 * half + 14)
    where = position_words(position, len(policy.pi))
    note = (
        f"Width: probability in %{where}. Radius: mu, the largest magnitude; dashed: where it started, {start:g}. "
        "Without a magnitude: full radius."
    )
    ranked = sorted(slices(policy, position), key=lambda s: -s.share)
    most, least = (", ".join(f"{s.name} {100 * s.share:.1f} %" for s in few) for few in (ranked[:3], ranked[-3:]))
    title, desc = f"The policy: {len(ranked)} transformations{where}", f"Most likely: {most}. Least likely: {least}."
    table = Numbers(["transformation", "probability", "mu", "strength"], [[*s[:4]] for s in ranked])
    return noted(title, desc, [*shapes, *chips], note, y + 2, table)


# --- several searches -------------------------------------------------------------------------------------------------


def side_by_side(policies: Sequence[Policy], names: Sequence[str]) -> Scene:
    """Probabilities, averaged over positions, a dot for each search; the likeliest on average first."""
    columns = [shares(policy) for policy in policies]
    rows = list(zip(policies[0].space.names, map(list, zip(*columns, strict=True)), strict=True))
    rows.sort(key=lambda row: -math.fsum(row[1]))
    table = Numbers(["transformation", *names, "mean"], [[n, *row, math.fsum(row) / len(row)] for n, row in rows])
    top, left, right = 24.0, NAMES + 12, WIDTH - 14
    floor = top + ROW * len(rows)
    low, high = padded([100 * value for _, values in rows for value in values])

    def at(share: float) -> float:
        return left + (100 * share - low) / (high - low) * (right - left)

    def across(share: float, y0: float, y1: float, role: str, thickness: float, **more: Any) -> Line:
        return Line([(at(share), y0), (at(share), y1)], role, thickness, **more)

    shapes: list[Shape] = []
    for percent in ticks(low, high, 6):
        shapes.append(across(percent / 100, top, floor, "rule", 0.7))
        shapes.append(Text(at(percent / 100), floor + 16, f"{percent:g}", "muted", SMALL, "middle"))
    shapes.append(across(1 / len(rows), top, floor, "muted", 1.0, dashed=True))
    shapes.append(Text(at(1 / len(rows)), 15, "uniform", "muted", SMALL, "middle"))
    for i, (name, values) in enumerate(rows):
        y, mean = top + ROW * i + ROW / 2, math.fsum(values) / len(values)
        shapes.append(Text(NAMES, top + ROW * i + 14, shorten(name, TEXT, NAMES - 4), anchor="end", title=name))
        shapes.append(Line([(at(min(values)), y), (at(max(values)), y)], family(name), 1.2))
        for label, value in zip(names, values, strict=True):
            hint = f"{name}, {label}: {100 * value:.2f} %"
            shapes.append(Circle(at(value), y, 3.6, family(name), "paper", hint))
        shapes.append(across(mean, y - 6, y + 6, "ink", 2.0, title=f"{name}, mean: {100 * mean:.2f} %"))
    note = "Probability in %, a dot for each search, a bar at their mean."
    desc = f"{len(policies)} searches; likeliest on average {rows[0][0]}, least likely {rows[-1][0]}."
    return noted("The policies of several searches", desc, shapes, note, floor + 38, table)


def correlation_matrix(policies: Sequence[Policy]) -> list[list[float | None]]:
    """Pearson's correlation of pi, averaged over positions, for each pair; None if one is constant."""
    pi = torch.tensor([shares(policy) for policy in policies], dtype=torch.float64)  # (S, N)
    pi[[is_constant(policy) for policy in policies]] = math.nan
    table = torch.corrcoef(pi).reshape(len(pi), -1).tolist()
    return [[None if math.isnan(value) else value for value in row] for row in table]


def correlations(policies: Sequence[Policy], names: Sequence[str]) -> Scene:
    """How alike the probabilities of each pair of searches are."""
    cells, top = correlation_matrix(policies), 12.0
    left = min(NAMES, 14 + max(text_width(name, TEXT) for name in names))
    side = min(52.0, (WIDTH - left - 12) / len(policies))
    height = min(34.0, side)
    shapes: list[Shape] = []
    for i, row in enumerate(cells):
        y = top + height * i
        shapes.append(Text(left - 8, y + height / 2 + 4, shorten(names[i], TEXT, left - 10), anchor="end"))
        for j, value in enumerate(row):
            number = "-" if value is None else f"{value:.2f}"
            x, hint = left + side * j, f"{names[i]} and {names[j]}: {number}"
            shapes.append(Rect(x, y, side - 2, height - 2, "wash", hint))
            if value is not None and i != j:
                role = "geometric" if value >= 0 else "tone"
                shapes.append(Rect(x, y, side - 2, height - 2, role, hint, round(0.5 * abs(value), 3)))
            if side >= 30 and i != j:
                shapes.append(Text(x + side / 2 - 1, y + height / 2 + 3, number, "ink", SMALL, "middle"))
    note = "Correlation of the probabilities between searches: 1 is the same, 0 is chance."
    table = Numbers(["correlation of pi", *names], [[name, *row] for name, row in zip(names, cells, strict=True)])
    desc, below = f"{len(policies)} searches, pair by pair.", top + height * len(cells) + 18
    return noted("How alike the searches are", desc, shapes, note, below, table)
