"""Kernels that are compiled before they are launched."""

from contextlib import nullcontext
from threading import Thread
from types import SimpleNamespace

import pytest
import torch

from slackaug.engine.gpu import triton_support
from slackaug.engine.gpu.triton_support import compiled_ahead, launch


class Kernel:
    """Tells what happens to it."""

    def __init__(self):
        self.launched, self.compiled = [], []

    def __getitem__(self, grid):
        return lambda *given, **sizes: self.launched.append((grid, given, sizes))

    def warmup(self, *given, grid, **sizes):
        self.compiled.append((given, sizes))


@pytest.fixture
def triton(monkeypatch):
    monkeypatch.setattr(triton_support, "triton", SimpleNamespace(AsyncCompileMode=lambda pool: nullcontext()))


def test_inside_nothing_is_launched_and_all_is_compiled_at_the_end(triton):
    kernel, x = Kernel(), torch.zeros(5)[1:]
    with compiled_ahead():
        launch(kernel, (3,), x, 7, TILE=16)
        backward = Thread(target=launch, args=(kernel, (3,), 8))
        backward.start()
        backward.join()
        assert not kernel.compiled
    assert not kernel.launched
    ((like, seven), sizes), second = kernel.compiled
    assert (like.dtype, like.data_ptr(), seven, sizes) == (x.dtype, x.data_ptr(), 7, {"TILE": 16})
    assert second == ((8,), {})
    launch(kernel, (3,), x, TILE=16)
    assert kernel.launched == [((3,), (x,), {"TILE": 16})]


def test_after_an_error_kernels_are_launched_again(triton):
    kernel = Kernel()

    def fail():
        with compiled_ahead():
            launch(kernel, (3,), 1)
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fail()
    assert not kernel.compiled
    launch(kernel, (3,), 1)
    assert len(kernel.launched) == 1


def test_without_a_triton_that_can_they_are_launched(monkeypatch):
    monkeypatch.setattr(triton_support, "triton", None)
    kernel = Kernel()
    with compiled_ahead():
        launch(kernel, (3,), 1)
    assert len(kernel.launched) == 1
