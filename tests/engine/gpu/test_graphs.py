"""What a capture keeps away from itself."""

import gc
from threading import Thread

import pytest
import torch

from slackaug.engine.gpu import graphs
from slackaug.engine.gpu.graphs import Captured, Graphs, NotCaptured, without_collection


class Cycle:
    """Something that only Python's collector frees."""

    def __init__(self, held=None):
        self.held, self.itself = held, self


def doubling(device):
    return Captured(lambda value: (2 * value,), {"value": torch.arange(4.0)}, [], device)


def leave_garbage():
    """Enough new containers that Python would look for cycles, even those that have been looked at before."""
    return [[] for _ in range(200_000)]


def test_nothing_in_cycles_is_freed_meanwhile_and_all_goes_on_as_before():
    freed = []

    class Telling(Cycle):
        def __del__(self):
            freed.append(True)

    with without_collection():
        Telling()
        leave_garbage()
        assert not freed
    assert gc.isenabled()
    gc.collect()
    assert freed
    gc.disable()
    try:
        with without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_a_failed_capture_left_behind_is_asked_for_until_nothing_is_left(monkeypatch):
    asked = []

    def empty():
        asked.append(True)
        if len(asked) < 4:
            raise RuntimeError("CUDA error: invalid argument")

    def fail(*_):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.accelerator, "empty_host_cache", empty, raising=False)
    monkeypatch.setattr(graphs, "Captured", fail)
    with pytest.raises(NotCaptured, match="RuntimeError: operation not permitted"):
        Graphs(torch.device("cuda")).run("training", lambda: (), {}, list)
    assert len(asked) == 4


@pytest.mark.gpu
def test_after_a_failed_capture_pinned_memory_is_there_for_others():
    """A block of a size that nothing else has: torch then looks at the events of all blocks."""
    device, value = torch.device("cuda"), torch.arange(4.0)
    with pytest.raises(NotCaptured):
        Graphs(device).run("asking", lambda value: (value * value.max().item(),), {"value": value}, list)
    assert torch.empty(3 * 2**24, dtype=torch.uint8, pin_memory=True).is_pinned()


@pytest.mark.gpu
def test_a_graph_left_in_a_cycle_does_not_spoil_the_next_capture():
    device, value = torch.device("cuda"), torch.arange(4.0)
    left = [Cycle(doubling(device))]

    def body(value):
        if torch.cuda.is_current_stream_capturing():
            left.clear()
            leave_garbage()
        return (3 * value,)

    captured = Captured(body, {"value": value}, [], device)
    assert captured({"value": value})[0].tolist() == [0, 3, 6, 9]


@pytest.mark.gpu
def test_another_thread_may_free_a_graph_during_a_capture():
    device, value = torch.device("cuda"), torch.arange(4.0)
    left = [doubling(device)]

    def body(value):
        if torch.cuda.is_current_stream_capturing():
            other = Thread(target=left.clear)
            other.start()
            other.join()
        return (3 * value,)

    captured = Captured(body, {"value": value}, [], device)
    assert not left
    assert captured({"value": value})[0].tolist() == [0, 3, 6, 9]
