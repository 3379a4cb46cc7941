"""The paper's pie of a policy: the width of a slice is its probability, the radius its bound mu."""

import math
from itertools import pairwise
from typing import NamedTuple

from ..augment.policy import Policy
from ..augment.policy_file import MU_START
from .scene import (
    LINE,
    SMALL,
    WIDTH,
    Circle,
    Line,
    Point,
    Rect,
    Scene,
    Shape,
    Table,
    Text,
    Wedge,
    break_name,
    paragraph,
    spread,
    text_width,
)
from .strength import bounds_text, by_family, family, family_words, position_words, shares
from .svg import on_circle, render

RADIUS = 74.0  # of mu = 1, and of transformations without a magnitude
ELBOW = 5.0  # from the circle to the bend of a leader
GAP = 11.0  # from the circle to the labels
CENTRE = WIDTH / 2
ROOM = CENTRE - RADIUS - GAP - 5  # width of a label
TURNS = range(0, 360, 10)  # degrees by which a pie may be turned, so that no leader crosses it


class Slice(NamedTuple):
    name: str
    share: float
    mu: float | None  # None: parameter-free
    start: float  # degrees clockwise from the top
    end: float
    strength: str

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2

    @property
    def radius(self) -> float:
        return RADIUS * (1 if self.mu is None else self.mu)


class Label(NamedTuple):
    """The text of a slice: beside the pie at `y`, relative to the centre."""

    slice: Slice
    is_right: bool
    y: float  # of its middle
    lines: list[str]

    @property
    def leader(self) -> list[Point]:
        """From the slice's edge outwards, then to the text; relative to the centre."""
        edge, elbow = (on_circle(0, 0, r, self.slice.middle) for r in (self.slice.radius, RADIUS + ELBOW))
        side = 1 if self.is_right else -1
        return [edge, elbow, (side * (RADIUS + GAP), self.y)]


def slices(policy: Policy, position: int | None = None, turn: float = 0.0) -> list[Slice]:
    """Clockwise from the top, or from `turn` degrees on; transformations of a family side by side."""
    probabilities, found, start = shares(policy, position), [], turn
    for n in by_family(policy.space.names):
        transform, mu = policy.space.transforms[n], policy.mu[n].item()
        end = start + 360 * probabilities[n]
        bound = None if transform.span is None else mu
        found.append(Slice(transform.name, probabilities[n], bound, start, end, bounds_text(transform, mu)))
        start = end
    return found


def place_labels(found: list[Slice]) -> list[Label]:
    labels = []
    for is_right in (True, False):
        side = [s for s in found if (s.middle % 360 < 180) == is_right]
        side.sort(key=lambda s: s.middle % 360, reverse=not is_right)
        wanted = [on_circle(0, 0, RADIUS + ELBOW, s.middle)[1] for s in side]
        lines = [break_name(s.name, f" {100 * s.share:.1f}", SMALL, ROOM) for s in side]
        gaps = [LINE * (len(a) + len(b)) / 2 for a, b in pairwise(lines)]
        half = max(RADIUS + ELBOW, sum(gaps) / 2)
        labels += list(map(Label, side, [is_right] * len(side), spread(wanted, gaps, -half, half), lines))
    return labels


def crosses(label: Label) -> bool:
    """Whether the leader runs through the pie."""
    _, (x, y), (end_x, end_y) = label.leader
    points = ((x + t / 20 * (end_x - x), y + t / 20 * (end_y - y)) for t in range(21))
    return any(math.hypot(*point) < RADIUS for point in points)


def layout(policy: Policy, position: int | None = None) -> list[Label]:
    """Slices and labels; turned no further than it takes to keep the leaders outside the pie."""
    tries = (place_labels(slices(policy, position, turn)) for turn in TURNS)
    best, fewest = [], math.inf
    for labels in tries:
        n_crossing = sum(map(crosses, labels))
        if n_crossing < fewest:
            best, fewest = labels, n_crossing
        if not n_crossing:
            break
    return best


def label_shapes(label: Label, y: float) -> list[Shape]:
    """The leader and the text, with the centre at `y`."""
    side, s = 1 if label.is_right else -1, label.slice
    x = CENTRE + label.leader[-1][0] + 3 * side
    anchor = "start" if label.is_right else "end"
    first = y + label.y + SMALL / 3 - LINE * (len(label.lines) - 1) / 2
    return [
        Line([(CENTRE + dx, y + dy) for dx, dy in label.leader], "muted", 0.6),
        *(
            Text(x, first + LINE * i, line, "ink", SMALL, anchor, title=hint_text(s))
            for i, line in enumerate(label.lines)
        ),
    ]


def hint_text(s: Slice) -> str:
    bound = s.strength if s.mu is None else f"mu {s.mu:.2f}, {s.strength}"
    return f"{s.name}: probability {100 * s.share:.2f} %, {bound}"


def legend(names: list[str], y: float) -> tuple[list[Shape], float]:
    """A chip for each family that there is, and where the next line would be."""
    shapes: list[Shape] = []
    x = 8.0
    for role in dict.fromkeys(family(names[n]) for n in by_family(names)):
        width = 16 + text_width(family_words(role), SMALL) + 12
        if x + width > WIDTH:
            x, y = 8.0, y + LINE
        shapes += [Rect(x, y - 9, 10, 10, role), Text(x + 15, y, family_words(role), "muted", SMALL)]
        x += width
    return shapes, y + LINE


def pie_scene(policy: Policy, position: int | None = None) -> Scene:
    """The paper's pie, averaged over the positions or of one of them (from 1)."""
    labels = layout(policy, position)
    half = max(RADIUS + ELBOW, *(abs(label.y) + LINE * len(label.lines) / 2 for label in labels)) + LINE / 2
    shapes: list[Shape] = [Circle(CENTRE, half, MU_START * RADIUS, "wash")]
    shapes += [
        Wedge(CENTRE, half, s.radius, s.start, s.end, family(s.name), hint_text(s))
        for s in sorted((label.slice for label in labels), key=lambda s: s.start)
    ]
    shapes.append(Circle(CENTRE, half, MU_START * RADIUS, None, "ink", True, 0.8, f"mu at the start: {MU_START:g}"))
    shapes += [shape for label in labels for shape in label_shapes(label, half)]
    chips, y = legend(policy.space.names, 2 * half + 14)
    where = position_words(position, len(policy.pi))
    note, y = paragraph(
        f"Width: probability in %{', ' + where if where else ''}. Radius: mu, the largest magnitude; dashed: where it "
        f"started, {MU_START:g}. Without a magnitude: full radius.",
        y + 2,
    )
    ranked = sorted((label.slice for label in labels), key=lambda s: -s.share)
    desc = "Most likely: " + ", ".join(f"{s.name} {100 * s.share:.1f} %" for s in ranked[:3])
    desc += ". Least likely: " + ", ".join(f"{s.name} {100 * s.share:.1f} %" for s in ranked[-3:]) + "."
    title = f"The policy: {len(ranked)} transformations" + (f", {where}" if where else "")
    return Scene(title, desc, y - 4, [*shapes, *chips, *note])


def pie(policy: Policy, position: int | None = None, id: str = "pie") -> str:
    """As SVG. `id` must be unique on a page."""
    return render(pie_scene(policy, position), id)


def pie_table(policy: Policy, position: int | None = None) -> Table:
    """Most likely first."""
    found = sorted(slices(policy, position), key=lambda s: -s.share)
    rows: list[list[str | float | None]] = [[s.name, s.share, s.mu, s.strength] for s in found]
    return Table(["transformation", "probability", "mu", "strength"], rows)
