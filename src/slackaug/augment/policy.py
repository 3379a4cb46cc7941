"""The policy p_phi, phi = (pi, mu): which transformations, how often and how strongly (Sec. 3.1).

Axes: K positions, N transformations, n draws. Everything here is float64.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Generator, Tensor

from .. import rng, schema
from .._version import __version__
from ..schema import PolicyError, expect, unknown
from .apply import SPACES, Composites, Space, get_space
from .transforms import TRANSFORMS, Transform, custom

SCHEMA_VERSION = 1
MU_START = 0.75
IDENTITY = "Identity"
MU_MIN, MU_MAX = 0.1, 1.0  # mu is clamped to this after each update of a search
MU_FILE_MIN = 1e-3  # what a file may hold: below it the density has no meaning
MAX_COMPOSED = 16
EDGE = 0.9032  # the integral of phi(z)^2 / Phi(z)
RGB = tuple[float, float, float]
CIFAR = CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
IMAGENET = IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


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

    def information(self) -> Tensor:
        """The Fisher information about `high`, to within 15 %: of its blurred edge, or, if low, of the mean."""
        edge = (EDGE / self.scale - 1 / self.high) / self.high
        return torch.where(self.high >= 2 * self.scale, edge, 0.25 / self.scale**2)


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
        if not isinstance(n_composed, int) or not 1 <= n_composed <= MAX_COMPOSED:
            raise PolicyError(f"n_composed: expected an integer from 1 to {MAX_COMPOSED}, got {n_composed!r}")
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
        return self.pi.softmax(-1)  # (K, N)

    def sample(self, n: int, generator: Generator | None, progress: float = 0.0) -> Composites:
        """Draw n composites. The noise comes from the CPU, so that a seed means the same wherever phi lives."""
        k = len(self.pi)
        uniform = rng.uniform((2, n, k), generator).to(self.pi.device, non_blocking=True)
        normal = rng.normal((n, k), generator).to(self.pi.device, non_blocking=True)
        return self.transport(uniform, normal)

    def transport(self, uniform: Tensor, normal: Tensor) -> Composites:
        """The composites that standard noise (2, n, K) and (n, K) becomes under this policy."""
        u_op, u_magnitude = uniform
        cumulative = self.probabilities.detach().cumsum(-1)  # (K, N)
        op = torch.searchsorted(cumulative, u_op.T.contiguous(), right=True).T  # (K, n) -> (n, K)
        op = op.clamp(max=len(self.space) - 1)
        magnitude = SmoothedUniform(self.mu.detach()[op], self.sigma).sample(u_magnitude, normal)
        return Composites(op, magnitude, torch.ones_like(op, dtype=torch.bool), self.space)

    def log_prob(self, tau: Composites) -> Tensor:
        """log p_phi(tau), (n,): the sum over positions of log Cat(t_k) + log p(m_k | t_k)  (Eq. 1)."""
        log_pi = self.pi.log_softmax(-1).T.gather(0, tau.op)  # (N, K), (n, K) -> (n, K)
        log_m = SmoothedUniform(self.mu[tau.op], self.sigma).log_prob(tau.magnitude)
        has_magnitude = magnitude_mask(self.space, tau.op.device)[tau.op]
        return (log_pi + torch.where(has_magnitude, log_m, 0.0)).sum(-1)

    def kl(self, anchor: "Policy") -> Tensor:
        """KL(p_pi || p_anchor), summed over positions; magnitudes are not anchored (Sec. 3.3)."""
        if self.space.names != anchor.space.names:
            raise ValueError(f"the KL divergence needs one space, got {self.space} and {anchor.space}")
        return (self.probabilities * (self.pi.log_softmax(-1) - anchor.pi.log_softmax(-1))).sum()

    def entropy(self) -> Tensor:
        """Of each position's distribution, in nats: (K,)."""
        return -(self.probabilities * self.pi.log_softmax(-1)).sum(-1)

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

    # --- plain dictionaries and files ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "library_version": __version__,
            "space": self.space.name,
            "transformations": self.space.names,
            "pi": self.probabilities.tolist(),
            "mu": [m if t.span else None for m, t in zip(self.mu.tolist(), self.space, strict=True)],
            "ranges": {t.name: list(t.span) if t.span else None for t in self.space},
            "signed": [t.name for t in self.space if t.signed],
            "sigma": self.sigma,
            "flip": self.flip,
            "fill": list(self.fill),
            "mean": list(self.mean),
            "std": list(self.std),
            "dataset": self.dataset,
            "learned": self.learned,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], transforms: Mapping[str, Any] | None = None) -> Self:
        """The policy that `to_dict` described.

        `transforms` supplies a user's own transformations by name: a batched kernel, or what `custom` returned.
        """
        expect(isinstance(document, Mapping), "policy", "an object", document)
        check_keys(document)
        space = read_space(document, transforms or {})
        dataset, learned = document.get("dataset"), document.get("learned", {})
        expect(isinstance(learned, dict), "learned", "an object", learned)
        return cls(
            space=space,
            pi=read_pi(document["pi"], len(space)),
            mu=read_mu(document["mu"], space),
            sigma=schema.number(document["sigma"], "sigma", 1e-3, 1),
            flip=schema.boolean(document["flip"], "flip"),
            fill=tuple(schema.sequence(document["fill"], "fill", partial(schema.integer, low=0, high=255), 3, 3)),
            mean=read_rgb(document["mean"], "mean", 0, 1),
            std=read_rgb(document["std"], "std", 1e-6, 10),
            dataset=None if dataset is None else schema.string(dataset, "dataset"),
            learned=learned,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], transforms: Mapping[str, Any] | None = None) -> Self:
        document = schema.read_json(path)
        try:
            return cls.from_dict(document, transforms)
        except PolicyError as error:
            raise PolicyError(f"{path}: {error}") from None

    def dumps(self) -> str:
        """The text of its file."""
        return dumps(self.to_dict())

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_text(self.dumps(), encoding="utf-8")


@lru_cache(maxsize=64)
def magnitude_mask(space: Space, device: torch.device) -> Tensor:
    """`space.has_magnitude` on a device, copied there once: a captured step must not wait for the host."""
    return space.has_magnitude.to(device)


REQUIRED_KEYS = (
    "schema_version", "space", "transformations", "pi", "mu", "ranges", "sigma", "flip", "fill", "mean", "std"
)  # fmt: skip
OPTIONAL_KEYS = ("library_version", "signed", "dataset", "learned")


def check_keys(document: Mapping[str, Any]) -> None:
    """The version first, for another version may have other keys."""
    if "schema_version" not in document:
        other = {"format", "kind"} & document.keys()
        hint = "it looks like a published policy, which slackaug.load reads" if other else "is it a slackaug policy?"
        raise PolicyError(f"schema_version: missing; {hint}")
    version = schema.integer(document["schema_version"], "schema_version", 1, 10**9)
    if version > SCHEMA_VERSION:
        raise PolicyError(
            f"schema_version: the file has version {version}, this slackaug ({__version__}) reads up to "
            f"{SCHEMA_VERSION}; update slackaug"
        )
    schema.check_keys(document, REQUIRED_KEYS, OPTIONAL_KEYS)


def read_space(document: Mapping[str, Any], transforms: Mapping[str, Any]) -> Space:
    names = schema.sequence(document["transformations"], "transformations", schema.string)
    if len(names) != len(set(names)):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise PolicyError(f"transformations: lists {', '.join(twice)} more than once")
    ranges = document["ranges"]
    expect(isinstance(ranges, dict) and ranges.keys() == set(names), "ranges", "one entry per transformation", ranges)
    signed = schema.sequence(document["signed"], "signed", schema.string, 0) if "signed" in document else None
    candidates = []
    for i, name in enumerate(names):
        where = f"transformations[{i}]"
        base = transforms.get(name) or TRANSFORMS.get(name)
        if base is None:
            known = [*TRANSFORMS, *transforms]
            raise PolicyError(
                f"{where}: {unknown('transformation', name, known)} (your own go into transforms={{...}})"
            )
        if not isinstance(base, Transform):
            base = custom(name, base, span=(0, 1) if ranges[name] else None)
        span = ranges[name]
        if base.span is None:
            expect(span is None, f"ranges[{name!r}]", "null, for it has no magnitude", span)
        else:
            start, end = schema.sequence(span, f"ranges[{name!r}]", schema.number, 2, 2)
            span = (start, end)
        try:
            candidates.append(
                replace(base, name=name, span=span, signed=base.signed if signed is None else name in signed)
            )
        except ValueError as error:
            raise PolicyError(f"ranges[{name!r}]: {error}") from None
    for name in signed or ():
        expect(name in names, "signed", "names of transformations", name)
    try:
        space = Space(schema.string(document["space"], "space"), tuple(candidates))
    except ValueError as error:
        raise PolicyError(f"transformations: {error}") from None
    ours = SPACES.get(space.name)
    return ours if ours == space else space  # one object: what was compiled for it serves this policy, too


def read_pi(value: object, n: int) -> Tensor:
    """K rows of n probabilities, as logits."""

    def row(value: object, where: str) -> list[float]:
        probabilities = schema.sequence(value, where, partial(schema.number, low=0, high=1), n, n)
        total = math.fsum(probabilities)
        if abs(total - 1) > 1e-6:
            raise PolicyError(f"{where}: the probabilities sum to {total:.6f}, expected 1")
        return probabilities

    pi = torch.tensor(schema.sequence(value, "pi", row, 1, MAX_COMPOSED), dtype=torch.float64)
    return pi.clamp(min=1e-300).log()  # zero stays zero to all purposes, with a finite logit


def read_mu(value: object, space: Space) -> Tensor:
    bounds = schema.sequence(value, "mu", lambda entry, where: entry, len(space), len(space))
    mu = []
    for i, (bound, transform) in enumerate(zip(bounds, space, strict=True)):
        where = f"mu[{i}] ({transform.name})"
        if transform.span is None:
            expect(bound is None, where, "null, for it has no magnitude", bound)
        mu.append(MU_START if transform.span is None else schema.number(bound, where, MU_FILE_MIN, 1))
    return torch.tensor(mu, dtype=torch.float64)


def read_rgb(value: object, where: str, low: float, high: float) -> RGB:
    red, green, blue = schema.sequence(value, where, partial(schema.number, low=low, high=high), 3, 3)
    return red, green, blue


def dumps(document: dict[str, Any]) -> str:
    """JSON with one line per entry and, in `pi`, per position: to be read by people and by `diff`."""

    def line(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], list):
            return "[\n  " + ",\n  ".join(line(row) for row in value) + "\n ]"
        return json.dumps(value, allow_nan=False)

    return "{\n " + ",\n ".join(f"{json.dumps(key)}: {line(value)}" for key, value in document.items()) + "\n}\n"
