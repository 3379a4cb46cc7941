"""Crops that are brought to a size by Pillow's bicubic, exactly: its filter weights are in fixed point.

A box is (B, 4): left, top, width, height in pixels, one per image.
"""

import math

import torch
from torch import Tensor

from .functional import divide, stack_box

RESIZE_BITS = 22  # Pillow's resize keeps filter weights in fixed point with this many bits
BICUBIC_REACH = 2  # source pixels to either side of the bicubic kernel, when an image is enlarged


def resize_window(strength: Tensor, u: Tensor, height: int, width: int) -> Tensor:
    """A window of the area fraction `strength`, its aspect log-uniform in 3/4 .. 4/3 as far as it fits."""
    ratio = width / height
    narrowest, widest = strength * ratio, ratio / strength  # of the windows of this area that fit
    low, high = narrowest.clamp(min=3 / 4), widest.clamp(max=4 / 3)
    aspect = torch.where(low <= high, low * (high / low) ** u[:, 0], torch.where(narrowest > 4 / 3, narrowest, widest))
    area = strength * (height * width)
    box_width = (area * aspect).sqrt().round().clamp(1, width)
    box_height = (area / aspect).sqrt().round().clamp(1, height)
    left = torch.floor(u[:, 1] * (width - box_width + 1))
    top = torch.floor(u[:, 2] * (height - box_height + 1))
    return stack_box(left, top, box_width, box_height)


def materialise(x: Tensor) -> Tensor:
    """The same tensor; a compiler computes it once here, instead of again for every pixel that reads it."""
    return x.as_strided(x.shape, x.stride())


def bicubic_taps(start: Tensor, extent: Tensor, size: int, n_taps: int) -> tuple[Tensor, Tensor]:
    """Where `size` output pixels read a stretch [start, start + extent): indices and fixed-point weights.

    A stretch that shrinks is smoothed by a kernel wider in proportion; `n_taps` is enough for the widest.
    """
    extent = extent.view(-1, 1, 1)
    scale = divide(extent, size)  # (B, 1, 1)
    widening = scale.clamp(min=1)
    reach = BICUBIC_REACH * widening
    centre = (torch.arange(size, device=start.device).view(-1, 1) + 0.5) * scale  # (B, size, 1)
    first = (centre - reach + 0.5).to(torch.int32).clamp(min=0)
    past = torch.minimum((centre + reach + 0.5).to(torch.int32), extent)
    tap = first + torch.arange(n_taps, dtype=torch.int32, device=start.device)  # (B, size, taps)
    x = ((tap - centre + 0.5) * divide(1, widening)).abs()
    near, far = (1.5 * x - 2.5) * x * x + 1, (((x - 5) * x + 8) * x - 4) * -0.5
    weight = torch.where(x < 1, near, far) * ((x < BICUBIC_REACH) & (tap < past))
    # Normalised by a sum from left to right, and rounded half away from zero, as Pillow does.
    weight = weight / weight.cumsum(-1)[..., -1:]
    fixed = torch.trunc(weight * 2**RESIZE_BITS + torch.copysign(torch.full_like(weight, 0.5), weight))
    index = start.view(-1, 1, 1) + torch.minimum(tap, extent - 1)
    return materialise(index), materialise(fixed.to(torch.int32))  # 2 x (B, size, taps)


def resample(images: Tensor, dim: int, start: Tensor, extent: Tensor, size: int) -> Tensor:
    """Bring [start, start + extent) of one axis to `size` pixels."""
    n_taps = 2 * math.ceil(BICUBIC_REACH * max(images.shape[dim] / size, 1)) + 1  # enough where all of the axis shrinks
    index, weight = bicubic_taps(start, extent, size, n_taps)
    per_pixel, out = [len(images), 1, 1, 1], list(images.shape)
    per_pixel[dim] = out[dim] = size
    total = torch.full(out, 1 << (RESIZE_BITS - 1), dtype=torch.int32, device=images.device)
    for tap in range(n_taps):
        source = index[..., tap].view(per_pixel).expand(out).long()
        total = total + images.gather(dim, source) * weight[..., tap].view(per_pixel)
    return (total >> RESIZE_BITS).clamp(0, 255).to(torch.uint8)


def resize_crop(images: Tensor, box: Tensor, height: int, width: int) -> Tensor:
    """Bring `box` (B, 4; left, top, width, height; inside the image) to a size, by Pillow's bicubic.

    The width first: so does every Pillow before 13, which takes the height first where that shrinks more.
    """
    left, top, box_width, box_height = box.unbind(1)
    return resample(resample(images, 3, left, box_width, width), 2, top, box_height, height)


def random_resize_crop(images: Tensor, box: Tensor) -> Tensor:
    """Enlarge `box` to the whole image."""
    return resize_crop(images, box, *images.shape[2:])
