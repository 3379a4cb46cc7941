"""What an evaluation compares: baselines by name, policies from files, and the grid of RandAugment."""

import os
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ..augment.formats import published
from ..augment.formats.forms import PBASchedule
from ..augment.formats.published import AnyPolicy
from ..augment.policy import Policy
from . import baselines, training

MAGNITUDES = ("own", "uniform", "both")
CHOSEN_MAGNITUDES = ("file:", "autoaugment", "randaugment")  # baselines whose magnitudes somebody has chosen
RANDAUGMENT = "randaugment"

PolicyLike = str | os.PathLike[str] | Policy  # a file of any known format, the folder of a run, or a policy


class Candidate(NamedTuple):
    """A policy or baseline to be compared."""

    name: str
    augmentation: str | AnyPolicy
    digest: str
    uniform_magnitudes: bool = False  # instead of its own

    @property
    def is_baseline(self) -> bool:
        return isinstance(self.augmentation, str)


def find_candidates(policies: Sequence[PolicyLike], baselines: Sequence[str]) -> list[Candidate]:
    """The baselines, then the policies; each with a name of its own."""
    if not policies and not baselines:
        raise ValueError("nothing to evaluate: give a policy (-p FILE) or baselines (--baselines none,uniform)")
    if "" in baselines:
        raise ValueError("--baselines: a name between commas is missing; expected names such as none,uniform")
    candidates = [from_name(name) for name in baselines]
    for i, policy in enumerate(policies):
        if isinstance(policy, Policy):
            candidates.append(Candidate(f"policy {i}", policy, training.digest(policy)))
            continue
        path = published.policy_file(policy)
        found = published.load(path)
        candidates.append(Candidate(label(path), found, file_digest(path, found)))
    check_names(candidates)
    return candidates


def check_names(candidates: Sequence[Candidate]) -> None:
    names = [candidate.name for candidate in candidates]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"given more than once: {', '.join(twice)}")


def file_digest(path: Path, policy: AnyPolicy) -> str:
    """Of the file, and of what else decides what it does: the length of PBA's schedules may be in the file's name."""
    length = f"{policy.n_epochs} epochs" if isinstance(policy, PBASchedule) else ""
    return training.digest(path.read_bytes() + length.encode())


def from_name(name: str) -> Candidate:
    """A baseline; what defines it is its name, or the file that it names. With -p that file would be another policy:
    its flips are its own there."""
    path = Path(name.removeprefix("file:"))
    if name.startswith("file:") and path.is_file():
        return Candidate(name, name, training.digest(f"file:{path.name}".encode() + path.read_bytes()))
    return Candidate(name, name, training.digest(f"{name}, {baselines.VERSION}"))


def label(path: Path) -> str:
    """runs/pets/policy.json is called runs/pets."""
    return str(path.parent if path.name == "policy.json" and path.parent != Path() else path)


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
            name = f"{candidate.name}, uniform magnitudes"
            found.append(candidate._replace(name=name, uniform_magnitudes=True))
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
