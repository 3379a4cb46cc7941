"""One composite for one image: what chance decides, out of standard noise, in plain floats."""

import math
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

import torch

from ...augment.pil import Box
from .numbers import FLIP, POLICY, SIGMA


class Application(NamedTuple):
    """A transformation that was drawn, how strongly, and three uniforms for where a window lies."""

    name: str
    strength: float
    u: list[float]


ORDER = {"RandomResizeCrop": 0, "Flip": 2, "Cutout": 3}  # all others: 1, in the order in which they were drawn


Floats = list[float]


def composite(choice: Floats, size: Floats, normal: Floats, u: list[Floats], flip: float) -> list[Application]:
    """The steps for one image, in order, out of standard noise; all but `flip` for each position."""
    names, steps = list(POLICY), []
    for k, (u_choice, u_size, eps, (direction, *window)) in enumerate(zip(choice, size, normal, u, strict=True)):
        cumulative = list(accumulate(entry.p[k] for entry in POLICY.values()))
        name = names[min(bisect_right(cumulative, u_choice), len(names) - 1)]
        _, mu, (start, end), signed = POLICY[name]
        strength = start + (end - start) * min(max(mu * u_size + SIGMA * eps, 0.0), 1.0)
        steps.append(Application(name, -strength if signed and direction < 0.5 else strength, window))
    if FLIP and flip < 0.5:
        steps.append(Application("Flip", 0.0, []))
    return sorted(steps, key=lambda step: ORDER.get(step.name, 1))


def crop_box(step: Application, height: int, width: int) -> Box:
    """What is left after padding by the strength times the size on every side and cropping back at random."""
    across, down = round(step.strength * width), round(step.strength * height)
    left, top = math.floor(step.u[0] * (2 * across + 1)) - across, math.floor(step.u[1] * (2 * down + 1)) - down
    return left, top, width, height


def cutout_box(step: Application, height: int, width: int) -> Box:
    """A square with sides of the strength times the width, its centre uniform in the image."""
    side = round(step.strength * width)
    return math.floor(step.u[0] * width) - side // 2, math.floor(step.u[1] * height) - side // 2, side, side


def resize_box(step: Application, height: int, width: int) -> Box:
    """A window of the area fraction `strength`, its aspect log-uniform in 3/4 .. 4/3 as far as it fits."""
    ratio = width / height
    narrowest, widest = step.strength * ratio, ratio / step.strength  # of the windows of this area that fit
    low, high = max(narrowest, 3 / 4), min(widest, 4 / 3)
    nearest = narrowest if narrowest > 4 / 3 else widest
    aspect = low * (high / low) ** step.u[0] if low <= high else nearest
    area = step.strength * (height * width)
    box_width = min(max(round(math.sqrt(area * aspect)), 1), width)
    box_height = min(max(round(math.sqrt(area / aspect)), 1), height)
    left, top = math.floor(step.u[1] * (width - box_width + 1)), math.floor(step.u[2] * (height - box_height + 1))
    return left, top, box_width, box_height


WINDOWS: dict[str, Callable[..., Box]] = {
    "Cutout": cutout_box,
    "RandomResizeCrop": resize_box,
    "RandomCrop": crop_box,
}


def argument(step: Application, height: int, width: int) -> float | Box:
    """What its kernel takes for an image of this size: the strength, or the window."""
    return WINDOWS[step.name](step, height, width) if step.name in WINDOWS else step.strength


def draw(n: int) -> list[list[Application]]:
    """The steps for each of n images. DataLoader seeds the stream per worker and epoch."""
    k = len(next(iter(POLICY.values())).p)
    choice, size = torch.rand((2, n, k), dtype=torch.float64, generator=None).tolist()
    normal = torch.randn((n, k), dtype=torch.float64, generator=None).tolist()
    u = torch.rand((n, k, 4), dtype=torch.float64, generator=None).tolist()
    flip = torch.rand(n, dtype=torch.float64, generator=None).tolist()
    return [composite(*noise) for noise in zip(choice, size, normal, u, flip, strict=True)]
