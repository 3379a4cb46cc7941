"""Jobs on this machine: one after the other, or in processes side by side."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from ... import messages
from ...exits import Stopped, signals
from .jobs import MAX_ATTEMPTS, POLL_SECONDS, STOPPED, BackendError, Job, Watcher, attempt, outcome, raise_failures


class InTurn:
    """One after the other, in this process."""

    is_elsewhere = False

    def run(self, jobs: Sequence[Job], names: Sequence[str], watcher: Watcher) -> None:
        shares = [0.0] * len(jobs)
        failures: dict[str, str] = {}
        with signals() as caught:  # a job sees them, too, and acts where it can be left
            for index, (job, name) in enumerate(zip(jobs, names, strict=True)):

                def tell(share: float, index: int = index) -> None:
                    shares[index] = share
                    watcher.progress(shares)

                try:
                    job(tell)
                except (Stopped, BackendError):
                    raise
                except RuntimeError as error:  # ValueError and OSError: the input or the disk, which all jobs share
                    failures[name] = str(error)
                else:
                    watcher.done(index)
                tell(1.0)
                if caught:
                    raise Stopped(STOPPED, caught[0])
        raise_failures(failures, len(jobs))


class Processes:
    """Up to `n` at a time, each job in a process of its own."""

    is_elsewhere = False

    def __init__(self, n: int):
        if n < 1:
            raise ValueError(f"--jobs {n}: expected at least 1")
        self.n = n

    def run(self, jobs: Sequence[Job], names: Sequence[str], watcher: Watcher) -> None:
        team = Team(jobs, names, watcher)
        with signals() as caught:
            try:
                while team.is_busy and not caught:
                    team.start_waiting(self.n)
                    team.look()
                    time.sleep(POLL_SECONDS)
            finally:
                team.stop()
        if caught:
            raise Stopped(STOPPED, caught[0])
        raise_failures(team.failures, len(jobs))


class Running(NamedTuple):
    process: Any
    pipe: Connection


class Team:
    """The processes of some jobs."""

    def __init__(self, jobs: Sequence[Job], names: Sequence[str], watcher: Watcher):
        self.jobs, self.names, self.watcher = jobs, names, watcher
        self.context = multiprocessing.get_context("forkserver")  # imports torch once; safe beside CUDA and threads
        self.context.set_forkserver_preload(["slackaug.judge.training"])
        self.waiting = list(range(len(jobs)))
        self.running: dict[int, Running] = {}
        self.attempts = [0] * len(jobs)
        self.shares = [0.0] * len(jobs)
        self.failures: dict[str, str] = {}

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting or self.running)

    def start_waiting(self, limit: int) -> None:
        while self.waiting and len(self.running) < limit:
            index = self.waiting.pop(0)
            self.attempts[index] += 1
            receiver, sender = self.context.Pipe(duplex=False)
            process = self.context.Process(target=do, args=(self.jobs[index], sender, sys.path))
            process.start()
            sender.close()
            self.running[index] = Running(process, receiver)

    def look(self) -> None:
        """See how far all are, and who has ended."""
        for index, (process, pipe) in list(self.running.items()):
            is_alive = process.is_alive()  # asked first: what a process said before it ended is read now
            while index in self.running and pipe.poll():
                try:
                    self.hear(index, *pipe.recv())
                except EOFError:
                    break
            if index in self.running and not is_alive:
                self.bury(index)
        self.watcher.progress(self.shares)

    def hear(self, index: int, kind: str, content: Any) -> None:
        if kind == "share":
            self.shares[index] = content
            return
        self.end(index)
        self.shares[index] = 1.0
        if outcome(kind, content) is None:
            self.watcher.done(index)
        else:
            self.failures[self.names[index]] = content

    def bury(self, index: int) -> None:
        """A process that died without a word is started again, a few times."""
        code = self.end(index)
        if self.attempts[index] < MAX_ATTEMPTS:
            self.watcher.remark(messages.died(self.names[index], code))
            self.waiting.insert(0, index)
            return
        self.failures[self.names[index]] = f"its process died {MAX_ATTEMPTS} times (exit code {code})"
        self.shares[index] = 1.0

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


def do(job: Job, sender: Connection, path: list[str]) -> None:
    """In the job's own process."""
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the parent decides
    threading.Thread(target=end_with_the_parent, daemon=True).start()

    def tell(share: float) -> None:
        sender.send(("share", share))

    with suppress(Stopped, BrokenPipeError):  # BrokenPipeError: the parent is gone
        sender.send(attempt(job, tell))


def end_with_the_parent() -> None:
    """A parent that was killed may be started again at once, and take up this very job. What it left bears a kill."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
