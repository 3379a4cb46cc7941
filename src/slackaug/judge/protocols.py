"""What a training is: what all of a comparison share, its data, and a description in plain values.

So any process of any machine can do it. It leaves one result file, and while it works checkpoints from which it is
taken up again.
"""

import json
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, Self

import torch

from ..augment.samplers import Method
from ..augment.space import Space
from ..augment.transforms import get_space
from ..config import parse
from ..config.run_config import RunConfig
from ..data import Dataset, Split, dividing, read
from ..data.dataset import fingerprint
from ..data.options import DataConfig
from ..engine.fit import FitConfig
from ..runs.progress import Reading
from .candidates import Candidate, digest

SILENT = Reading()


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """All that trainings have in common, so that their results can be compared."""

    data: DataConfig
    data_digest: str  # of what the data's fingerprint leaves out: test images, mean, std, whether it may be flipped
    model: str
    space: str  # of the uniform baselines
    exclude: tuple[str, ...] = ()  # from it, as in the search
    flip: bool | None = None  # null: as the data and then each policy says; otherwise it overrides them
    weights: str | None = None  # the file that networks start from
    weights_digest: str | None = None
    fit: FitConfig

    @classmethod
    def of(cls, config: RunConfig, data: DataConfig, dataset_digest: str, model: str) -> Self:
        """Take what a run's configuration says; weights are for its own network alone."""
        is_own = config.weights is not None and model == config.model
        return cls(
            data=data,
            data_digest=dataset_digest,
            model=model,
            space=config.space,
            exclude=config.exclude,
            flip=config.flip,
            weights=config.weights if is_own else None,
            weights_digest=config.weights_digest if is_own else None,
            fit=config.evaluate,
        )

    def flips(self, data: Dataset) -> bool:
        """Whether networks are trained with mirror flips, where a policy does not say otherwise."""
        return data.flip if self.flip is None else self.flip

    def used_space(self) -> Space:
        space = get_space(self.space)
        return space.exclude(*self.exclude) if self.exclude else space


class HeldOut(NamedTuple):
    """Training images to test on, while all others are trained on: a half, or one of the two folds of it."""

    half: int  # 0: what a search learns theta on; 1: what it validates phi with
    seed: int = 0  # of the split
    fold: int | None = None  # None: all of the half

    @property
    def name(self) -> str:
        return f"half{self.half}" if self.fold is None else f"half{self.half}-fold{self.fold}"

    def split(self, data: Dataset) -> tuple[Split, Split]:
        """What to train on, and what to test on."""
        labels, tested = data.train.labels, data.half_indices(self.seed)[self.half]
        if self.fold is not None:
            groups = None if data.groups is None else data.groups[tested]
            tested = tested[dividing.halves(labels[tested], self.seed, groups)[self.fold]]
        is_tested = torch.zeros(len(labels), dtype=torch.bool).index_fill(0, tested, True)
        return data.train.subset((~is_tested).nonzero().flatten()), data.train.subset(tested)


@dataclass(frozen=True, kw_only=True)
class Training:
    protocol: Protocol
    candidate: Candidate
    seed: int
    held_out: HeldOut | None = None  # None: trained on all training images, and tested on test images
    folder: Path  # of the results
    models: Path | None = None  # where to keep the trained weights
    device: str = "cpu"
    threads: int | None = None

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def key(self) -> str:
        """A digest of all that decides the result."""
        protocol = parse.to_dict(self.protocol)
        for where in ("source", "cache"):
            del protocol["data"][where]  # the same images may lie elsewhere; their fingerprint stays
        del protocol["weights"]  # likewise
        candidate = self.candidate.on(self.protocol.data.source)
        parts = (protocol, candidate.digest, candidate.uniform_magnitudes, self.seed, self.held_out)
        return digest(json.dumps(parts, sort_keys=True))

    @property
    def stem(self) -> str:
        """Name its files: readable, and unlike those of every other training."""
        readable = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in self.name)
        readable = readable.lstrip("._-")[:80]  # no hidden file, and no name too long for a disk
        return f"{readable}-seed{self.seed}-{digest(self.name)[:6]}"

    @property
    def result_file(self) -> Path:
        part = "" if self.held_out is None else f"-{self.held_out.name}"
        return self.folder / "trials" / f"{self.stem}{part}.json"

    @property
    def model_file(self) -> Path | None:
        """Named by its key, too: one folder may hold the models of several protocols."""
        return None if self.models is None else self.models / f"{self.stem}-{self.key[:6]}.safetensors"

    @property
    def checkpoint_folder(self) -> Path:
        return self.result_file.with_suffix(".checkpoint")


@lru_cache(maxsize=2)
def load_once(data: DataConfig, reading: Reading) -> Dataset:
    """The data is read once for all trainings of a process."""
    return read(data, reading)


def dataset(data: DataConfig, reading: Reading = SILENT) -> Dataset:
    found = load_once(replace(data, fingerprint=""), reading)
    if data.fingerprint and found.fingerprint != data.fingerprint:
        raise ValueError(f"{data.source}: is not the data of this evaluation: its images or labels have changed since")
    return found


def data_digest(data: Dataset) -> str:
    return digest(repr((fingerprint(data.test), data.mean, data.std, data.flip)))


def method_and_data(training: Training) -> tuple[Method, Dataset]:
    """What to train with, and the images as this method wants them stored (the paper's table of pre-processing)."""
    protocol = training.protocol
    data, found = protocol.data, dataset(protocol.data)
    if data_digest(found) != protocol.data_digest:
        raise ValueError(f"{data.source}: is not the data of this evaluation (other test images or statistics)")
    make = partial(training.candidate.method, space=protocol.used_space(), flip=protocol.flip)
    margin = make(found).preparation.margin
    if data.size is not None and margin not in (None, data.margin):
        found = load_once(replace(data, margin=margin, fingerprint=""), SILENT)
    return make(found), found
