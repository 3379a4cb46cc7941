"""The trainings of an evaluation or of a study: what they share, which are done, and the others on a backend."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from .. import messages, models, rng
from ..augment.policy import Policy
from ..config import presets
from ..data import Dataset, count_duplicates
from ..engine import weights
from ..exits import Stopped
from ..runs import folders
from ..runs.progress import Jobs
from . import training
from .backends.jobs import Backend, Job
from .candidates import Candidate
from .training import Protocol, Training

MUCH_LONGER = 2  # times the epochs of the trainings that a preset has for its policies


class Comparison(NamedTuple):
    """What all trainings of an evaluation or of a study share."""

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

    def training(self, candidate: Candidate, seed: int, *, by_validation: bool = False) -> Training:
        return Training(
            protocol=self.protocol,
            **candidate._asdict(),
            seed=seed,
            by_validation=by_validation,
            folder=self.folder,
            models=None if by_validation else self.models,
            device=self.device,
            threads=self.threads,
        )


def check_candidates(work: Comparison, dataset: Dataset, candidates: Sequence[Candidate]) -> None:
    """All of them, and the network, before the first is trained."""
    for candidate in candidates[:1]:
        training.network(work.training(candidate, 0), dataset)
    for candidate in candidates:
        method, _ = training.method_and_data(work.training(candidate, 0))
        if isinstance(candidate.augmentation, Policy):
            for remark in differences(candidate.augmentation, method.flip, work.protocol, dataset):
                work.say(f"{candidate.name}: {remark}")


def differences(policy: Policy, flips: bool, protocol: Protocol, dataset: Dataset) -> list[str]:
    """What a reader of the comparison must know about a policy; `flips`, whether it is trained with mirror flips."""
    found = []
    if policy.dataset not in (None, dataset.fingerprint):
        found.append(messages.OTHER_DATA)
    if policy.space.name.rstrip("*") != protocol.space:
        found.append(messages.other_space(policy.space.name, protocol.space))
    elif other := {*policy.space.names} ^ {*protocol.used_space().names}:
        found.append(messages.other_transformations(sorted(other)))
    if flips != policy.flip:
        found.append(messages.other_flips(is_on=flips))
    elif flips != protocol.flips(dataset):
        found.append(messages.NO_FLIPS)
    return found


def announce(work: Comparison, dataset: Dataset) -> int:
    """What is about to be compared; the number of test images that are training images, too."""
    protocol, n_test = work.protocol, len(dataset.test.labels)
    n_images = len(dataset.train.labels), n_test
    what = dataset.name, n_images, dataset.image_size, dataset.n_classes, protocol.model, protocol.fit.epochs
    work.say(messages.compared(*what, work.device, flips=protocol.flips(dataset)))
    for note in dataset.notes:
        work.say(note)
    if protocol.weights is not None:
        work.say(start_text(protocol.model, protocol.weights, dataset))
    n_duplicates = count_duplicates(dataset)
    if n_duplicates:
        work.say(messages.exact_copies(n_duplicates, n_test))
    return n_duplicates


def warn_of_length(work: Comparison, dataset: Dataset, name: str, preset: object) -> None:
    """A search does not know how long trainings will be: in long ones, policies of `fast` were worse than uniform."""
    if not isinstance(preset, str) or preset not in presets.PRESETS:
        return
    usual, epochs = presets.preset(preset, dataset, work.protocol.model).evaluate.epochs, work.protocol.fit.epochs
    if epochs > MUCH_LONGER * usual:
        work.say(messages.much_longer(name, preset, usual, epochs))


def start_text(model: str, path: str, dataset: Dataset) -> str:
    """What networks start from, and whether their last layer is new."""
    network = models.build(model, dataset.n_classes, dataset.image_size, rng.generator(0, "model"))
    return weights.load(network, path)


def choose(work: Comparison, grid: Sequence[Candidate]) -> tuple[Candidate, dict[str, Any]]:
    """The candidate that does best on one half of the training images, trained on the other."""
    trainings = [work.training(choice, 0, by_validation=True) for choice in grid]
    work.say(messages.grid(len(trainings)))
    conduct(work, trainings, lambda: None)
    accuracy = {name: found[0]["accuracy"] for name, found in finished(trainings).items()}
    best = max(grid, key=lambda choice: accuracy[choice.name])
    work.say(messages.grid_done(best.name, accuracy[best.name]))
    return best, {"chosen": best.name, "accuracy": accuracy}


def finished(trainings: Sequence[Training]) -> dict[str, list[dict[str, Any]]]:
    """The results that are there, by policy."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one, result in zip(trainings, training.read_results(trainings), strict=True):
        if result is not None:
            found.setdefault(one.name, []).append(result)
    return found


def conduct(work: Comparison, trainings: Sequence[Training], on_result: Callable[[], None]) -> None:
    """Do those that are not done yet."""
    there = training.read_results(trainings)
    left = [one for one, result in zip(trainings, there, strict=True) if result is None]
    if len(left) < len(trainings):
        work.say(messages.there_already(len(trainings) - len(left), len(trainings)))
    if not left:
        return
    if not work.backend.is_elsewhere:  # measured with the last, which is a policy where there is one
        work.say(messages.cost(len(left), training.seconds_of(left[-1])))

    def done(index: int) -> str:
        on_result()
        result = training.read_result(left[index])
        assert result is not None
        return messages.training_done(names[index], result["accuracy"], result["seconds"], result["images_per_second"])

    names = [f"{one.name}, seed {one.seed}" for one in left]
    run_jobs(work, [partial(training.run, one) for one in left], names, done)


def run_jobs(work: Comparison, jobs: Sequence[Job], names: Sequence[str], describe_done: Callable[[int], str]) -> None:
    """On the backend; what ends the work early says how to go on."""
    with Jobs(work.console, names, describe_done, work.follow) as shown:
        try:
            work.backend.run(jobs, names, shown)
        except Stopped as error:
            raise Stopped(f"{error}. To go on: {work.again}", error.signal_number) from None
