"""One training with one policy and one seed, and its test: the unit that evaluations and studies are made of."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from .. import models, rng
from ..data import Dataset, Split
from ..engine import ways, weights
from ..engine.fit import Diverged, Fit, Fits, predict, to_device
from ..exits import Stopped, signals
from ..machine import use_gpu, use_threads
from ..runs import provenance
from ..runs.checkpoints import Checkpoints
from ..runs.folders import RunError
from . import records, scoring
from .backends.jobs import STOPPED, Tell
from .protocols import HeldOut, Training, method_and_data

CHECKPOINT_SECONDS = 120.0
REPORT_EVERY = 20  # steps
BEGUN = 1e-9  # share of a training that has begun
CHECK_EVERY = 100  # steps, whether the loss is still a number
log = logging.getLogger("slackaug")

Parts = dict[tuple[int, HeldOut | None], tuple[Split, Split]]  # what to train on and test on, by the data's identity


@dataclass
class Begun:
    """A training that has begun."""

    training: Training
    fit: Fit
    data: Dataset
    test: Split
    seconds: float = 0.0  # of work on it before

    def __post_init__(self) -> None:
        self.checkpoints = Checkpoints(self.training.checkpoint_folder)

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
        answers = {} if held_out is None else {"answers": records.pack(logits.argmax(1) == test.labels)}
        score = scoring.score(logits, test.labels)
        records.keep(self.training, fit, self.data, score, self.seconds + seconds, {"way": way} | answers)


def run(trainings: Sequence[Training], tell: Tell) -> None:
    """Side by side where the device is the faster for it. One that diverges does not keep others from their results."""
    device = trainings[0].device
    use_threads(device, trainings[0].threads)
    use_gpu(device)
    provenance.commit()  # of the code as it is now, and not when the training ends
    parts: Parts = {}
    all_begun = [begin(training, parts) for training in trainings]
    for one in all_begun:
        take_up(one)
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
    fits = [begin(training, parts).fit for training in trainings]
    return fits[0].n_steps * ways.step_seconds("evaluate", fits)


def begin(training: Training, parts: Parts) -> Begun:
    """A training before its first step. Trainings with the same images share them."""
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
    return Begun(training, fit, data, test)


def network(training: Training, data: Dataset) -> nn.Module:
    generator = rng.generator(training.seed, "evaluation", "model")
    model = models.build(training.protocol.model, data.n_classes, data.image_size, generator)
    if training.protocol.weights is not None:
        weights.load(model, training.protocol.weights)
    return model


def take_up(begun: Begun) -> None:
    """Go to its newest checkpoint, where there is one."""
    folder = begun.training.result_file.parent
    folder.mkdir(exist_ok=True)  # where the folder above it has vanished, so have earlier results
    state, wrong = begun.checkpoints.load()
    for error in wrong:
        log.warning("slackaug: %s, going back to %s", error, "the start" if state is None else "the one before it")
    if state is None or state["config"] != begun.training.key:  # none, or of other settings
        return
    try:
        begun.fit.set_state(state["fit"])
        begun.seconds = float(state["seconds"])
    except (LookupError, TypeError, AttributeError, ValueError):  # whole, but not what this version writes
        raise RunError(
            f"{begun.checkpoints.folder}: its checkpoint is not one of this slackaug's trainings; remove that folder"
        ) from None
