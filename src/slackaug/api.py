"""`slackaug.search`: the command and the function are this one, with the same names."""

import json
import math
import os
import re
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console

from . import foreign, learn, recipes, runs, settings
from .data import DataError, Dataset, load
from .learn import Ending, Learner
from .policy import Policy
from .progress import Display, duration
from .recipes import DataConfig, RunConfig
from .runs import Run, RunError

LOW_ENTROPY = 0.8  # share of the maximum; the paper's policies stay far above it


class Stopped(RuntimeError):
    """The search was asked to stop; everything is saved."""

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.signal_number = signal_number


class SearchResult(NamedTuple):
    policy: Policy
    run: Path


def search(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    preset: str | None = None,
    model: str | None = None,
    ops: str | None = None,
    exclude: Sequence[str] = (),
    time_limit: float | str | None = None,
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
    tensorboard: bool = False,
    console: Console | None = None,
) -> SearchResult | None:
    """Learn a policy for the images in `data` and write the run to the folder `out`.

    `data` is whatever the command takes: a folder of class folders, a file, a name. `time_limit` is in seconds, or a
    text such as 20min. Progress goes to stderr, or to `console`. Returns the policy and the folder; None after a dry
    run. With `resume`, all settings are those of the run.
    """
    console = console or Console(stderr=True)
    data = os.fspath(data)
    if isinstance(exclude, str) or isinstance(set, str):
        raise TypeError("exclude and set take lists of texts, such as ['Invert', 'Solarize']")
    if isinstance(time_limit, str):
        time_limit = duration_seconds(time_limit)
    folder = Path(out)
    work = Work(data, folder, *machine(device, threads), time_limit, tensorboard, console)
    given = {
        "preset": preset,
        "model": model,
        "space": ops,
        "exclude": list(exclude) or None,
        "seed": seed,
        "flip": flip,
    }
    given = {key: value for key, value in given.items() if value is not None}
    if resume:
        if given.keys() - {"model"} or config or set or size or skip_bad or overwrite or dry_run:
            raise RunError("--resume takes all settings from the run; give only the data, -o and --time-limit with it")
        return go_on(work, model)
    if tensorboard and find_spec("tensorboard") is None:
        raise RunError("--tensorboard needs TensorBoard: pip install 'slackaug[tensorboard]'")
    if not dry_run:
        runs.refuse(folder, overwrite=overwrite)  # before the data is read, which may take long
    dataset = load(data, size=size, skip_bad=skip_bad)
    chosen = configure(dataset, given, config, set)
    where = DataConfig(source=data, size=size, skip_bad=skip_bad, fingerprint=dataset.fingerprint)
    chosen = replace(chosen, data=where)
    announce(work, dataset, chosen)
    if dry_run:
        work.say(settings.dump(chosen))
        return None
    learner = Learner(chosen, dataset, work.device)
    with writing(work, chosen), closing(Run.create(folder, settings.dump(chosen), overwrite=overwrite)) as run:
        run.write("env.json", json.dumps(runs.environment(), indent=1))
        return conduct(work, run, learner, 0.0)


class Work(NamedTuple):
    """What a command decides beside the configuration, which is the run's."""

    data: str
    folder: Path
    device: str
    threads: int | None
    time_limit: float | None
    tensorboard: bool
    console: Console

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def resume_command(self, config: RunConfig) -> str:
        words = ["slackaug", "search", self.data, "-o", str(self.folder), "--resume"]
        if is_foreign(config.model):
            words += ["--model", config.model]
        if self.device != default_device():
            words += ["--device", self.device]
        if self.threads is not None:
            words += ["--threads", str(self.threads)]
        if self.tensorboard:
            words.append("--tensorboard")
        return shlex.join(words)


def default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def machine(device: str | None, threads: int | None) -> tuple[str, int | None]:
    """The device and the number of threads, which is set here."""
    if threads is not None:
        if threads < 1:
            raise ValueError(f"--threads {threads}: expected at least 1")
        torch.set_num_threads(threads)
    device = device or default_device()
    try:
        torch.empty(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch raises any of them
        reason = str(error).splitlines()[0]
        raise ValueError(f"--device {device}: cannot be used ({reason}); expected cpu or cuda") from None
    return device, threads


def configure(
    dataset: Dataset, given: dict[str, Any], config: str | os.PathLike[str] | None, assignments: Sequence[str]
) -> RunConfig:
    """The preset, changed by the file, then by --set, then by the options."""
    changes = settings.read_yaml(config) if config is not None else {}
    changes.pop("data", None)  # a stored configuration says which data it was for; the command says which it is for now
    if "model" not in given and is_foreign(str(changes.get("model", ""))):
        raise settings.SettingError(f"{config}: a file may not name code to run; give --model {changes['model']} too")
    for text in assignments:
        assignment = settings.parse_assignment(text)
        if "data" in assignment:
            raise settings.SettingError(f"--set {text}: the data is given by DATA, --size and --skip-bad")
        changes = merge(changes, assignment)
    changes = merge(changes, given)
    name = changes.get("preset") or ("paper" if torch.cuda.is_available() else "quick")
    model = settings.checked(changes.get("model"), str | None, "model")
    chosen = settings.update(
        recipes.preset(str(name), dataset, model), changes
    )  # at once: settings may need one another
    learn.start_policy(chosen, dataset)  # an unknown transformation in `exclude` is found here, not later
    return chosen


def merge(first: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """Nested dictionaries; the second wins."""
    both = {key: merge(first[key], then[key]) for key in first.keys() & then.keys()
            if isinstance(first[key], dict) and isinstance(then[key], dict)}  # fmt: skip
    return first | then | both


def is_foreign(model: str) -> bool:
    """Whether a name stands for a user's own code: module:callable."""
    return foreign.is_reference(model) and model.partition(":")[0] not in ("timm", "torchvision")


def announce(work: Work, dataset: Dataset, config: RunConfig) -> None:
    """What is about to be done, and what it will cost."""
    height, width = dataset.image_size
    flip = dataset.flip if config.flip is None else config.flip
    row = f" (the row of {recipes.paper_row(dataset)})" if config.preset == "paper" else ""
    work.say(
        f"{dataset.name}: {len(dataset.train.labels):,} training images of {width} x {height} pixels, "
        f"{dataset.n_classes} classes; {len(dataset.test.labels):,} test images, which the search does not see"
    )
    for note in dataset.notes:
        work.say(note)
    work.say(
        f"mirror flips are {'on' if flip else 'off'} ({'--no-flip' if flip else '--flip'} changes that); "
        f"space {config.space}, network {config.model}, preset {config.preset}{row}, on {work.device}"
    )
    seconds = learn.search_seconds(config, dataset, work.device)
    work.say(f"this search takes about {duration(seconds)} here, measured over a few steps")


def go_on(work: Work, model: str | None) -> SearchResult:
    """Resume a run from its newest checkpoint, or from its start where there is none."""
    stored = read_config(work.folder)
    if model != (stored.model if is_foreign(stored.model) else None):  # a file alone may not name code to run
        expected = f"give --model {stored.model}" if is_foreign(stored.model) else "do not give --model"
        raise RunError(f"the model of this run is {stored.model}; {expected} with --resume")
    with writing(work, stored), closing(Run(work.folder)) as run:
        dataset = load(work.data, size=stored.data.size, skip_bad=stored.data.skip_bad)
        if dataset.fingerprint != stored.data.fingerprint:
            raise DataError(
                f"{work.data}: is not the data of this run (another fingerprint than that of {stored.data.source})"
            )
        saved, remarks = run.load_checkpoint()
        for remark in remarks:
            work.say(remark)
        learner = Learner(stored, dataset, work.device)
        if saved is None:
            work.say("no checkpoint yet: starting again with the stored configuration")
            run.cut_metrics(0)
            return conduct(work, run, learner, 0.0)
        learner.set_state(saved)
        run.cut_metrics(saved["metrics_size"])
        if learner.is_finished:
            policy_file = work.folder / "policy.json"
            work.say(f"{work.folder}: this search is finished; its policy is {policy_file}")
            return SearchResult(Policy.load(policy_file), work.folder)
        left = saved["seconds"] * (1 - learner.share_done()) / max(learner.share_done(), 1e-9)
        work.say(f"going on after {learner.share_done():.0%} of the search; about {duration(left)} left")
        return conduct(work, run, learner, saved["seconds"])


def read_config(folder: Path) -> RunConfig:
    if not (folder / "config.yaml").is_file():
        raise RunError(f"{folder}: holds no run to resume (no config.yaml)")
    document = settings.read_yaml(folder / "config.yaml")
    return settings.update(RunConfig(preset="", model="small", space="cifar"), document)


@contextmanager
def writing(work: Work, config: RunConfig) -> Iterator[None]:
    """What goes wrong with the folder of the run becomes one message, which says how to go on."""
    try:
        yield
    except OSError as error:
        has_run = (work.folder / "config.yaml").is_file()
        again = work.resume_command(config) if has_run else "run the same command again"
        raise RuntimeError(
            f"{error.filename or work.folder}: cannot be written ({error.strerror or error}); what is saved is whole. "
            f"When that is mended: {again}"
        ) from error


def conduct(work: Work, run: Run, learner: Learner, seconds_before: float) -> SearchResult:
    limit = math.inf if work.time_limit is None else seconds_before + work.time_limit
    policy_file = run.path / "policy.json"
    to_go_on = f"To go on: {work.resume_command(learner.config)}"
    if work.tensorboard:
        folder, n_steps = run.path / "tensorboard", learner.config.search.n_steps
        run.loggers.append(runs.tensorboard(folder, learner.phi.space.names, n_steps))
    with signals() as caught, Display(work.console, run.path / "search.log") as display:
        ending = learn.execute(
            learner, run, display.show, lambda: bool(caught), seconds_before=seconds_before, time_limit=limit
        )
    if ending is Ending.STOPPED:
        raise Stopped(f"stopped; everything is saved. {to_go_on}", caught[0])
    if not policy_file.exists():
        raise RuntimeError(
            f"the time limit came before the end of the first round, so there is no policy yet. {to_go_on}"
        )
    policy = Policy.load(policy_file)
    if ending is Ending.TIME_LIMIT:
        rounds, planned = policy.learned["rounds"], learner.config.search.n_rounds
        work.say(f"time limit: the policy is that of round {rounds} of {planned}. {to_go_on}")
    share = policy.entropy().mean().item() / math.log(max(len(policy.space), 2))
    if share < LOW_ENTROPY:
        work.say(
            f"the policy has collapsed to {share:.0%} of the highest entropy, which rarely helps: "
            "try a lower search.policy_lr or a higher search.kl_weight"
        )
    work.say(f"the policy is {policy_file}; look at it with: {shlex.join(['slackaug', 'show', str(policy_file)])}")
    return SearchResult(policy, run.path)


def duration_seconds(text: str) -> float:
    """90, 90s, 20min, 2h."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min|h)?", text.strip())
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"--time-limit {text}: expected a time such as 90s, 20min or 2h")
    return float(match[1]) * {"h": 3600, "m": 60, "min": 60}.get(match[2], 1)


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
