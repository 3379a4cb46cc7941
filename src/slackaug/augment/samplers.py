"""What a network is trained with: a `Method`, and the ways to draw transformations that it is made of.

Axes: n draws, L positions, M levels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import torch
from torch import Generator, Tensor

from .. import rng
from .apply import Composites
from .formats.forms import RAND_FLIP
from .policy_file import RGB
from .prepare import Preparation
from .space import Space


class Sampler(Protocol):
    """A space, and a way to draw from it: every policy is one."""

    @property
    def space(self) -> Space: ...

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Some:
    """A number of transformations out of a space, all equally likely, with replacement."""

    space: Space
    n_ops: int
    levels: Tensor | None = None  # (M,) magnitudes, equally likely; None: all of [0, 1]
    chance: float = 1.0  # that a drawn transformation acts

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites:
        u_op, u_magnitude, u_acts = rng.uniform((3, n, self.n_ops), generator)
        op = (u_op * len(self.space)).long()
        magnitude = u_magnitude if self.levels is None else self.levels[(u_magnitude * len(self.levels)).long()]
        return Composites(op, magnitude, u_acts < self.chance, self.space)


@dataclass(frozen=True, kw_only=True, eq=False)
class All:
    """Every transformation of a space once, at a magnitude uniform in [0, 1]."""

    space: Space
    shuffled: bool = False  # in a random order, instead of the space's
    chance: float = 1.0  # that one acts

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites:
        u_order, u_magnitude, u_acts = rng.uniform((3, n, len(self.space)), generator)
        op = u_order.argsort(-1) if self.shuffled else torch.arange(len(self.space)).repeat(n, 1)
        return Composites(op, u_magnitude, u_acts < self.chance, self.space)


Change = Callable[[Composites, Generator | None], Composites]


@dataclass(frozen=True, eq=False)
class Variant:
    """The draws of another sampler, changed."""

    part: Sampler
    change: Change

    @property
    def space(self) -> Space:
        return self.part.space

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites:
        return self.change(self.part.sample(n, generator, progress), generator)


def uniform_magnitudes(tau: Composites, generator: Generator | None) -> Composites:
    """The paper's ablation: the same transformations, each at a magnitude uniform in its range."""
    return tau._replace(magnitude=rng.uniform(tuple(tau.op.shape), generator).to(tau.op.device))


def without_flips(tau: Composites, generator: Generator | None) -> Composites:
    """The flips that are a transformation of their own do not act."""
    is_flip = torch.tensor([transform is RAND_FLIP for transform in tau.space])
    return tau._replace(active=tau.active & ~is_flip[tau.op])


@dataclass(frozen=True, kw_only=True, eq=False)
class Method:
    """What a network is trained with. The statistics are those of the data: one protocol for all methods."""

    name: str
    parts: tuple[Sampler, ...]  # drawn independently, and acting in this order
    flip: bool
    fill: tuple[int, ...]
    mean: RGB
    std: RGB
    preparation: Preparation

    @cached_property
    def space(self) -> Space:
        """The transformations of all parts, one after the other."""
        return Space(self.name, tuple(transform for part in self.parts for transform in part.space))

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites:
        """One composite an image, its positions those of the parts in turn."""
        drawn = [part.sample(n, generator, progress) for part in self.parts]
        first = accumulate((len(part.space) for part in self.parts), initial=0)  # each part's index into the space
        op = torch.cat([tau.op + i for tau, i in zip(drawn, first, strict=False)], 1)  # (n, L)
        magnitude = torch.cat([tau.magnitude for tau in drawn], 1)
        active = torch.cat([tau.active for tau in drawn], 1)
        return Composites(op, magnitude, active, self.space)
