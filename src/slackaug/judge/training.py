"""One training with one policy and one seed, and its test: the unit that evaluations and studies are made of.

A training is described by plain values, so that any process of any machine can do it; it leaves one result file, and
while it works checkpoints from which it is taken up again.
"""

import base64
import json
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from .. import __version__, models, rng
from ..augment.samplers import Method
from ..augment.space import Space
from ..augment.transforms import get_space
from ..config import parse
from ..config.run_config import RunConfig
from ..data import Dataset, Split, dividing, read
from ..data.dataset import fingerprint
from ..data.options import DataConfig
from ..engine import ways
from ..engine import weights as start
from ..engine.fit import Diverged, Fit, FitConfig, Fits, predict, to_device
from ..exits import Stopped, signals
from ..files import read_note, write_atomically
from ..machine import use_gpu, use_threads
from ..runs import provenance
from ..runs.checkpoints import Checkpoints
from ..runs.folders import RunError
from ..runs.progress import Reading
from . import scoring
from .backends.jobs import STOPPED, Tell
from .candidates import Candidate, digest

CHECKPOINT_SECONDS = 120.0
REPORT_EVERY = 20  # steps
BEGUN = 1e-9  # share of a training that has begun
CHECK_EVERY = 100  # steps, whether the loss is still a number
NUMBERS = ("seed", "accuracy", "balanced_accuracy", "imbalance", "seconds", "images_per_second")  # of every result
SILENT = Reading()
log = logging.getLogger("slackaug")


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
        candidate = self.candidate
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
        raise ValueError(f"{data.source}: is not the data of this evaluation (another fingerprint)")
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


@dataclass
class Begun:
    """A training that has begun."""

    training: Training
    fit: Fit
    data: Dataset
    test: Split
    checkpoints: Checkpoints
    seconds: float  # of work on it before

    @property
    def share(self) -> float:
        return max(self.fit.done / self.fit.n_steps, BEGUN)

    def save(self, seconds: float) -> None:
        state = {"config": self.training.key, "seconds": self.seconds + seconds, "fit": self.fit.get_state()}
        self.checkpoints.save(state)

    def end(self, seconds: float, way: str) -> None:
        """Test the last epoch, and write the result."""
        fit, held_out, device = self.fit, self.training.held_out, self.training.device
        if fit.done < fit.n_steps or not torch.isfinite(fit.theta).all().item():
            raise Diverged(
                f"the model is no longer a number after {fit.done} of {fit.n_steps} steps; try a lower rate, for all "
                f"policies: --overwrite --set evaluate.lr={fit.config.lr / 4:g}"
            )
        test = to_device(self.test, device)
        logits = predict(fit.model, fit.normalise, test)
        answers = {} if held_out is None else {"answers": pack(logits.argmax(1) == test.labels)}
        score = scoring.score(logits, test.labels)
        keep(self.training, fit, self.data, score, self.seconds + seconds, {"way": way} | answers)


def run(training: Training, tell: Tell) -> None:
    run_all([training], tell)


def run_all(trainings: Sequence[Training], tell: Tell) -> None:
    """Side by side where the device is the faster for it. One that diverges does not keep others from their results."""
    device = trainings[0].device
    use_threads(device, trainings[0].threads)
    use_gpu(device)
    provenance.commit()  # of the code as it is now, and not when the training ends
    parts: Parts = {}
    all_begun = [take_up(training, *begin(training, parts)) for training in trainings]
    wrong: list[str] = []
    for members, fits in ways.side_by_side("evaluate", [one.fit for one in all_begun]):
        some = [all_begun[i] for i in members]
        for one, fit in zip(some, fits.fits, strict=True):
            one.fit = fit
        seconds = go_on(some, fits, lambda: tell(sum(one.share for one in all_begun) / len(all_begun)))
        for one in some:
            try:
                one.end(seconds, ways.way(fits))
            except Diverged as error:
                name = f"{one.training.name}, seed {one.training.seed}: " if len(trainings) > 1 else ""
                wrong.append(f"{name}{error}")
    if wrong:
        raise Diverged("\n".join(wrong))
    tell(1.0)


def go_on(some: Sequence[Begun], fits: Fits, tell: Callable[[], None]) -> float:
    """Train to the end, or until all losses are NaN; return the seconds that this took each of them."""
    started = saved_at = time.monotonic()
    fit = some[0].fit
    tell()
    with signals() as caught:
        while fit.done < fit.n_steps:
            losses = fits.step()
            if fit.done % CHECK_EVERY == 0 and not losses.isfinite().any().item():
                break
            if fit.done % REPORT_EVERY == 0:
                tell()
            if caught or time.monotonic() - saved_at > CHECKPOINT_SECONDS:
                fits.settle()
                for one in some:
                    one.save((time.monotonic() - started) / len(some))
                saved_at = time.monotonic()
            if caught:
                raise Stopped(STOPPED, caught[0])
    fits.settle()
    return (time.monotonic() - started) / len(some)


def seconds_of(trainings: Sequence[Training]) -> float:
    """The cost of one of them, measured over a few steps on a copy of everything."""
    parts: Parts = {}
    fits = [begin(training, parts)[0] for training in trainings]
    return fits[0].n_steps * ways.step_seconds("evaluate", fits)


Parts = dict[tuple[int, HeldOut | None], tuple[Split, Split]]  # what to train on and test on, by the data's identity


def begin(training: Training, parts: Parts) -> tuple[Fit, Dataset, Split]:
    """A training before its first step, its data, and what to test on. Trainings with the same images share them."""
    (method, data), held_out = method_and_data(training), training.held_out
    if (of := (id(data), held_out)) not in parts:
        train, test = (data.train, data.test) if held_out is None else held_out.split(data)
        parts[of] = to_device(train, training.device), test
    train, test = parts[of]
    fit = Fit(
        network(training, data).to(training.device),
        method,
        train,
        training.protocol.fit,
        rng.streams(training.seed, "evaluation"),
        method.preparation,
    )
    return fit, data, test


def network(training: Training, data: Dataset) -> nn.Module:
    generator = rng.generator(training.seed, "evaluation", "model")
    model = models.build(training.protocol.model, data.n_classes, data.image_size, generator)
    if training.protocol.weights is not None:
        start.load(model, training.protocol.weights)
    return model


# --- files ------------------------------------------------------------------------------------------------------------


def take_up(training: Training, fit: Fit, data: Dataset, test: Split) -> Begun:
    """Begin at its newest checkpoint, where there is one."""
    training.result_file.parent.mkdir(exist_ok=True)  # where the folder above it has vanished, so have earlier results
    begun = Begun(training, fit, data, test, Checkpoints(training.checkpoint_folder), 0.0)
    state, wrong = begun.checkpoints.load()
    for error in wrong:
        log.warning("slackaug: %s, going back to %s", error, "the start" if state is None else "the one before it")
    if state is None or state["config"] != training.key:  # none, or of other settings
        return begun
    try:
        fit.set_state(state["fit"])
        begun.seconds = float(state["seconds"])
    except (LookupError, TypeError, AttributeError, ValueError):  # whole, but not what this version writes
        raise RunError(
            f"{begun.checkpoints.folder}: its checkpoint is not one of this slackaug's trainings; remove that folder"
        ) from None
    return begun


def keep(
    training: Training, fit: Fit, data: Dataset, score: scoring.Score, seconds: float, more: dict[str, Any]
) -> None:
    """The weights first: a result says that all is there."""
    if training.model_file is not None:
        training.model_file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(training.model_file, weights(training, fit, data, score))
    n_images = fit.n_steps * fit.feed.batches.batch
    result = {
        "key": training.key,
        "name": training.name,
        "seed": training.seed,
        **score._asdict(),
        "seconds": round(seconds, 3),
        "images_per_second": round(n_images / max(seconds, 1e-9), 1),
        **more,
        "commit": provenance.commit(),
    }
    write_atomically(training.result_file, json.dumps(result).encode())
    shutil.rmtree(training.checkpoint_folder, ignore_errors=True)


def pack(answers: Tensor) -> list[int | str]:
    """Whether each image was answered right: their number, and a bit for each."""
    bits = np.packbits(answers.cpu().numpy()).tobytes()
    return [len(answers), base64.b64encode(bits).decode()]


def unpack(packed: tuple[int, str]) -> NDArray[np.bool_]:
    n, bits = packed
    return np.unpackbits(np.frombuffer(base64.b64decode(bits), np.uint8), count=n).astype(bool)


def weights(training: Training, fit: Fit, data: Dataset, score: scoring.Score) -> bytes:
    """The file of a model, and in its metadata all that is needed to use it: texts, as the format has it."""
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in fit.model.state_dict().items()}
    about = {
        "slackaug": __version__,
        "model": training.protocol.model,
        "classes": json.dumps(data.class_names),
        "size": json.dumps(data.image_size),  # height and width
        "mean": json.dumps(data.mean),
        "std": json.dumps(data.std),
        "policy": training.name,
        "seed": str(training.seed),
        "accuracy": str(score.accuracy),
    }
    return to_safetensors(tensors, about)


def read_results(trainings: Sequence[Training]) -> list[dict[str, Any] | None]:
    """What earlier processes found of trainings in one folder, if they did these very ones, whatever names they had.

    Nothing of one that was done, but whose weights were not kept.
    """
    folders = {one.result_file.parent for one in trainings}
    notes = [read_note(path) for folder in folders for path in sorted(folder.glob("*.json"))]
    by_key = {note["key"]: note for note in notes if is_result(note)}
    found = [by_key.get(one.key) if one.model_file is None or one.model_file.is_file() else None for one in trainings]
    return [result and result | {"name": one.name} for one, result in zip(trainings, found, strict=True)]


def is_result(document: dict[str, Any]) -> bool:
    numbers = [document.get(name) for name in NUMBERS]
    return isinstance(document.get("key"), str) and all(
        isinstance(number, int | float) and abs(number) < 1e300 for number in numbers
    )
