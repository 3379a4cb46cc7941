"""Batch-norm over groups of images, and the ReLU after it: as it is written, or in kernels of our own on a GPU.

Axes: A groups of B images; x is (A * B, C, H, W), and each group has its own statistics. A shortcut may join before the
ReLU.
"""

from typing import Any

import torch
from torch import Tensor

from .triton_support import can_run


@torch.library.custom_op("slackaug::norm", mutates_args=())
def by_kernel(
    x: Tensor, weight: Tensor, bias: Tensor, shortcut: Tensor | None, n_groups: int, eps: float, relu: bool
) -> tuple[Tensor, Tensor]:
    from . import norm_kernel

    layout = torch.channels_last
    shortcut = None if shortcut is None else shortcut.contiguous(memory_format=layout)
    return norm_kernel.forward(x.contiguous(memory_format=layout), weight, bias, shortcut, n_groups, eps, relu)


@by_kernel.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor, shortcut: Tensor | None, n_groups: int, eps: float, relu: bool
) -> tuple[Tensor, Tensor]:
    moments = x.new_empty(n_groups, 2, x.shape[1], dtype=torch.float32)
    return torch.empty_like(x, memory_format=torch.channels_last), moments


@torch.library.custom_op("slackaug::norm_backward", mutates_args=())
def back_by_kernel(
    grad: Tensor,
    x: Tensor,
    moments: Tensor,
    weight: Tensor,
    bias: Tensor,
    plus: Tensor | None,
    eps: float,
    relu: bool,
) -> tuple[Tensor, Tensor]:
    from . import norm_kernel

    layout = torch.channels_last
    grad, x = grad.contiguous(memory_format=layout), x.contiguous(memory_format=layout)
    plus = None if plus is None else plus.contiguous(memory_format=layout)
    return norm_kernel.backward(grad, x, moments, weight, bias, plus, eps, relu)


@back_by_kernel.register_fake
def _(grad: Tensor, x: Tensor, moments: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    of_parameters = x.new_empty(2, len(moments), x.shape[1], dtype=torch.float32)
    return torch.empty_like(x, memory_format=torch.channels_last), of_parameters


@torch.library.custom_op("slackaug::norm_joined_backward", mutates_args=())
def back_joined_by_kernel(
    grad: Tensor, out: Tensor, x: Tensor, moments: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    from . import norm_kernel

    grad, out, x = (value.contiguous(memory_format=torch.channels_last) for value in (grad, out, x))
    return norm_kernel.backward_joined(grad, out, x, moments, weight, bias, eps)


@back_joined_by_kernel.register_fake
def _(grad: Tensor, out: Tensor, x: Tensor, moments: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    of_parameters = x.new_empty(2, len(moments), x.shape[1], dtype=torch.float32)
    return torch.empty_like(x, memory_format=torch.channels_last), of_parameters, torch.empty_like(out)


def gradients(ctx: Any, grad: Tensor, around: Tensor | None) -> tuple[Any, ...]:
    """Of x, weight and bias; `around` is what comes back to x along another way."""
    grad_x, of_parameters = back_by_kernel(grad, *ctx.saved_tensors, around, ctx.eps, ctx.relu)
    return grad_x, of_parameters[1], of_parameters[0], None, None


class Norm(torch.autograd.Function):
    """By the kernels. Weight and bias are (A, C), all A the same, so that their gradients come by group."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool) -> tuple[Tensor, Tensor]:
        out, moments = by_kernel(x, weight[0], bias[0], None, len(weight), eps, relu)
        return out, moments

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, weight, bias, ctx.eps, ctx.relu = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, output[1], weight[0], bias[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
        return gradients(ctx, grad, None)


class NormBeside(torch.autograd.Function):
    """Norm, and x itself for a way around it, whose gradient is then added in the same kernel."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool) -> tuple[Tensor, Tensor, Tensor]:
        return *Norm.forward(x, weight, bias, eps, relu), x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        Norm.setup_context(ctx, inputs, output[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor, around: Tensor) -> tuple[Any, ...]:
        return gradients(ctx, grad, around)


class NormJoined(torch.autograd.Function):
    """relu(norm(x) + shortcut)."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, shortcut: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        out, moments = by_kernel(x, weight[0], bias[0], shortcut, len(weight), eps, True)
        return out, moments

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, weight, bias, _, ctx.eps = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[0], x, output[1], weight[0], bias[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
        grad_x, of_parameters, of_shortcut = back_joined_by_kernel(grad, *ctx.saved_tensors, ctx.eps)
        return grad_x, of_parameters[1], of_parameters[0], of_shortcut, None


def is_suited(x: Tensor, weight: Tensor) -> bool:
    return can_run(x) and weight.dtype is torch.float32


def precise(x: Tensor) -> Tensor:
    """In float32, where it is not more already."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def norm_beside(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n_groups: int, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """As `norm`, and x again, for what goes around the norm."""
    if weight is not None and bias is not None and is_suited(x, weight):
        out, moments, around = NormBeside.apply(x, weight, bias, eps, relu)  # type: ignore[no-untyped-call]
        return out, moments, around
    return *norm(x, weight, bias, n_groups, eps, relu), x


def norm_joined(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, shortcut: Tensor, n_groups: int, eps: float
) -> tuple[Tensor, Tensor]:
    """relu(norm(x) + shortcut), and the means and variances (A, 2, C)."""
    if weight is not None and bias is not None and is_suited(x, weight):
        joined, seen = NormJoined.apply(x, weight, bias, shortcut, eps)  # type: ignore[no-untyped-call]
        return joined, seen
    out, moments = norm(x, weight, bias, n_groups, eps, relu=False)
    return (out + shortcut).relu(), moments


def norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n_groups: int, eps: float, relu: bool
) -> tuple[Tensor, Tensor]:
    """Weight and bias (A, C), or none: the output, and the means and variances (A, 2, C)."""
    if weight is not None and bias is not None and is_suited(x, weight):
        out, moments = Norm.apply(x, weight, bias, eps, relu)  # type: ignore[no-untyped-call]
        return out, moments
    groups = precise(x.unflatten(0, (n_groups, -1)))  # (A, B, C, H, W)
    var, mean = torch.var_mean(groups, (1, 3, 4), correction=0, keepdim=True)
    scale = torch.rsqrt(var + eps)
    if weight is not None:
        scale = scale * weight[:, None, :, None, None]
    out = (groups - mean) * scale
    if bias is not None:
        out = out + bias[:, None, :, None, None]
    if relu:
        out = out.relu()
    moments = torch.stack([mean.flatten(1), var.flatten(1)], 1).detach()
    return out.to(x.dtype).flatten(0, 1), moments
