"""A policy of any kind as the rows of one table: how often each transformation acts, and how strongly.

Axes: E entries of a policy (a transformation with its magnitude), N transformations of its space.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .policy import Policy
from .space import Space, Transform

UNITS = {  # of a range: by what its numbers are multiplied, how they are written, and what stands behind them
    "degrees": (1, ".3g", "°"),
    "of circle": (360, ".3g", "°"),
    "of area": (100, ".0f", " % of the area"),
    "bits": (1, ".0f", " bits"),
    "of width": (100, ".0f", " % of width"),
    "of height": (100, ".0f", " % of height"),
    "of size": (100, ".0f", " % of size"),
}


def drawn(policy: Policy) -> list[str]:
    """The transformations that can be drawn: of a smaller probability than a draw resolves, none ever is."""
    is_drawn = (policy.probabilities > torch.finfo(torch.float64).eps).any(0)  # (N,)
    return [name for name, is_one in zip(policy.space.names, is_drawn.tolist(), strict=True) if is_one]


class Row(NamedTuple):
    """One transformation of a policy."""

    name: str
    share: float  # mean number of applications per image
    strength: str  # mean strength in physical units; empty where it has none or never acts


def rows(space: Space, op: Tensor, weight: Tensor, magnitude: Tensor) -> list[Row]:
    """One row per transformation, out of E entries: op (E,), expected applications per image (E,), magnitude (E,)."""
    start, end = torch.tensor([t.span or (0.0, 0.0) for t in space], dtype=torch.float64)[op].unbind(-1)  # 2 x (E,)
    strength = start + (end - start) * magnitude.clamp(0, 1)
    signed = torch.tensor([t.signed for t in space])[op]
    strength = torch.where(signed, strength.abs(), strength)  # where a direction is drawn, the two would cancel
    share, total = torch.zeros(2, len(space), dtype=torch.float64)
    share = share.index_add(0, op, weight)  # (E,) -> (N,)
    mean = total.index_add(0, op, weight * strength) / share.clamp(min=1e-300)
    return [
        Row(t.name, often, strength_text(t, strong) if often > 0 else "")
        for t, often, strong in zip(space, share.tolist(), mean.tolist(), strict=True)
    ]


def strength_text(transform: Transform, strength: float) -> str:
    """A strength in a unit that people know: ± where a direction is drawn, a sign where the range has both."""
    if transform.span is None:
        return ""
    if transform.unit == "threshold":
        return f"threshold {strength:.0f}"
    if transform.unit == "on factor 1":
        factors = sorted({1 - abs(strength), 1 + abs(strength)} if transform.signed else {1 + strength})
        return f"factor {' or '.join(f'{factor:.2f}' for factor in factors)}"
    factor, form, behind = UNITS.get(transform.unit, (1, ".3g", f" {transform.unit}".rstrip()))
    if transform.signed:
        return f"±{abs(factor * strength):{form}}{behind}"
    sign = "+" if min(transform.span) < 0 < max(transform.span) else ""
    return f"{factor * strength:{sign}{form}}{behind}"


def range_text(transform: Transform, mu: float) -> str:
    """The strengths that magnitudes from 0 to mu give."""
    if transform.span is None:
        return ""
    start, end = transform.span
    reached = start + (end - start) * min(max(mu, 0.0), 1.0)
    if transform.unit == "on factor 1":
        low, high = (-abs(reached), abs(reached)) if transform.signed else (start, reached)
        return f"factor {1 + low:.2f} to {1 + high:.2f}"
    if transform.unit == "threshold":
        return f"threshold {start:.0f} to {reached:.0f}"
    factor, form, _ = UNITS.get(transform.unit, (1, ".3g", ""))
    return f"{f'{factor * start:{form}} to' if start else 'up to'} {strength_text(transform, reached)}"


def policy_text(n_composed: int, n: int, *, flip: bool) -> str:
    """What a policy that composes so many out of n does to an image."""
    flips = f"{'with' if flip else 'without'} mirror flips"
    if not n_composed:
        return f"images stay as they are, {flips}"
    return f"{n_composed} transformation{'s' * (n_composed != 1)} an image out of {n}, {flips}"
