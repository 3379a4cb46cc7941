"""Batch-norm over groups of images, and the ReLU after it: as it is written, or in kernels of our own on a GPU.

Between the two a shortcut may join: another tensor like x, which is added.

Axes: A groups of B images with P pixels in all, C channels; x is (A * B, C, H, W), channels last for the kernels, and
each group has its own statistics. There are two kernels forward and two backward: the first of a pair sums over shares
of the pixels, S of them for each group; every program of the second adds the shares up, always in the same order, and
then treats its own pixels.
"""

from typing import Any

import torch
from torch import Tensor

from .triton_support import HAS_TRITON, constexpr, jit, tl, triton

TILE_P = 128  # pixels that a program takes at a time
MAX_TILE_C = 32  # channels: 64 bytes a pixel, two of the units that memory is read in
MIN_PROGRAMS, MAX_PROGRAMS = 256, 512  # about two and four for each of a large GPU's processors
TILES_OF_A_PROGRAM = 4
MAX_OFFSET = 2**31  # elements that a kernel can address


# --- the kernels ------------------------------------------------------------------------------------------------------


@jit
def tile(N_C, TILE_C: constexpr):
    """The channels of this program, and which of them there are."""
    c = tl.program_id(0) * TILE_C + tl.arange(0, TILE_C)
    return c, c < N_C


@jit
def share_of_pixels(n_pixels, per_share):
    """The pixels of this program: the first, and the one after the last."""
    first = tl.program_id(1) * per_share
    return first, tl.minimum(first + per_share, n_pixels)


@jit
def places(start, end, c, known, N_C, TILE_P: constexpr):
    """Where the next pixels' channels lie in a group (TILE_P, TILE_C), and which of them there are."""
    p = start + tl.arange(0, TILE_P)
    return p[:, None] * N_C + c[None, :], (p < end)[:, None] & known[None, :]


@jit
def shares_of_group(n_shares, c, known, N_C, TILE_S: constexpr):
    """Where the shares of this program's group lie (TILE_S, TILE_C), and which of them there are."""
    s = tl.arange(0, TILE_S)
    at = (tl.program_id(2) * n_shares + s)[:, None] * 2 * N_C + c[None, :]
    return s, at, (s < n_shares)[:, None] & known[None, :]


@jit
def standardised(x, at, mask, mean, scale):
    return (tl.load(x + at, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * scale[None, :]


@jit
def mean_and_scale(moments, c, known, eps, N_C):
    at = moments + tl.program_id(2) * 2 * N_C + c
    mean = tl.load(at, mask=known, other=0.0)
    return mean, 1 / tl.sqrt(tl.load(at + N_C, mask=known, other=0.0) + eps)


@jit
def sum_moments(x, shares, n_pixels, per_share, N_C, TILE_P: constexpr, TILE_C: constexpr):
    """x (A, P, C) to shares (A, S, 2, C): the mean, and the sum of squares around it, of a share of the pixels."""
    c, known = tile(N_C, TILE_C)
    share, group = tl.program_id(1), tl.program_id(2)
    x += group.to(tl.int64) * n_pixels * N_C
    shares += (group * tl.num_programs(1) + share).to(tl.int64) * 2 * N_C
    first, end = share_of_pixels(n_pixels, per_share)
    around = tl.load(x + first * N_C + c, mask=known, other=0.0).to(tl.float32)  # so that no digits cancel out
    total = tl.zeros((TILE_P, TILE_C), tl.float32)
    squares = tl.zeros((TILE_P, TILE_C), tl.float32)
    for start in range(first, end, TILE_P):
        place, live = places(start, end, c, known, N_C, TILE_P)
        value = tl.load(x + place, mask=live, other=0.0).to(tl.float32)
        off = tl.where(live, value - around[None, :], 0.0)
        total += off
        squares += off * off
    n = (end - first).to(tl.float32)
    mean = tl.sum(total, 0) / n
    tl.store(shares + c, around + mean, mask=known)
    tl.store(shares + N_C + c, tl.sum(squares, 0) - n * mean * mean, mask=known)


@jit
def apply_norm(
    x, shares, weight, bias, shortcut, out, moments, n_pixels, per_share, n_shares, eps, step, N_C,
    RELU: constexpr, JOINED: constexpr, TILE_S: constexpr, TILE_P: constexpr, TILE_C: constexpr,
):  # fmt: skip
    """x and the shortcut (A, P, C) to out; moments (A, 2, C) become mean and variance. Weights (C,) and biases lie
    `step` apart, which is zero if groups share them."""
    c, known = tile(N_C, TILE_C)
    share, group = tl.program_id(1), tl.program_id(2)
    s, at, mask = shares_of_group(n_shares, c, known, N_C, TILE_S)
    n = tl.maximum(tl.minimum(n_pixels - s * per_share, per_share), 0).to(tl.float32)  # pixels of a share
    means = tl.load(shares + at, mask=mask, other=0.0)
    mean = tl.sum(n[:, None] * means, 0) / n_pixels
    off = means - mean[None, :]
    squares = tl.load(shares + at + N_C, mask=mask, other=0.0) + n[:, None] * off * off
    var = tl.maximum(tl.sum(squares, 0) / n_pixels, 0.0)
    if share == 0:
        tl.store(moments + group * 2 * N_C + c, mean, mask=known)
        tl.store(moments + (group * 2 + 1) * N_C + c, var, mask=known)

    scale = tl.load(weight + group * step + c, mask=known, other=0.0) / tl.sqrt(var + eps)
    shift = tl.load(bias + group * step + c, mask=known, other=0.0)
    x += group.to(tl.int64) * n_pixels * N_C
    shortcut += group.to(tl.int64) * n_pixels * N_C
    out += group.to(tl.int64) * n_pixels * N_C
    first, end = share_of_pixels(n_pixels, per_share)
    for start in range(first, end, TILE_P):
        place, live = places(start, end, c, known, N_C, TILE_P)
        y = standardised(x, place, live, mean, scale) + shift[None, :]
        if JOINED:
            y += tl.load(shortcut + place, mask=live, other=0.0).to(tl.float32)
        if RELU:
            y = tl.maximum(y, 0.0)
        tl.store(out + place, y.to(out.dtype.element_ty), mask=live)


@jit
def gradient_at(grad, x, out, place, live, mean, scale, weight, bias, RELU: constexpr, JOINED: constexpr):
    """The gradient that comes in before the ReLU, and the standardised x. Where a shortcut joined, `out` tells."""
    z = standardised(x, place, live, mean, scale)
    g = tl.load(grad + place, mask=live, other=0.0).to(tl.float32)
    if JOINED:
        g = tl.where(tl.load(out + place, mask=live, other=0.0) > 0, g, 0.0)
    elif RELU:
        g = tl.where(z * weight[None, :] + bias[None, :] > 0, g, 0.0)
    return g, tl.where(live, z, 0.0)


@jit
def sum_gradients(
    grad, x, moments, weight, bias, shares, out, before, n_pixels, per_share, eps, step, N_C,
    RELU: constexpr, JOINED: constexpr, TILE_P: constexpr, TILE_C: constexpr,
):  # fmt: skip
    """To shares (A, S, 2, C): the gradients of bias and weight from a share of the pixels.

    Where a shortcut joined, `before` (A, P, C) becomes the gradient before the ReLU, which is the shortcut's.
    """
    c, known = tile(N_C, TILE_C)
    share, group = tl.program_id(1), tl.program_id(2)
    mean, scale = mean_and_scale(moments, c, known, eps, N_C)
    w = tl.load(weight + group * step + c, mask=known, other=0.0)
    b = tl.load(bias + group * step + c, mask=known, other=0.0)
    grad += group.to(tl.int64) * n_pixels * N_C
    x += group.to(tl.int64) * n_pixels * N_C
    out += group.to(tl.int64) * n_pixels * N_C
    before += group.to(tl.int64) * n_pixels * N_C
    shares += (group * tl.num_programs(1) + share).to(tl.int64) * 2 * N_C
    first, end = share_of_pixels(n_pixels, per_share)
    of_bias = tl.zeros((TILE_P, TILE_C), tl.float32)
    of_weight = tl.zeros((TILE_P, TILE_C), tl.float32)
    for start in range(first, end, TILE_P):
        place, live = places(start, end, c, known, N_C, TILE_P)
        g, z = gradient_at(grad, x, out, place, live, mean, scale, w, b, RELU, JOINED)
        of_bias += g
        of_weight += g * z
        if JOINED:
            tl.store(before + place, g.to(before.dtype.element_ty), mask=live)
    tl.store(shares + c, tl.sum(of_bias, 0), mask=known)
    tl.store(shares + N_C + c, tl.sum(of_weight, 0), mask=known)


@jit
def apply_gradients(
    grad, x, moments, weight, bias, shares, plus, grad_x, of_parameters, n_pixels, per_share, n_shares, eps, step, N_C,
    RELU: constexpr, HAS_PLUS: constexpr, TILE_S: constexpr, TILE_P: constexpr, TILE_C: constexpr,
):  # fmt: skip
    """grad_x (A, P, C), with plus (A, P, C) added; of_parameters (2, A, C): the gradients of bias and weight."""
    c, known = tile(N_C, TILE_C)
    share, group = tl.program_id(1), tl.program_id(2)
    _s, at, mask = shares_of_group(n_shares, c, known, N_C, TILE_S)
    of_bias = tl.sum(tl.load(shares + at, mask=mask, other=0.0), 0)
    of_weight = tl.sum(tl.load(shares + at + N_C, mask=mask, other=0.0), 0)
    if share == 0:
        tl.store(of_parameters + group * N_C + c, of_bias, mask=known)
        tl.store(of_parameters + (tl.num_programs(2) + group) * N_C + c, of_weight, mask=known)

    mean, scale = mean_and_scale(moments, c, known, eps, N_C)
    w = tl.load(weight + group * step + c, mask=known, other=0.0)
    b = tl.load(bias + group * step + c, mask=known, other=0.0)
    mean_g, mean_gz = of_bias / n_pixels, of_weight / n_pixels
    grad += group.to(tl.int64) * n_pixels * N_C
    x += group.to(tl.int64) * n_pixels * N_C
    plus += group.to(tl.int64) * n_pixels * N_C
    grad_x += group.to(tl.int64) * n_pixels * N_C
    first, end = share_of_pixels(n_pixels, per_share)
    for start in range(first, end, TILE_P):
        place, live = places(start, end, c, known, N_C, TILE_P)
        g, z = gradient_at(grad, x, x, place, live, mean, scale, w, b, RELU, False)
        back = (w * scale)[None, :] * (g - mean_g[None, :] - z * mean_gz[None, :])
        if HAS_PLUS:
            back += tl.load(plus + place, mask=live, other=0.0).to(tl.float32)
        tl.store(grad_x + place, back.to(grad_x.dtype.element_ty), mask=live)


# --- how they are launched --------------------------------------------------------------------------------------------


def can_run(*tensors: Tensor) -> bool:
    """Whether kernels of our own can."""
    return HAS_TRITON and all(tensor.is_cuda and tensor.numel() < MAX_OFFSET for tensor in tensors)


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def n_programs(n_tiles: int) -> int:
    """So many that each has a few tiles to treat; but more would have too many shares to add up."""
    return min(max(n_tiles // TILES_OF_A_PROGRAM, MIN_PROGRAMS), MAX_PROGRAMS)


def in_line(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, int]:
    """(A, C), and the step from group to group by which kernels read both."""
    if weight.stride() != bias.stride() or weight.stride(1) != 1:
        weight, bias = weight.contiguous(), bias.contiguous()
    return weight, bias, weight.stride(0)


class Grid:
    """How A groups of P pixels with C channels are divided among programs."""

    def __init__(self, x: Tensor, n_groups: int):
        n, self.n_channels, height, width = x.shape
        self.n_pixels = n // n_groups * height * width
        self.tile_c = min(MAX_TILE_C, triton.next_power_of_2(self.n_channels))
        n_tiles = triton.cdiv(self.n_channels, self.tile_c)
        n_together = n_tiles * n_groups  # that share nothing
        wanted = max(1, n_programs(triton.cdiv(self.n_pixels, TILE_P) * n_together) // n_together)
        self.per_share = triton.cdiv(triton.cdiv(self.n_pixels, wanted), TILE_P) * TILE_P
        self.n_shares = triton.cdiv(self.n_pixels, self.per_share)
        self.programs = n_tiles, self.n_shares, n_groups
        self.tiles = {"TILE_P": TILE_P, "TILE_C": self.tile_c}
        self.tile_s = {"TILE_S": triton.next_power_of_2(self.n_shares)}
        self.shares = torch.empty(n_groups, self.n_shares, 2, self.n_channels, device=x.device, dtype=torch.float32)


@torch.library.custom_op("slackaug::norm", mutates_args=())
def by_kernel(
    x: Tensor, weight: Tensor, bias: Tensor, shortcut: Tensor | None, n_groups: int, eps: float, relu: bool
) -> tuple[Tensor, Tensor]:
    """Weight and bias (A, C): the output, and means and variances (A, 2, C)."""
    x = channels_last(x)
    other = x if shortcut is None else channels_last(shortcut)  # a place, where none is read
    grid = Grid(x, n_groups)
    moments = torch.empty(n_groups, 2, grid.n_channels, device=x.device, dtype=torch.float32)
    out, sizes, (weight, bias, step) = torch.empty_like(x), (grid.n_pixels, grid.per_share), in_line(weight, bias)
    sum_moments[grid.programs](x, grid.shares, *sizes, grid.n_channels, **grid.tiles)
    apply_norm[grid.programs](
        x, grid.shares, weight, bias, other, out, moments, *sizes, grid.n_shares, eps, step, grid.n_channels,
        RELU=relu, JOINED=shortcut is not None, **grid.tile_s, **grid.tiles,
    )  # fmt: skip
    return out, moments


@by_kernel.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, _: Tensor | None, n_groups: int, *__: Any) -> tuple[Tensor, Tensor]:
    moments = x.new_empty(n_groups, 2, x.shape[1], dtype=torch.float32)
    return torch.empty_like(x, memory_format=torch.channels_last), moments


@torch.library.custom_op("slackaug::norm_backward", mutates_args=())
def back_by_kernel(
    grad: Tensor, x: Tensor, moments: Tensor, weight: Tensor, bias: Tensor, out: Tensor | None, plus: Tensor | None,
    eps: float, relu: bool,
) -> list[Tensor]:  # fmt: skip
    """The gradient of x, with `plus` added to it; those of bias and weight (2, A, C); and, if given the output `out` of
    a norm that a shortcut joined before its ReLU, the shortcut's."""
    grad, x = channels_last(grad), channels_last(x)
    grid, joined = Grid(x, len(moments)), out is not None
    before, grad_x = torch.empty_like(x) if joined else grad, torch.empty_like(x)
    of_parameters = torch.empty(2, len(moments), grid.n_channels, device=x.device, dtype=torch.float32)
    weight, bias, step = in_line(weight, bias)
    known, sizes = (x, moments, weight, bias, grid.shares), (grid.n_pixels, grid.per_share)
    sum_gradients[grid.programs](
        grad, *known, x if out is None else channels_last(out), before, *sizes, eps, step, grid.n_channels,
        RELU=relu, JOINED=joined, **grid.tiles,
    )  # fmt: skip
    apply_gradients[grid.programs](
        before, *known, x if plus is None else channels_last(plus), grad_x, of_parameters, *sizes, grid.n_shares, eps,
        step, grid.n_channels, RELU=relu and not joined, HAS_PLUS=plus is not None, **grid.tile_s, **grid.tiles,
    )  # fmt: skip
    return [grad_x, of_parameters, before] if joined else [grad_x, of_parameters]


@back_by_kernel.register_fake
def _(grad: Tensor, x: Tensor, moments: Tensor, w: Tensor, b: Tensor, out: Tensor | None, *_: Any) -> list[Tensor]:
    grad_x = torch.empty_like(x, memory_format=torch.channels_last)
    of_parameters = x.new_empty(2, len(moments), x.shape[1], dtype=torch.float32)
    return [grad_x, of_parameters] if out is None else [grad_x, of_parameters, torch.empty_like(grad_x)]


class Norm(torch.autograd.Function):
    """By the kernels. Weight and bias are (A, C), so that their gradients come by group.

    `beside`: x itself comes out, too, for a way around the norm, whose gradient is then added in the same kernel.
    """

    @staticmethod
    def forward(
        x: Tensor, weight: Tensor, bias: Tensor, shortcut: Tensor | None, eps: float, relu: bool, beside: bool
    ) -> tuple[Tensor, ...]:
        out, moments = by_kernel(x, weight, bias, shortcut, len(weight), eps, relu)
        return (out, moments, x.view_as(x)) if beside else (out, moments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, weight, bias, shortcut, ctx.eps, ctx.relu, _ = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, output[1], weight, bias, *([] if shortcut is None else output[:1]))

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor, around: Tensor | None = None) -> tuple[Any, ...]:
        *known, out = ctx.saved_tensors if len(ctx.saved_tensors) == 5 else (*ctx.saved_tensors, None)
        grad_x, of_parameters, *of_shortcut = back_by_kernel(grad, *known, out, around, ctx.eps, ctx.relu)
        return grad_x, of_parameters[1], of_parameters[0], *(of_shortcut or [None]), None, None, None


# --- what layers call -------------------------------------------------------------------------------------------------


def is_suited(x: Tensor, weight: Tensor) -> bool:
    return can_run(x) and weight.dtype is torch.float32


def precise(x: Tensor) -> Tensor:
    """Converts to float32, but keeps float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n_groups: int, eps: float, relu: bool,
    shortcut: Tensor | None = None, *, beside: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Weight and bias (A, C), or none: the output, the means and variances (A, 2, C), and x again.

    What goes around the norm takes that x, if `beside` says so: one kernel then adds the gradients.
    """
    if weight is not None and bias is not None and is_suited(x, weight):
        out, moments, *around = Norm.apply(x, weight, bias, shortcut, eps, relu, beside)
        return out, moments, around[0] if beside else x
    groups = precise(x.unflatten(0, (n_groups, -1)))  # (A, B, C, H, W)
    var, mean = torch.var_mean(groups, (1, 3, 4), correction=0, keepdim=True)
    scale = torch.rsqrt(var + eps)
    if weight is not None:
        scale = scale * weight[:, None, :, None, None]
    out = (groups - mean) * scale
    if bias is not None:
        out = out + bias[:, None, :, None, None]
    out = out.to(x.dtype).flatten(0, 1)
    if shortcut is not None:
        out = out + shortcut
    moments = torch.stack([mean.flatten(1), var.flatten(1)], 1).detach()
    return (out.relu() if relu else out), moments, x
