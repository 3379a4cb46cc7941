"""What long work shows: one live line on a terminal, one plain line every 30 seconds elsewhere."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text
from torch import Tensor

from ..augment import describe
from ..augment.policy import Policy
from ..messages import duration
from ..messages.terminal import say

PLAIN_SECONDS = 30.0
LIVE_SECONDS = 0.2
N_TOP = 3


class Standing(NamedTuple):
    """Where a search stands after a step."""

    stage: str  # "pre-training", "calibration", "re-training" or "policy"
    round: int  # from 1; 0 before the rounds and after them
    step: int  # done in this stage of this round
    n_steps: int
    train_loss: Tensor
    val_loss: Tensor | None
    phi: Policy
    done: float = 0.0  # share of the whole search, by images


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


class LiveLine:
    """On a terminal one line that is replaced again and again; elsewhere a plain line every 30 seconds."""

    def __init__(self, console: Console):
        self.console = console
        self.live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None
        self.start = self.shown_at = self.said_at = time.monotonic()

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    @property
    def is_due(self) -> bool:
        """Whether nothing was said for so long that something should be."""
        return time.monotonic() - self.said_at >= PLAIN_SECONDS

    def remark(self, text: str) -> None:
        """A line that stays."""
        self.said_at = time.monotonic()
        say(self.console, text)

    def update(self, text: Callable[[], str]) -> None:
        """A few times a second at most: only then is the text made."""
        if self.live is None:
            if self.is_due:
                self.remark(text())
        elif time.monotonic() - self.shown_at >= LIVE_SECONDS:
            self.shown_at = time.monotonic()
            self.live.update(Text(text(), overflow="ellipsis", no_wrap=True), refresh=True)


class Display(LiveLine):
    """The progress of a search; a line every 30 seconds and one for each round stay, and are kept in the file `log`."""

    def __init__(self, console: Console, log: Path):
        super().__init__(console)
        self.log = log

    def show(self, progress: Standing, elapsed: float) -> None:
        round_ended = progress.round > 0 and progress.step == progress.n_steps
        if round_ended or self.is_due:
            text = line(progress, elapsed)
            with self.log.open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
            self.remark(text)
        self.update(lambda: line(progress, elapsed))


class Reading:
    """Shows how far long reading is. Who watches is no part of what is read: all are equal, for what remembers data."""

    def __init__(self, console: Console | None = None):
        self.console = console
        self.live: LiveLine | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reading)

    def __hash__(self) -> int:
        return hash(Reading)

    def __call__(self, what: str, done: int, total: int) -> None:
        if self.console is None:
            return
        self.live = self.live or LiveLine(self.console).__enter__()
        elapsed = time.monotonic() - self.live.start
        left = duration(elapsed * (total - done) / max(done, 1))
        text = f"{what}: {done:,} of {total:,} ({done / max(elapsed, 1e-9):,.0f} a second), {left} left"
        self.live.update(lambda: text)
        if done >= total:
            self.live.__exit__()
            self.live = None


class Jobs(LiveLine):
    """Shows the progress of several jobs: a line for each that is done, and how long the rest will take."""

    def __init__(
        self, console: Console, names: Sequence[str], describe_done: Callable[[int], str], follow: Callable[[], None]
    ):
        super().__init__(console)
        self.names, self.describe_done = names, describe_done
        self.follow = follow  # is called as often as there is progress: who has more to do looks at the clock
        self.found: dict[int, float] = {}  # the share of each job that was done when it was begun here

    def done(self, index: int) -> None:
        if text := self.describe_done(index):
            self.remark(text)

    def progress(self, shares: Sequence[float]) -> None:
        for index, share in enumerate(shares):
            if 0 < share < 1:
                self.found.setdefault(index, share)
        self.update(lambda: self.line(shares))
        self.follow()

    def line(self, shares: Sequence[float]) -> str:
        done, n = sum(shares), len(shares)
        named = zip(self.names, shares, strict=True)
        going = ", ".join(f"{name} {share:.0%}" for name, share in named if 0 < share < 1)
        new = done - sum(self.found.values())
        left = duration((time.monotonic() - self.start) * (n - done) / new) + " left" if new > 0 else ""
        return "; ".join(filter(None, [f"{sum(share == 1 for share in shares)} of {n} done", going, left]))
