"""Triton, where it is installed."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["HAS_TRITON", "constexpr", "jit", "tl", "triton"]

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
