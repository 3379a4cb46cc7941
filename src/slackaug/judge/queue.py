"""The trainings of an evaluation, a study or a race: what they share, which are done, and the others on a backend."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rich.console import Console

from .. import models, rng
from ..augment.policy import Policy
from ..augment.samplers import Method
from ..config import presets
from ..data import Dataset, count_duplicates
from ..engine import weights
from ..exits import Stopped
from ..messages import comparing
from ..messages.terminal import TO_CONTINUE, how, say
from ..runs import folders
from ..runs.progress import Bar, Jobs, Part
from . import protocols, records, training
from .backends.jobs import Backend, Job
from .baselines import FILE
from .candidates import Candidate, is_same
from .intervals import n_for, paired
from .protocols import HeldOut, Protocol, Training
from .results import by_seed

MAX_SEEDS = 10_000
N_SIDE_BY_SIDE = 8  # trainings on a GPU at once: more make it hardly faster (research/side_by_side.py)
MOST_MEASURED = 8  # candidates, a second or two each, before their trainings
LEAST_SEEDS = 8  # from fewer, an interval that is narrow by chance ends it too often (research/until_coverage.py)
MUCH_LONGER = 2  # times the epochs of the trainings that a preset has for its policies
ByPolicy = dict[str, list[dict[str, Any]]]  # results of finished trainings, by policy


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
    part: Part | None = None  # of a bar that shows more than these trainings

    def say(self, text: str) -> None:
        say(self.console, text)

    def writing(self) -> AbstractContextManager[None]:
        return folders.writing(self.folder, lambda: self.again)

    def training(self, candidate: Candidate, seed: int, held_out: HeldOut | None = None) -> Training:
        return Training(
            protocol=self.protocol,
            candidate=candidate,
            seed=seed,
            held_out=held_out,
            folder=self.folder,
            models=self.models if held_out is None else None,
            device=self.device,
            threads=self.threads,
        )


def check_candidates(work: Comparison, dataset: Dataset, candidates: Sequence[Candidate]) -> dict[str, str]:
    """All of them, and the network, before the first is trained; return policies that are a baseline by another name,
    with that one."""
    methods: dict[str, Method] = {}
    twins: dict[str, str] = {}
    for candidate in candidates[:1]:
        training.network(work.training(candidate, 0), dataset)
    for candidate in candidates:
        methods[candidate.name] = method = protocols.method_and_data(work.training(candidate, 0))[0]
        if isinstance(candidate.augmentation, Policy):
            for one in candidates:
                is_named = one.is_baseline and one.name in methods and not one.name.startswith(FILE)
                if is_named and is_same(method, methods[one.name]):
                    twins[candidate.name] = one.name
            for remark in differences(candidate.augmentation, method.flip, work.protocol, dataset):
                work.say(f"{candidate.name}: {remark}")
    return twins


def differences(policy: Policy, flips: bool, protocol: Protocol, dataset: Dataset) -> list[str]:
    """What a reader of the comparison must know about a policy; `flips`, whether it is trained with mirror flips."""
    found = []
    if policy.dataset not in (None, dataset.fingerprint):
        found.append(comparing.OTHER_DATA)
    if policy.space.name.rstrip("*") != protocol.space:
        found.append(comparing.other_space(policy.space.name, protocol.space))
    elif other := {*policy.space.names} ^ {*protocol.used_space().names}:
        found.append(comparing.other_transformations(sorted(other)))
    if flips != policy.flip:
        found.append(comparing.other_flips(is_on=flips))
    elif flips != protocol.flips(dataset):
        found.append(comparing.NO_FLIPS)
    return found


def announce(work: Comparison, dataset: Dataset) -> int:
    """What is about to be compared; the number of test images that are training images, too."""
    protocol, n_test, n_duplicates = work.protocol, len(dataset.test.labels), count_duplicates(dataset)
    n_images = len(dataset.train.labels), n_test
    what = dataset.name, n_images, dataset.image_size, dataset.n_classes, protocol.model, protocol.fit.epochs
    lines = [comparing.compared(*what, work.device, flips=protocol.flips(dataset)), *dataset.notes]
    if protocol.weights is not None:
        lines.append(start_text(protocol.model, protocol.weights, dataset))
    if n_duplicates:
        lines.append(comparing.exact_copies(n_duplicates, n_test))
    for line in lines:
        work.say(line)
    return n_duplicates


def warn_of_length(work: Comparison, dataset: Dataset, name: str, preset: object) -> None:
    """A search does not know how long trainings will be: in long ones, policies of `fast` were worse than uniform."""
    if not isinstance(preset, str) or preset not in presets.PRESETS:
        return
    usual, epochs = presets.preset(preset, dataset, work.protocol.model).evaluate.epochs, work.protocol.fit.epochs
    if epochs > MUCH_LONGER * usual:
        work.say(comparing.much_longer(name, preset, usual, epochs))


def start_text(model: str, path: str, dataset: Dataset) -> str:
    """What networks start from, and whether their last layer is new."""
    network = models.build(model, dataset.n_classes, dataset.image_size, rng.generator(0, "model"))
    return weights.load(network, path)


def choose(work: Comparison, grid: Sequence[Candidate]) -> tuple[Candidate, dict[str, Any]]:
    """The candidate that does best on one half of the training images, trained on the other."""
    work.say(comparing.grid(len(grid)))
    found = conduct(work, [work.training(choice, 0, HeldOut(half=1)) for choice in grid])
    accuracy = {name: results[0]["accuracy"] for name, results in found.items()}
    best = max(grid, key=lambda choice: accuracy[choice.name])
    work.say(comparing.grid_done(best.name, accuracy[best.name]))
    return best, {"chosen": best.name, "accuracy": accuracy}


def conduct(
    work: Comparison,
    trainings: Sequence[Training],
    on_result: Callable[[ByPolicy, int], None] | None = None,
    *,
    is_announced: bool = False,
) -> ByPolicy:
    """Do the trainings that are missing, and return all results. `on_result` is given what there is after each, and
    how many there will be.

    `is_announced`: how many there are, and what they cost, is known from others and has been told.
    """
    results = records.read(trainings)
    missing = [one for one, result in zip(trainings, results, strict=True) if result is None]
    if len(missing) < len(trainings) and not is_announced:
        work.say(comparing.there_already(len(trainings) - len(missing), len(trainings)))
    left = [*{one.key: one for one in missing}.values()]  # a search may end with what is a baseline, too
    if left and not (is_announced or work.backend.is_elsewhere):
        n = n_side_by_side(work)
        work.say(comparing.cost(len(left), seconds_each(left, n), n))

    def done(those: Sequence[Training]) -> str:
        results[:] = records.read(trainings)
        if on_result is not None:
            on_result(by_policy(results), len(results))
        return "\n".join(described(one, result) for one, result in zip(trainings, results, strict=True)
                         if result is not None and one in those)  # fmt: skip

    train(work, left, done)
    return by_policy(results)


def seconds_each(left: Sequence[Training], n: int) -> float:
    """What one of them costs where n go side by side. Alone, on a CPU, one that augments much can take several times
    as long as one that does not, so the mean over the candidates."""
    if n > 1:
        return training.seconds_of(left[-n:])
    each = [*{one.name: one for one in left}.values()]
    some = each[:: math.ceil(len(each) / MOST_MEASURED)]
    return fmean(training.seconds_of([one]) for one in some)


def described(one: Training, result: Mapping[str, Any]) -> str:
    return comparing.training_done(spoken(one), result["accuracy"], result["seconds"], result["images_per_second"])


def spoken(one: Training) -> str:
    return f"{one.name}, seed {one.seed}"


def n_side_by_side(work: Comparison) -> int:
    """Trainings of a job."""
    return N_SIDE_BY_SIDE if work.device.startswith("cuda") and not work.backend.is_elsewhere else 1


def train(work: Comparison, wanted: Sequence[Training], describe: Callable[[Sequence[Training]], str]) -> None:
    """Train as many at a time as the device is fastest with; `describe` says what came out of those that are done."""
    n = n_side_by_side(work)
    teams = [wanted[i : i + n] for i in range(0, len(wanted), n)]
    jobs = [partial(training.run, team) for team in teams]
    names = [spoken(team[0]) if len(team) == 1 else comparing.side_by_side(len(team)) for team in teams]
    if jobs:
        run_jobs(work, jobs, names, lambda index: describe(teams[index]))


def conduct_until(
    work: Comparison,
    wanted: Callable[[int], Sequence[Training]],
    n: int,
    needed: Callable[[ByPolicy, int], int | None],
    on_result: Callable[[ByPolicy, int], None],
) -> ByPolicy:
    """Do those with n of something, then with as many as are `needed` by what was found, twice as many at most, until
    that is None. It is told once what is there and what it costs."""
    is_announced = False
    while True:
        found = conduct(work, wanted(n), on_result, is_announced=is_announced)
        if (more := needed(found, n)) is None:
            return found
        n, is_announced = min(more, 2 * n), True


def with_seeds(
    work: Comparison, candidates: Sequence[Candidate], compared: Collection[str | None], n_seeds: int, n: int
) -> list[Training]:
    """All candidates with n_seeds, and those that are compared with n, seed by seed."""
    entries = [(candidate, seed) for seed in range(n) for candidate in candidates]
    return [work.training(*one) for one in entries if one[1] < n_seeds or one[0].name in compared]


def seeds_needed(work: Comparison, pair: Sequence[str], until: float, found: ByPolicy, n: int) -> int | None:
    """Seeds of the two that are compared, which alone make that interval narrower, until it reaches no further than
    `until` to each side; None where n are enough."""
    difference = paired(*(by_seed(found[name]) for name in pair))
    assert difference is not None
    if difference.reach() <= until or n == MAX_SEEDS:
        return None
    needed = max(n_for(difference, until, MAX_SEEDS), n + 1)
    seconds = sum(one["seconds"] for name in pair for one in found[name]) / n * (needed - n)
    work.say(comparing.more_needed(difference.reach(), until, needed - n, "seed", "both", seconds))
    return needed


def by_policy(results: Sequence[dict[str, Any] | None]) -> ByPolicy:
    found: ByPolicy = {}
    for result in filter(None, results):
        found.setdefault(result["name"], []).append(result)
    return found


def run_jobs(work: Comparison, jobs: Sequence[Job], names: Sequence[str], describe_done: Callable[[int], str]) -> None:
    """Run jobs on the backend; what ends the work early says how to resume it."""
    with ExitStack() as stack:
        part = work.part or Part(stack.enter_context(Bar(work.console)), 0, 1, lambda n: f"{n} of {len(jobs)} done")
        try:
            work.backend.run(jobs, Jobs(part, names, describe_done, work.follow))
        except Stopped as error:
            raise Stopped(f"{error}. {how(TO_CONTINUE, work.again)}", error.signal_number) from None
