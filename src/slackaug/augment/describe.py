"""A policy of any kind as the rows of one table: how often each transformation acts, and how strongly.

Axes: E entries of a policy (a transformation with its magnitude), N transformations of its space.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .space import Space, Transform


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
    """A strength with its unit: ± where a direction is drawn, a sign where the range has both."""
    if transform.span is None:
        return ""
    if transform.signed:
        number = f"±{abs(strength):.3g}"
    else:
        number = f"{strength:+.3g}" if min(transform.span) < 0 < max(transform.span) else f"{strength:.3g}"
    return f"{number} {transform.unit}".rstrip()


def range_text(transform: Transform, mu: float) -> str:
    """The strengths that magnitudes from 0 to mu give."""
    if transform.span is None:
        return ""
    start, end = transform.span
    reached = start + (end - start) * min(max(mu, 0.0), 1.0)
    return f"{start:.3g} to {strength_text(transform, reached)}"


def number_text(n_composed: int) -> str:
    """How many transformations an image goes through."""
    return f"{n_composed} transformation{'s' * (n_composed != 1)}"
