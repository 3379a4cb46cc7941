"""The processes that decode: one for each core, kept busy, replaced where a file kills them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

PACKAGE = Path(__file__).parents[2]  # the folder that slackaug is imported from
CHUNK = 128  # images in a task: some 20 ms of work or more, so that asking costs nothing and all cores end together
N_WAITING = 2  # tasks for each process, so that none waits for the next
CRASHED = {"bad": "the decoder crashed on it"}


def n_cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """A process of `worker.py`; it holds the locks behind `locks`, too, as long as it lives."""

    def __init__(self, about: dict[str, Any], locks: Sequence[int] = ()):
        path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "slackaug.data.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the one that knows what to do about it
            pass_fds=locks,
        )
        try:
            self.ask(about)
        except BrokenPipeError:
            self.stop()
            raise OSError("a process that decodes images cannot be started; what it says is above") from None

    def ask(self, task: Any) -> Any:
        """Its answer; a BrokenPipeError where the process ends before it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer.endswith("\n"):
            raise BrokenPipeError
        return json.loads(answer)

    def stop(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):  # it died with a task unread
                stream.close()
        self.process.wait()


class Pool:
    """As many processes as there are cores, or fewer for few entries, each started when there is work for it."""

    def __init__(self, about: dict[str, Any], n_entries: int, locks: Sequence[int] = ()):
        self.about, self.locks = about, locks
        self.n = min(n_cores(), 1 + n_entries // 8)
        self.threads = ThreadPoolExecutor(self.n)  # each waits for a process: the work is done there
        self.idle: SimpleQueue[Worker | None] = SimpleQueue()
        for _ in range(self.n):
            self.idle.put(None)  # a process not started yet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.threads.shutdown(cancel_futures=True)
        while not self.idle.empty():
            worker = self.idle.get()
            if worker is not None:
                worker.stop()

    def ask(self, kind: str, entries: Sequence[Any]) -> list[Any]:
        """The answers to all entries; a process that dies of one is replaced, and that one's answer is CRASHED."""
        worker = self.idle.get()
        try:
            worker = worker or Worker(self.about, self.locks)
            answers: list[Any] | dict[str, Any] = worker.ask([kind, entries])
        except BrokenPipeError:
            if worker is not None:
                worker.stop()
            worker = None
            answers = [CRASHED] if len(entries) == 1 else []
        finally:
            self.idle.put(worker)
        if isinstance(answers, dict):
            raise OSError(answers["failed"])
        return answers or [answer for entry in entries for answer in self.ask(kind, [entry])]

    def map(self, kind: str, entries: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """The entries with their answers, as they come, in any order."""
        left = iter(entries)
        asked: dict[Future[list[Any]], Sequence[Any]] = {}
        while True:
            while len(asked) < N_WAITING * self.n and (task := [*islice(left, CHUNK)]):
                asked[self.threads.submit(self.ask, kind, task)] = task
            if not asked:
                return
            for future in wait(asked, return_when=FIRST_COMPLETED).done:
                yield from zip(asked.pop(future), future.result(), strict=True)
