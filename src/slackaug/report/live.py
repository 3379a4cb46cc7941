"""Reports that commands write beside their work: never in its way."""

import time
from collections.abc import Callable
from pathlib import Path

from .. import messages
from ..data import Dataset, samples
from . import page

LOOK_SECONDS = 10.0  # from one look at a study's files to the next
REST = 20.0  # times what a page took to write: of a search's or a study's time, one part in as many
FOUND = (  # what a study adds to while it is running
    "searches/*/policies/*.json", "searches/*/answer.json", "eval/trials/*.json",
)  # fmt: skip

Say = Callable[[str], None]


def attempt(folder: Path, data: Dataset | None, say: Say, *, is_running: bool = False) -> bool:
    """Write the report on a folder, or say in one line why it cannot be written; whether it is there."""
    try:
        page.write(folder, samples=None if data is None else samples.of_dataset(data), is_running=is_running)
    except Exception as error:  # whatever it is: a report is not worth a search
        reason = str(error).partition("\n")[0] or type(error).__name__
        say(messages.no_report(reason))
        return False
    return True


class Live:
    """Keeps the report of a search or a study up to date. A failure is reported once, and the work continues."""

    def __init__(self, folder: Path, data: Dataset | None, say: Say):
        self.folder, self.data, self.say, self.has_failed = folder, data, say, False
        self.n_seen, self.next_look = 0, 0.0

    def update(self, *, is_running: bool = True) -> None:
        """Write, and rest until that has taken no more than its part of the time."""
        start = time.monotonic()
        say = (lambda _: None) if self.has_failed else self.say
        self.has_failed |= not attempt(self.folder, self.data, say, is_running=is_running)
        now = time.monotonic()
        self.next_look = now + REST * (now - start)

    def follow(self) -> None:
        """For a search, after each of its rounds: write, but where rounds are short, not after all of them."""
        if time.monotonic() >= self.next_look:
            self.update()

    def look(self) -> None:
        """For those who do not see when a round ends, as it does in other processes: write where files have come."""
        if time.monotonic() < self.next_look:
            return
        n_found = sum(1 for pattern in FOUND for _ in self.folder.glob(pattern))
        if n_found != self.n_seen:
            self.n_seen = n_found
            self.update()
        self.next_look = max(self.next_look, time.monotonic() + LOOK_SECONDS)
