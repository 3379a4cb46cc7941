"""Figures of a search: its probabilities, entropy, KL and losses over the rounds, as line charts."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

import torch

from .geometry import Point, padded, spread, ticks
from .history import History
from .lettering import LINE, SMALL, TEXT, shorten, text_width
from .scene import WIDTH, Circle, Line, Numbers, Scene, Shape, Text, empty, noted
from .strength import family, position_words, shares

N_LABELLED = 6  # transformations that an evolution names
MAX_POINTS = 200  # of a curve, beside those at the ends of rounds: it is hardly wider in pixels
MAX_COLUMNS = 21  # of a table: the start and 20 rounds, evenly spread where there are more
MAX_MARKS = 20  # of rounds
STEPS: list[int] = [factor * 10**power for power in range(9) for factor in (1, 2, 5)]  # from one mark to the next
NOTHING_YET = "Nothing is recorded yet: phi has not moved."
LEFT, RIGHT, TOP, BOTTOM = 34.0, 12.0, 26.0, 40.0  # margins around a frame, at least
LEADER = 15.0  # from the end of a curve to its name
MOST_FOR_NAMES = 0.44  # of the width
T = TypeVar("T")
Range = tuple[float, float]


class Frame(NamedTuple):
    """The rectangle in which a chart draws, and the ranges of the data."""

    x: Range
    y: Range
    left: float
    right: float
    floor: float

    def __call__(self, x: float, y: float) -> Point:
        (x0, x1), (y0, y1) = self.x, self.y
        across, down = (x - x0) / (x1 - x0), (y1 - y) / (y1 - y0)
        return self.left + across * (self.right - self.left), TOP + down * (self.floor - TOP)


class Curve(NamedTuple):
    name: str  # stands at its end; empty: nothing does
    points: Sequence[Point]  # in the data's units
    stroke: str
    thickness: float = 1.8
    dots: Sequence[Point] = ()
    hint: str = ""
    dashed: bool = False
    value: str = ""  # stands behind the name, however short that must become


def axes(frame: Frame, y_label: str) -> list[Shape]:
    """Levels with their numbers, rounds with theirs, and what they count."""
    start, low = frame(0, frame.y[0])[0], frame.floor + BOTTOM - 6
    shapes: list[Shape] = [Text(4, 14, y_label, "muted", SMALL)]
    for value in ticks(*frame.y):
        _, y = frame(frame.x[0], value)
        shapes.append(Line([(frame.left, y), (frame.right, y)], "rule", 0.7))
        shapes.append(Text(frame.left - 6, y + 4, f"{value:g}", "muted", SMALL, "end"))
    if frame.x[1] > 0:
        shapes.append(Text((start + frame.right) / 2, low, "rounds done", "muted", SMALL, "middle"))
    shapes += round_ticks(frame)
    if frame.x[0] < 0:
        shapes.append(Text((frame.left + start) / 2, low, "pre-training", "muted", SMALL, "middle"))
    return shapes


def rounds_apart(n_rounds: float) -> int:
    """Of the marks of rounds, so that there are not too many."""
    return next(k for k in STEPS if n_rounds / k <= MAX_MARKS)


def round_ticks(frame: Frame) -> list[Shape]:
    """A line at the start of rounds, where the anchor is set, and numbers as far as there is room."""
    first, last = math.ceil(frame.x[0]), math.floor(frame.x[1] + 1e-9)
    apart = rounds_apart(last - first)
    every = next(k for k in STEPS if k >= apart and k * (frame.right - frame.left) >= 26 * (last - first))
    shapes: list[Shape] = []
    for k in sorted({first, last, *range(-(-first // apart) * apart, last + 1, apart)}):
        x, _ = frame(k, frame.y[0])
        shapes.append(Line([(x, TOP), (x, frame.floor)], "rule", 0.7, k not in (first, last)))
        if k >= 0 and k % every == 0:
            shapes.append(Text(x, frame.floor + 16, str(k), "muted", SMALL, "middle"))
    return shapes


def curve_shapes(frame: Frame, curves: Sequence[Curve]) -> list[Shape]:
    """Curves without a name first; the names of the others at their ends, apart from one another."""
    shapes: list[Shape] = []
    for curve in sorted(curves, key=lambda c: bool(c.name)):
        shapes.append(Line([frame(*p) for p in curve.points], curve.stroke, curve.thickness, curve.dashed, curve.hint))
        shapes += [Circle(*frame(*p), 3.0, curve.stroke, "paper", curve.hint) for p in curve.dots]
    named = sorted((c for c in curves if c.name), key=lambda c: -c.points[-1][1])
    wanted = [frame(*c.points[-1])[1] for c in named]
    x = frame.right + LEADER - 1
    for curve, y in zip(named, spread(wanted, [LINE] * (len(named) - 1), TOP, frame.floor), strict=True):
        shapes.append(Line([frame(*curve.points[-1]), (x - 2, y)], curve.stroke, 0.8))
        name = shorten(curve.name, TEXT, WIDTH - x - 2 - text_width(curve.value, TEXT)) + curve.value
        shapes.append(Text(x + 1, y + TEXT / 3, name, "muted" if curve.dashed else "ink", title=curve.hint))
    return shapes


def chart(
    unit: str, curves: list[Curve], x: Range, levels: Sequence[float], height: float, beside: Sequence[Curve] = ()
) -> list[Shape]:
    """Curves in a frame that holds all the levels; its margins are as wide as its numbers and names need, and as those
    of other curves `beside` it."""
    named = [curve for curve in (*curves, *beside) if curve.name]
    y, names = padded(levels), [text_width(curve.name + curve.value, TEXT) for curve in named]
    left = max(LEFT, 10 + max(text_width(f"{value:g}", SMALL) for value in ticks(*y)))
    right = min(LEADER + 4 + max(names), MOST_FOR_NAMES * WIDTH) if names else RIGHT  # as far as curves can spare it
    frame = Frame(x, y, left, WIDTH - right, height - BOTTOM)
    return [*axes(frame, unit), *curve_shapes(frame, curves)]


# --- the probabilities ------------------------------------------------------------------------------------------------


def trace(history: History, position: int | None = None) -> list[tuple[float, list[float]]]:
    """Rounds done and the probability of each transformation, from the start on."""
    found = [(0.0, shares(history.start, position))]
    for step, phi in history.policy_steps:
        rows = phi.pi if position is None else [phi.pi[position - 1]]
        found.append((history.moved(step), [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]))
    if len(found) == 1:  # without metrics there may still be policies
        found += [(float(r), shares(policy, position)) for r, policy in enumerate(history.policies, 1)]
    return thinned(found)


def thinned(points: Sequence[tuple[float, T]]) -> list[tuple[float, T]]:
    """Not too many, but the last, and those at the ends of rounds."""
    every = math.ceil(len(points) / MAX_POINTS)
    last = len(points) - 1
    return [(x, y) for i, (x, y) in enumerate(points) if i % every == 0 or i == last or is_whole(x)]


def is_whole(x: float) -> bool:
    return abs(x - round(x)) < 1e-9


def rounds_to(x: float) -> Range:
    """The range of an axis that ends with a whole round."""
    return 0.0, max(1.0, math.ceil(x - 1e-9))


def level(end: float, height: float, value: str = "") -> Curve:
    """A dashed line across: where the uniform policy is."""
    return Curve("uniform", [(0, height), (end, height)], "muted", 1.0, dashed=True, value=value)


class Course(NamedTuple):
    curves: list[Curve]
    end: float  # rounds done
    levels: list[float]
    moved: str  # in words


def course(history: History, position: int | None, n_labelled: int) -> Course | None:
    """The curves of all transformations, and which of them moved most; None before phi has moved."""
    points = trace(history, position)
    if len(points) < 2:
        return None
    (_, first), (end, last) = points[0], points[-1]
    names, change = history.names, [b - a for a, b in zip(first, last, strict=True)]
    apart = rounds_apart(rounds_to(end)[1])
    labelled = sorted(range(len(names)), key=lambda n: -abs(change[n]))[:n_labelled]
    curves = [level(end, 100 * first[0], f" {100 * first[0]:.1f}")]
    for n, name in enumerate(names):
        hint = f"{name}: {100 * first[n]:.1f} % to {100 * last[n]:.1f} %"
        line = [(x, 100 * row[n]) for x, row in points]
        if n in labelled:
            ends = [(x, y) for x, y in line if is_whole(x) and round(x) % apart == 0]
            curves.append(Curve(name, line, family(name), 1.9, ends, hint, value=f" {100 * last[n]:.1f}"))
        else:
            curves.append(Curve("", line, "faint", 1.1, hint=hint))
    most = ", ".join(f"{names[n]} {100 * first[n]:.1f} to {100 * last[n]:.1f} %" for n in labelled[:4])
    moved = f"After {end:.3g} rounds, most changed: {most}."
    return Course(curves, end, [100 * p for _, row in points for p in row], moved)


def evolution(history: History, position: int | None = None) -> Scene:
    """The probabilities over the rounds, averaged over the positions or of one of them (from 1).

    The table has them at the start and at the ends of finished rounds; most changed first.
    """
    where = position_words(position, len(history.start.pi))
    title, table = f"How the probabilities moved{where}", evolution_table(history, position)
    found = course(history, position, N_LABELLED)
    if found is None:
        return empty(title, NOTHING_YET, table)
    note = "" if len(history.names) <= N_LABELLED else f"The {N_LABELLED} transformations that moved most are named. "
    note += "Dots and dashed lines: where a round began and its anchor was set. "
    note += "Only steps in which the policy moves are counted."
    shapes = chart(f"probability in %{where}", found.curves, rounds_to(found.end), found.levels, 310)
    return noted(title, found.moved, shapes, note, 310 + 14, table)


def evolution_table(history: History, position: int | None) -> Numbers:
    policies = [history.start, *history.policies]
    shown = evenly(len(policies) - 1, MAX_COLUMNS)
    columns = [shares(policies[r], position) for r in shown]
    order = sorted(range(len(history.names)), key=lambda n: -abs(columns[-1][n] - columns[0][n]))
    headers = ["transformation", "start", *(f"round {r}" for r in shown[1:])]
    return Numbers(headers, [[history.names[n], *(column[n] for column in columns)] for n in order])


def evenly(last: int, most: int) -> list[int]:
    """The numbers from 0 to `last`, or as many of them as there may be."""
    n = min(last + 1, most)
    return sorted({round(i * last / max(n - 1, 1)) for i in range(n)})


# --- entropy, KL and losses -------------------------------------------------------------------------------------------


def entropy(history: History) -> Scene:
    """The entropy of the policy over the rounds, from that of the uniform one on."""
    title, n_positions = "Entropy of the policy", len(history.start.pi)
    found = [policy.entropy().tolist() for policy in (history.start, *history.policies)]
    table = Numbers(
        ["rounds done", "mean", *(f"position {k + 1}" for k in range(n_positions))],
        [[r, math.fsum(row) / len(row), *row] for r, row in enumerate(found)],
    )
    highest = math.log(len(history.names))
    rows = [(history.moved(step), phi.entropy) for step, phi in history.policy_steps]
    rows = thinned([(0.0, [highest] * n_positions), *rows])
    if len(rows) < 2:
        return empty(title, NOTHING_YET, table)
    mean = [(x, math.fsum(row) / len(row)) for x, row in rows]
    (last, lowest), differ = mean[-1], any(len({*row}) > 1 for _, row in rows)  # not those of a search with a budget
    curves = [Curve("mean", mean, "ink"), level(last, highest)]
    curves += [
        Curve("", [(x, row[k]) for x, row in rows], "faint", 1.2, hint=f"position {k + 1}")
        for k in range(n_positions if differ else 0)
    ]
    desc = f"From {highest:.3f} nats, the highest there is, to {lowest:.3f}, averaged over positions."
    unit, levels = f"entropy in nats{'; grey: each position' * differ}", [highest, *(min(row) for _, row in rows)]
    return Scene(title, desc, 200, chart(unit, curves, rounds_to(last), levels, 200), table)


def kl_points(history: History) -> list[Point]:
    """Of each recorded step to the anchor of its round, which begins at zero."""
    anchors = [policy.probabilities for policy in history.anchors]
    points: list[Point] = []
    for step, phi in history.policy_steps:
        if step.round <= len(anchors):
            if not points or points[-1][0] <= step.round - 1:
                points.append((step.round - 1, 0.0))
            pi = torch.tensor(phi.pi, dtype=torch.float64)
            divergence = torch.special.xlogy(pi, pi / anchors[step.round - 1]).sum().item()  # 0 where pi is 0
            points.append((history.moved(step), max(0.0, divergence)))
    return points


def kl(history: History) -> Scene:
    """The KL divergence to the anchor of each round; the table has it at the end of every finished one."""
    title, ends = "How far each round went from its anchor", list(enumerate(history.kl, 1))
    points = kl_points(history)
    table = Numbers(["round", "KL to its anchor"], [[*end] for end in ends])
    if not points and not ends:
        return empty(title, NOTHING_YET, table)
    points = thinned(points or [(0.0, 0.0), *ends])
    x = rounds_to(points[-1][0])
    dots = [(r, value) for r, value in ends if r % rounds_apart(x[1]) == 0]
    curve = Curve("", points, "ink", dots=dots, hint="KL to the round's anchor")
    desc = f"In nats, at the end of the rounds: {', '.join(f'{y:.4f}' for _, y in ends) or 'none is finished'}."
    levels = [y for _, y in (*points, *ends)]
    return Scene(title, desc, 200, chart("KL to the anchor in nats", [curve], x, levels, 200), table)


def losses(history: History) -> Scene:
    """Training and validation loss, from the pre-training on; the table has the last recorded step of each round."""
    train = [(history.elapsed(step), step.train_loss) for step in history.steps]
    val = [(history.elapsed(step), phi.val_loss) for step, phi in history.policy_steps]
    ends = sorted({step.round: step for step in history.steps}.items())
    rows = [[r or "pre-training", s.step, s.train_loss, s.phi.val_loss if s.phi else None] for r, s in ends]
    table = Numbers(["round", "step", "train loss", "validation loss"], rows)
    if len(train) < 2:
        return empty("Losses", "Nothing is recorded yet.", table)
    rounds = [list(group) for _, group in groupby(thinned(val), lambda point: math.ceil(point[0] - 1e-9))]
    curves = [Curve("train", thinned(train), "geometric", 1.2)]
    curves += [Curve("validation" * (points is rounds[-1]), points, "own", 1.2) for points in rounds]  # where phi moves
    first = -1 if train[0][0] < 0 else 0
    last = max(first + 1, math.ceil(train[-1][0] - 1e-9))
    desc = f"Training, on augmented images: last {train[-1][1]:.3f}."
    desc += f" Validation: last {val[-1][1]:.3f}." if val else ""
    shapes = chart("cross-entropy of a batch", curves, (first, last), [y for _, y in (*train, *val)], 270)
    return Scene("Losses", desc, 270, shapes, table)
