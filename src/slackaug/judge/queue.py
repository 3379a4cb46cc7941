"""The trainings of an evaluation or of a study: what they share, which are done, and the others on a backend."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from .. import models, rng
from ..augment.policy import Policy
from ..augment.transforms import get_space
from ..config import presets
from ..data import Dataset, count_duplicates
from ..engine import weights
from ..exits import Stopped
from ..runs import folders
from ..runs.progress import Jobs, duration
from . import training
from .backends import Backend, Job
from .candidates import Candidate
from .training import Protocol, Trial

MUCH_LONGER = 2  # times the epochs of the trainings that a preset has for its policies


class Work(NamedTuple):
    """What all trials of an evaluation or of a study share."""

    protocol: Protocol
    folder: Path
    models: Path | None
    device: str
    threads: int | None
    backend: Backend
    console: Console
    again: str = "give the same command again"
    follow: Callable[[], None] = lambda: None  # sees that jobs go on

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def writing(self) -> AbstractContextManager[None]:
        return folders.writing(self.folder, lambda: self.again)

    def trial(self, candidate: Candidate, seed: int, *, by_validation: bool = False) -> Trial:
        return Trial(
            protocol=self.protocol,
            name=candidate.name,
            augmentation=candidate.augmentation,
            digest=candidate.digest,
            uniform_magnitudes=candidate.uniform_magnitudes,
            seed=seed,
            by_validation=by_validation,
            folder=self.folder,
            models=None if by_validation else self.models,
            device=self.device,
            threads=self.threads,
        )


def check_candidates(work: Work, dataset: Dataset, candidates: Sequence[Candidate]) -> None:
    """All of them, and the network, before the first is trained."""
    for candidate in candidates[:1]:
        training.network(work.trial(candidate, 0), dataset)
    for candidate in candidates:
        method, _ = training.method_and_data(work.trial(candidate, 0))
        if isinstance(candidate.augmentation, Policy):
            for remark in differences(candidate.augmentation, method.flip, work.protocol, dataset):
                work.say(f"{candidate.name}: {remark}")


def differences(policy: Policy, flips: bool, protocol: Protocol, dataset: Dataset) -> list[str]:
    """What a reader of the comparison must know about a policy; `flips`, whether it is trained with mirror flips."""
    found = []
    if policy.dataset not in (None, dataset.fingerprint):
        found.append("learned on other data; it is used with the mean and std of this data")
    if policy.space.name.rstrip("*") != protocol.space:
        found.append(
            f"its space is {policy.space.name}, that of the uniform baselines {protocol.space} (--ops changes that)"
        )
    else:
        other = {*policy.space.names} ^ ({*get_space(protocol.space).names} - {*protocol.exclude})
        if other:
            found.append(f"its space differs from that of the uniform baselines by {', '.join(sorted(other))}")
    if flips != policy.flip:
        found.append(f"trained {'with' if flips else 'without'} mirror flips, unlike what its file says")
    elif flips != (dataset.flip if protocol.flip is None else protocol.flip):
        found.append("trained without mirror flips, as its file says; the baselines have them (--no-flip is for all)")
    return found


def announce(work: Work, dataset: Dataset) -> int:
    """What is about to be compared; the number of test images that are training images, too."""
    protocol, (height, width) = work.protocol, dataset.image_size
    n_test, epochs = len(dataset.test.labels), protocol.fit.epochs
    flip = dataset.flip if protocol.flip is None else protocol.flip
    work.say(
        f"{dataset.name}: {len(dataset.train.labels):,} training and {n_test:,} test images of {width} x {height} "
        f"pixels, {dataset.n_classes} classes; network {protocol.model}, {epochs} epoch{'s' * (epochs != 1)}, mirror "
        f"flips {'on' if flip else 'off'}, on {work.device}"
    )
    for note in dataset.notes:
        work.say(note)
    if protocol.weights is not None:
        work.say(start_text(protocol.model, protocol.weights, dataset))
    n_duplicates = count_duplicates(dataset)
    if n_duplicates:
        work.say(
            f"{n_duplicates:,} of {n_test:,} test images are exact copies of training images: accuracies will look "
            "better than they are"
        )
    return n_duplicates


def warn_of_length(work: Work, dataset: Dataset, name: str, preset: object) -> None:
    """A search does not know how long trainings will be: in long ones, policies of `fast` were worse than uniform."""
    if not isinstance(preset, str) or preset not in presets.PRESETS:
        return
    usual, epochs = presets.preset(preset, dataset, work.protocol.model).evaluate.epochs, work.protocol.fit.epochs
    if epochs > MUCH_LONGER * usual:
        work.say(
            f"{name} was learned by the preset {preset}, whose trainings would have {usual} epochs here, and these "
            f"have {epochs}: in much longer trainings such policies have been worse than uniform, so compare with that"
        )


def start_text(model: str, path: str, dataset: Dataset) -> str:
    """What networks start from, and whether their last layer is new."""
    network = models.build(model, dataset.n_classes, dataset.image_size, rng.generator(0, "model"))
    return weights.load(network, path)


def choose(work: Work, grid: Sequence[Candidate]) -> tuple[Candidate, dict[str, Any]]:
    """The candidate that does best on one half of the training images, trained on the other."""
    trials = [work.trial(choice, 0, by_validation=True) for choice in grid]
    work.say(f"RandAugment's grid: {len(trials)} trainings on one half of the training images, tested on the other")
    conduct(work, trials, lambda: None)
    accuracy = {name: found[0]["accuracy"] for name, found in finished(trials).items()}
    best = max(grid, key=lambda choice: accuracy[choice.name])
    work.say(f"RandAugment's grid: {best.name} is best with {100 * accuracy[best.name]:.2f} % on the validation half")
    return best, {"chosen": best.name, "accuracy": accuracy}


def finished(trials: Sequence[Trial]) -> dict[str, list[dict[str, Any]]]:
    """The results that are there, by policy."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one, result in zip(trials, training.read_results(trials), strict=True):
        if result is not None:
            found.setdefault(one.name, []).append(result)
    return found


def conduct(work: Work, trials: Sequence[Trial], on_result: Callable[[], None]) -> None:
    """Do those that are not done yet."""
    there = training.read_results(trials)
    left = [one for one, result in zip(trials, there, strict=True) if result is None]
    if len(left) < len(trials):
        work.say(f"{len(trials) - len(left)} of {len(trials)} trainings are there already")
    if not left:
        return
    if not work.backend.is_elsewhere:
        say_cost(work, left)

    def done(index: int) -> str:
        on_result()
        result = training.read_result(left[index])
        assert result is not None
        return (
            f"{left[index].name}, seed {left[index].seed}: {100 * result['accuracy']:.2f} % "
            f"({duration(result['seconds'])}, {result['images_per_second']:,.0f} images/s)"
        )

    names = [f"{one.name}, seed {one.seed}" for one in left]
    with Jobs(work.console, names, done, work.follow) as shown:
        run_jobs(work, [partial(training.run, one) for one in left], names, shown)


def say_cost(work: Work, left: Sequence[Trial]) -> None:
    """Measured with the last, which is a policy where there is one; what others cost differs by their augmentation."""
    seconds = training.seconds_of(left[-1])
    work.say(
        f"{len(left)} training{'s' * (len(left) != 1)} of about {duration(seconds)} each, measured over a few steps: "
        f"{duration(len(left) * seconds)} one after the other"
    )


def run_jobs(work: Work, jobs: Sequence[Job], names: Sequence[str], shown: Jobs) -> None:
    """On the backend; what ends the work early says how to go on."""
    try:
        work.backend.run(jobs, names, shown)
    except Stopped as error:
        raise Stopped(f"{error}. To go on: {work.again}", error.signal_number) from None
