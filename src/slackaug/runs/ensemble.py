"""An ensemble: several processes, each with a model and random streams of its own, that learn one policy (torchrun).

Only the policy's gradient is averaged. All else that travels serves to begin, save, stop and fail together.
"""

import functools
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from ..exits import Told, exit_code, ignore_sigterm
from .checkpoints import from_bytes, to_bytes

PATIENCE = timedelta(minutes=30)  # with a process that neither answers nor ends; an ended one is noticed at once
GRACE_SECONDS = 2.0  # in which those that are left say that they are
TELLING_SECONDS = 0.5  # by which the process with the message is ahead of the others
N_JOINED = itertools.count()  # a process may search more than once: each time has its own part of the store

T = TypeVar("T")


class Parted(RuntimeError):
    """A process of the ensemble has ended, and with it what they can do together."""


def n_here(n_ranks: int) -> int:
    """The processes on this machine, as torchrun says."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", n_ranks))


def n_processes(n: int) -> str:
    return "1 process" if n == 1 else f"{n} processes"


class Ensemble:
    """This process among those of an ensemble; without a store it is alone, and nothing is ever sent."""

    def __init__(
        self, rank: int = 0, n_ranks: int = 1, store: "dist.distributed_c10d.Store | None" = None, *, nccl: bool = False
    ):
        self.rank, self.n_ranks, self.store = rank, n_ranks, store
        self.wire = "cuda" if nccl else "cpu"  # where gradients must be to travel
        self.talk: dist.ProcessGroup | None = None  # for all else, always gloo; None is torch's default group

    @classmethod
    def connect(cls, device: str) -> "Ensemble":
        """Connect with the processes that the environment names; gradients go over NCCL where each has its own GPU."""
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        if dist.is_initialized():
            raise RuntimeError("torch.distributed is in use here already; start the search in processes of its own")
        store, rank, n_ranks = next(rendezvous("env://", timeout=PATIENCE))
        store = PrefixStore(f"slackaug {next(N_JOINED)}", store)
        nccl = device.startswith("cuda") and 0 < n_here(n_ranks) <= torch.cuda.device_count()
        ensemble = cls(rank, n_ranks, PrefixStore("end", store), nccl=nccl)
        group = PrefixStore("group", store)
        dist.init_process_group(
            "nccl" if nccl else "gloo", store=group, rank=rank, world_size=n_ranks, timeout=PATIENCE
        )
        if nccl:
            ensemble.talk = dist.new_group(backend="gloo", timeout=PATIENCE)
        return ensemble

    @property
    def leads(self) -> bool:
        """Rank 0 alone writes the run's folder and shows progress."""
        return self.rank == 0

    def purpose(self) -> tuple[str | int, ...]:
        """What a random stream of this process is for, in addition; nothing where there is only one."""
        return ("rank", self.rank) if self.n_ranks > 1 else ()

    def place(self, device: str) -> str:
        """The device of this process; where there are more processes than GPUs, they share them."""
        if self.store is None or not device.startswith("cuda"):
            return device
        if device != "cuda":
            raise ValueError(f"--device {device}: an ensemble takes all GPUs of its machine; give cuda or cpu")
        index = int(os.environ.get("LOCAL_RANK", self.rank)) % max(torch.cuda.device_count(), 1)
        torch.cuda.set_device(index)
        return f"cuda:{index}"

    # --- in every step ------------------------------------------------------------------------------------------------

    def average(self, gradient: Tensor) -> Tensor:
        """The mean over the ranks, bit-identical on each: they are added in the order of the ranks."""
        if self.store is None:
            return gradient
        own = gradient.to(self.wire).contiguous()
        if own.is_cuda:  # NCCL would wait for a process that has ended; gloo says so
            self.exchange(dist.barrier, group=self.talk)
        parts = [torch.empty_like(own) for _ in range(self.n_ranks)]
        self.exchange(dist.all_gather, parts, own)
        return functools.reduce(torch.add, [part.to(gradient.device) for part in parts]) / self.n_ranks

    def agree(self, *wishes: int) -> list[int]:
        """The highest of the ranks, for each wish: what one wants, all do."""
        if self.store is None:
            return list(wishes)
        highest = torch.tensor(wishes, dtype=torch.int64)
        self.exchange(dist.all_reduce, highest, op=dist.ReduceOp.MAX, group=self.talk)
        return highest.tolist()

    # --- the states of all ranks, in one checkpoint -------------------------------------------------------------------

    def gather_states(self, state: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Collect those of all ranks, on the CPU, for the one that writes; None for the others."""
        if self.store is None:
            return [state]
        parts: list[Any] | None = [None] * self.n_ranks if self.leads else None
        self.exchange(dist.gather_object, to_bytes(state), parts, dst=0, group=self.talk)
        return None if parts is None else [from_bytes(part) for part in parts]

    def scatter_states(self, states: Sequence[dict[str, Any] | None] | None) -> dict[str, Any] | None:
        """Send each rank its own, from the one that has read them."""
        if self.store is None:
            assert states is not None
            return states[0]
        parts = None if states is None else [to_bytes(state) for state in states]
        own: list[Any] = [None]
        self.exchange(dist.scatter_object_list, own, parts, src=0, group=self.talk)
        state: dict[str, Any] | None = from_bytes(own[0])
        return state

    # --- beginning and failing together -------------------------------------------------------------------------------

    def all(self, value: T) -> list[T]:
        """The values of all ranks, in their order."""
        if self.store is None:
            return [value]
        values: list[Any] = [None] * self.n_ranks
        self.exchange(dist.all_gather_object, values, value, group=self.talk)
        return values

    def lead(self, action: Callable[[], T]) -> T:
        """What the action gives on rank 0, for everybody."""
        value: T | Any = None
        with self.together():
            if self.leads:
                value = action()
        return self.all(value)[0]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Where one rank fails inside, all do at the end of it, with its exit code; nothing inside may communicate."""
        own: Exception | None = None
        try:
            yield
        except Exception as error:
            own = error
        codes = self.all(None if own is None else exit_code(own))
        failed = [rank for rank, code in enumerate(codes) if code is not None]
        if own is not None and failed[0] == self.rank:
            raise own
        if failed:
            raise Told(codes[failed[0]] or 1)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """An error that leaves it is raised by one rank only, on the others it is Told, and they come after."""
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            if self.store is None:
                raise
            ignore_sigterm()
            if isinstance(error, Told) or not self.leads:
                time.sleep(TELLING_SECONDS)  # rank 0 prints what all ranks have to say
            if isinstance(error, Told):
                raise
            told = own = f"{self.rank} {exit_code(error)}"
            with suppress(RuntimeError):  # the store was in a process that has ended
                told = self.store.compare_set("teller", "", own).decode()
            if told == own:
                raise
            raise Told(int(told.split()[1])) from error

    def exchange(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Gloo and NCCL raise a RuntimeError where a process has ended."""
        try:
            operation(*arguments, **options)
            return
        except RuntimeError:
            pass  # without its traceback, which would keep the connections open
        options.clear()
        raise self.parted()

    def parted(self) -> Parted:
        """Which ranks have ended, found out by those that are left."""
        group, self.talk = self.talk, None
        dist.destroy_process_group(group)  # so that whoever waits for this rank notices, too
        del group
        ended = self.missing()
        names = ", ".join(map(str, ended))
        what = f"rank {names} has" if len(ended) == 1 else f"ranks {names} have" if ended else "a process has"
        return Parted(f"{what} ended, and the ensemble of {self.n_ranks} with it")

    def missing(self) -> list[int]:
        """The ranks that do not say that they are still there."""
        assert self.store is not None
        ended, until = list(range(self.n_ranks)), time.monotonic() + GRACE_SECONDS
        try:
            self.store.set(f"here {self.rank}", "")
            while ended and time.monotonic() < until and not self.store.check(["teller"]):
                ended = [rank for rank in ended if not self.store.check([f"here {rank}"])]
                time.sleep(0.02)
        except RuntimeError:  # the store was in the process of rank 0
            return [0]
        return ended


ALONE = Ensemble()


@contextmanager
def join(device: str) -> Iterator[Ensemble]:
    """The ensemble that torchrun started this process for; any other process is alone."""
    n_ranks = os.environ.get("WORLD_SIZE", "1")
    if not n_ranks.isdecimal():
        raise ValueError(f"WORLD_SIZE={n_ranks}: expected a number, as torchrun sets it; unset it for a search alone")
    if int(n_ranks) == 1:
        yield ALONE
        return
    ensemble = Ensemble.connect(device)
    try:
        with ensemble.telling():
            yield ensemble
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
