"""Batch-norm over groups of images, and the ReLU after it, in two kernels forward and two backward (Triton, CUDA).

Between the two, a shortcut may join: another tensor like x, which is added.

Axes: A groups of P pixels (of all images of a group), C channels, channels last. The first kernel of a pair sums over
shares of the pixels, S of them for each group; every program of the second adds the shares up, always in the same
order, and then treats its own pixels.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE_P = 128  # pixels that a program takes at a time
MAX_TILE_C = 32  # channels: 64 bytes a pixel, two of the units that memory is read in
MIN_PROGRAMS, MAX_PROGRAMS = 256, 512  # about two and four for each of a large GPU's processors
TILES_OF_A_PROGRAM = 4


def n_programs(n_tiles: int) -> int:
    """So many that each has a few tiles to treat; but more would have too many shares to add up."""
    return min(max(n_tiles // TILES_OF_A_PROGRAM, MIN_PROGRAMS), MAX_PROGRAMS)


@triton.jit
def tile(N_C, TILE_C: tl.constexpr):
    """The channels of this program, and which of them there are."""
    c = tl.program_id(0) * TILE_C + tl.arange(0, TILE_C)
    return c, c < N_C


@triton.jit
def standardised(x, at, mask, mean, scale):
    return (tl.load(x + at, mask=mask, other=0.0).to(tl.float32) - mean[None, :]) * scale[None, :]


@triton.jit
def sum_moments(x, shares, n_pixels, per_share, N_C, TILE_P: tl.constexpr, TILE_C: tl.constexpr):
    """x (A, P, C) to shares (A, S, 2, C): the mean, and the sum of squares around it, of a share of the pixels."""
    c, known = tile(N_C, TILE_C)
    share, group = tl.program_id(1), tl.program_id(2)
    x += group.to(tl.int64) * n_pixels * N_C
    shares += (group * tl.num_programs(1) + share).to(tl.int64) * 2 * N_C
    first = share * per_share
    end = tl.minimum(first + per_share, n_pixels)
    around = tl.load(x + first * N_C + c, mask=known, other=0.0).to(tl.float32)  # so that no digits cancel out
    total = tl.zeros((TILE_P, TILE_C), tl.float32)
    squares = tl.zeros((TILE_P, TILE_C), tl.float32)
    for start in range(first, end, TILE_P):
        p = start + tl.arange(0, TILE_P)
        mask = (p < end)[:, None] & known[None, :]
        value = tl.load(x + p[:, None] * N_C + c[None, :], mask=mask, other=0.0).to(tl.float32)
        off = tl.where(mask, value - around[None, :], 0.0)
        total += off
        squares += off * off
    n = (end - first).to(tl.float32)
    mean = tl.sum(total, 0) / n
    tl.store(shares + c, around + mean, mask=known)
    tl.store(shares + N_C + c, tl.sum(squares, 0) - n * mean * mean, mask=known)


@triton.jit
def apply_norm(
    x, shares, weight, bias, shortcut, out, moments, n_pixels, per_share, n_shares, eps, N_C,
    RELU: tl.constexpr, JOINED: tl.constexpr, TILE_S: tl.constexpr, TILE_P: tl.constexpr, TILE_C: tl.constexpr,
):  # fmt: skip
    """x and the shortcut (A, P, C) to out; weight and bias (C,); moments (A, 2, C) become mean and variance."""
    c, known = tile(N_C, TILE_C)
    share, group = tl.program_id(1), tl.program_id(2)
    s = tl.arange(0, TILE_S)
    n = tl.maximum(tl.minimum(n_pixels - s * per_share, per_share), 0).to(tl.float32)  # pixels of a share
    at = (group * n_shares + s)[:, None] * 2 * N_C + c[None, :]
    mask = (s < n_shares)[:, None] & known[None, :]
    means = tl.load(shares + at, mask=mask, other=0.0)
    mean = tl.sum(n[:, None] * means, 0) / n_pixels
    off = means - mean[None, :]
    squares = tl.load(shares + at + N_C, mask=mask, other=0.0) + n[:, None] * off * off
    var = tl.maximum(tl.sum(squares, 0) / n_pixels, 0.0)
    if share == 0:
        tl.store(moments + group * 2 * N_C + c, mean, mask=known)
        tl.store(moments + (group * 2 + 1) * N_C + c, var, mask=known)

    scale = tl.load(weight + c, mask=known, other=0.0) / tl.sqrt(var + eps)
    shift = tl.load(bias + c, mask=known, other=0.0)
    x += group.to(tl.int64) * n_pixels * N_C
    shortcut += group.to(tl.int64) * n_pixels * N_C
    out += group.to(tl.int64) * n_pixels * N_C
    first = share * per_share
    end = tl.minimum(first + per_share, n_pixels)
    for start in range(first, end, TILE_P):
        p = start + tl.arange(0, TILE_P)
        place, live = p[:, None] * N_C + c[None, :], (p < end)[:, None] & known[None, :]
        y = standardised(x, place, live, mean, scale) + shift[None, :]
        if JOINED:
            y += tl.load(shortcut + place, mask=live, other=0.0).to(tl.float32)
        if RELU:
            y = tl.maximum(y, 0.0)
        tl.store(out + place, y.to(out.dtype.element_ty), mask=live)


@triton.jit
def gradient_at(grad, x, out, place, live, mean, scale, weight, bias, RELU: tl.constexpr, JOINED: tl.constexpr):
    """The gradient that comes in before the ReLU, and the standardised x. Where a shortcut joined, `out` tells."""
    z = standardised(x, place, live, mean, scale)
    g = tl.load(grad + place, mask=live, other=0.0).to(tl.float32)
    if JOINED:
        g = tl.where(tl.load(out + place, mask=live, other=0.0) > 0, g, 0.0)
    elif RELU:
        g = tl.where(z * weight[None, :] + bias[None, :] > 0, g, 0.0)
    return g, tl.where(live, z, 0.0)


@triton.jit
def sum_gradients(
    grad, x, moments, weight, bias, shares, out, before, n_pixels, per_share, eps, N_C,
    RELU: tl.constexpr, JOINED: tl.constexpr, TILE_P: tl.constexpr, TILE_C: tl.constexpr,
):  # fmt: skip
    """To shares (A, S, 2, C): the gradients of bias and weight from a share of the pixels.

    Where a shortcut joined, `before` (A, P, C) becomes the gradient before the ReLU, which is the shortcut's.
    """
    c, known = tile(N_C, TILE_C)
    share, group = tl.program_id(1), tl.program_id(2)
    mean = tl.load(moments + group * 2 * N_C + c, mask=known, other=0.0)
    scale = 1 / tl.sqrt(tl.load(moments + (group * 2 + 1) * N_C + c, mask=known, other=0.0) + eps)
    w = tl.load(weight + c, mask=known, other=0.0)
    b = tl.load(bias + c, mask=known, other=0.0)
    grad += group.to(tl.int64) * n_pixels * N_C
    x += group.to(tl.int64) * n_pixels * N_C
    out += group.to(tl.int64) * n_pixels * N_C
    before += group.to(tl.int64) * n_pixels * N_C
    shares += (group * tl.num_programs(1) + share).to(tl.int64) * 2 * N_C
    first = share * per_share
    end = tl.minimum(first + per_share, n_pixels)
    of_bias = tl.zeros((TILE_P, TILE_C), tl.float32)
    of_weight = tl.zeros((TILE_P, TILE_C), tl.float32)
    for start in range(first, end, TILE_P):
        p = start + tl.arange(0, TILE_P)
        place, live = p[:, None] * N_C + c[None, :], (p < end)[:, None] & known[None, :]
        g, z = gradient_at(grad, x, out, place, live, mean, scale, w, b, RELU, JOINED)
        of_bias += g
        of_weight += g * z
        if JOINED:
            tl.store(before + place, g.to(before.dtype.element_ty), mask=live)
    tl.store(shares + c, tl.sum(of_bias, 0), mask=known)
    tl.store(shares + N_C + c, tl.sum(of_weight, 0), mask=known)


@triton.jit
def apply_gradients(
    grad, x, moments, weight, bias, shares, plus, grad_x, of_parameters, n_pixels, per_share, n_shares, eps, N_C,
    RELU: tl.constexpr, HAS_PLUS: tl.constexpr, TILE_S: tl.constexpr, TILE_P: tl.constexpr, TILE_C: tl.constexpr,
):  # fmt: skip
    """grad_x (A, P, C), with plus (A, P, C) added; of_parameters (2, A, C): the gradients of bias and weight."""
    c, known = tile(N_C, TILE_C)
    share, group = tl.program_id(1), tl.program_id(2)
    s = tl.arange(0, TILE_S)
    at = (group * n_shares + s)[:, None] * 2 * N_C + c[None, :]
    mask = (s < n_shares)[:, None] & known[None, :]
    of_bias = tl.sum(tl.load(shares + at, mask=mask, other=0.0), 0)
    of_weight = tl.sum(tl.load(shares + at + N_C, mask=mask, other=0.0), 0)
    if share == 0:
        tl.store(of_parameters + group * N_C + c, of_bias, mask=known)
        tl.store(of_parameters + (tl.num_programs(2) + group) * N_C + c, of_weight, mask=known)

    mean = tl.load(moments + group * 2 * N_C + c, mask=known, other=0.0)
    scale = 1 / tl.sqrt(tl.load(moments + (group * 2 + 1) * N_C + c, mask=known, other=0.0) + eps)
    w = tl.load(weight + c, mask=known, other=0.0)
    b = tl.load(bias + c, mask=known, other=0.0)
    mean_g, mean_gz = of_bias / n_pixels, of_weight / n_pixels
    grad += group.to(tl.int64) * n_pixels * N_C
    x += group.to(tl.int64) * n_pixels * N_C
    plus += group.to(tl.int64) * n_pixels * N_C
    grad_x += group.to(tl.int64) * n_pixels * N_C
    first = share * per_share
    end = tl.minimum(first + per_share, n_pixels)
    for start in range(first, end, TILE_P):
        p = start + tl.arange(0, TILE_P)
        place, live = p[:, None] * N_C + c[None, :], (p < end)[:, None] & known[None, :]
        g, z = gradient_at(grad, x, x, place, live, mean, scale, w, b, RELU, False)
        back = (w * scale)[None, :] * (g - mean_g[None, :] - z * mean_gz[None, :])
        if HAS_PLUS:
            back += tl.load(plus + place, mask=live, other=0.0).to(tl.float32)
        tl.store(grad_x + place, back.to(grad_x.dtype.element_ty), mask=live)


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


def forward(
    x: Tensor, weight: Tensor, bias: Tensor, shortcut: Tensor | None, n_groups: int, eps: float, relu: bool
) -> tuple[Tensor, Tensor]:
    """x (A * B, C, H, W), channels last, weight and bias (C,) to the output, and means and variances (A, 2, C)."""
    grid = Grid(x, n_groups)
    moments = torch.empty(n_groups, 2, grid.n_channels, device=x.device, dtype=torch.float32)
    out = torch.empty_like(x)
    sizes = grid.n_pixels, grid.per_share
    sum_moments[grid.programs](x, grid.shares, *sizes, grid.n_channels, **grid.tiles)
    apply_norm[grid.programs](
        x, grid.shares, weight, bias, x if shortcut is None else shortcut, out, moments, *sizes, grid.n_shares, eps,
        grid.n_channels, RELU=relu, JOINED=shortcut is not None, **grid.tile_s, **grid.tiles,
    )  # fmt: skip
    return out, moments


def backward(
    grad: Tensor,
    x: Tensor,
    moments: Tensor,
    weight: Tensor,
    bias: Tensor,
    plus: Tensor | None,
    eps: float,
    relu: bool,
) -> tuple[Tensor, Tensor]:
    """The gradient of x, with `plus` added to it, and those of bias and weight (2, A, C)."""
    grid = Grid(x, len(moments))
    given, sizes = (grad, x, moments, weight, bias, grid.shares), (grid.n_pixels, grid.per_share)
    sum_gradients[grid.programs](*given, x, x, *sizes, eps, grid.n_channels, RELU=relu, JOINED=False, **grid.tiles)
    return gradients_of(grid, *given[:5], plus, eps, relu)


def backward_joined(
    grad: Tensor, out: Tensor, x: Tensor, moments: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """For relu(norm(x) + shortcut) = out: the gradients of x, of bias and weight (2, A, C), and of the shortcut."""
    grid, before = Grid(x, len(moments)), torch.empty_like(x)
    given, sizes = (x, moments, weight, bias), (grid.n_pixels, grid.per_share)
    sum_gradients[grid.programs](
        grad, *given, grid.shares, out, before, *sizes, eps, grid.n_channels, RELU=True, JOINED=True, **grid.tiles
    )
    return *gradients_of(grid, before, *given, None, eps, False), before


def gradients_of(
    grid: Grid,
    grad: Tensor,
    x: Tensor,
    moments: Tensor,
    weight: Tensor,
    bias: Tensor,
    plus: Tensor | None,
    eps: float,
    relu: bool,
) -> tuple[Tensor, Tensor]:
    """The second half of a way back."""
    of_parameters = torch.empty(2, len(moments), grid.n_channels, device=x.device, dtype=torch.float32)
    grad_x = torch.empty_like(x)
    apply_gradients[grid.programs](
        grad, x, moments, weight, bias, grid.shares, x if plus is None else plus, grad_x, of_parameters,
        grid.n_pixels, grid.per_share, grid.n_shares, eps, grid.n_channels, RELU=relu, HAS_PLUS=plus is not None,
        **grid.tile_s, **grid.tiles,
    )  # fmt: skip
    return grad_x, of_parameters
