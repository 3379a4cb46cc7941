"""A convolution's gradient of weight and bias for each of A groups of images, in two kernels (Triton, CUDA).

A weight's gradient is a product of two matrices: for each place of the kernel, output channels (O) by pixels (P) times
pixels by input channels (C). A program computes one tile of it, for one row of the kernel and for one share of the
pixels of a group; a second kernel adds the shares up, always in the same order.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .norm_kernel import Grid, tile

TILE_P = 64  # pixels that a program takes at a time
MIN_TILE, MAX_TILE = 16, 64  # channels
SMALL_TILE = 32  # channels: up to here one warp holds a tile, and more programs share the work
MIN_PIXELS = 4 * TILE_P  # of a program
SUM_WARPS = 8  # of a program that only reads: 1.3 to 1.7 times as fast as with 4
PROGRAMS, MANY_PROGRAMS = 264, 528  # two and four for each of an H200's processors; many where a program is small


@triton.jit
def inputs(x, at, c, y, z, N_C, H: tl.constexpr, W: tl.constexpr, LEFT: tl.constexpr, live, ALL_C: tl.constexpr):
    """(P, C): what the pixels of the output see at one place of the kernel, zero beyond the border."""
    inside = live & (y >= 0) & (y < H) & (z + LEFT >= 0) & (z + LEFT < W)
    mask = inside[:, None] if ALL_C else inside[:, None] & (c < N_C)[None, :]
    return tl.load(x + (at + LEFT)[:, None] * N_C + c[None, :], mask=mask, other=0.0)


@triton.jit
def multiply(
    grad, x, shares, n_pixels, per_share, size, N_O, N_C,
    H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    K: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
    TILE_O: tl.constexpr, TILE_C: tl.constexpr, TILE_P: tl.constexpr, ALL_O: tl.constexpr, ALL_C: tl.constexpr,
):  # fmt: skip
    """grad (A, n_pixels, O), x (A, B, H, W, C) to shares (A, S, size): weights (O, K, K, C), then biases (O,)."""
    n_c_tiles = tl.cdiv(N_C, TILE_C)
    tile, share, group = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    ky, o_tile, c_tile = tile % K, tile // K // n_c_tiles, tile // K % n_c_tiles
    o, c = o_tile * TILE_O + tl.arange(0, TILE_O), c_tile * TILE_C + tl.arange(0, TILE_C)
    grad += group.to(tl.int64) * n_pixels * N_O
    x += group.to(tl.int64) * (n_pixels // (OH * OW)) * (H * W) * N_C
    shares += (group * tl.num_programs(1) + share).to(tl.int64) * size

    weight_0 = tl.zeros((TILE_O, TILE_C), tl.float32)
    weight_1 = tl.zeros((TILE_O, TILE_C), tl.float32)
    weight_2 = tl.zeros((TILE_O, TILE_C), tl.float32)
    bias = tl.zeros((TILE_O,), tl.float32)
    first = share * per_share
    end = tl.minimum(first + per_share, n_pixels)
    for start in range(first, end, TILE_P):
        p = start + tl.arange(0, TILE_P)
        live = p < end
        g_mask = live[:, None] if ALL_O else live[:, None] & (o < N_O)[None, :]
        g = tl.load(grad + p[:, None] * N_O + o[None, :], mask=g_mask, other=0.0)
        y, z = p // OW % OH * STRIDE + ky - PAD, p % OW * STRIDE
        at = (p // (OH * OW) * H + y) * W + z
        g_t = tl.trans(g)
        weight_0 = tl.dot(g_t, inputs(x, at, c, y, z, N_C, H, W, -PAD, live, ALL_C), weight_0)
        if K == 3:
            weight_1 = tl.dot(g_t, inputs(x, at, c, y, z, N_C, H, W, 1 - PAD, live, ALL_C), weight_1)
            weight_2 = tl.dot(g_t, inputs(x, at, c, y, z, N_C, H, W, 2 - PAD, live, ALL_C), weight_2)
        bias += tl.sum(g.to(tl.float32), 0)

    to = o[:, None] * (K * K * N_C) + ky * (K * N_C) + c[None, :]
    known = (o < N_O)[:, None] & (c < N_C)[None, :]
    tl.store(shares + to, weight_0, mask=known)
    if K == 3:
        tl.store(shares + to + N_C, weight_1, mask=known)
        tl.store(shares + to + 2 * N_C, weight_2, mask=known)
    if (ky == 0) & (c_tile == 0):
        tl.store(shares + N_O * K * K * N_C + o, bias, mask=o < N_O)


@triton.jit
def add_up(shares, out, n_shares, size, TILE_S: tl.constexpr, TILE: tl.constexpr):
    """shares (A, S, size) to out (A, size)."""
    group = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    shares += group * n_shares * size
    total = tl.zeros((TILE_S, TILE), tl.float32)
    for first in range(0, n_shares, TILE_S):
        s = first + tl.arange(0, TILE_S)
        mask = (s < n_shares)[:, None] & (i < size)[None, :]
        total += tl.load(shares + s[:, None] * size + i[None, :], mask=mask, other=0.0)
    tl.store(out + group * size + i, tl.sum(total, 0), mask=i < size)


@triton.jit
def sum_pixels(grad, shares, n_pixels, per_share, N_C, TILE_P: tl.constexpr, TILE_C: tl.constexpr):
    """grad (A, P, C) to shares (A, S, C)."""
    c, known = tile(N_C, TILE_C)
    share, group = tl.program_id(1), tl.program_id(2)
    grad += group.to(tl.int64) * n_pixels * N_C
    first = share * per_share
    end = tl.minimum(first + per_share, n_pixels)
    total = tl.zeros((TILE_P, TILE_C), tl.float32)
    for start in range(first, end, TILE_P):
        p = start + tl.arange(0, TILE_P)
        live = (p < end)[:, None] & known[None, :]
        total += tl.load(grad + p[:, None] * N_C + c[None, :], mask=live, other=0.0).to(tl.float32)
    tl.store(shares + (group * tl.num_programs(1) + share).to(tl.int64) * N_C + c, tl.sum(total, 0), mask=known)


def channel_sums(grad: Tensor, n_groups: int) -> Tensor:
    """grad (A * B, O, H, W), channels last, to (A, O) float32."""
    grid = Grid(grad, n_groups)
    n, n_out = grid.n_shares, grid.n_channels
    shares = torch.empty(n_groups, n, n_out, device=grad.device, dtype=torch.float32)
    tiles = {"num_warps": SUM_WARPS, **grid.tiles}
    sum_pixels[grid.programs](grad, shares, grid.n_pixels, grid.per_share, n_out, **tiles)
    out = torch.empty(n_groups, n_out, device=grad.device, dtype=torch.float32)
    add_up[(triton.cdiv(n_out, 32), n_groups)](shares, out, n, n_out, TILE_S=32, TILE=32, num_warps=4)
    return out


def launch(grad: Tensor, x: Tensor, n_groups: int, k: int, stride: int, padding: int) -> Tensor:
    """grad (A * B, O, OH, OW) and x (A * B, C, H, W), channels last, to (A, O * k * k * C + O) float32."""
    n, n_out, out_height, out_width = grad.shape
    n_in, height, width = x.shape[1:]
    n_pixels = n // n_groups * out_height * out_width
    tile_o, tile_c = tile_of(n_out), tile_of(n_in)
    is_small = max(tile_o, tile_c) <= SMALL_TILE
    n_tiles = k * triton.cdiv(n_out, tile_o) * triton.cdiv(n_in, tile_c)
    programs = MANY_PROGRAMS if is_small or (n_groups > 1 and n_tiles > k) else PROGRAMS
    n_shares = max(1, min(round(programs / (n_tiles * n_groups)), n_pixels // MIN_PIXELS))
    per_share = triton.cdiv(triton.cdiv(n_pixels, n_shares), TILE_P) * TILE_P
    size = n_out * (k * k * n_in + 1)
    shares = torch.empty(n_groups, n_shares, size, device=x.device, dtype=torch.float32)
    multiply[(n_tiles, n_shares, n_groups)](
        grad, x, shares, n_pixels, per_share, size, n_out, n_in, height, width, out_height, out_width,
        K=k, STRIDE=stride, PAD=padding, TILE_O=tile_o, TILE_C=tile_c, TILE_P=TILE_P,
        ALL_O=n_out % tile_o == 0, ALL_C=n_in % tile_c == 0,
        num_warps=1 if is_small else 4, num_stages=4 if is_small else 3,
    )  # fmt: skip
    out = torch.empty(n_groups, size, device=x.device, dtype=torch.float32)
    add_up[(triton.cdiv(size, 32), n_groups)](shares, out, n_shares, size, TILE_S=32, TILE=32, num_warps=4)
    return out


def tile_of(n: int) -> int:
    return min(max(MIN_TILE, 1 << (n - 1).bit_length()), MAX_TILE)
