"""Where things stand in a figure: along an axis, on a circle, beside one another."""

import math
from collections.abc import Sequence
from itertools import accumulate

Point = tuple[float, float]


def on_circle(x: float, y: float, radius: float, degrees: float) -> Point:
    """Clockwise from the top."""
    angle = math.radians(degrees)
    return x + radius * math.sin(angle), y - radius * math.cos(angle)


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Round numbers from low to high, about n of them."""
    step = 10 ** math.floor(math.log10((high - low) / n))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (step * factor) <= n)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def padded(values: Sequence[float]) -> tuple[float, float]:
    """A range that holds all values with a little room; it begins at zero if they come near it."""
    low, high = min(values), max(values)
    if 0 <= low < high / 2:
        return 0.0, 1.08 * high
    if low == high == 0:
        return 0.0, 1.0
    room = (high - low) * 0.08 or abs(high) * 0.08 or 1.0
    return low - room, high + room


def spread(wanted: Sequence[float], gaps: Sequence[float], low: float, high: float) -> list[float]:
    """The places nearest to the wanted ones, which ascend, that keep the gaps between neighbours: least squares, then
    into the bounds. Where these are too narrow the upper one gives way.
    """
    if not wanted:
        return []
    offsets = list(accumulate(gaps, initial=0.0))  # from the first, where all touch
    blocks: list[tuple[float, int]] = []  # mean and number of those that touch one another (pool adjacent violators)
    for place, offset in zip(wanted, offsets, strict=True):
        mean, n = place - offset, 1
        while blocks and blocks[-1][0] >= mean:
            other, m = blocks.pop()
            mean, n = (mean * n + other * m) / (n + m), n + m
        blocks.append((mean, n))
    highest = max(low, high - offsets[-1])
    flat = [min(max(mean, low), highest) for mean, n in blocks for _ in range(n)]
    return [place + offset for place, offset in zip(flat, offsets, strict=True)]
