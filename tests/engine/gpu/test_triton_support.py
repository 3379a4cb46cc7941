"""Kernels that are compiled before they are launched."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from slackaug.engine.gpu import triton_support
from slackaug.engine.gpu.triton_support import compiled_ahead


class Kernel:
    """Tells what happens to it, as one of Triton's would."""

    def __init__(self):
        self.launched, self.compiled = [], []

    def __getitem__(self, grid):
        return lambda *given, **sizes: self.launched.append((grid, given, sizes))

    def warmup(self, *given, grid, **sizes):
        assert Mode.executor is not None
        self.compiled.append((grid, given, sizes))


class Mode:
    executor = None

    def __init__(self, executor, ignore_errors):
        assert ignore_errors  # else an error leaves the real one active
        assert isinstance(executor, ThreadPoolExecutor)
        self.given = executor

    def __enter__(self):
        Mode.executor = self.given

    def __exit__(self, *_):
        Mode.executor = None


@pytest.fixture
def kernel(monkeypatch):
    class Plain(Kernel):  # which may be changed
        pass

    monkeypatch.setattr(triton_support, "triton", SimpleNamespace(AsyncCompileMode=Mode, JITFunction=Plain))
    return Plain()


def test_inside_kernels_are_compiled_and_after_it_launched(kernel):
    with compiled_ahead():
        kernel[3,](7, TILE=16)
    assert (kernel.compiled, kernel.launched) == ([((3,), (7,), {"TILE": 16})], [])
    kernel[3,](7, TILE=16)
    assert len(kernel.compiled) == 1
    assert kernel.launched == [((3,), (7,), {"TILE": 16})]


class Launching(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kernel):
        ctx.kernel = kernel
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        assert not torch.autograd.is_multithreading_enabled()  # on a GPU another thread would do this
        ctx.kernel[5,]()
        return grad, None


def test_a_backward_pass_stays_in_the_thread_that_compiles(kernel):
    with compiled_ahead():
        Launching.apply(torch.ones(1, requires_grad=True), kernel).backward()
    assert kernel.compiled == [((5,), (), {})]
    assert torch.autograd.is_multithreading_enabled()


def test_after_an_error_kernels_are_launched_again(kernel):
    with pytest.raises(ValueError, match="wrong"), compiled_ahead():
        raise ValueError("wrong")
    kernel[3,]()
    assert len(kernel.launched) == 1
    assert not kernel.compiled


def test_without_a_triton_that_can_they_are_launched(monkeypatch):
    monkeypatch.setattr(triton_support, "triton", None)
    kernel = Kernel()
    with compiled_ahead():
        kernel[3,]()
    assert len(kernel.launched) == 1
