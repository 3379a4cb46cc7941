"""Triton, where it is installed; and how kernels are launched, or many compiled at once.

A kernel is compiled for each combination of sizes that it meets, a few tenths of a second each, most of it in another
program. What a step needs is known after a pass in which nothing is launched, and is then compiled side by side.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import Tensor

__all__ = ["HAS_TRITON", "compiled_ahead", "constexpr", "jit", "launch", "tl", "triton"]

HAS_TRITON = find_spec("triton") is not None  # not beside a torch for CPUs alone

if HAS_TRITON and not TYPE_CHECKING:
    import triton
    import triton.language as tl
    from triton import jit
    from triton.language import constexpr  # by this name: the interpreter reads it
else:
    triton: Any = None
    tl: Any = None
    constexpr: TypeAlias = Any

    def jit(kernel: Any) -> Any:
        return kernel


class Like:
    """What a compiler asks of a tensor."""

    def __init__(self, tensor: Tensor):
        self.dtype, self.address = tensor.dtype, tensor.data_ptr()

    def data_ptr(self) -> int:
        return self.address


NOTED: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] | None = None  # a list while nothing is launched


def launch(kernel: Any, grid: tuple[int, ...], *given: Any, **sizes: Any) -> None:
    """Inside `compiled_ahead`, note only what is to be compiled."""
    if NOTED is None:
        kernel[grid](*given, **sizes)
    else:
        NOTED.append((kernel, tuple(Like(one) if isinstance(one, Tensor) else one for one in given), sizes))


@contextmanager
def compiled_ahead() -> Iterator[None]:
    """Inside, our kernels are not launched, so what they would write is arbitrary; at the end all are compiled."""
    global NOTED  # not of a context: a thread of autograd launches what a backward pass needs
    if not hasattr(triton, "AsyncCompileMode"):  # an older Triton
        yield
        return
    NOTED = []
    try:
        yield
        noted = NOTED
    finally:
        NOTED = None
    with ThreadPoolExecutor(os.cpu_count()) as pool, triton.AsyncCompileMode(pool):
        for kernel, given, sizes in noted:
            kernel.warmup(*given, grid=(1,), **sizes)
