"""What a capture keeps away from itself."""

import gc
from threading import Thread

import pytest
import torch

from slackaug.engine.gpu.graphs import Captured, without_collection


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
