"""What a convolution costs beside itself, in kernels of our own on a GPU: additions to its output, and its gradients.

Added in one pass over memory are its bias and what a residual connection brings. The gradients of its weight and bias
come for each of A groups of images. A weight's is a product of two matrices: for each place of the kernel, output
channels (O) by pixels (P) times pixels by input channels (C). A program computes one tile of it, for one row of the
kernel and for one share of the pixels of a group; a second kernel adds the shares up, always in the same order.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .norms import Grid, can_run, channels_last, places, precise, share_of_pixels, tile
from .triton_support import constexpr, jit, tl, triton

MAX_CHANNELS = 128  # beyond, cuDNN's calls are faster than our kernel
TILE_P = 64  # pixels that a program takes at a time
MIN_TILE, MAX_TILE = 16, 64  # channels
SMALL_TILE = 32  # channels: up to here a warp or two hold a tile, and more programs share the work
MIN_PIXELS = 4 * TILE_P  # of a program
TILE = 1024  # elements of an addition that a program makes
SUM_WARPS = 8  # of a program that only reads: 1.3 to 1.7 times as fast as with 4
PROGRAMS, MANY_PROGRAMS = 264, 528  # two and four for each of an H200's processors; many where a program is small


@jit
def add_tile(x, bias, plus, out, n, N_C: constexpr, HAS_PLUS: constexpr, TILE: constexpr):
    i = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    live = i < n
    total = tl.load(x + i, mask=live, other=0.0).to(tl.float32) + tl.load(bias + i % N_C, mask=live, other=0.0)
    if HAS_PLUS:
        total += tl.load(plus + i, mask=live, other=0.0).to(tl.float32)
    tl.store(out + i, total.to(out.dtype.element_ty), mask=live)


@jit
def inputs(x, at, c, y, z, N_C, H: constexpr, W: constexpr, LEFT: constexpr, live, ALL_C: constexpr):
    """(P, C): what the pixels of the output see at one place of the kernel, zero beyond the border."""
    inside = live & (y >= 0) & (y < H) & (z + LEFT >= 0) & (z + LEFT < W)
    mask = inside[:, None] if ALL_C else inside[:, None] & (c < N_C)[None, :]
    return tl.load(x + (at + LEFT)[:, None] * N_C + c[None, :], mask=mask, other=0.0)


@jit
def multiply(
    grad, x, shares, n_pixels, per_share, size, N_O, N_C,
    H: constexpr, W: constexpr, OH: constexpr, OW: constexpr,
    K: constexpr, STRIDE: constexpr, PAD: constexpr,
    TILE_O: constexpr, TILE_C: constexpr, TILE_P: constexpr, ALL_O: constexpr, ALL_C: constexpr,
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
    first, end = share_of_pixels(n_pixels, per_share)
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


@jit
def add_up(shares, out, n_shares, size, TILE_S: constexpr, TILE: constexpr):
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


@jit
def sum_pixels(grad, shares, n_pixels, per_share, N_C, TILE_P: constexpr, TILE_C: constexpr):
    """grad (A, P, C) to shares (A, S, C)."""
    c, known = tile(N_C, TILE_C)
    share, group = tl.program_id(1), tl.program_id(2)
    grad += group.to(tl.int64) * n_pixels * N_C
    first, end = share_of_pixels(n_pixels, per_share)
    total = tl.zeros((TILE_P, TILE_C), tl.float32)
    for start in range(first, end, TILE_P):
        place, live = places(start, end, c, known, N_C, TILE_P)
        total += tl.load(grad + place, mask=live, other=0.0).to(tl.float32)
    tl.store(shares + (group * tl.num_programs(1) + share).to(tl.int64) * N_C + c, tl.sum(total, 0), mask=known)


# --- how they are launched --------------------------------------------------------------------------------------------


def tile_of(n: int, most: int = MAX_TILE) -> int:
    return min(max(MIN_TILE, 1 << (n - 1).bit_length()), most)


@torch.library.custom_op("slackaug::add", mutates_args=())
def added_by_kernel(x: Tensor, bias: Tensor, plus: Tensor | None) -> Tensor:
    """x (B, C, H, W) and plus like it, bias (C,) float32."""
    x = channels_last(x)
    out, n = torch.empty_like(x), x.numel()
    other = x if plus is None else channels_last(plus)  # a place, where none is read
    add_tile[triton.cdiv(n, TILE),](x, bias, other, out, n, N_C=x.shape[1], HAS_PLUS=plus is not None, TILE=TILE)
    return out


@added_by_kernel.register_fake
def _(x: Tensor, bias: Tensor, plus: Tensor | None) -> Tensor:
    return torch.empty_like(x, memory_format=torch.channels_last)


@torch.library.custom_op("slackaug::weight_gradients", mutates_args=())
def by_kernel(grad: Tensor, x: Tensor, n_groups: int, k: int, stride: int, padding: int) -> Tensor:
    """(A, O * k * k * C + O) float32: weights in the order (O, k, k, C), then biases."""
    grad, x = channels_last(grad), channels_last(x)
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
    multiply[n_tiles, n_shares, n_groups](
        grad, x, shares, n_pixels, per_share, size, n_out, n_in, height, width, out_height, out_width,
        K=k, STRIDE=stride, PAD=padding, TILE_O=tile_o, TILE_C=tile_c, TILE_P=TILE_P,
        ALL_O=n_out % tile_o == 0, ALL_C=n_in % tile_c == 0,
        num_warps=(1 if n_groups == 1 else 2) if is_small else 4, num_stages=4 if is_small and n_groups == 1 else 3,
    )  # fmt: skip
    out = torch.empty(n_groups, size, device=x.device, dtype=torch.float32)
    add_up[triton.cdiv(size, 32), n_groups](shares, out, n_shares, size, TILE_S=32, TILE=32, num_warps=4)
    return out


@by_kernel.register_fake
def _(grad: Tensor, x: Tensor, n_groups: int, k: int, stride: int, padding: int) -> Tensor:
    return x.new_empty(n_groups, grad.shape[1] * (k * k * x.shape[1] + 1), dtype=torch.float32)


@torch.library.custom_op("slackaug::channel_sums", mutates_args=())
def sums_by_kernel(grad: Tensor, n_groups: int) -> Tensor:
    """grad (A * B, O, H, W) to (A, O) float32."""
    grad = channels_last(grad)
    grid = Grid(grad, n_groups)
    n, n_out = grid.n_shares, grid.n_channels
    shares = torch.empty(n_groups, n, n_out, device=grad.device, dtype=torch.float32)
    tiles = {"num_warps": SUM_WARPS, **grid.tiles}
    sum_pixels[grid.programs](grad, shares, grid.n_pixels, grid.per_share, n_out, **tiles)
    out = torch.empty(n_groups, n_out, device=grad.device, dtype=torch.float32)
    add_up[triton.cdiv(n_out, 32), n_groups](shares, out, n, n_out, TILE_S=32, TILE=32, num_warps=4)
    return out


@sums_by_kernel.register_fake
def _(grad: Tensor, n_groups: int) -> Tensor:
    return grad.new_empty(n_groups, grad.shape[1], dtype=torch.float32)


# --- what layers call -------------------------------------------------------------------------------------------------

Options = tuple[list[int], list[int], list[int], int]  # stride, padding, dilation, and groups of channels


def add(x: Tensor, bias: Tensor | None, plus: Tensor | None) -> Tensor:
    """x (B, C, H, W) plus a bias (C,), plus a tensor like x, as far as there are any. Not known to autograd."""
    if bias is not None and can_run(x) and bias.dtype is torch.float32:
        out: Tensor = added_by_kernel(x, bias, plus)
        return out
    if bias is not None:
        x = x + bias.to(x.dtype)[:, None, None]
    return x if plus is None else x + plus


def channel_sums(grad: Tensor, n_groups: int) -> Tensor:
    """(A, O), the gradients of a bias: over all pixels of a group."""
    if can_run(grad) and grad.dtype is not torch.float64:
        found: Tensor = sums_by_kernel(grad, n_groups)
    else:
        found = precise(grad.unflatten(0, (n_groups, -1))).sum((1, 3, 4))
    return found


def is_plain(dtype: torch.dtype, weight: Sequence[int], options: Options) -> bool:
    """Whether our kernels know such a convolution, and are faster; `weight`: its shape (O, C / n, h, w)."""
    (stride, padding, dilation, n), (n_out, n_in, *kernel) = options, weight
    return (
        dtype is torch.bfloat16
        and max(n_out, n_in) <= MAX_CHANNELS
        and kernel in ([1, 1], [3, 3])
        and stride[0] == stride[1]
        and padding[0] == padding[1]
        and dilation == [1, 1]
        and n == 1
    )


def is_suited(grad: Tensor, x: Tensor, weight: Tensor, options: Options) -> bool:
    return can_run(x, grad) and is_plain(x.dtype, weight.shape, options)


def weight_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, n_groups: int, options: Options, *, of_bias: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of a weight (O, C, h, w) and its bias by group, (A, O, C, h, w) and (A, O), for
    grad (A * B, O, ...) and x (A * B, C, ...)."""
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
