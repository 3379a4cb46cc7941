"""A search at work: its folder, what it shows, logs and reports, and how it ends."""

import json
import math
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from ..augment.policy import Policy
from ..augment.stability import CHANCE, agreement_text
from ..config.layers import is_foreign
from ..config.run import RunConfig
from ..data import Dataset, read
from ..data.options import DataConfig
from ..exits import Stopped, signals
from ..machine import default_device
from ..runs import folders
from ..runs.ensemble import ALONE, Ensemble, Parted
from ..runs.folders import Run
from ..runs.progress import Display, Reading
from . import calibrate, composing, confirm, learn
from .calibrate import Calibration
from .composing import Composing
from .confirm import Confirmation
from .learn import Ending
from .stages import Learner, Progress

LOW_ENTROPY = 0.8  # share of the maximum; the paper's policies stay far above it


class SearchResult(NamedTuple):
    policy: Policy
    run: Path


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
    engine: str = "compiled"

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
        if self.engine != "compiled":
            words += ["--engine", self.engine]
        return shlex.join(words)


def read_data(work: Work, data: DataConfig) -> Dataset:
    """The data of a run, from where the command says it is now."""
    return read(replace(data, source=work.data), Reading(work.console))


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

    return folders.writing(work.folder, how_to_go_on)


def conduct(work: Work, run: Run | None, learner: Learner, dataset: Dataset, seconds_before: float) -> SearchResult:
    def on_composed(found: Composing) -> None:
        work.say(found.describe())
        if not found.best:
            epochs = learner.config.pretrain.epochs
            work.say(
                f"that is so after {calibrate.n_epochs(epochs)} of pre-training; for longer trainings, in which more "
                f"augmentation pays, search with longer ones: --set pretrain.epochs={4 * epochs}"
            )
        if run is not None:
            run.write(composing.FILE, json.dumps(found.to_json(), indent=1))

    def on_calibrated(found: Calibration) -> None:
        work.say(found.describe())
        stored, config = found.to_json(), learner.config
        remark, epochs = None, config.pretrain.epochs
        if not config.balanced:  # whose training has other frequencies than its validation
            remark = calibrate.remark(found.before, learner.val.labels, epochs, len(learner.phi.pi))
        remark = remark or calibrate.too_short(found, epochs)
        if remark is not None:
            work.say(remark)
            stored["remark"] = remark
        if run is not None:
            run.write(calibrate.FILE, json.dumps(stored, indent=1))

    def on_confirmed(found: Confirmation) -> None:
        work.say(found.describe())
        if run is not None:
            run.write(confirm.FILE, json.dumps(found.to_json(), indent=1))

    learner.on_composed, learner.on_calibrated, learner.on_confirmed = on_composed, on_calibrated, on_confirmed
    policy_file = work.folder / folders.POLICY
    to_go_on = f"To go on: {work.resume_command(learner.config)}"
    try:
        with signals() as caught:
            ending = execute(work, run, learner, dataset, seconds_before, lambda: bool(caught))
            (signal_number,) = work.ensemble.agree(caught[0] if caught else 0)
        policy = work.ensemble.lead(lambda: Policy.load(policy_file) if policy_file.is_file() else None)
    except Parted as parted:
        raise RuntimeError(f"{parted}; everything up to the last checkpoint is saved. {to_go_on}") from None
    with work.ensemble.together():
        if ending is Ending.FINISHED and run is not None:
            run.finish()
    if ending is Ending.STOPPED:
        raise Stopped(f"stopped; everything is saved. {to_go_on}", signal_number)
    if policy is None:
        raise RuntimeError(
            f"the time limit came before the end of the first round, so there is no policy yet. {to_go_on}"
        )
    if ending is Ending.TIME_LIMIT:
        rounds, planned = policy.learned["rounds"], learner.config.search.n_rounds
        open_end = ", and is not confirmed yet" if learner.is_searched else ""
        work.say(f"time limit: the policy is that of round {rounds} of {planned}{open_end}. {to_go_on}")
    if run is not None and (agreement := folders.agreement(work.folder)) is not None:
        advice = "; slackaug study says whether other splits find the same" if agreement < CHANCE else ""
        work.say(agreement_text(agreement) + advice)
    share = policy.entropy().mean().item() / math.log(max(len(policy.space), 2))
    if share < LOW_ENTROPY and composing.number_of(policy):
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
        run.loggers.append(folders.tensorboard(folder, learner.phi.space.names, n_steps))
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
    """report.html is written anew after rounds, and a last time when the work ends, however it does."""
    from ..report.board import Pies
    from ..report.live import Live  # the page's template engine is not needed for anything else

    live = Live(run.path, dataset, work.say)
    run.followers.append(live.follow)
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
