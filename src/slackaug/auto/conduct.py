"""A search and its surroundings: the folder that is held, what is shown and said, how it ends and how to go on."""

import json
import math
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console

from ..augment.display import displayed
from ..augment.policy import Policy
from ..augment.stability import CHANCE
from ..config import parse
from ..config.layers import is_foreign
from ..config.run_config import RunConfig
from ..data import DataConfig, DataError, Dataset, read
from ..exits import Stopped, signals
from ..export.fidelity import FIDELITY
from ..judge.answer import Answer
from ..judge.ready_made import targets
from ..machine import default_device
from ..messages import report as report_is
from ..messages import search as messages
from ..messages.answer import no_augmentation
from ..messages.terminal import TO_CONTINUE, how, say
from ..report import use
from ..report.strength import entropy_share
from ..runs import folders, loggers, provenance
from ..runs.ensemble import ALONE, Ensemble, Parted
from ..runs.folders import Run
from ..runs.progress import Bar, Display, Reading, Standing
from .learn import Ending, Watch
from .problem import Problem
from .stages import Search
from .timing import Seconds, share_of_learning

REPORT = "report.html"
LOW_ENTROPY = 0.8  # share of the maximum; the paper's policies stay far above it


@displayed
class SearchResult(NamedTuple):
    policy: Policy
    run: Path
    answer: Answer | None = None  # None: nothing was raced

    def __repr__(self) -> str:
        return f"SearchResult({str(self.run)!r}, {self.policy if self.answer is None else self.answer})"


class Session(NamedTuple):
    """What a command decides beside the configuration, which is the run's."""

    data: str
    folder: Path
    device: str
    threads: int | None
    time_limit: float | None
    log: Sequence[str | loggers.Logger]
    console: Console
    ensemble: Ensemble = ALONE
    watch: Callable[[float], None] | None = None  # is told the share that is done
    engine: str = "compiled"
    is_verbose: bool = False
    began: float = 0.0  # when the command was given, by the monotonic clock

    @property
    def deadline(self) -> float:
        return math.inf if self.time_limit is None else self.began + self.time_limit

    def left(self) -> float:
        """Seconds of the time limit."""
        return max(self.deadline - time.monotonic(), 0.0)

    @property
    def n_jobs(self) -> int:
        """Trainings of a race, in processes of one thread each; on a GPU they are one process."""
        return 1 if self.device.startswith("cuda") else torch.get_num_threads()

    def say(self, text: str) -> None:
        say(self.console, text)

    def detail(self, text: str) -> None:
        """Numbers behind the sentences, for those who asked for them."""
        if self.is_verbose:
            self.say(text)

    def resume_command(self, config: RunConfig) -> str:
        words = ["slackaug", "search", self.data, "-o", str(self.folder), "--resume"]
        if config.n_ranks > 1:
            words = ["torchrun", "--nproc-per-node", str(config.n_ranks), "-m", *words]
        device = "cuda" if config.n_ranks > 1 and self.device.startswith("cuda") else self.device
        words += ["--model", config.model] if is_foreign(config.model) else []
        words += ["--device", device] if device != default_device() else []
        words += [] if self.threads is None else ["--threads", str(self.threads)]
        words += [word for one in self.log if isinstance(one, str) for word in ("--log", one)]
        words += ["--engine", self.engine] if self.engine != "compiled" else []
        return shlex.join(words)

    def to_continue(self, config: RunConfig) -> str:
        return how(TO_CONTINUE, self.resume_command(config))


class Opened(NamedTuple):
    """A search that is ready to work, with its folder if this process is the one that writes it."""

    search: Search
    run: Run | None
    dataset: Dataset
    seconds: float  # of work that earlier processes did
    takes: Seconds | None = None  # a whole search, if it was measured

    @property
    def config(self) -> RunConfig:
        return self.search.problem.config

    def share_of_learning(self, n_jobs: int) -> float:
        return share_of_learning(self.search, len(self.dataset.train.labels), n_jobs, self.takes)


def read_data(session: Session, data: DataConfig) -> Dataset:
    """The data of a run, from where the command says it is now."""
    return read(replace(data, source=session.data), Reading(session.console))


@contextmanager
def begun(
    session: Session, config: RunConfig, dataset: Dataset, takes: Seconds | None = None, *, overwrite: bool
) -> Iterator[Opened]:
    """A new run."""
    if len({*session.ensemble.all(dataset.fingerprint)}) > 1:
        raise DataError(f"{session.data}: is not the same data for all processes of the ensemble")
    with session.ensemble.together():
        search = Search(Problem(config, dataset, session.device, session.ensemble, session.engine))
    for remark in search.problem.remarks:
        session.say(remark)
    with holding(session, config, lambda: Run.create(session.folder, parse.dump(config), overwrite=overwrite)) as run:
        with session.ensemble.together():
            if run is not None:
                run.write("env.json", json.dumps(provenance.environment(), indent=1))
        yield Opened(search, run, dataset, 0.0, takes)


@contextmanager
def holding(session: Session, config: RunConfig, open_run: Callable[[], Run]) -> Iterator[Run | None]:
    """The folder of the run, for the rank that writes it."""
    with writing(session, config), ExitStack() as held:
        run = None
        with session.ensemble.together(), writing(session, config):
            if session.ensemble.leads:
                run = held.enter_context(closing(open_run()))
        yield run


def writing(session: Session, config: RunConfig) -> AbstractContextManager[None]:
    def advice() -> str:
        has_run = (session.folder / "config.yaml").is_file()
        return session.resume_command(config) if has_run else "run the same command again"

    return folders.writing(session.folder, advice)


@contextmanager
def watching(session: Session, opened: Opened) -> Iterator[Watch]:
    """Show, log and report a search on the rank that has the run, and catch what is to stop it."""
    search, run, dataset, *_ = opened
    share, bar = opened.share_of_learning(session.n_jobs), Bar(session.console)
    bar.found = share * search.share_done()
    bar.deadline = session.deadline
    n_rounds, display = search.problem.config.search.n_rounds, None
    if run is not None:
        display = Display(bar, run.path / "search.log", n_rounds, share, is_verbose=session.is_verbose)

    def on_step(standing: Standing, elapsed: float) -> None:
        if display is not None:
            display.show(standing, elapsed)
        if session.watch is not None:
            session.watch(standing.done)

    try:
        reported = nullcontext() if run is None else reporting(session, run, dataset)
        logged = nullcontext() if run is None else logging(session, run, search.problem)
        with signals() as caught, reported, logged, nullcontext() if display is None else bar:
            yield Watch(on_step, session.say, session.detail, caught, bar)
    except Parted as parted:
        to_continue = session.to_continue(search.problem.config)
        raise RuntimeError(f"{parted}; everything up to the last checkpoint is saved. {to_continue}") from None


@contextmanager
def logging(session: Session, run: Run, problem: Problem) -> Iterator[None]:
    """The metrics go to the loggers that were asked for, too."""
    settings = parse.flat(parse.to_dict(problem.config))
    logs = [loggers.Guarded(one, run.path, settings, session.say) for one in session.log]

    def listen(metrics: dict[str, Any]) -> None:
        numbers, step = loggers.scalars(metrics, problem.phi.space.names, problem.config.search.n_steps)
        for log in logs:
            log(numbers, step)

    run.listeners.append(listen)
    try:
        yield
    finally:
        for log in logs:
            log.close()


@contextmanager
def reporting(session: Session, run: Run, dataset: Dataset) -> Iterator[None]:
    """report.html is written anew after rounds, and a last time when the work ends, however it does."""
    from ..report.live import Live  # the page's template engine is not needed for anything else

    live = Live(run.path, dataset, session.say)
    run.followers.append(live.follow)
    try:
        yield
    finally:
        live.update(is_running=False)


def concluded(
    session: Session, opened: Opened, ending: Ending, watch: Watch, answer: Answer | None = None
) -> SearchResult:
    """How a search has ended, and what to do next."""
    run, config = opened.run, opened.config
    policy_file, report = session.folder / folders.POLICY, session.folder / REPORT
    to_continue = session.to_continue(config)
    (signal_number,) = session.ensemble.agree(watch.caught[0] if watch.caught else 0)
    policy = session.ensemble.lead(lambda: Policy.load(policy_file) if policy_file.is_file() else None)
    is_over = ending is Ending.FINISHED and (answer is None or (answer.is_final and not answer.is_shortened))
    with session.ensemble.together():
        if is_over and run is not None:
            run.finish()
    if ending is Ending.STOPPED:
        raise Stopped(f"stopped; everything is saved. {to_continue}", signal_number)
    if policy is None:
        raise RuntimeError(
            f"the time limit came before the end of the first round, so there is no policy yet. {to_continue}"
        )
    if ending is Ending.TIME_LIMIT:
        session.say(messages.time_limit(policy.learned["rounds"], config.search.n_rounds, to_continue))
    elif answer is not None and answer.is_final and answer.is_shortened:
        session.say(f"{messages.SHORTENED} {to_continue}")
    elif not is_over:
        session.say(to_continue)
    is_answer, has_learned = policy.learned.get("is_answer", True), not folders.is_start(policy.learned)
    if run is not None and has_learned:
        describe(session, folders.learned(run.path), config)
    if is_answer or has_learned:
        session.say(messages.result(str(policy_file), is_answer=is_answer))
    if report.is_file():
        session.say(report_is(str(report)))
    if answer is None or answer.use or answer.is_final:
        session.say(how(*next_step(session, opened, answer, policy)))
    if answer is not None:
        session.say(f"\n{answer.sentence}")
    return SearchResult(policy, session.folder, answer)


def next_step(session: Session, opened: Opened, answer: Answer | None, policy: Policy) -> tuple[str, str]:
    """What it is for, and the command; it follows from the answer."""
    folder, config = str(session.folder), opened.config
    if config.preset == "demo":
        return messages.FOR_YOURS, "slackaug search FOLDER -o runs/mine"
    if answer is None:
        return messages.LOOK_AT_IT, use.command("show", folder)
    if answer.use is None:
        return messages.LONGER, use.search_longer(session.data, folder, config)
    if answer.use == "none":
        return messages.NEXT, no_augmentation(flip=policy.flip)
    if known := FIDELITY if policy.learned["is_answer"] else targets(answer.use, opened.dataset.image_size):
        return messages.USE_IT, use.export(folder, known)
    return messages.USE_OTHER, use.command("report", folder, "--open")


def describe(session: Session, learned: Policy, config: RunConfig) -> None:
    """What the rounds have learned, as far as it calls for caution."""
    if (agreement := folders.agreement(session.folder)) is not None:
        is_chance = agreement < CHANCE
        session.detail(messages.agreement(agreement, is_chance=is_chance))
        if is_chance:
            session.say(f"{messages.MAY_BE_CHANCE} {messages.OTHER_SPLITS}")
    if entropy_share(learned) < LOW_ENTROPY and learned.n_composed:
        session.say(messages.collapsed(config.search.kl_budget))
