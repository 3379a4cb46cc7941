"""Bars of mu, and for a study the probabilities of several searches beside one another."""

import math
from collections.abc import Sequence

import torch

from ..augment.policy import Policy
from ..augment.policy_file import MU_START
from ..augment.stability import Stability, stability
from .charts import empty, padded, ticks
from .scene import SMALL, TEXT, WIDTH, Circle, Line, Rect, Scene, Shape, Table, Text, paragraph, shorten, text_width
from .strength import bounds_text, family, shares
from .svg import render

NAMES = 130.0  # width of the column of names: the longest of the paper fits
STRENGTHS = 154.0  # width of the column of strengths, likewise
ROW = 19.0


def name_column(names: Sequence[str], top: float) -> list[Shape]:
    return [
        Text(NAMES, top + ROW * i + 14, shorten(name, TEXT, NAMES - 4), anchor="end", title=name)
        for i, name in enumerate(names)
    ]


# --- mu ---------------------------------------------------------------------------------------------------------------


def bounds(policy: Policy, image_size: tuple[int, int] | None) -> list[tuple[str, float, str]]:
    """Name, mu and strengths of the transformations that have a magnitude, the strongest first."""
    pairs = zip(policy.space, policy.mu.tolist(), strict=True)
    found = [(t.name, mu, bounds_text(t, mu, image_size)) for t, mu in pairs if t.span is not None]
    return sorted(found, key=lambda row: -row[1])


def mu_bars_scene(policy: Policy, image_size: tuple[int, int] | None = None) -> Scene:
    """The bound mu of every magnitude against where it started, and the strengths that it allows."""
    rows, top = bounds(policy, image_size), 24.0
    left, right = NAMES + 8, WIDTH - STRENGTHS
    floor = top + ROW * len(rows)

    def at(mu: float) -> float:
        return left + mu * (right - left)

    if not rows:
        return empty("How strong the transformations may become", "No transformation has a magnitude.")
    shapes: list[Shape] = [
        Text(left, 14, "0", "muted", SMALL, "middle"),
        Text(right, 14, "1", "muted", SMALL, "middle"),
        Text(at(MU_START) + 8, 14, f"start {MU_START:g}", "muted", SMALL, "end"),
    ]
    shapes += name_column([name for name, _, _ in rows], top)
    for i, (name, mu, text) in enumerate(rows):
        y, hint = top + ROW * i, f"{name}: mu {mu:.3f}, {text}"
        shapes.append(Rect(left, y + 4, right - left, ROW - 7, "wash", hint))
        shapes.append(Rect(left, y + 4, at(mu) - left, ROW - 7, family(name), hint))
        shapes.append(Text(right + 8, y + 14, shorten(text, SMALL, STRENGTHS - 10), "muted", SMALL, title=hint))
    shapes.append(Line([(at(MU_START), top), (at(MU_START), floor)], "ink", 1.0, True))
    free = [t.name for t in policy.space if t.span is None]
    note = "Bound mu of the magnitudes, and the strengths that it allows."
    note += f" Without a magnitude: {', '.join(free)}." if free else ""
    more, end = paragraph(note, floor + 20)
    desc = "; ".join(f"{name} {mu:.2f}, {text}" for name, mu, text in rows)
    return Scene("How strong the transformations may become", desc, end - 4, [*shapes, *more])


def mu_bars(policy: Policy, id: str = "mu", image_size: tuple[int, int] | None = None) -> str:
    """`image_size`, height and width, gives shifts in pixels."""
    return render(mu_bars_scene(policy, image_size), id)


def mu_bars_table(policy: Policy, image_size: tuple[int, int] | None = None) -> Table:
    """The strongest first."""
    return Table(["transformation", "mu", "strength"], [list(row) for row in bounds(policy, image_size)])


# --- several searches -------------------------------------------------------------------------------------------------


def search_names(policies: Sequence[Policy], names: Sequence[str] | None) -> list[str]:
    found = list(names) if names is not None else [f"search {s}" for s in range(len(policies))]
    if len(found) != len(policies):
        raise ValueError(f"expected {len(policies)} names, one for each policy, got {len(found)}")
    return found


def stability_text(found: Stability) -> str:
    def number(value: float | None) -> str:
        return "undefined" if value is None else f"{value:.2f}"

    entropy = f"entropy {found.entropy:.3f} nats"
    entropy += f", {100 * found.entropy_share:.1f} % of uniform" if found.entropy_share is not None else ""
    if found.n_policies < 2:
        return f"One search says nothing about stability; {entropy}."
    return (
        f"Mean correlation between {found.n_policies} searches: pi {number(found.pi)}, without Invert and Solarize "
        f"{number(found.pi_rest)}; mu {number(found.mu)}, without Solarize {number(found.mu_rest)}; {entropy}."
    )


def by_mean(policies: Sequence[Policy]) -> list[tuple[str, list[float]]]:
    """Name and probability in each search, averaged over positions; the likeliest on average first."""
    columns = [shares(policy) for policy in policies]
    rows = list(zip(policies[0].space.names, map(list, zip(*columns, strict=True)), strict=True))
    return sorted(rows, key=lambda row: -math.fsum(row[1]))


def side_by_side_scene(policies: Sequence[Policy], names: Sequence[str] | None = None) -> Scene:
    """The probabilities of several searches, a dot for each; all policies over one space."""
    labels, found = search_names(policies, names), stability(policies)
    rows, top = by_mean(policies), 24.0
    left, right, floor = NAMES + 12, WIDTH - 14, top + ROW * len(rows)
    low, high = padded([100 * value for _, values in rows for value in values])

    def at(percent: float) -> float:
        return left + (percent - low) / (high - low) * (right - left)

    shapes: list[Shape] = []
    for value in ticks(low, high, 6):
        x = at(value)
        shapes.append(Line([(x, top), (x, floor)], "rule", 0.7))
        shapes.append(Text(x, floor + 16, f"{value:g}", "muted", SMALL, "middle"))
    uniform = at(100 / len(rows))
    shapes.append(Line([(uniform, top), (uniform, floor)], "muted", 1.0, True))
    shapes.append(Text(uniform, 15, "uniform", "muted", SMALL, "middle"))
    shapes += name_column([name for name, _ in rows], top)
    for i, (name, values) in enumerate(rows):
        percents, y = [100 * value for value in values], top + ROW * i + ROW / 2
        mean = math.fsum(percents) / len(percents)
        shapes.append(Line([(at(min(percents)), y), (at(max(percents)), y)], family(name), 1.2))
        for label, value in zip(labels, percents, strict=True):
            hint = f"{name}, {label}: {value:.2f} %"
            shapes.append(Circle(at(value), y, 3.6, family(name), "paper", title=hint))
        shapes.append(Line([(at(mean), y - 6), (at(mean), y + 6)], "ink", 2.0, title=f"{name}, mean: {mean:.2f} %"))
    text = "Probability in %, a dot for each search, a bar at their mean. " + stability_text(found)
    more, end = paragraph(text, floor + 38)
    first, last = rows[0][0], rows[-1][0]
    desc = f"{len(policies)} searches; likeliest on average {first}, least likely {last}. {stability_text(found)}"
    return Scene("The policies of several searches", desc, end - 4, [*shapes, *more])


def side_by_side(policies: Sequence[Policy], names: Sequence[str] | None = None, id: str = "side-by-side") -> str:
    """As SVG. `id` must be unique on a page."""
    return render(side_by_side_scene(policies, names), id)


def side_by_side_table(policies: Sequence[Policy], names: Sequence[str] | None = None) -> Table:
    """The likeliest on average first."""
    headers = ["transformation", *search_names(policies, names), "mean"]
    return Table(headers, [[name, *values, math.fsum(values) / len(values)] for name, values in by_mean(policies)])


def matrix(policies: Sequence[Policy]) -> list[list[float | None]]:
    """Pearson's correlation of pi, averaged over positions, for each pair; None where one is constant."""
    pi = torch.tensor([shares(policy) for policy in policies], dtype=torch.float64)  # (S, N)
    centred = pi - pi.mean(1, keepdim=True)
    norm = centred.norm(dim=1)
    n = len(policies)
    return [
        [
            (centred[i] @ centred[j] / (norm[i] * norm[j])).item() if min(norm[i], norm[j]).item() > 1e-9 else None
            for j in range(n)
        ]
        for i in range(n)
    ]


def correlations_scene(policies: Sequence[Policy], names: Sequence[str] | None = None) -> Scene:
    """How alike the probabilities of each pair of searches are."""
    labels, found, cells = search_names(policies, names), stability(policies), matrix(policies)
    n, top = len(policies), 12.0
    left = min(NAMES, 14 + max(text_width(label, TEXT) for label in labels))
    side = min(52.0, (WIDTH - left - 12) / n)
    height = min(34.0, side)
    shapes: list[Shape] = []
    for i, row in enumerate(cells):
        y = top + height * i
        shapes.append(Text(left - 8, y + height / 2 + 4, shorten(labels[i], TEXT, left - 10), anchor="end"))
        for j, value in enumerate(row):
            text = "-" if value is None else f"{value:.2f}"
            x, hint = left + side * j, f"{labels[i]} and {labels[j]}: {text}"
            shapes.append(Rect(x, y, side - 2, height - 2, "wash", hint))
            if value is not None and i != j:
                role = "geometric" if value >= 0 else "tone"
                shapes.append(Rect(x, y, side - 2, height - 2, role, hint, round(0.5 * min(1, abs(value)), 3)))
            if side >= 30 and i != j:
                shapes.append(Text(x + side / 2 - 1, y + height / 2 + 3, text, "ink", SMALL, "middle"))
    more, end = paragraph("Correlation of pi between searches. " + stability_text(found), top + height * n + 18)
    return Scene("How alike the searches are", stability_text(found), end - 4, [*shapes, *more])


def correlations(policies: Sequence[Policy], names: Sequence[str] | None = None, id: str = "correlations") -> str:
    """As SVG. `id` must be unique on a page."""
    return render(correlations_scene(policies, names), id)


def correlations_table(policies: Sequence[Policy], names: Sequence[str] | None = None) -> Table:
    """None where a policy is uniform, and has no correlation."""
    labels = search_names(policies, names)
    rows = zip(labels, matrix(policies), strict=True)
    return Table(["correlation of pi", *labels], [[label, *row] for label, row in rows])
