"""`slackaug.search`: the command and the function are this one, with the same names."""

import json
import math
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console

from . import learn, recipes, runs, settings
from .data import DataError, Dataset, load
from .learn import Ending, Learner
from .policy import Policy
from .progress import Display, duration
from .recipes import DataConfig, RunConfig
from .runs import Run, RunError


class Stopped(RuntimeError):
    """The search was asked to stop; everything is saved."""

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.signal_number = signal_number


class SearchResult(NamedTuple):
    policy: Policy
    run: Path


def search(
    data: str,
    out: str | os.PathLike[str],
    *,
    preset: str | None = None,
    model: str | None = None,
    ops: str | None = None,
    exclude: Sequence[str] = (),
    time_limit: float | None = None,
    config: str | os.PathLike[str] | None = None,
    set: Sequence[str] = (),
    seed: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    size: int | None = None,
    flip: bool | None = None,
    skip_bad: bool = False,
    device: str | None = None,
    threads: int | None = None,
    console: Console | None = None,
) -> SearchResult | None:
    """Learn a policy for the images in `data` and write the run to the folder `out`.

    `data` is whatever the command takes: a folder of class folders, a file, a name. `time_limit` is in seconds. Returns
    the policy and the folder; None after a dry run. With `resume`, all settings are those of the run.
    """
    console = console or Console(stderr=True, quiet=True)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if threads is not None:
        torch.set_num_threads(threads)
    given = {
        "preset": preset,
        "model": model,
        "space": ops,
        "exclude": list(exclude) or None,
        "seed": seed,
        "flip": flip,
    }
    given = {key: value for key, value in given.items() if value is not None}
    folder = Path(out)
    if resume:
        if given or config or set or size or skip_bad or overwrite or dry_run:
            raise RunError("--resume takes all settings from the run; give only the data, -o and --time-limit with it")
        return go_on(data, folder, time_limit, device, console)
    dataset = load(data, size=size, skip_bad=skip_bad)
    chosen = configure(dataset, given, config, set)
    where = DataConfig(source=data, size=size, skip_bad=skip_bad, fingerprint=dataset.fingerprint)
    chosen = replace(chosen, data=where)
    announce(console, dataset, chosen, device)
    if dry_run:
        console.print(settings.dump(chosen), highlight=False, markup=False)
        return None
    run = Run.create(folder, overwrite=overwrite)
    try:
        run.write("config.yaml", settings.dump(chosen))
        run.write("env.json", json.dumps(runs.environment(), indent=1))
        return conduct(run, Learner(chosen, dataset, device), console, time_limit, 0.0)
    finally:
        run.close()


def configure(
    dataset: Dataset, given: dict[str, Any], config: str | os.PathLike[str] | None, assignments: Sequence[str]
) -> RunConfig:
    """The preset, changed by the file, then by --set, then by the options."""
    changes = settings.read_yaml(config) if config is not None else {}
    changes.pop("data", None)  # a stored configuration says which data it was for; the command says which it is for now
    default = "paper" if torch.cuda.is_available() else "quick"
    name = given.get("preset") or changes.get("preset") or default
    chosen = recipes.preset(str(name), dataset)
    chosen = settings.update(chosen, changes)
    for text in assignments:
        assignment = settings.parse_assignment(text)
        if "data" in assignment:
            raise settings.SettingError(f"--set {text}: the data is given by DATA, --size and --skip-bad")
        chosen = settings.update(chosen, assignment)
    chosen = settings.update(chosen, given)
    learn.start_policy(chosen, dataset)  # an unknown transformation in `exclude` is found here, not later
    return chosen


def announce(console: Console, dataset: Dataset, config: RunConfig, device: str) -> None:
    """What is about to be done, and what it will cost."""
    height, width = dataset.image_size
    flip = dataset.flip if config.flip is None else config.flip
    console.print(
        f"{dataset.name}: {len(dataset.train.labels):,} training images of {width} x {height} pixels, "
        f"{dataset.n_classes} classes; {len(dataset.test.labels):,} test images, which the search does not see",
        highlight=False,
    )
    for note in dataset.notes:
        console.print(note, highlight=False, markup=False)
    console.print(
        f"mirror flips are {'on' if flip else 'off'} ({'--no-flip' if flip else '--flip'} changes that); "
        f"space {config.space}, network {config.model}, preset {config.preset}, on {device}",
        highlight=False,
    )
    seconds = learn.step_seconds(config, dataset, device)
    console.print(f"this search takes about {duration(seconds)} here, measured over a few steps", highlight=False)


def go_on(data: str, folder: Path, time_limit: float | None, device: str, console: Console) -> SearchResult:
    """Resume a run from its newest checkpoint, or from its start where there is none."""
    run = Run.open(folder)
    try:
        stored = read_config(folder)
        dataset = load(data, size=stored.data.size, skip_bad=stored.data.skip_bad)
        if dataset.fingerprint != stored.data.fingerprint:
            raise DataError(
                f"{data}: is not the data of this run (another fingerprint than that of {stored.data.source})"
            )
        learner = Learner(stored, dataset, device)
        saved, remarks = run.load_checkpoint()
        for remark in remarks:
            console.print(remark, highlight=False, markup=False)
        if saved is None:
            console.print("no checkpoint yet: starting again with the stored configuration", highlight=False)
            run.cut_metrics(0)
            return conduct(run, learner, console, time_limit, 0.0)
        learner.set_state(saved)
        run.cut_metrics(saved["metrics_size"])
        if learner.is_finished:
            console.print(f"{folder}: this search is finished; its policy is {folder / 'policy.json'}", highlight=False)
            return SearchResult(Policy.load(folder / "policy.json"), folder)
        return conduct(run, learner, console, time_limit, saved["seconds"])
    finally:
        run.close()


def read_config(folder: Path) -> RunConfig:
    document = settings.read_yaml(folder / "config.yaml")
    return settings.update(RunConfig(preset="", model="small", space="cifar"), document)


def conduct(
    run: Run, learner: Learner, console: Console, time_limit: float | None, seconds_before: float
) -> SearchResult:
    limit = math.inf if time_limit is None else seconds_before + time_limit
    policy_file = run.path / "policy.json"
    resume = f"slackaug search {learner.config.data.source} -o {run.path} --resume"
    with signals() as caught, Display(console, run.path / "search.log") as display:
        try:
            ending = learn.execute(
                learner, run, display.show, lambda: bool(caught), seconds_before=seconds_before, time_limit=limit
            )
        except OSError as error:
            raise RuntimeError(
                f"{error.filename or run.path}: cannot be written ({error.strerror or error}); what is saved is whole. "
                f"When that is mended: {resume}"
            ) from error
    if ending is Ending.STOPPED:
        raise Stopped(f"stopped; everything is saved. To go on: {resume}", caught[0])
    if not policy_file.exists():
        raise RuntimeError(
            f"the time limit came before the end of the first round, so there is no policy yet. To go on: {resume}"
        )
    policy = Policy.load(policy_file)
    if ending is Ending.TIME_LIMIT:
        rounds, planned = policy.learned["rounds"], learner.config.search.n_rounds
        console.print(
            f"time limit: the policy is that of round {rounds} of {planned}. To go on: {resume}", highlight=False
        )
    console.print(f"the policy is {policy_file}; look at it with: slackaug show {policy_file}", highlight=False)
    return SearchResult(policy, run.path)


@contextmanager
def signals() -> Iterator[list[int]]:
    """SIGINT and SIGTERM are noted, to be acted upon after the step; a second SIGINT interrupts at once."""
    caught: list[int] = []

    def note(number: int, frame: object) -> None:
        if caught and number == signal.SIGINT:
            raise KeyboardInterrupt
        caught.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: whoever owns that decides
        yield caught
        return
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
