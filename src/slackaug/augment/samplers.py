"""What methods are made of: ways to draw transformations that know nothing of each other.

Axes: n draws, L positions, M levels.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from .. import rng
from .apply import Composites, Space
from .formats.forms import RAND_FLIP


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


@dataclass(frozen=True, eq=False)
class UniformMagnitudes:
    """The paper's ablation: the same transformations, each at a magnitude uniform in its range."""

    part: Sampler

    @property
    def space(self) -> Space:
        return self.part.space

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites:
        tau = self.part.sample(n, generator, progress)
        return tau._replace(magnitude=rng.uniform(tuple(tau.op.shape), generator).to(tau.op.device))


@dataclass(frozen=True, eq=False)
class WithoutFlips:
    """The same draws, but the flips that are a transformation of their own do not act."""

    part: Sampler

    @property
    def space(self) -> Space:
        return self.part.space

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites:
        tau = self.part.sample(n, generator, progress)
        is_flip = torch.tensor([transform is RAND_FLIP for transform in self.space])
        return tau._replace(active=tau.active & ~is_flip[tau.op])
