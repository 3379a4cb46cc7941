"""What an evaluation compares: baselines by name, policies from files, and the grid of RandAugment."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple, Self

import torch

from ..augment.formats import published as formats
from ..augment.formats.forms import DeepAA, PBASchedule
from ..augment.formats.published import AnyPolicy
from ..augment.policy import IDENTITY, Policy
from ..augment.samplers import Method, Variant, uniform_magnitudes, without_flips
from ..augment.space import Space
from ..config import paper
from ..data import Dataset
from . import baselines
from .baselines import FAST_AA_START, FILE, Parts

MAGNITUDES = ("own", "uniform", "both")
CHOSEN_MAGNITUDES = (
    FILE,
    "autoaugment",
    "randaugment",
    FAST_AA_START,
)  # baselines whose magnitudes somebody has chosen
RANDAUGMENT = "randaugment"

PolicyLike = str | os.PathLike[str] | Policy  # a file of any known format, the folder of a run, or a policy


class Candidate(NamedTuple):
    """A policy or baseline to be compared."""

    name: str  # in tables and files
    augmentation: str | AnyPolicy  # a baseline: one of BASELINES, uniform-K, randaugment-N-M or file:PATH; or a policy
    digest: str  # of its definition
    uniform_magnitudes: bool = False  # instead of its own

    @property
    def is_baseline(self) -> bool:
        return isinstance(self.augmentation, str)

    def on(self, source: str) -> Self:
        """What it is on images of this name: RandAugment has N and M of its own for those it was tuned on."""
        if self.augmentation != RANDAUGMENT:
            return self
        n, m = baselines.RANDAUGMENT_ON.get(paper.known(source) or "", baselines.RANDAUGMENT)
        chosen = from_name(f"{RANDAUGMENT}-{n}-{m}")
        return self._replace(augmentation=chosen.augmentation, digest=chosen.digest)

    def method(self, data: Dataset, space: Space, flip: bool | None = None) -> Method:
        """What a network is trained with: what it draws, and the defaults of its method.

        `space` is SLACK's, for the uniform baselines. `flip` overrides whether the data may be flipped, and what a
        policy of SLACK says about that; but not that one that is a baseline wants no flips.
        """
        size, flips, may_choose = data.image_size, data.flip if flip is None else flip, flip is None
        policy: str | AnyPolicy = self.on(data.name).augmentation
        parts: Parts
        if isinstance(policy, str) and policy.startswith(FILE):
            policy, may_choose = formats.read_file(Path(policy.removeprefix(FILE))), True
        if isinstance(policy, str):
            baseline = baselines.define(policy)
            parts, defaults = baseline.parts(size, space), baseline.defaults(size)
        elif isinstance(policy, Policy):
            parts, defaults = (policy,), baselines.nothing(size)
            flips = flips and (policy.flip or not may_choose)
        elif isinstance(policy, DeepAA):  # which flips where it drew a flip
            parts, defaults = (policy if flips else Variant(policy, without_flips),), baselines.nothing(size)
            flips = False
        else:
            parts, defaults = (policy,), baselines.usual(size)
        if self.uniform_magnitudes:
            parts = tuple(Variant(part, uniform_magnitudes) for part in parts)
        return Method(
            name=self.name,
            parts=parts + defaults.parts,
            flip=flips,
            fill=tuple(round(255 * channel) for channel in data.mean),
            mean=data.mean,
            std=data.std,
            preparation=defaults.preparation,
        )


def digest(policy: Policy | bytes | str) -> str:
    """Digest a policy, a policy file or the name of a baseline."""
    if isinstance(policy, Policy):
        policy = replace(policy, learned={}).dumps()
    return hashlib.sha256(policy.encode() if isinstance(policy, str) else policy).hexdigest()[:16]


def find_candidates(policies: Sequence[PolicyLike], baselines: Sequence[str]) -> list[Candidate]:
    """The baselines, then the policies; each with a name of its own."""
    if not policies and not baselines:
        raise ValueError("nothing to evaluate: give a policy (-p FILE) or baselines (--baselines none,uniform)")
    if "" in baselines:
        raise ValueError("--baselines: a name between commas is missing; expected names such as none,uniform")
    candidates = [from_name(name) for name in baselines]
    for i, policy in enumerate(policies):
        if isinstance(policy, Policy):
            candidates.append(Candidate(f"policy {i}", policy, digest(policy)))
            continue
        path = formats.policy_file(policy)
        found = formats.read_file(path)
        # What else decides what it does: the length of PBA's schedules may be in the file's name
        length = f"{found.n_epochs} epochs" if isinstance(found, PBASchedule) else ""
        candidates.append(Candidate(label(path), found, digest(path.read_bytes() + length.encode())))
    check_names(candidates)
    return candidates


def check_names(candidates: Sequence[Candidate]) -> None:
    names = [candidate.name for candidate in candidates]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"given more than once: {', '.join(twice)}")


def from_name(name: str, others: Sequence[str] = ()) -> Candidate:
    """A baseline; what defines it is its name, or the file that it names. With -p that file would be another policy:
    its flips are its own there. `others`, what a wrong name may have meant besides."""
    path = Path(name.removeprefix(FILE))
    if not name.startswith(FILE):
        baselines.define(name, others)
    elif path.is_file():
        return Candidate(name, name, digest(f"{FILE}{path.name}".encode() + path.read_bytes()))
    return Candidate(name, name, digest(f"{name}, {baselines.VERSION}"))


def label(path: Path) -> str:
    """runs/pets/policy.json is called runs/pets."""
    return str(path.parent if path.name == "policy.json" and path.parent != Path() else path)


def is_same(one: Method, other: Method) -> bool:
    """Whether both are one policy of SLACK that trains alike, whatever it is called."""
    match one.parts, other.parts:
        case (Policy() as a,), (Policy() as b,) if (one.flip, one.preparation) == (other.flip, other.preparation):
            ranges = [[(t.name, t.span, t.signed) for t in policy.space] for policy in (a, b)]
            if all((policy.n_composed == 0 or policy.space.names == [IDENTITY]) for policy in (a, b)):
                return True
            if ranges[0] != ranges[1] or (a.pi.shape, a.sigma) != (b.pi.shape, b.sigma):
                return False
            return torch.allclose(a.probabilities, b.probabilities) and torch.allclose(a.mu, b.mu)
    return False


def published(name: str) -> str:
    """What the paper's tables call the policy of a method that its authors published."""
    return f"published {name}"


def with_uniform(name: str) -> str:
    """The same with uniform magnitudes."""
    return f"{name}, uniform magnitudes"


def with_magnitudes(candidates: Sequence[Candidate], magnitudes: str) -> list[Candidate]:
    """The paper's ablation: policies with the magnitudes that were chosen for them, with uniform ones, or both."""
    if magnitudes not in MAGNITUDES:
        raise ValueError(f"--magnitudes {magnitudes}: expected {', '.join(MAGNITUDES[:-1])} or {MAGNITUDES[-1]}")
    found = []
    for candidate in candidates:
        has_chosen = not candidate.is_baseline or candidate.name.startswith(CHOSEN_MAGNITUDES)
        if magnitudes != "uniform" or not has_chosen:
            found.append(candidate)
        if magnitudes != "own" and has_chosen:
            found.append(candidate._replace(name=with_uniform(candidate.name), uniform_magnitudes=True))
    return found


# --- RandAugment ------------------------------------------------------------------------------------------------------


def find_grid(candidates: Sequence[Candidate], grid: str | None) -> list[Candidate]:
    """The choices that `1,2x5,9,14` names, the N and then the M; none where no grid is wanted."""
    if grid is None:
        return []
    if not any(candidate.augmentation == RANDAUGMENT for candidate in candidates):
        raise ValueError("--randaugment-grid needs randaugment among the baselines")
    try:
        n_values, m_values = ([int(value) for value in part.split(",")] for part in grid.split("x"))
    except ValueError:
        raise ValueError(f"--randaugment-grid {grid}: expected N,N,...xM,M,..., such as 1,2x5,9,14") from None
    choices = [from_name(f"{RANDAUGMENT}-{n}-{m}") for n, m in product(n_values, m_values)]
    check_names(choices)
    return choices


def with_choice(candidates: Sequence[Candidate], chosen: Candidate) -> list[Candidate]:
    """RandAugment as chosen from the grid."""
    found = []
    for c in candidates:
        if c.augmentation == RANDAUGMENT:
            name = c.name.replace(RANDAUGMENT, f"{chosen.name} (by grid)", 1)
            c = c._replace(name=name, augmentation=chosen.augmentation, digest=chosen.digest)
        found.append(c)
    return found
