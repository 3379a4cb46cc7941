"""Batched kernels: images (B, C, H, W) uint8 with C = 1 or 3 in, new images of the same shape out.

`value` is (B,) float64, one strength per image in physical units (degrees, bits, fractions of the size). Every kernel
gives Pillow's pixels exactly; where Pillow's arithmetic decides a pixel (fixed point, float32, truncation), it is
repeated here step by step. Nothing here draws random numbers, loops over images or waits for the device.

A warp is described by its matrix and a tone curve by its table, so that many can be chosen from per image and still be
applied in one pass (see `branch_free`).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

SMALL_SIDE = 3600  # below it, 16.16 fixed point fits into 32 bits for all strengths that `transforms` allows


def per_image(value: Tensor) -> Tensor:
    return value.view(-1, 1, 1, 1)  # (B,) -> (B, 1, 1, 1)


def divide(a: Tensor | float, b: Tensor | float) -> Tensor:
    """a / b in float64, correctly rounded: torch may multiply by the reciprocal of a plain number instead."""
    like = a if isinstance(a, Tensor) else b
    assert isinstance(like, Tensor)
    x, y = (v.double() if isinstance(v, Tensor) else torch.full_like(like, v, dtype=torch.float64) for v in (a, b))
    return x / y


def as_float32(x: Tensor) -> Tensor:
    """Rounded to float32, as Pillow does where it stores a float, and back in float64."""
    # Seen as integers in between: the compiler drops a plain conversion to float32 and back.
    return x.float().view(torch.int32).view(torch.float32).double()


def identity(images: Tensor, value: Tensor) -> Tensor:
    return images


# --- warps: an affine map from output to input pixels, nearest neighbour, black outside -------------------------------


def affine_matrix(like: Tensor, rows: tuple[tuple[Tensor | float, ...], ...]) -> Tensor:
    cells = [torch.as_tensor(cell, dtype=torch.float64, device=like.device).expand_as(like) for r in rows for cell in r]
    return torch.stack(cells, -1)  # (B, 6), Pillow's order a b c d e f


def shear_x_matrix(value: Tensor, height: int, width: int) -> Tensor:
    return affine_matrix(value, ((1, value, 0), (0, 1, 0)))


def shear_y_matrix(value: Tensor, height: int, width: int) -> Tensor:
    return affine_matrix(value, ((1, 0, 0), (value, 1, 0)))


def shift_matrix(x: Tensor, y: Tensor) -> Tensor:
    # Pillow takes the nearest pixel in floating point here, and in fixed point elsewhere: round first, and both agree.
    return affine_matrix(x, ((1, 0, torch.floor(x + 0.5)), (0, 1, torch.floor(y + 0.5))))


def translate_x_matrix(value: Tensor, height: int, width: int) -> Tensor:
    """Value: the fraction of the width."""
    return shift_matrix(value * width, torch.zeros_like(value))


def translate_y_matrix(value: Tensor, height: int, width: int) -> Tensor:
    """Value: the fraction of the height."""
    return shift_matrix(torch.zeros_like(value), value * height)


def rotate_matrix(value: Tensor, height: int, width: int) -> Tensor:
    """Value: degrees, counter-clockwise about the centre."""
    radians = -value * (math.pi / 180)
    cos, sin = (divide(torch.round(f(radians) * 1e15), 1e15) for f in (torch.cos, torch.sin))  # as Pillow: 15 decimals
    x, y = width / 2, height / 2
    return affine_matrix(value, ((cos, sin, x - cos * x - sin * y), (-sin, cos, y + sin * x - cos * y)))


def affine(images: Tensor, matrix: Tensor) -> Tensor:
    """Pillow's nearest-neighbour AFFINE: 16.16 fixed point, evaluated at pixel centres."""
    batch, channels, height, width = images.shape
    a, b, c, d, e, f = matrix.unbind(-1)  # 6 x (B,)
    corner = torch.stack((c + a * 0.5 + b * 0.5, a, b, f + d * 0.5 + e * 0.5, d, e))
    fixed = torch.int32 if max(height, width) < SMALL_SIDE else torch.int64
    x0, ax, bx, y0, ay, by = torch.floor(corner * 65536 + 0.5).to(fixed).view(6, batch, 1, 1)
    column = torch.arange(width, dtype=fixed, device=images.device).view(1, 1, width)
    row = torch.arange(height, dtype=fixed, device=images.device).view(1, height, 1)
    x = (x0 + ax * column + bx * row) >> 16  # (B, H, W)
    y = (y0 + ay * column + by * row) >> 16
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    source = torch.where(inside, y * width + x, 0).flatten(1).unsqueeze(1).expand(-1, channels, -1)
    moved = images.flatten(2).gather(2, source.long()).view_as(images)
    return torch.where(inside.unsqueeze(1), moved, 0)


def warp(matrix: Callable[[Tensor, int, int], Tensor], images: Tensor, argument: Tensor) -> Tensor:
    return affine(images, matrix(argument, *images.shape[2:]))


shear_x = partial(warp, shear_x_matrix)
shear_y = partial(warp, shear_y_matrix)
translate_x = partial(warp, translate_x_matrix)
translate_y = partial(warp, translate_y_matrix)
rotate = partial(warp, rotate_matrix)


# --- tone curves: the new value of a pixel depends on its old value alone ---------------------------------------------


def lookup(images: Tensor, table: Tensor) -> Tensor:
    """Replace every pixel by the entry of its image's table (B, C, 256)."""
    return table.gather(2, images.flatten(2).long()).view_as(images)


def by_table(table: Callable[[Tensor, Tensor], Tensor], images: Tensor, value: Tensor) -> Tensor:
    return lookup(images, table(images, value))


def ramp(like: Tensor) -> Tensor:
    """All 256 levels as one row per channel: (B, C, 1, 256)."""
    return torch.arange(256, dtype=torch.uint8, device=like.device).expand(*like.shape[:2], 1, 256)


def curve_table(kernel: Callable[[Tensor, Tensor], Tensor], images: Tensor, value: Tensor) -> Tensor:
    """The table of a tone curve that does not depend on the image: the curve of the ramp."""
    return kernel(ramp(images), value).flatten(2)


def blend(low: Tensor, high: Tensor, factor: Tensor) -> Tensor:
    """ImageEnhance: low + factor * (high - low) in float32, clipped, truncated."""
    # The product must be rounded before it is added. From two halves of the factor, whose products with a level are
    # exact, it comes out right even where a compiler fuses multiplication and addition.
    factor = per_image(factor).float()
    coarse = (factor.view(torch.int32) & ~0xFFF).view(torch.float32)
    fine = factor - coarse
    low = low.float()
    difference = high - low
    return (low + (coarse * difference + fine * difference)).clamp(0, 255).to(torch.uint8)


Level = TypeVar("Level", int, Tensor)


def luma(red: Level, green: Level, blue: Level) -> Level:
    """Pillow's weights in 16 bits, rounded."""
    return (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16


def grey(images: Tensor) -> Tensor:
    """Pillow's convert("L"): (B, 1, H, W)."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.int().unbind(1)
    return luma(red, green, blue).to(torch.uint8).unsqueeze(1)


def mean_grey(images: Tensor) -> Tensor:
    """The mean luma, rounded half up: (B, 1, 1, 1) uint8."""
    n = images.shape[2] * images.shape[3]
    total = grey(images).sum((1, 2, 3), dtype=torch.int64)
    return per_image(torch.div(2 * total + n, 2 * n, rounding_mode="floor")).to(torch.uint8)


def invert(images: Tensor, value: Tensor) -> Tensor:
    return 255 - images


def solarize(images: Tensor, value: Tensor) -> Tensor:
    """Invert the levels from the threshold `value` on."""
    first_inverted = per_image(value).ceil().clamp(0, 256).to(torch.int16)
    return torch.where(images < first_inverted, images, 255 - images)


def posterize(images: Tensor, value: Tensor) -> Tensor:
    """Keep `value` bits, rounded half to even."""
    dropped = 8 - value.round().to(torch.int32)
    return images & per_image(256 - (1 << dropped)).to(torch.uint8)


def brightness(images: Tensor, value: Tensor) -> Tensor:
    return blend(torch.zeros_like(images), images, 1 + value)


def contrast_table(images: Tensor, value: Tensor) -> Tensor:
    """Away from, or towards, the mean luma."""
    return blend(mean_grey(images), ramp(images), 1 + value).flatten(2)


contrast = partial(by_table, contrast_table)


def autocontrast_table(images: Tensor, value: Tensor) -> Tensor:
    """Stretch each channel from its darkest and lightest level to 0 and 255."""
    low, high = images.flatten(2).aminmax(dim=2, keepdim=True)  # (B, C, 1)
    flat = low == high
    scale = divide(255, torch.where(flat, 1, high.int() - low.int()))
    # Python's `level * scale - low * scale` rounds each product. In two exact halves a compiler cannot fuse that away.
    coarse = as_float32(scale)
    fine = scale - coarse

    def times_scale(level: Tensor) -> Tensor:
        return level * coarse + level * fine

    levels = torch.arange(256, dtype=torch.float64, device=images.device)
    stretched = (times_scale(levels) - times_scale(low.double())).clamp(0, 255).to(torch.uint8)  # (B, C, 256)
    return torch.where(flat, levels.to(torch.uint8), stretched)


autocontrast = partial(by_table, autocontrast_table)


def histogram(images: Tensor) -> Tensor:
    """(B, C, 256) counts."""
    levels = images.flatten(2).long()
    counts = torch.zeros(*images.shape[:2], 256, dtype=torch.int32, device=images.device)
    return counts.scatter_add(2, levels, torch.ones_like(levels, dtype=torch.int32))


def equalize_table(images: Tensor, value: Tensor) -> Tensor:
    """Spread each channel's histogram evenly; as Pillow, in integers."""
    counts = histogram(images)
    below = counts.cumsum(2, dtype=torch.int32) - counts  # pixels darker than each level
    last = counts.gather(2, images.flatten(2).amax(2, keepdim=True).long())  # pixels at the lightest level that occurs
    step = (images.shape[2] * images.shape[3] - last) // 255  # (B, C, 1); 0: nothing to spread
    spread = (step // 2 + below) // step.clamp(min=1)
    levels = torch.arange(256, dtype=torch.int32, device=images.device)
    return torch.where(step == 0, levels, spread.clamp(max=255)).to(torch.uint8)


equalize = partial(by_table, equalize_table)


# --- colour mixes and the 3 x 3 filter --------------------------------------------------------------------------------


def grayscale(images: Tensor, value: Tensor) -> Tensor:
    return grey(images).expand_as(images).clone()


def color(images: Tensor, value: Tensor) -> Tensor:
    return blend(grey(images), images, 1 + value)


def sharpness(images: Tensor, value: Tensor) -> Tensor:
    """Blend with a smoothed copy; the border of one pixel is not smoothed."""
    if min(images.shape[2:]) < 3:
        return images.clone()
    levels = images.short()
    rows = levels[..., :-2, :] + levels[..., 1:-1, :] + levels[..., 2:, :]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * levels[..., 1:-1, 1:-1]
    smooth = pad((2 * total + 13) // 26, (1, 1, 1, 1))  # total / 13, rounded: never half-way
    interior = pad(torch.ones_like(total[:1, :1], dtype=torch.bool), (1, 1, 1, 1))  # (1, 1, H, W)
    return blend(torch.where(interior, smooth, levels), images, 1 + value)


# --- crops and masks: boxes (B, 4) in pixels --------------------------------------------------------------------------


def hflip(images: Tensor, flipped: Tensor) -> Tensor:
    """Mirror the images where `flipped` (B,) is true."""
    return torch.where(per_image(flipped), images.flip(3), images)


def stack_box(left: Tensor, top: Tensor, width: Tensor, height: Tensor) -> Tensor:
    return torch.stack((left, top, width, height), -1).to(torch.int32)  # 4 x (B,) -> (B, 4)


def crop_window(strength: Tensor, u: Tensor, height: int, width: int) -> Tensor:
    """What is left after zero-padding by `strength` of the size on every side and cropping back at random."""
    pad = torch.stack((strength * width, strength * height), 1).round()  # (B, 2)
    left, top = (torch.floor(u[:, :2] * (2 * pad + 1)) - pad).unbind(1)
    return stack_box(left, top, torch.full_like(left, width), torch.full_like(top, height))


def cutout_window(strength: Tensor, u: Tensor, height: int, width: int) -> Tensor:
    """A square with sides of `strength` times the width, its centre uniform in the image."""
    side = (strength * width).round()
    half = (side / 2).floor()
    return stack_box(torch.floor(u[:, 0] * width) - half, torch.floor(u[:, 1] * height) - half, side, side)


def crop_matrix(box: Tensor, height: int, width: int) -> Tensor:
    """The window `box` (B, 4), of the image's size and partly outside it, as a warp."""
    return shift_matrix(box[:, 0].double(), box[:, 1].double())


random_crop = partial(warp, crop_matrix)  # zero-pad and crop back to size


def paint_for(fill: tuple[int, ...], channels: int) -> tuple[int, ...]:
    """The colour for images of that many channels: a grey image is painted with the colour's luma."""
    red, green, blue = fill
    return fill if channels == 3 else (luma(red, green, blue),)


def cutout(images: Tensor, box: Tensor, fill: tuple[int, ...]) -> Tensor:
    """Paint `box` (B, 4; left, top, width, height; clipped at the borders) with a colour of C levels."""
    left, top, width, height = (per_image(side) for side in box.unbind(1))
    x = torch.arange(images.shape[3], device=images.device)
    y = torch.arange(images.shape[2], device=images.device).view(-1, 1)
    hole = (x >= left) & (x < left + width) & (y >= top) & (y < top + height)  # (B, 1, H, W)
    colour = torch.cat([torch.full_like(images[:1, :1, :1, :1], level) for level in fill], 1)  # (1, C, 1, 1)
    return torch.where(hole, colour, images)


def crop(images: Tensor, left: Tensor, top: Tensor, height: int, width: int) -> Tensor:
    """The window of one size that begins at `left` and `top` (B,); black where it reaches beyond the image."""
    x = per_image(left) + torch.arange(width, device=images.device)  # (B, 1, 1, w)
    y = per_image(top) + torch.arange(height, device=images.device).view(-1, 1)  # (B, 1, h, 1)
    inside = (x >= 0) & (x < images.shape[3]) & (y >= 0) & (y < images.shape[2])
    source = torch.where(inside, y * images.shape[3] + x, 0).flatten(2).expand(-1, images.shape[1], -1)
    window = images.flatten(2).gather(2, source).view(*images.shape[:2], height, width)
    return torch.where(inside, window, 0)
