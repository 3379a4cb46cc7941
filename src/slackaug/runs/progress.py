"""What long work shows: one bar on a terminal, one plain line every 30 seconds elsewhere."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from torch import Tensor

from ..augment import describe
from ..augment.policy import Policy
from ..messages import duration
from ..messages.terminal import say

PLAIN_SECONDS = 30.0
LIVE_SECONDS = 0.2
N_TOP = 3
LEAST_SHARE = 0.005  # of the work, after which its time tells of the rest
STAGES = {"pre-training": "Learning: first trainings", "calibration": "Learning: finding its pace"}  # in plain words


class Standing(NamedTuple):
    """Where a search stands after a step."""

    stage: str  # "pre-training", "calibration", "re-training" or "policy"
    round: int  # from 1; 0 before the rounds
    step: int  # done in this stage of this round
    n_steps: int
    train_loss: Tensor
    val_loss: Tensor | None
    phi: Policy
    done: float = 0.0  # share of the whole search, by images
    is_last: bool = True  # of those for this step: several trainings may go on together


def line(progress: Standing, elapsed: float) -> str:
    """Stage, round, step, time left, losses, entropy and the likeliest transformations with their bounds."""
    phi, where = progress.phi, f"round {progress.round}, " if progress.round else ""
    if progress.stage == "pre-training":
        where = f"{phi.n_composed or 'none'} composed, "
    left = elapsed * (1 - progress.done) / progress.done if progress.done > 0 else 0.0
    text = f"{progress.stage}, {where}step {progress.step} of {progress.n_steps}; {duration(left)} left; "
    text += f"train loss {progress.train_loss.item():.3f}"
    if progress.val_loss is not None:
        text += f"; val loss {progress.val_loss.item():.3f}; entropy {phi.entropy().mean().item():.3f}"
        mean = phi.probabilities.mean(0)
        for i, n in enumerate(mean.topk(min(N_TOP, len(mean))).indices.tolist()):
            bounds = describe.range_text(phi.space.transforms[n], phi.mu[n].item())
            text += f"{', ' if i else '; '}{phi.space.names[n]} {mean[n]:.3f}" + (f" ({bounds})" if bounds else "")
    return text


class Bar:
    """How far a job is: its stage, its share and the time left. On a terminal that is one line at the bottom, and
    elsewhere a plain line every 30 seconds. `found` is the share that was done before, and tells nothing of speed; nor
    does what comes before the first update, such as compilation. At the `deadline` the job ends, whatever is done."""

    def __init__(self, console: Console):
        self.console, self.found, self.deadline = console, 0.0, math.inf
        self.live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None
        self.shown_at = self.printed_at = time.monotonic()
        self.start: float | None = None

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def remark(self, text: str) -> None:
        """Lines that stay."""
        self.printed_at = time.monotonic()
        say(self.console, text)

    def update(self, stage: str, share: float) -> None:
        """A few times a second at most."""
        now, is_live = time.monotonic(), self.live is not None
        if self.start is None:
            self.start, self.found = now, max(self.found, share)
        if now - (self.shown_at if is_live else self.printed_at) < (LIVE_SECONDS if is_live else PLAIN_SECONDS):
            return
        percent, left, self.shown_at = f"{share:.0%}", self.left(share), now
        if self.live is None:
            self.remark(", ".join(filter(None, [stage, percent, left])))
            return
        row = Table.grid(padding=(0, 1), expand=True)
        for _ in range(2):
            row.add_column(no_wrap=True)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True, justify="right")
        row.add_row(stage, f"{percent:>4}", ProgressBar(total=1.0, completed=share), left)
        self.live.update(row, refresh=True)

    def left(self, share: float) -> str:
        new = share - self.found
        if self.start is None or new < LEAST_SHARE:
            return ""
        now = time.monotonic()
        seconds = min((now - self.start) * (1 - share) / new, max(self.deadline - now, 0.0))
        return f"{duration(seconds)} left"


class Part(NamedTuple):
    """Jobs that are a part of what a bar shows."""

    bar: Bar
    start: float
    end: float
    stage: Callable[[int], str]  # of how many are done

    def update(self, n_done: int, share: float) -> None:
        self.bar.update(self.stage(n_done), self.start + (self.end - self.start) * share)

    def was_found(self, share: float) -> None:
        self.bar.found += (self.end - self.start) * share


class Display:
    """The progress of learning, which is a share of what the bar shows. Every 30 seconds and at the end of each round,
    the numbers behind it are kept in the file `log`, and with `is_verbose` printed, too."""

    def __init__(self, bar: Bar, log: Path, n_rounds: int, share: float = 1.0, *, is_verbose: bool = False):
        self.bar, self.log, self.n_rounds, self.share, self.is_verbose = bar, log, n_rounds, share, is_verbose
        self.logged_at = time.monotonic()

    def show(self, progress: Standing, elapsed: float) -> None:
        round_ended, now = progress.round > 0 and progress.step == progress.n_steps, time.monotonic()
        if round_ended or now - self.logged_at >= PLAIN_SECONDS:
            self.logged_at, text = now, line(progress, elapsed)
            with self.log.open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
            if self.is_verbose:
                self.bar.remark(text)
        stage = STAGES.get(progress.stage, f"Learning: round {progress.round} of {self.n_rounds}")
        self.bar.update(stage, self.share * progress.done)


class Reading:
    """Shows how far long reading is. Who watches is no part of what is read: all are equal, for what remembers data."""

    def __init__(self, console: Console | None = None):
        self.console = console
        self.bar: Bar | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reading)

    def __hash__(self) -> int:
        return hash(Reading)

    def __call__(self, what: str, done: int, total: int) -> None:
        if self.console is None:
            return
        self.bar = self.bar or Bar(self.console).__enter__()
        self.bar.update(f"{what}: {done:,} of {total:,}", done / max(total, 1))
        if done >= total:
            self.bar.__exit__()
            self.bar = None


class Jobs:
    """Shows the progress of several jobs: a line for each that is done, and how long the rest will take."""

    def __init__(
        self, part: Part, names: Sequence[str], describe_done: Callable[[int], str], follow: Callable[[], None]
    ):
        self.part, self.names, self.describe_done = part, names, describe_done
        self.follow = follow  # is called as often as there is progress: it may see that the time is over
        self.begun: set[int] = set()

    def remark(self, text: str) -> None:
        self.part.bar.remark(text)

    def done(self, index: int) -> None:
        if text := self.describe_done(index):
            self.remark(text)

    def progress(self, shares: Sequence[float]) -> None:
        for index, share in enumerate(shares):
            if 0 < share < 1 and index not in self.begun:  # an earlier attempt has left that much
                self.begun.add(index)
                self.part.was_found(share / len(shares))
        self.part.update(sum(share == 1 for share in shares), sum(shares) / len(shares))
        self.follow()
