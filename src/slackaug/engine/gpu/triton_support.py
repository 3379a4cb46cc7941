"""Triton, where it is installed; and how many of its kernels are compiled at once.

A kernel is compiled for each combination of sizes that it meets, a few tenths of a second each, most of it in another
program. So a step first makes a pass in which nothing is launched, and the kernels that it asks for are compiled side
by side.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

__all__ = ["HAS_TRITON", "compiled_ahead", "constexpr", "jit", "tl", "triton"]

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


@contextmanager
def compiled_ahead() -> Iterator[None]:
    """Inside, our kernels are compiled and not launched, so what they would write is arbitrary."""
    if not hasattr(triton, "AsyncCompileMode"):  # an older Triton
        yield
        return
    launched = triton.JITFunction.__getitem__
    triton.JITFunction.__getitem__ = lambda kernel, grid: partial(kernel.warmup, grid=grid)
    in_this_thread = torch.autograd.set_multithreading_enabled(False)  # the only one that knows of the mode
    with in_this_thread, ThreadPoolExecutor(os.cpu_count()) as pool:
        mode = triton.AsyncCompileMode(pool, ignore_errors=True)  # an error comes again at the launch
        try:
            with mode:
                yield
        finally:
            triton.JITFunction.__getitem__ = launched
