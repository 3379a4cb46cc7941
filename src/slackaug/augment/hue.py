"""Turning the hue as Pillow does, through its 8-bit HSV: in integers, which give its pixels exactly."""

import torch
from torch import Tensor

from .functional import per_image


def hue(images: Tensor, value: Tensor) -> Tensor:
    """Turn the hue by `value` of the circle, through Pillow's 8-bit HSV."""
    if images.shape[1] == 1:
        return images.clone()
    turn = torch.trunc(per_image(value) * 255).to(torch.int32)[:, 0]  # (B, 1, 1) levels of the circle's 256
    angle, saturation, lightness = hsv(images)
    return rgb((angle + turn) & 255, saturation, lightness)


# Where a hue falls exactly on level k, and bit k is set here, Pillow's float32 arithmetic ends just below it.
# Found by comparing all colours with Pillow, which tests/augment/test_functional.py does again.
FALLS_BELOW = 0x2222223232222222AAAAA000001111100000000000000FFFFFFFE


def hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pillow's convert("HSV"), in integers: three (B, H, W) int32."""
    red, green, blue = images.int().unbind(1)
    high = torch.maximum(torch.maximum(red, green), blue)
    chroma = high - torch.minimum(torch.minimum(red, green), blue)
    sextant = chroma.clamp(min=1)  # the circle has 6 of them
    turn = torch.where(
        red == high, green - blue, torch.where(green == high, 2 * sextant + blue - red, 4 * sextant + red - green)
    )
    turn = torch.where(turn < 0, turn + 6 * sextant, turn)
    angle = whole(85 * turn, 2 * sextant)  # 255 levels for 6 sextants
    is_exact = angle * 2 * sextant == 85 * turn
    return angle - (is_exact & falls_below(angle)).int(), whole(255 * chroma, high.clamp(min=1)), high


def falls_below(level: Tensor) -> Tensor:
    """Bit `level` of FALLS_BELOW."""
    word = torch.zeros_like(level)
    for i in range(7):
        bits = FALLS_BELOW >> 32 * i & 0xFFFFFFFF
        word = torch.where(level >> 5 == i, bits - (bits >> 31 << 32), word)  # as a signed integer of 32 bits
    return (word >> (level & 31)) & 1 == 1


def whole(a: Tensor, b: Tensor | int) -> Tensor:
    """a // b for a >= 0."""
    return torch.div(a, b, rounding_mode="trunc")


def rgb(angle: Tensor, saturation: Tensor, lightness: Tensor) -> Tensor:
    """Pillow's convert("RGB") from HSV, in integers: (B, 3, H, W) uint8."""
    rest = 6 * angle % 255  # of a sextant, in 255ths

    def fall(amount: Tensor) -> Tensor:
        """The lightness less `amount` / 255^2 of itself, rounded: never half-way."""
        return whole(2 * lightness * (65025 - amount) + 65025, 130050)

    v, p, q, t = lightness, fall(saturation * 255), fall(saturation * rest), fall(saturation * (255 - rest))
    sector = whole(6 * angle, 255) % 6

    def channel(lag: int) -> Tensor:
        """Through the six sectors, red is v q p p t v; green and blue lag by 4 and 2."""
        i = (sector + lag) % 6
        rising_or_falling = torch.where(i == 1, q, t)
        return torch.where((i == 0) | (i == 5), v, torch.where((i == 2) | (i == 3), p, rising_or_falling))

    return torch.stack([channel(lag) for lag in (0, 4, 2)], 1).to(torch.uint8)
