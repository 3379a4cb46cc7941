"""Triton where it is installed, whether kernels of our own can run, and how far they reach."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

__all__ = ["HAS_TRITON", "can_run", "channels_last", "constexpr", "jit", "tl", "triton"]

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


MAX_OFFSET = 2**31  # elements that a kernel can address


def can_run(*tensors: Tensor) -> bool:
    return HAS_TRITON and all(tensor.is_cuda and tensor.numel() < MAX_OFFSET for tensor in tensors)


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)
