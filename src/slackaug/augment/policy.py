"""The policy p_phi, phi = (pi, mu): which transformations, how often and how strongly (Sec. 3.1).

Axes: K positions, N transformations, n draws. Everything here is float64.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import torch
from torch import Generator, Tensor

from .. import rng, schema
from ..schema import PolicyError
from . import policy_file
from .apply import Composites, beside
from .display import displayed, policy_in_words
from .policy_file import MAX_COMPOSED, MU_FILE_MIN, MU_START, RGB, placed, read_rgb
from .space import Space
from .transforms import get_space

MU_MIN, MU_MAX = 0.1, 1.0  # mu is clamped to this after each update of a search
IDENTITY = "Identity"
NEVER = -690.0  # a logit whose probability is zero to all purposes
CIFAR = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # mean and std
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class SmoothedUniform:
    """p(m) = [Phi((high - m) / scale) - Phi(-m / scale)] / high: uniform on [0, high], blurred by a Gaussian."""

    high: Tensor
    scale: float

    def sample(self, u: Tensor, normal: Tensor) -> Tensor:
        """m = high * u + scale * normal, out of standard noise."""
        return self.high * u + self.scale * normal

    def log_prob(self, m: Tensor) -> Tensor:
        # Phi(a) - Phi(b) = Phi(-b) - Phi(-a): below zero, the second form keeps both terms small.
        upper = torch.where(m < 0, m, self.high - m) / self.scale
        lower = torch.where(m < 0, m - self.high, -m) / self.scale
        log_upper: Tensor = torch.special.log_ndtr(upper)
        log_lower: Tensor = torch.special.log_ndtr(lower)
        return log_upper + torch.log1p(-torch.exp(log_lower - log_upper)) - torch.log(self.high)


@displayed
@dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
    """p_phi(tau): K categorical distributions over the N transformations of a space, and N magnitude bounds."""

    space: Space
    pi: Tensor  # (K, N) logits
    mu: Tensor  # (N,) upper bounds of the magnitudes; without meaning where a transformation has none
    sigma: float = 0.1  # deviation of the Gaussian that blurs the magnitudes
    flip: bool = True  # mirror every second image, after the composite
    fill: tuple[int, ...]  # colour of Cutout: the data's mean, so 0 after the normalisation to within half a level
    mean: RGB  # of the data, for the normalisation
    std: RGB
    dataset: str | None = None  # fingerprint of the data it was learned on
    learned: dict[str, Any] = field(default_factory=dict)  # how it was learned: free text and numbers
    __repr__ = policy_in_words

    def __post_init__(self) -> None:
        n = len(self.space)
        if self.pi.ndim != 2 or self.pi.shape[1] != n or not 1 <= len(self.pi) <= MAX_COMPOSED or self.mu.shape != (n,):
            raise PolicyError(
                f"expected pi (K, {n}) with K from 1 to {MAX_COMPOSED} and mu ({n},), "
                f"got {tuple(self.pi.shape)} and {tuple(self.mu.shape)}"
            )

    @classmethod
    def uniform(
        cls,
        space: str | Space,
        *,
        n_composed: int = 3,
        mu: float = MU_START,
        flip: bool = True,
        mean: RGB | None = None,
        std: RGB | None = None,
    ) -> Self:
        """Where a search starts: all equally likely. Mean and std, unless given, are CIFAR's or ImageNet's."""
        space = get_space(space) if isinstance(space, str) else space
        default_mean, default_std = CIFAR if space.name in ("cifar", "cifar*") else IMAGENET
        n_composed = schema.integer(n_composed, "n_composed", 1, MAX_COMPOSED)
        mean = read_rgb(list(mean or default_mean), "mean", 0, 1)
        return cls(
            space=space,
            pi=torch.zeros(n_composed, len(space), dtype=torch.float64),
            mu=torch.full((len(space),), schema.number(mu, "mu", MU_FILE_MIN, 1), dtype=torch.float64),
            flip=schema.boolean(flip, "flip"),
            fill=tuple(round(255 * channel) for channel in mean),
            mean=mean,
            std=read_rgb(list(std or default_std), "std", 1e-6, 10),
        )

    @property
    def probabilities(self) -> Tensor:
        return self.pi.softmax(1)  # (K, N)

    @property
    def log_probabilities(self) -> Tensor:
        return self.pi.log_softmax(1)  # (K, N)

    def to(self, device: torch.device | str) -> Self:
        return replace(self, pi=self.pi.to(device), mu=self.mu.to(device))

    def differentiable(self) -> Self:
        """A copy whose pi and mu are leaves that gradients can be taken of."""
        return replace(self, pi=self.pi.detach().requires_grad_(), mu=self.mu.detach().requires_grad_())

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites:
        """Draw n composites. The noise comes from the CPU, so that a seed means the same wherever phi lives."""
        uniform, normal = rng.uniform((2, n, len(self.pi)), generator), rng.normal((n, len(self.pi)), generator)
        return self.transport(beside(self.pi, uniform), beside(self.pi, normal))

    def transport(self, uniform: Tensor, normal: Tensor) -> Composites:
        """The composites that standard noise (2, n, K) and (n, K) becomes under this policy."""
        u_op, u_magnitude = uniform
        cumulative = self.probabilities.detach().cumsum(1)  # (K, N)
        op = torch.searchsorted(cumulative, u_op.T.contiguous(), right=True).T.clamp(max=len(self.space) - 1)  # (n, K)
        magnitude = SmoothedUniform(self.mu.detach()[op], self.sigma).sample(u_magnitude, normal)
        return Composites(op, magnitude, torch.ones_like(op, dtype=torch.bool), self.space)

    def log_prob(self, tau: Composites) -> Tensor:
        """log p_phi(tau), (n,): the sum over positions of log Cat(t_k) + log p(m_k | t_k)  (Eq. 1)."""
        log_pi = self.log_probabilities.T.gather(0, tau.op)  # (N, K), (n, K) -> (n, K)
        log_m = SmoothedUniform(self.mu[tau.op], self.sigma).log_prob(tau.magnitude)
        has_magnitude = magnitude_mask(self.space, tau.op.device)[tau.op]
        return (log_pi + torch.where(has_magnitude, log_m, 0.0)).sum(1)

    def kl(self, anchor: "Policy") -> Tensor:
        """KL(p_pi || p_anchor), summed over positions; magnitudes are not anchored (Sec. 3.3)."""
        if self.space.names != anchor.space.names:
            raise ValueError(f"the KL divergence needs one space, got {self.space} and {anchor.space}")
        return (self.probabilities * (self.log_probabilities - anchor.log_probabilities)).sum()

    def entropy(self) -> Tensor:
        """Return the entropy of each position's distribution, in nats: (K,)."""
        return -(self.probabilities * self.log_probabilities).sum(1)

    def strengthened(self, strength: float) -> Self:
        """The same policy with every mu multiplied, up to the full range."""
        return replace(self, mu=(self.mu * strength).clamp(max=MU_MAX))

    @property
    def can_compose_none(self) -> bool:
        """Whether leaving images as they are is a choice, and not the only one."""
        return IDENTITY in self.space.names and len(self.space) > 1

    @property
    def n_composed(self) -> int:
        """How many transformations it composes; none where it leaves images as they are, and had a choice."""
        if self.can_compose_none and (self.probabilities[:, self.space.index(IDENTITY)] == 1).all():
            return 0
        return len(self.pi)

    def with_composed(self, k: int, mu: float = MU_START) -> Self:
        """The uniform policy with k transformations; with none, images stay as they are but for mirror flips."""
        pi = self.pi.new_zeros(k, len(self.space))
        if k == 0:
            pi = self.pi.new_full((1, len(self.space)), NEVER)
            pi[:, self.space.index(IDENTITY)] = 0
        return replace(self, pi=pi, mu=torch.full_like(self.mu, mu))

    def to_dict(self) -> dict[str, Any]:
        return policy_file.to_document(vars(self))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], transforms: Mapping[str, Any] | None = None) -> Self:
        """The policy that `to_dict` described.

        `transforms` supplies a user's own transformations by name: a batched kernel, or what `custom` returned.
        """
        return cls(**policy_file.to_fields(document, transforms or {}))

    @classmethod
    def load(cls, path: str | os.PathLike[str], transforms: Mapping[str, Any] | None = None) -> Self:
        document = schema.read_json(path)
        with placed(path):
            return cls.from_dict(document, transforms)

    def dumps(self) -> str:
        """The text of its file, in ASCII."""
        return policy_file.dumps(self.to_dict())

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_text(self.dumps())


@lru_cache(maxsize=64)
def magnitude_mask(space: Space, device: torch.device) -> Tensor:
    """`space.has_magnitude` on a device, copied there once: a captured step must not wait for the host."""
    return space.has_magnitude.to(device)
