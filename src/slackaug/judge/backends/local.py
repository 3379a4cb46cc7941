"""Jobs on this machine: one after the other, or in processes side by side."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any

from ...exits import Stopped
from ...messages import comparing
from ...runs.progress import Jobs
from .jobs import MAX_ATTEMPTS, POLL_SECONDS, BackendError, Job, Tally, attempt


class InTurn:
    """One after the other, in this process."""

    is_elsewhere = False

    def run(self, jobs: Sequence[Job], shown: Jobs) -> None:
        tally = Tally(shown)
        with tally.until_stopped() as caught:  # a job sees the signals, too, and acts where it can be left
            for index, job in enumerate(jobs):
                try:
                    job(partial(tally.share, index))
                except Stopped:
                    raise
                except RuntimeError as error:
                    tally.end(index, error)
                else:
                    tally.end(index, None)
                if caught:
                    break


class Processes:
    """Up to `n` at a time, each job in a process of its own."""

    is_elsewhere = False

    def __init__(self, n: int):
        if n < 1:
            raise ValueError(f"--jobs {n}: expected at least 1")
        self.n = n

    def run(self, jobs: Sequence[Job], shown: Jobs) -> None:
        tally = Tally(shown)
        team = Team(jobs, tally)
        with tally.until_stopped() as caught:
            try:
                while (team.waiting or team.running) and not caught:
                    team.start_waiting(self.n)
                    team.look()
                    shown.progress(tally.shares)
                    time.sleep(POLL_SECONDS)
            finally:
                team.stop()


class Team:
    """The processes of some jobs."""

    def __init__(self, jobs: Sequence[Job], tally: Tally):
        self.jobs, self.tally = jobs, tally
        self.context = multiprocessing.get_context("forkserver")  # imports torch once; safe beside CUDA and threads
        self.context.set_forkserver_preload(["slackaug.judge.training"])
        self.waiting = list(range(len(jobs)))
        self.running: dict[int, tuple[Any, Connection]] = {}  # the process of a job, and what it says
        self.attempts = [0] * len(jobs)

    def start_waiting(self, limit: int) -> None:
        while self.waiting and len(self.running) < limit:
            index = self.waiting.pop(0)
            self.attempts[index] += 1
            receiver, sender = self.context.Pipe(duplex=False)
            process = self.context.Process(target=do, args=(self.jobs[index], sender, sys.path))
            with without_main():
                process.start()
            sender.close()
            self.running[index] = process, receiver

    def look(self) -> None:
        """See how far all are, and which have ended."""
        for index, (process, pipe) in list(self.running.items()):
            is_alive = process.is_alive()  # asked first: what a process said before it ended is read now
            with suppress(EOFError):
                while index in self.running and pipe.poll():
                    self.hear(index, pipe.recv())
            if index in self.running and not is_alive:
                self.bury(index)

    def hear(self, index: int, said: float | Exception | None) -> None:
        """The share of a job that is done, or how it ended."""
        if said is None or isinstance(said, Exception):
            self.end(index)
            self.tally.end(index, said)
        else:
            self.tally.shares[index] = said

    def bury(self, index: int) -> None:
        """A process that died without a word is started again, a few times."""
        code = self.end(index)
        if self.attempts[index] < MAX_ATTEMPTS:
            self.tally.shown.remark(comparing.died(self.tally.names[index], code))
            self.waiting.insert(0, index)
        else:
            self.tally.end(index, BackendError(f"its process died {MAX_ATTEMPTS} times (exit code {code})"))

    def end(self, index: int) -> int | None:
        process, pipe = self.running.pop(index)
        process.join()
        pipe.close()
        code: int | None = process.exitcode
        return code

    def stop(self) -> None:
        """Those still running are asked to stop, which saves them, and are waited for."""
        for process, _ in self.running.values():
            process.terminate()
        for process, _ in self.running.values():
            process.join()


@contextmanager
def without_main() -> Iterator[None]:
    """A process that starts runs the user's script again, for what is defined there: jobs are of this package, and a
    script that calls a search would search without end."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def do(job: Job, sender: Connection, path: list[str]) -> None:
    """What happens in the process of a job."""
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the parent decides
    threading.Thread(target=end_with_the_parent, daemon=True).start()

    with suppress(Stopped, BrokenPipeError):  # BrokenPipeError: the parent is gone
        sender.send(attempt(job, sender.send))


def end_with_the_parent() -> None:
    """A parent that was killed may be started again at once, and take up this very job. What it left bears a kill."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
