"""Convolutions of several groups of images, each with a weight of its own, in one kernel.

cuDNN knows channels in groups, not images in groups, and a call for each is too small to fill a GPU. Here the output of
a group is the product of two matrices, pixels (P) by input channels (C) times input channels by output channels (O),
summed over the places of the kernel; a program computes one tile of it. The gradient of the input is the same product,
of the output's gradient with the kernel turned round, where a stride's gaps count as zeros.

Axes: A groups of B images.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from .convolutions import MAX_CHANNELS, Options, is_plain, tile_of
from .norms import can_run, channels_last
from .triton_support import constexpr, jit, tl, triton

TILE_P, MANY_P = 128, 256  # pixels of a program; many where it has few output channels
FEW_CHANNELS = 32


@jit
def convolve_tile(
    x, weight, bias, plus, out, n_pixels, weight_step, bias_step, to_o, to_c, N_O, N_C,
    H: constexpr, W: constexpr, OH: constexpr, OW: constexpr,
    K: constexpr, STRIDE: constexpr, GAPS: constexpr, PAD: constexpr, TURNED: constexpr,
    HAS_BIAS: constexpr, HAS_PLUS: constexpr,
    TILE_P: constexpr, TILE_O: constexpr, TILE_C: constexpr, ALL_O: constexpr, ALL_C: constexpr,
):  # fmt: skip
    """x (A, B, H, W, C) to out (A, n_pixels, O): a weight's group, output and input channels lie weight_step, to_o and
    to_c apart, its places `to_c` or `to_o` times their number of channels. x is spread to every GAPS-th place."""
    group = tl.program_id(2).to(tl.int64)
    p = tl.program_id(0) * TILE_P + tl.arange(0, TILE_P)
    o = tl.program_id(1) * TILE_O + tl.arange(0, TILE_O)
    live, known = p < n_pixels, o < N_O
    x += group * (n_pixels // (OH * OW)) * (H * W) * N_C
    weight += group * weight_step
    image, y, z = p // (OH * OW), p // OW % OH * STRIDE - PAD, p % OW * STRIDE - PAD
    place_step = N_O if TURNED else N_C
    total = tl.zeros((TILE_P, TILE_O), tl.float32)
    n_c_tiles = tl.cdiv(N_C, TILE_C)
    for step in range(K * K * n_c_tiles):
        place, c = step // n_c_tiles, step % n_c_tiles * TILE_C + tl.arange(0, TILE_C)
        at_y, at_z = y + place // K, z + place % K
        inside = live & (at_y >= 0) & (at_z >= 0)
        if GAPS > 1:
            inside = inside & (at_y % GAPS == 0) & (at_z % GAPS == 0)
            at_y, at_z = at_y // GAPS, at_z // GAPS
        inside = inside & (at_y < H) & (at_z < W)
        at = (image * H + at_y) * W + at_z
        seen = inside[:, None] if ALL_C else inside[:, None] & (c < N_C)[None, :]
        values = tl.load(x + at[:, None] * N_C + c[None, :], mask=seen, other=0.0)
        of_place = weight + (K * K - 1 - place if TURNED else place) * place_step
        of = of_place + c[:, None] * to_c + o[None, :] * to_o
        w = tl.load(of) if ALL_O and ALL_C else tl.load(of, mask=(c < N_C)[:, None] & known[None, :], other=0.0)
        total = tl.dot(values, w, total)
    to = group * n_pixels * N_O + p[:, None] * N_O + o[None, :]
    mask = live[:, None] if ALL_O else live[:, None] & known[None, :]
    if HAS_BIAS:
        total += tl.load(bias + group * bias_step + o, mask=known, other=0.0)[None, :]
    if HAS_PLUS:
        total += tl.load(plus + to, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + to, total.to(out.dtype.element_ty), mask=mask)


# --- how it is launched -----------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """How a convolution finds an output's place in the input."""

    kernel: int
    stride: int
    padding: int
    gaps: int = 1  # between the input's places: a stride, seen from the other side
    turned: bool = False

    def backward(self) -> "Shape":
        return Shape(self.kernel, 1, self.kernel - 1 - self.padding, self.stride, turned=True)


def write(x: Tensor, weight: Tensor, bias: Tensor | None, plus: Tensor | None, out: Tensor, shape: Shape) -> None:
    """weight (A, O, C, h, w), in memory (A, O, h, w, C); out is written."""
    n_groups, n_out, n_in = len(weight), out.shape[1], x.shape[1]
    (height, width), (out_height, out_width) = x.shape[2:], out.shape[2:]
    n_pixels = len(out) // n_groups * out_height * out_width
    tile_o, tile_c = tile_of(n_out, MAX_CHANNELS), tile_of(n_in)
    first, second = weight.stride(1), weight.stride(2)
    to_o, to_c = (second, first) if shape.turned else (first, second)
    tile_p = MANY_P if tile_o <= FEW_CHANNELS else TILE_P
    convolve_tile[triton.cdiv(n_pixels, tile_p), triton.cdiv(n_out, tile_o), n_groups](
        x, weight, x if bias is None else bias, x if plus is None else channels_last(plus), out,
        n_pixels, weight.stride(0), 0 if bias is None else bias.stride(0), to_o, to_c, n_out, n_in,
        H=height, W=width, OH=out_height, OW=out_width,
        K=shape.kernel, STRIDE=shape.stride, GAPS=shape.gaps, PAD=shape.padding, TURNED=shape.turned,
        HAS_BIAS=bias is not None, HAS_PLUS=plus is not None,
        TILE_P=tile_p, TILE_O=tile_o, TILE_C=tile_c, ALL_O=n_out % tile_o == 0, ALL_C=n_in % tile_c == 0,
        num_warps=4, num_stages=3,
    )  # fmt: skip


@torch.library.custom_op("slackaug::convolve_each", mutates_args=())
def by_kernel(x: Tensor, weight: Tensor, bias: Tensor | None, plus: Tensor | None, stride: int, padding: int) -> Tensor:
    """x (A * B, C, H, W), weight (A, O, C, h, w), bias (A, O): the convolution, plus a tensor like it."""
    x = channels_last(x)
    out = blank(x, weight, stride, padding)
    write(x, weight, bias, plus, out, Shape(weight.shape[-1], stride, padding))
    return out


@by_kernel.register_fake
def _(x: Tensor, weight: Tensor, _: Tensor | None, __: Tensor | None, stride: int, padding: int) -> Tensor:
    return blank(x, weight, stride, padding)


def blank(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    places = [(size + 2 * padding - weight.shape[-1]) // stride + 1 for size in x.shape[2:]]
    out: Tensor = x.new_empty(len(x), *places, weight.shape[1]).permute(0, 3, 1, 2)
    return out


@torch.library.custom_op("slackaug::convolve_each_backward", mutates_args=())
def back_by_kernel(grad: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    """The gradient of x."""
    out = torch.empty_like(x, memory_format=torch.channels_last)
    shape = Shape(weight.shape[-1], stride, padding).backward()
    write(channels_last(grad), weight, None, None, out, shape)
    return out


@back_by_kernel.register_fake
def _(grad: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    return torch.empty_like(x, memory_format=torch.channels_last)


# --- what layers call -------------------------------------------------------------------------------------------------


def is_suited(x: Tensor, weight: Tensor, options: Options) -> bool:
    """Whether our kernel can do it, and is the faster one."""
    return can_run(x) and is_plain(x.dtype, weight.shape[1:], options) and weight.stride(2) == 1


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, plus: Tensor | None, options: Options) -> Tensor:
    """conv2d of x (A * B, C, H, W), each group's with its own weight (A, O, C / n, h, w) and bias (A, O), plus a tensor
    like it. Not known to autograd."""
    if is_suited(x, weight, options):
        out: Tensor = by_kernel(x, weight, bias, plus, options[0][0], options[1][0])
        return out
    biases = [None] * len(weight) if bias is None else list(bias.to(x.dtype))
    groups = zip(x.chunk(len(weight)), weight, biases, strict=True)
    out = torch.cat([conv2d(part, w, b, *options) for part, w, b in groups])
    return out if plus is None else out + plus


def input_gradient(grad: Tensor, x: Tensor, weight: Tensor, options: Options) -> Tensor:
    """Return the gradient of x, with one weight (O, C / n, h, w) for all groups or one for each."""
    stride, padding, dilation, n = options

    def of_group(grad: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        way = stride, padding, dilation, False, [0, 0], n, [True, False, False]
        found: Tensor = torch.ops.aten.convolution_backward(grad, x, weight, None, *way)[0]
        return found

    if weight.ndim == 4:
        return of_group(grad, x, weight)
    if is_suited(grad, weight, options):
        out: Tensor = back_by_kernel(grad, x, weight, stride[0], padding[0])
        return out
    return torch.cat(
        [of_group(*one) for one in zip(grad.chunk(len(weight)), x.chunk(len(weight)), weight, strict=True)]
    )
