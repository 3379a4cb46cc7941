"""`slackaug.search`: the command and the function are this one, with the same names."""

import json
import math
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from . import ensemble, learn, margins, recipes, runs, settings
from .calibrate import Calibration
from .configuration import configure, is_foreign
from .data import DataError, Dataset
from .engines import OutOfMemory
from .ensemble import ALONE, Ensemble, Parted, n_processes
from .exits import Stopped, signals
from .learn import Ending
from .learner import Learner, Progress
from .machine import default_device, duration_seconds, machine
from .policy import Policy
from .progress import Display, Reading, duration
from .recipes import DataConfig, RunConfig
from .runs import START_ANEW, Run, RunError

LEAST_BATCH = 8  # that a search makes do with by itself
LOW_ENTROPY = 0.8  # share of the maximum; the paper's policies stay far above it


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
    margin: bool = False,
    try_margin: bool = False,
    flip: bool | None = None,
    skip_bad: bool = False,
    group_by: str | None = None,
    balanced: bool | None = None,
    weights: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    device: str | None = None,
    threads: int | None = None,
    tensorboard: bool = False,
    engine: str = "fast",
    console: Console | None = None,
    watch: Callable[[float], None] | None = None,
) -> SearchResult | None:
    """Learn a policy for the images in `data` and write the run to the folder `out`.

    `data` is whatever the command takes: a folder of class folders, a file, a name. `time_limit` is in seconds, or a
    text such as 20min. Progress goes to stderr, or to `console`. Returns the policy and the folder; None after a dry
    run. With `resume`, all settings are those of the run. In processes of torchrun, their models are an ensemble.
    """
    data, console = os.fspath(data), console or Console(stderr=True)
    if isinstance(exclude, str) or isinstance(set, str):
        raise TypeError("exclude and set take lists of texts, such as ['Invert', 'Solarize']")
    if isinstance(time_limit, str):
        time_limit = duration_seconds(time_limit)
    given = {
        "preset": preset,
        "model": model,
        "space": ops,
        "exclude": list(exclude) or None,
        "seed": seed,
        "flip": flip,
        "balanced": balanced,
        "weights": None if weights is None else os.fspath(weights),
    }
    given = {key: value for key, value in given.items() if value is not None}
    with ensemble.join(device or default_device()) as ranks:
        if not ranks.leads:
            console = Console(quiet=True)
        with ranks.together():
            where = machine(ranks.place(device or default_device()), threads)
            work = Work(data, Path(out), *where, time_limit, tensorboard, console, ranks, watch, engine)
            if resume and (
                given.keys() - {"model"}
                or config
                or set
                or overwrite
                or dry_run
                or size
                or margin
                or try_margin
                or skip_bad
                or group_by
                or cache
            ):
                raise RunError(
                    "--resume takes all settings from the run; give only the data, -o and --time-limit with it"
                )
            if try_margin and (size is None or margin):
                raise DataError("--try-margin needs --size, and stands in place of --margin")
            if tensorboard and not resume and find_spec("tensorboard") is None:
                raise RunError("--tensorboard needs TensorBoard: pip install 'slackaug[tensorboard]'")
            if ranks.leads and not resume and not dry_run:
                runs.refuse(work.folder, overwrite=overwrite)  # before the data is read, which may take long
        if resume:
            return go_on(work, model)
        with ranks.together():
            place = None if cache is None else os.fspath(cache)
            source = DataConfig(
                source=data, size=size, margin=margin, skip_bad=skip_bad, group_by=group_by, cache=place
            )
            if try_margin:
                source = replace(source, margin=better_margin(work, source, given, config, set))
            dataset = read_data(work, source)
            source = replace(source, fingerprint=dataset.fingerprint)
            chosen = replace(configure(dataset, given, config, set, ranks.n_ranks), data=source)
            announce(work, dataset, chosen)
            chosen, seconds = fitting(work, dataset, chosen, is_given=config is not None, assignments=set)
            work.say(f"this search takes about {duration(seconds)} here, measured over a few steps")
        if dry_run:
            work.say(settings.dump(chosen))
            return None
        return begin(work, chosen, dataset, overwrite=overwrite)


class Work(NamedTuple):
    """What a command decides beside the configuration, which is the run's."""

    data: str
    folder: Path
    device: str
    threads: int | None
    time_limit: float | None
    tensorboard: bool
    console: Console
    ensemble: Ensemble = ALONE
    watch: Callable[[float], None] | None = None  # is told the share that is done
    engine: str = "fast"

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def resume_command(self, config: RunConfig) -> str:
        words = ["slackaug", "search", self.data, "-o", str(self.folder), "--resume"]
        if config.n_ranks > 1:
            words = ["torchrun", "--nproc-per-node", str(config.n_ranks), "-m", *words]
        if is_foreign(config.model):
            words += ["--model", config.model]
        device = "cuda" if config.n_ranks > 1 and self.device.startswith("cuda") else self.device
        if device != default_device():
            words += ["--device", device]
        if self.threads is not None:
            words += ["--threads", str(self.threads)]
        if self.tensorboard:
            words.append("--tensorboard")
        if self.engine != "fast":
            words += ["--engine", self.engine]
        return shlex.join(words)


def read_data(work: Work, data: DataConfig) -> Dataset:
    """The data of a run, from where the command says it is now."""
    return data.read(Reading(work.console), work.data)


def better_margin(
    work: Work,
    source: DataConfig,
    given: dict[str, Any],
    config: str | os.PathLike[str] | None,
    assignments: Sequence[str],
) -> bool:
    def learner_of(margin: bool) -> Learner:
        dataset = read_data(work, replace(source, margin=margin))
        chosen = configure(dataset, given, config, assignments, work.ensemble.n_ranks)
        return Learner(chosen, dataset, work.device, work.ensemble, work.engine)

    return margins.better(learner_of, work.say)


def announce(work: Work, dataset: Dataset, config: RunConfig) -> None:
    """What is about to be done."""
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
    if config.n_ranks > 1:
        work.say(
            f"an ensemble of {config.n_ranks} models, one in each process, learns one policy; "
            "the losses that are shown and stored are those of rank 0"
        )


def fitting(
    work: Work, dataset: Dataset, config: RunConfig, *, is_given: bool, assignments: Sequence[str]
) -> tuple[RunConfig, float]:
    """The configuration with batches that fit on the GPU, where they are not given or the paper's, and its seconds."""
    while True:
        try:
            return config, learn.search_seconds(config, dataset, work.device, work.engine)
        except OutOfMemory as error:
            is_fixed = is_given or any(text.startswith(f"{error.setting}=") for text in assignments)
            if is_fixed or config.preset == "paper" or error.batch < LEAST_BATCH:
                raise
            smaller = f"{error.setting}={error.batch}"
            work.say(f"{error.what} do not fit on the GPU; going on with {smaller}")
        config = settings.update(config, settings.parse_assignment(smaller))


def begin(work: Work, config: RunConfig, dataset: Dataset, *, overwrite: bool) -> SearchResult:
    """A new run."""
    if len({*work.ensemble.all(dataset.fingerprint)}) > 1:
        raise DataError(f"{work.data}: is not the same data for all processes of the ensemble")
    with work.ensemble.together():
        learner = Learner(config, dataset, work.device, work.ensemble, work.engine)
    for remark in learner.remarks:
        work.say(remark)
    with holding(work, config, lambda: Run.create(work.folder, settings.dump(config), overwrite=overwrite)) as run:
        if run is not None:
            run.write("env.json", json.dumps(runs.environment(), indent=1))
        return conduct(work, run, learner, dataset, 0.0)


def go_on(work: Work, model: str | None) -> SearchResult:
    """Resume a run from its newest checkpoint, or from its start where there is none."""
    stored = work.ensemble.lead(lambda: read_config(work.folder))
    with work.ensemble.together():
        check_resumable(work, stored, model)
    with holding(work, stored, lambda: Run(work.folder)) as run:
        with work.ensemble.together(), writing(work, stored):
            dataset = read_data(work, stored.data)
            if dataset.fingerprint != stored.data.fingerprint:
                raise DataError(
                    f"{work.data}: is not the data of this run (another fingerprint than that of {stored.data.source})"
                )
            learner = Learner(stored, dataset, work.device, work.ensemble, work.engine)
        seconds = restore(work, run, learner)
        if learner.is_finished:
            policy_file = work.folder / "policy.json"
            work.say(f"{work.folder}: this search is finished; its policy is {policy_file}")
            return SearchResult(work.ensemble.lead(lambda: Policy.load(policy_file)), work.folder)
        return conduct(work, run, learner, dataset, seconds)


def check_resumable(work: Work, stored: RunConfig, model: str | None) -> None:
    if model != (stored.model if is_foreign(stored.model) else None):  # a file alone may not name code to run
        expected = f"give --model {stored.model}" if is_foreign(stored.model) else "do not give --model"
        raise RunError(f"the model of this run is {stored.model}; {expected} with --resume")
    if stored.n_ranks != work.ensemble.n_ranks:
        raise RunError(
            f"{work.folder}: this run has {n_processes(stored.n_ranks)}, not "
            f"{work.ensemble.n_ranks}. To go on: {work.resume_command(stored)}"
        )


def restore(work: Work, run: Run | None, learner: Learner) -> float:
    """Give every rank its state of the newest checkpoint; the seconds of work that are in it."""
    saved: dict[str, Any] | None = None
    with work.ensemble.together(), writing(work, learner.config):
        if run is not None:
            saved, remarks = run.load_checkpoint()
            for remark in remarks:
                work.say(remark)
            run.cut_metrics(0 if saved is None else saved["metrics_size"])
    states = None if run is None else [None] * learner.config.n_ranks if saved is None else learn.unpack(saved)
    own = work.ensemble.scatter_states(states)
    if own is None:
        work.say("no checkpoint yet: starting again with the stored configuration")
        return 0.0
    try:
        learner.set_state(own)
    except (LookupError, TypeError, AttributeError):  # whole, but not what this version writes
        raise RunError(f"{work.folder}: its checkpoint is not one of this slackaug's searches; {START_ANEW}") from None
    seconds = 0.0 if saved is None else float(saved["seconds"])
    if not learner.is_finished:
        left = seconds * (1 - learner.share_done()) / max(learner.share_done(), 1e-9)
        work.say(f"going on after {learner.share_done():.0%} of the search; about {duration(left)} left")
    return seconds


def read_config(folder: Path) -> RunConfig:
    if not (folder / "config.yaml").is_file():
        raise RunError(f"{folder}: holds no run to resume (no config.yaml)")
    document = settings.read_yaml(folder / "config.yaml")
    return settings.update(RunConfig(preset="", model="small", space="cifar"), document)


@contextmanager
def holding(work: Work, config: RunConfig, open_run: Callable[[], Run]) -> Iterator[Run | None]:
    """The folder of the run, for the rank that writes it."""
    with writing(work, config), ExitStack() as held:
        run = None
        with work.ensemble.together(), writing(work, config):
            if work.ensemble.leads:
                run = held.enter_context(closing(open_run()))
        yield run


def writing(work: Work, config: RunConfig) -> AbstractContextManager[None]:
    def how_to_go_on() -> str:
        has_run = (work.folder / "config.yaml").is_file()
        return work.resume_command(config) if has_run else "run the same command again"

    return runs.writing(work.folder, how_to_go_on)


def conduct(work: Work, run: Run | None, learner: Learner, dataset: Dataset, seconds_before: float) -> SearchResult:
    def on_calibrated(found: Calibration) -> None:
        work.say(found.describe())
        if run is not None:
            run.write("calibration.json", json.dumps(found.to_json(), indent=1))

    learner.on_calibrated = on_calibrated
    policy_file = work.folder / "policy.json"
    to_go_on = f"To go on: {work.resume_command(learner.config)}"
    try:
        with signals() as caught:
            ending = execute(work, run, learner, dataset, seconds_before, lambda: bool(caught))
            (signal_number,) = work.ensemble.agree(caught[0] if caught else 0)
        policy = work.ensemble.lead(lambda: Policy.load(policy_file) if policy_file.exists() else None)
    except Parted as parted:
        raise RuntimeError(f"{parted}; everything up to the last checkpoint is saved. {to_go_on}") from None
    if ending is Ending.STOPPED:
        raise Stopped(f"stopped; everything is saved. {to_go_on}", signal_number)
    if policy is None:
        raise RuntimeError(
            f"the time limit came before the end of the first round, so there is no policy yet. {to_go_on}"
        )
    if ending is Ending.TIME_LIMIT:
        rounds, planned = policy.learned["rounds"], learner.config.search.n_rounds
        work.say(f"time limit: the policy is that of round {rounds} of {planned}. {to_go_on}")
    share = policy.entropy().mean().item() / math.log(max(len(policy.space), 2))
    if share < LOW_ENTROPY:
        search = learner.config.search
        advice = "a lower search.policy_lr or a higher search.kl_weight"
        if search.kl_budget is not None:
            advice = f"a lower search.kl_budget than {search.kl_budget:g}"
        work.say(f"the policy has collapsed to {share:.0%} of the highest entropy, which rarely helps: try {advice}")
    work.say(f"the policy is {policy_file}; look at it with: {shlex.join(['slackaug', 'show', str(policy_file)])}")
    if (work.folder / "report.html").is_file():
        work.say(f"the report is {work.folder / 'report.html'}")
    return SearchResult(policy, work.folder)


def execute(
    work: Work,
    run: Run | None,
    learner: Learner,
    dataset: Dataset,
    seconds_before: float,
    should_stop: Callable[[], bool],
) -> Ending:
    """Do the search, and show, log and report it on the rank that has the run."""
    limit = math.inf if work.time_limit is None else seconds_before + work.time_limit
    if run is not None and work.tensorboard:
        folder, n_steps = run.path / "tensorboard", learner.config.search.n_steps
        run.loggers.append(runs.tensorboard(folder, learner.phi.space.names, n_steps))
    shown = nullcontext() if run is None else Display(work.console, run.path / "search.log")
    with nullcontext() if run is None else reporting(work, run, learner, dataset), shown as display:

        def show(progress: Progress, elapsed: float) -> None:
            if display is not None:
                display.show(progress, elapsed)
            if work.watch is not None:
                work.watch(progress.done)

        return learn.execute(learner, run, show, should_stop, seconds_before=seconds_before, time_limit=limit)


@contextmanager
def reporting(work: Work, run: Run, learner: Learner, dataset: Dataset) -> Iterator[None]:
    """report.html is written anew after every round, and a last time when the work ends, however it does."""
    from .report.board import Pies
    from .report.live import Live  # the page's template engine is not needed for anything else

    live = Live(run.path, dataset, work.say)
    run.followers.append(live.update)
    at_the_end: list[Callable[[], None]] = [partial(live.update, is_running=False)]
    if work.tensorboard:
        pies = Pies(run.path, run.path / "tensorboard", learner.config.search.n_steps, work.say)
        run.followers.append(pies.update)
        at_the_end.append(pies.update)
    try:
        yield
    finally:
        for write in at_the_end:
            write()
