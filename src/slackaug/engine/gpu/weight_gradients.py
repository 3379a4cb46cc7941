"""The gradients of a convolution's weight and bias, for each of A groups of images: one kernel, or a call for each."""

import torch
from torch import Tensor

from .norms import precise
from .triton_support import can_run

MAX_CHANNELS = 128  # beyond, cuDNN's calls are faster than our kernel

Options = tuple[list[int], list[int], list[int], int]  # stride, padding, dilation, and groups of channels


@torch.library.custom_op("slackaug::weight_gradients", mutates_args=())
def by_kernel(grad: Tensor, x: Tensor, n_groups: int, k: int, stride: int, padding: int) -> Tensor:
    """(A, O * k * k * C + O) float32: weights in the order (O, k, k, C), then biases."""
    from .weight_gradient_kernel import launch

    layout = torch.channels_last
    return launch(
        grad.contiguous(memory_format=layout), x.contiguous(memory_format=layout), n_groups, k, stride, padding
    )


@by_kernel.register_fake
def _(grad: Tensor, x: Tensor, n_groups: int, k: int, stride: int, padding: int) -> Tensor:
    return x.new_empty(n_groups, grad.shape[1] * (k * k * x.shape[1] + 1), dtype=torch.float32)


@torch.library.custom_op("slackaug::channel_sums", mutates_args=())
def sums_by_kernel(grad: Tensor, n_groups: int) -> Tensor:
    from .weight_gradient_kernel import channel_sums

    return channel_sums(grad.contiguous(memory_format=torch.channels_last), n_groups)


@sums_by_kernel.register_fake
def _(grad: Tensor, n_groups: int) -> Tensor:
    return grad.new_empty(n_groups, grad.shape[1], dtype=torch.float32)


def channel_sums(grad: Tensor, n_groups: int) -> Tensor:
    """(A, O), the gradients of a bias: over all pixels of a group."""
    if can_run(grad) and grad.dtype is not torch.float64:
        found: Tensor = sums_by_kernel(grad, n_groups)
    else:
        found = precise(grad.unflatten(0, (n_groups, -1))).sum((1, 3, 4))
    return found


def is_suited(grad: Tensor, x: Tensor, weight: Tensor, options: Options) -> bool:
    """Whether our kernel can do it, and is the faster one."""
    (stride, padding, dilation, n), kernel = options, list(weight.shape[2:])
    return (
        can_run(x, grad)
        and x.dtype is torch.bfloat16
        and max(x.shape[1], grad.shape[1]) <= MAX_CHANNELS
        and kernel in ([1, 1], [3, 3])
        and stride[0] == stride[1]
        and padding[0] == padding[1]
        and dilation == [1, 1]
        and n == 1
    )


def weight_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, n_groups: int, options: Options, *, of_bias: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Of a weight (O, C, h, w), for grad (A * B, O, ...) and x (A * B, C, ...): (A, O, C, h, w) and (A, O)."""
    stride, padding, dilation, n = options
    n_out, n_in, height, width = weight.shape
    if is_suited(grad, x, weight, options):
        flat = by_kernel(grad, x, n_groups, height, stride[0], padding[0])
        weights, biases = flat.split([weight.numel(), n_out], 1)
        return weights.view(n_groups, n_out, height, width, n_in).permute(0, 1, 4, 2, 3), biases if of_bias else None
    pairs = zip(grad.chunk(n_groups), x.chunk(n_groups), strict=True)
    each = [
        torch.ops.aten.convolution_backward(
            g, part, weight, None, stride, padding, dilation, False, [0, 0], n, [False, True, False]
        )[1]
        for g, part in pairs
    ]
    weights = each[0][None] if n_groups == 1 else torch.stack(each)  # one alone keeps its order in memory
    return weights, channel_sums(grad, n_groups) if of_bias else None
