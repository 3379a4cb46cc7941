"""Where the jobs of an evaluation or a study run: here one after the other, in processes side by side, or on Ray.

A job is a function of `report`, to which it says what share of it is done; it leaves its result in a file, and takes
up what an earlier attempt has left. So a job that died is simply started again.
"""

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, Protocol

import torch

from ..exits import Stopped, signals

MAX_ATTEMPTS = 3  # of a job whose process died; one that raised an error is not tried again
POLL_SECONDS = 0.2
CONNECT_SECONDS = 5.0
SAVE_SECONDS = 20.0  # that tasks of Ray get to save themselves
STOPPED = "stopped; everything is saved"

Job = Callable[[Callable[[float], None]], None]


class BackendError(RuntimeError):
    """The backend cannot be used, or jobs failed on it."""


class Watcher(Protocol):
    """Sees the jobs' progress."""

    def progress(self, shares: Sequence[float]) -> None:
        """The share of each job that is done."""

    def done(self, index: int) -> None: ...

    def remark(self, text: str) -> None: ...


class Backend(Protocol):
    is_elsewhere: bool  # on machines other than this one, about which nothing is known here

    def run(self, jobs: Sequence[Job], names: Sequence[str], watcher: Watcher) -> None:
        """Do all jobs. One that fails does not keep the others from being done; the error comes at the end."""


def raise_failures(failures: dict[str, str], n: int) -> None:
    if failures:
        texts = "\n".join(f"  {name}: {reason}" for name, reason in failures.items())
        raise BackendError(f"{len(failures)} of {n} failed, the others are saved:\n{texts}")


class InTurn:
    """One after the other, in this process."""

    is_elsewhere = False

    def run(self, jobs: Sequence[Job], names: Sequence[str], watcher: Watcher) -> None:
        shares = [0.0] * len(jobs)
        failures: dict[str, str] = {}
        with signals() as caught:  # a job sees them, too, and acts where it can be left
            for index, (job, name) in enumerate(zip(jobs, names, strict=True)):

                def report(share: float, index: int = index) -> None:
                    shares[index] = share
                    watcher.progress(shares)

                try:
                    job(report)
                except (Stopped, BackendError):
                    raise
                except RuntimeError as error:  # ValueError and OSError: the input or the disk, which all jobs share
                    failures[name] = str(error)
                else:
                    watcher.done(index)
                report(1.0)
                if caught:
                    raise Stopped(STOPPED, caught[0])
        raise_failures(failures, len(jobs))


# --- processes --------------------------------------------------------------------------------------------------------


class Processes:
    """Up to `n` at a time, each job in a process of its own."""

    is_elsewhere = False

    def __init__(self, n: int):
        if n < 1:
            raise ValueError(f"--jobs {n}: expected at least 1")
        self.n = n

    def run(self, jobs: Sequence[Job], names: Sequence[str], watcher: Watcher) -> None:
        crew = Crew(jobs, names, watcher)
        with signals() as caught:
            try:
                while crew.is_busy and not caught:
                    crew.start_waiting(self.n)
                    crew.look()
                    time.sleep(POLL_SECONDS)
            finally:
                crew.stop()
        if caught:
            raise Stopped(STOPPED, caught[0])
        raise_failures(crew.failures, len(jobs))


class Running(NamedTuple):
    process: Any
    messages: Connection


class Crew:
    """The processes of some jobs."""

    def __init__(self, jobs: Sequence[Job], names: Sequence[str], watcher: Watcher):
        self.jobs, self.names, self.watcher = jobs, names, watcher
        self.context = multiprocessing.get_context("forkserver")  # imports torch once; safe beside CUDA and threads
        self.context.set_forkserver_preload(["slackaug.trial", "slackaug.commands.search"])
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
        for index, (process, messages) in list(self.running.items()):
            is_alive = process.is_alive()  # asked first: what a process said before it ended is read now
            while index in self.running and messages.poll():
                try:
                    self.hear(index, *messages.recv())
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
            self.watcher.remark(f"{self.names[index]}: its process died (exit code {code}); it is taken up again")
            self.waiting.insert(0, index)
            return
        self.failures[self.names[index]] = f"its process died {MAX_ATTEMPTS} times (exit code {code})"
        self.shares[index] = 1.0

    def end(self, index: int) -> int | None:
        process, messages = self.running.pop(index)
        process.join()
        messages.close()
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

    def report(share: float) -> None:
        sender.send(("share", share))

    with suppress(Stopped, BrokenPipeError):  # BrokenPipeError: the parent is gone
        sender.send(attempt(job, report))


def end_with_the_parent() -> None:
    """A parent that was killed may be started again at once, and take up this very job. What it left bears a kill."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def attempt(job: Job, report: Callable[[float], None]) -> tuple[str, Any]:
    """How a job ended, as a value that can be sent."""
    try:
        job(report)
    except (Stopped, BrokenPipeError):
        raise
    except ValueError as error:
        return "wrong input", str(error)
    except OSError as error:
        return "disk", (error.errno, error.strerror or str(error), error.filename)
    except RuntimeError as error:
        return "failed", str(error)
    return "done", ""


def outcome(kind: str, content: Any) -> str | None:
    """Why a job failed, if it did; what would be wrong with all others, too, is raised."""
    if kind == "wrong input":
        raise ValueError(content)
    if kind == "disk":
        raise OSError(*content)
    return str(content) if kind == "failed" else None


# --- Ray --------------------------------------------------------------------------------------------------------------


class Ray:
    """Each job a task of a Ray cluster: that at `address`, or one that is started here and ends with this process.

    The folder of the results must be one that all of the cluster's machines see, by the same name.
    """

    def __init__(self, address: str | None, n_gpus: float, n_cpus: int):
        if find_spec("ray") is None:
            raise ValueError("--backend ray needs Ray: pip install 'slackaug[ray]'")
        import ray

        self.ray = ray
        self.is_elsewhere = address is not None
        if address is not None:
            check_reachable(address)
        if not ray.is_initialized():
            try:
                ray.init(
                    address=address or "local",  # not one that somebody has left on this machine
                    log_to_driver=False,
                    include_dashboard=False if address is None else None,
                    logging_level="error",
                )
            except (ConnectionError, RuntimeError, ValueError) as error:
                where = f"--address {address}" if address else "--backend ray"
                hint = "; a cluster may want the token that was set for it, in RAY_AUTH_TOKEN" if address else ""
                raise BackendError(f"{where}: Ray does not start ({str(error).splitlines()[0]}){hint}") from None
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if n_gpus > max(node.get("GPU", 0) for node in machines):
            raise BackendError("--device cuda: no machine of the Ray cluster has a GPU; --device cpu would do without")
        most = int(max(node.get("CPU", 0) for node in machines))
        self.n_gpus, self.n_cpus = n_gpus, max(1, min(n_cpus, most))  # Ray would wait for ever for what is not there

    def run(self, jobs: Sequence[Job], names: Sequence[str], watcher: Watcher) -> None:
        try:
            self.run_tasks(jobs, names, watcher)
        except self.ray.exceptions.RayError as error:
            raise BackendError(
                f"the Ray cluster was lost ({str(error).splitlines()[0]}); what is saved stays"
            ) from None

    def run_tasks(self, jobs: Sequence[Job], names: Sequence[str], watcher: Watcher) -> None:
        ray = self.ray
        board = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Board).remote()
        task = ray.remote(num_cpus=self.n_cpus, num_gpus=self.n_gpus, max_retries=MAX_ATTEMPTS - 1)(do_on_ray)
        pending = {task.options(name=name).remote(job, index, board, os.getcwd()): index
                   for index, (job, name) in enumerate(zip(jobs, names, strict=True))}  # fmt: skip
        shares = [0.0] * len(jobs)
        failures: dict[str, str] = {}
        with signals() as caught:
            try:
                while pending and not caught:
                    finished, _ = ray.wait(list(pending), timeout=POLL_SECONDS)
                    for reference in finished:
                        index = pending.pop(reference)
                        shares[index] = 1.0
                        reason = self.outcome(reference)
                        if reason is None:
                            watcher.done(index)
                        else:
                            failures[names[index]] = reason
                    for index, share in ray.get(board.get.remote()).items():
                        shares[index] = max(shares[index], share)
                    watcher.progress(shares)
            finally:
                self.stop(list(pending))
        if caught:
            raise Stopped(STOPPED, caught[0])
        raise_failures(failures, len(jobs))

    def outcome(self, reference: Any) -> str | None:
        try:
            return outcome(*self.ray.get(reference))
        except self.ray.exceptions.RayTaskError as error:  # a traceback, such as that slackaug is not installed there
            return str(error).strip().splitlines()[-1]
        except self.ray.exceptions.RayError as error:  # the machine or the worker was lost too often
            return str(error).splitlines()[0]

    def stop(self, pending: list[Any]) -> None:
        """Those still running get SIGINT, which saves them, and some time for it."""
        for reference in pending:
            self.ray.cancel(reference)
        if pending:
            self.ray.wait(pending, num_returns=len(pending), timeout=SAVE_SECONDS)


class Board:
    """Where the tasks write how far they are."""

    def __init__(self) -> None:
        self.shares: dict[int, float] = {}

    def put(self, index: int, share: float) -> None:
        self.shares[index] = share

    def get(self) -> dict[int, float]:
        return self.shares


def do_on_ray(job: Job, index: int, board: Any, folder: str) -> tuple[str, Any]:
    """In a worker of Ray. Errors are values, so that Ray starts again only what has died."""
    sys.path.insert(0, "")
    with suppress(FileNotFoundError):  # a folder of another machine: then all paths must be whole ones
        os.chdir(folder)
    return attempt(job, lambda share: board.put.remote(index, share))


def check_reachable(address: str) -> None:
    """Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    if not host or not port.isdecimal():
        raise ValueError(f"--address {address}: expected HOST:PORT of a Ray cluster, such as 10.0.0.5:6379, or auto")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise BackendError(
            f"--address {address}: no Ray cluster can be reached there ({error.strerror or error}); "
            "start one with: ray start --head"
        ) from None


def get_backend(name: str, *, address: str | None, n_jobs: int | None, device: str, threads: int | None) -> Backend:
    if name == "local":
        if address is not None:
            raise ValueError("--address is for --backend ray")
        n_jobs = 1 if n_jobs is None else n_jobs
        return InTurn() if n_jobs == 1 else Processes(n_jobs)
    if name == "ray":
        gpus = 1 / (n_jobs or 1) if device.startswith("cuda") else 0
        return Ray(address, gpus, threads or torch.get_num_threads())
    raise ValueError(f"--backend {name}: expected local or ray")
