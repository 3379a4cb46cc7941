"""Whether kernels of our own can run here, and how far they reach."""

from importlib.util import find_spec

from torch import Tensor

HAS_TRITON = find_spec("triton") is not None
MAX_OFFSET = 2**31  # elements that a kernel can address


def can_run(*tensors: Tensor) -> bool:
    return HAS_TRITON and all(tensor.is_cuda and tensor.numel() < MAX_OFFSET for tensor in tensors)
