"""The course of a search: pi, entropy, KL and losses over the rounds."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TypeVar

from .charts import Curve, Frame, axes, curve_shapes, empty, padded, room_for_names, rounds_apart, with_room
from .history import History
from .scene import Point, Scene, Table, paragraph
from .strength import check_position, family, position_words, shares
from .svg import render

N_LABELLED = 6  # transformations that an evolution names
MAX_POINTS = 200  # of a curve, beside those at the ends of rounds: it is hardly wider in pixels
MAX_COLUMNS = 21  # of a table: the start and 20 rounds, evenly spread where there are more
T = TypeVar("T")
NOTHING_YET = "Nothing is recorded yet: phi has not moved."


def trace(history: History, position: int | None = None) -> list[tuple[float, list[float]]]:
    """Rounds done and the probability of each transformation, from the start on."""
    check_position(position, len(history.start.pi))
    found = [(0.0, shares(history.start, position))]
    for step in history.policy_steps:
        assert step.pi is not None
        rows = step.pi if position is None else [step.pi[position - 1]]
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


def last_round(x: float) -> float:
    return max(1.0, math.ceil(x - 1e-9))


def evolution_scene(history: History, position: int | None = None) -> Scene:
    """The probabilities over the rounds, averaged over the positions or of one of them (from 1)."""
    where = position_words(position, len(history.start.pi))
    title = "How the probabilities moved" + (f", {where}" if where else "")
    points = trace(history, position)
    if len(points) < 2:
        return empty(title, NOTHING_YET)
    (_, first), (x_last, last) = points[0], points[-1]
    names, change = history.names, [b - a for a, b in zip(first, last, strict=True)]
    ranked = sorted(range(len(names)), key=lambda n: -abs(change[n]))
    labelled = ranked[:N_LABELLED]
    every = rounds_apart(last_round(x_last))
    curves = [level(0, x_last, 100 * first[0], "uniform", f" {100 * first[0]:.1f}")]
    for n, name in enumerate(names):
        hint = f"{name}: {100 * first[n]:.1f} % to {100 * last[n]:.1f} %"
        line = [(x, 100 * row[n]) for x, row in points]
        if n in labelled:
            ends = [(x, y) for x, y in line if is_whole(x) and round(x) % every == 0]
            curves.append(Curve(name, line, family(name), 1.9, ends, hint=hint, value=f" {100 * last[n]:.1f}"))
        else:
            curves.append(Curve(name, line, "faint", 1.1, is_labelled=False, hint=hint))
    unit = f"probability in %{', ' + where if where else ''}"
    levels = padded([100 * p for _, row in points for p in row])
    frame = with_room(Frame((0, last_round(x_last)), levels, 310, room_for_names(curves)))
    shapes = [*axes(frame, unit), *curve_shapes(frame, curves)]
    note, end = paragraph(
        ("" if len(labelled) == len(names) else f"The {len(labelled)} transformations that moved most are named. ")
        + "Dots and dashed lines: where a round began and its anchor was set. Only steps in which the policy moves are "
        "counted.",
        frame.height + 14,
    )
    moved = ", ".join(f"{names[n]} {100 * first[n]:.1f} to {100 * last[n]:.1f} %" for n in labelled[:4])
    return Scene(title, f"After {x_last:.3g} rounds, most changed: {moved}.", end - 4, [*shapes, *note])


def level(start: float, end: float, height: float, name: str, value: str = "") -> Curve:
    """A dashed line across."""
    return Curve(name, [(start, height), (end, height)], "muted", 1.0, dashed=True, value=value)


def evolution(history: History, position: int | None = None, id: str = "evolution") -> str:
    """As SVG. `id` must be unique on a page."""
    return render(evolution_scene(history, position), id)


def evolution_table(history: History, position: int | None = None) -> Table:
    """At the start and at the ends of finished rounds; most changed first."""
    check_position(position, len(history.start.pi))
    policies, last = [history.start, *history.policies], len(history.policies)
    n = min(len(policies), MAX_COLUMNS)
    shown = sorted({round(i * last / max(n - 1, 1)) for i in range(n)})
    columns = [shares(policies[r], position) for r in shown]
    order = sorted(range(len(history.names)), key=lambda n: -abs(columns[-1][n] - columns[0][n]))
    headers = ["transformation", "start", *(f"round {r}" for r in shown[1:])]
    return Table(headers, [[history.names[n], *(column[n] for column in columns)] for n in order])


# --- entropy, KL and losses -------------------------------------------------------------------------------------------


def chart(title: str, desc: str, frame: Frame, unit: str, curves: list[Curve]) -> Scene:
    frame = with_room(frame)
    return Scene(title, desc, frame.height, [*axes(frame, unit), *curve_shapes(frame, curves)])


def entropy_scene(history: History) -> Scene:
    """The entropy of the policy over the rounds, from that of the uniform one on."""
    title = "Entropy of the policy"
    highest = math.log(len(history.names))
    n_positions = len(history.start.pi)
    rows = [(history.moved(step), step.entropy) for step in history.policy_steps if step.entropy is not None]
    rows = thinned([(0.0, [highest] * n_positions), *rows])
    if len(rows) < 2:
        return empty(title, NOTHING_YET)
    mean = [(x, math.fsum(row) / len(row)) for x, row in rows]
    curves = [Curve("mean", mean, "ink"), level(0, mean[-1][0], highest, "uniform")]
    differ = any(len({*row}) > 1 for _, row in rows)  # not those of a search with `tied`
    for k in range(n_positions if differ else 0):
        line = [(x, row[k]) for x, row in rows]
        curves.append(Curve(f"position {k + 1}", line, "faint", 1.2, is_labelled=False, hint=f"position {k + 1}"))
    desc = f"From {highest:.3f} nats, the highest there is, to {mean[-1][1]:.3f}, averaged over positions."
    levels = padded([highest, *(min(row) for _, row in rows)])
    frame = Frame((0, last_round(rows[-1][0])), levels, 200, room_for_names(curves))
    grey = "; grey: each position" if differ else ""
    return chart(title, desc, frame, f"entropy in nats{grey}", curves)


def entropy(history: History, id: str = "entropy") -> str:
    """As SVG. `id` must be unique on a page."""
    return render(entropy_scene(history), id)


def entropy_table(history: History) -> Table:
    """At the start and at the end of every finished round."""
    n_positions = len(history.start.pi)
    headers = ["rounds done", "mean", *(f"position {k + 1}" for k in range(n_positions))]
    found = [policy.entropy().tolist() for policy in (history.start, *history.policies)]
    return Table(headers, [[r, math.fsum(row) / len(row), *row] for r, row in enumerate(found)])


def divergence(p: Sequence[Sequence[float]], q: Sequence[Sequence[float]]) -> float:
    """KL(p || q), summed over positions."""
    pairs = ((a, b) for row, other in zip(p, q, strict=True) for a, b in zip(row, other, strict=True))
    return math.fsum(a * math.log(a / max(b, 1e-300)) for a, b in pairs if a > 0)


def kl_points(history: History) -> list[Point]:
    """Of each recorded step to the anchor of its round, which begins at zero."""
    anchors = [policy.probabilities.tolist() for policy in history.anchors]
    points: list[Point] = []
    for step in history.policy_steps:
        assert step.pi is not None
        if step.round <= len(anchors):
            if not points or points[-1][0] <= step.round - 1:
                points.append((step.round - 1, 0.0))
            points.append((history.moved(step), max(0.0, divergence(step.pi, anchors[step.round - 1]))))
    return points


def kl_scene(history: History) -> Scene:
    """The KL divergence to the anchor of each round."""
    title = "How far each round went from its anchor"
    points, ends = kl_points(history), [(float(r), value) for r, value in enumerate(history.kl, 1)]
    if not points and not ends:
        return empty(title, NOTHING_YET)
    points = thinned(points or [(0.0, 0.0), *ends])
    frame = Frame((0, last_round(points[-1][0])), padded([y for _, y in (*points, *ends)]), 200)
    values = ", ".join(f"{y:.4f}" for _, y in ends) or "none is finished"
    every = rounds_apart(last_round(points[-1][0]))
    dots = [(x, y) for x, y in ends if x % every == 0]
    curves = [Curve("KL", points, "ink", dots=dots, is_labelled=False, hint="KL to the round's anchor")]
    return chart(title, f"In nats, at the end of the rounds: {values}.", frame, "KL to the anchor in nats", curves)


def kl(history: History, id: str = "kl") -> str:
    """As SVG. `id` must be unique on a page."""
    return render(kl_scene(history), id)


def kl_table(history: History) -> Table:
    """At the end of every finished round."""
    return Table(["round", "KL to its anchor"], [[r, value] for r, value in enumerate(history.kl, 1)])


def losses_scene(history: History) -> Scene:
    """Training and validation loss, from the pre-training on."""
    title = "Losses"
    train = [(history.elapsed(step), step.train_loss) for step in history.steps]
    val = [(history.elapsed(step), step.val_loss) for step in history.steps if step.val_loss is not None]
    rounds = [list(group) for _, group in groupby(thinned(val), lambda point: math.ceil(point[0] - 1e-9))]
    if len(train) < 2:
        return empty(title, "Nothing is recorded yet.")
    values = [y for _, y in (*train, *val)]
    first = -1 if train[0][0] < 0 else 0
    last = max(first + 1, math.ceil(train[-1][0] - 1e-9))
    curves = [Curve("train", thinned(train), "geometric", 1.2)]
    curves += [  # known only where phi moves
        Curve("validation", points, "own", 1.2, is_labelled=points is rounds[-1]) for points in rounds
    ]
    desc = f"Training, on augmented images: last {train[-1][1]:.3f}."
    desc += f" Validation: last {val[-1][1]:.3f}." if val else ""
    frame = Frame((first, last), padded(values), 270, room_for_names(curves))
    return chart(title, desc, frame, "cross-entropy of a batch", curves)


def losses(history: History, id: str = "losses") -> str:
    """As SVG. `id` must be unique on a page."""
    return render(losses_scene(history), id)


def losses_table(history: History) -> Table:
    """The last recorded step of the pre-training and of each round."""
    last = {step.round: step for step in history.steps}
    return Table(
        ["round", "step", "train loss", "validation loss"],
        [[r or "pre-training", step.step, step.train_loss, step.val_loss] for r, step in sorted(last.items())],
    )
