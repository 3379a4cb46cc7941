"""The numbers of a policy, as every exported file states them."""

from typing import NamedTuple


class Choice(NamedTuple):
    """One transformation: m = mu * uniform + SIGMA * normal, clamped to [0, 1], is its magnitude."""

    p: tuple[float, ...]  # its probability at each position
    mu: float = 0.0
    span: tuple[float, float] = (0.0, 0.0)  # its strength at magnitudes 0 and 1
    signed: bool = False  # in a direction that is drawn for each image


POLICY: dict[str, Choice] = {}
SIGMA = 0.1
FLIP = True
FILL = (0, 0, 0)
FILL_GREY = 0
