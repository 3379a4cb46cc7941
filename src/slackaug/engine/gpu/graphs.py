"""Steps captured as CUDA graphs: what the host decides is sent ahead, and one launch does all the rest.

A step is a function of tensors. Whatever it changes in place must keep its place in memory.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from .triton_support import compiled_ahead

N_AHEAD = 16  # steps that the host may be ahead of the device
ALIGNMENT = 64  # bytes
N_WARM_UP = 2
MOST_LEFT = 1000  # events of a capture that failed

Outputs = tuple[Tensor, ...]


class Mailbox:
    """Sends named tensors of fixed shapes from the host to fixed places on a device, without waiting."""

    def __init__(self, like: dict[str, Tensor], device: torch.device):
        sizes = [-(-value.nbytes // ALIGNMENT) * ALIGNMENT for value in like.values()]
        self.letters = [torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=True) for _ in range(N_AHEAD)]
        self.box = torch.empty(sum(sizes), dtype=torch.uint8, device=device)
        self.sent = [torch.cuda.Event() for _ in range(N_AHEAD)]
        self.n_sent = 0

        def views(buffer: Tensor) -> dict[str, Tensor]:
            parts = zip(like.items(), buffer.split(sizes), strict=True)
            return {name: part[: value.nbytes].view(value.dtype).view(value.shape) for (name, value), part in parts}

        self.written = [views(letter) for letter in self.letters]
        self.read = views(self.box)

    def send(self, values: dict[str, Tensor]) -> None:
        slot = self.n_sent % N_AHEAD
        self.sent[slot].synchronize()  # of N_AHEAD steps ago, so it hardly ever waits
        for name, place in self.written[slot].items():
            place.copy_(values[name])
        self.box.copy_(self.letters[slot], non_blocking=True)
        self.sent[slot].record()
        self.n_sent += 1


class NotCaptured(RuntimeError):
    """A step cannot be compiled or captured here; nothing has been changed by the attempt."""


@contextmanager
def chosen_by_trying() -> Iterator[None]:
    """Let cuDNN choose its kernels by their speed here; its other settings stay."""
    cudnn = torch.backends.cudnn
    with cudnn.flags(cudnn.enabled, True, deterministic=cudnn.deterministic, allow_tf32=cudnn.allow_tf32):
        yield


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep Python from freeing what lies in cycles: a graph that is freed spoils the capture of another."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def forget_a_failed_capture() -> None:
    """What was sent from pinned memory in a capture that failed left events there, which are not valid any more. Each
    is an error for whoever next asks for such memory, in whatever step that is; so ask here until there is none."""
    empty = getattr(torch.accelerator, "empty_host_cache", None) or torch._C._host_emptyCache  # before torch 2.12
    for _ in range(MOST_LEFT):
        try:
            empty()
        except RuntimeError:
            continue
        return


class Captured:
    """One kind of step."""

    def __init__(
        self, body: Callable[..., Outputs], drawn: dict[str, Tensor], changed: Sequence[Tensor], device: torch.device
    ):
        self.mailbox = Mailbox(drawn, device)
        self.mailbox.send(drawn)
        before = [value.clone() for value in changed]
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        try:
            with torch.cuda.stream(stream), chosen_by_trying():
                with compiled_ahead():
                    body(**self.mailbox.read)
                for _ in range(N_WARM_UP):
                    body(**self.mailbox.read)
        finally:
            torch.cuda.current_stream(device).wait_stream(stream)
            for value, old in zip(changed, before, strict=True):
                value.copy_(old)
        self.graph = torch.cuda.CUDAGraph()
        capture = torch.cuda.graph(self.graph, capture_error_mode="thread_local")  # other threads may use the device
        with without_collection(), capture, chosen_by_trying():
            self.outputs = body(**self.mailbox.read)

    def __call__(self, drawn: dict[str, Tensor]) -> Outputs:
        self.mailbox.send(drawn)
        self.graph.replay()
        return self.outputs


class Graphs:
    """The kinds of steps of a training or a search, each captured when it is first taken."""

    def __init__(self, device: torch.device):
        self.device = device
        self.captured: dict[str, Captured] = {}

    def run(
        self, kind: str, body: Callable[..., Outputs], drawn: dict[str, Tensor], changed: Callable[[], list[Tensor]]
    ) -> Outputs:
        """Outputs are good until the next step of this kind. `changed` lists all that a step changes in place."""
        if self.device.type != "cuda":
            return body(**drawn)
        if kind not in self.captured:
            try:
                self.captured[kind] = Captured(body, drawn, changed(), self.device)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # a compiler and a user's model can fail in any way
                forget_a_failed_capture()
                raise NotCaptured(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}") from error
        return self.captured[kind](drawn)
