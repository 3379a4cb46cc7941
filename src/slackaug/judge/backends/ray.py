"""Jobs on a Ray cluster."""

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from ...foreign import missing
from ...runs.progress import Jobs
from .jobs import MAX_ATTEMPTS, POLL_SECONDS, BackendError, Job, Tally, attempt

CONNECT_SECONDS = 5.0
SAVE_SECONDS = 20.0  # that tasks of Ray get to save themselves


class Ray:
    """Each job a task of a Ray cluster: that at `address`, or one that is started here and ends with this process.

    The folder of the results must be one that all of the cluster's machines see, by the same name.
    """

    def __init__(self, address: str | None, n_gpus: float, n_cpus: int):
        if find_spec("ray") is None:
            raise ValueError(f"--backend ray: {missing('ray')}")
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

    def run(self, jobs: Sequence[Job], shown: Jobs) -> None:
        try:
            self.run_tasks(jobs, shown)
        except self.ray.exceptions.RayError as error:
            lost = f"the Ray cluster was lost ({str(error).splitlines()[0]}); what is saved stays"
            raise BackendError(lost) from None

    def run_tasks(self, jobs: Sequence[Job], shown: Jobs) -> None:
        ray = self.ray
        board = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Board).remote()
        task = ray.remote(num_cpus=self.n_cpus, num_gpus=self.n_gpus, max_retries=MAX_ATTEMPTS - 1)(do_on_ray)
        pending = {task.options(name=name).remote(job, index, board, os.getcwd()): index
                   for index, (job, name) in enumerate(zip(jobs, shown.names, strict=True))}  # fmt: skip
        tally = Tally(shown)
        with tally.until_stopped() as caught:
            try:
                while pending and not caught:
                    finished, _ = ray.wait(list(pending), timeout=POLL_SECONDS)
                    for reference in finished:
                        tally.end(pending.pop(reference), self.outcome(reference))
                    for index, share in ray.get(board.get.remote()).items():
                        tally.shares[index] = max(tally.shares[index], share)
                    shown.progress(tally.shares)
            finally:
                self.stop(list(pending))

    def outcome(self, reference: Any) -> Exception | None:
        try:
            error: Exception | None = self.ray.get(reference)
            return error
        except self.ray.exceptions.RayTaskError as error:  # a traceback, such as that slackaug is not installed there
            return BackendError(str(error).strip().splitlines()[-1])
        except self.ray.exceptions.RayError as error:  # the machine or the worker was lost too often
            return BackendError(str(error).splitlines()[0])

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


def do_on_ray(job: Job, index: int, board: Any, folder: str) -> Exception | None:
    """Work in a worker of Ray. Errors are values, so that Ray restarts only what has died."""
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
        reason = f"no Ray cluster can be reached there ({error.strerror or error})"
        raise BackendError(f"--address {address}: {reason}; start one with: ray start --head") from None
