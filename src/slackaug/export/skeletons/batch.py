"""A composite for each image of a batch, drawn on the CPU and applied to all images that drew the same together.

Axes: B images, K positions.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ...augment.functional import crop_window, cutout_window, hflip
from ...augment.resize import resize_window
from .numbers import FLIP, POLICY, SIGMA


class Drawn(NamedTuple):
    """What chance decides for each image."""

    op: Tensor  # (B, K) index into POLICY
    magnitude: Tensor  # (B, K) in [0, 1]
    u: Tensor  # (B, K, 4) uniforms: the direction, then where a window lies
    flip: Tensor  # (B,) bool


def draw(n: int) -> Drawn:
    """Out of torch's default stream."""
    p = torch.tensor([choice.p for choice in POLICY.values()], dtype=torch.float64).T  # (K, N)
    mu = torch.tensor([choice.mu for choice in POLICY.values()], dtype=torch.float64)
    u_op, u_size = torch.rand((2, n, len(p)), dtype=torch.float64, generator=None)
    normal = torch.randn((n, len(p)), dtype=torch.float64, generator=None)
    u = torch.rand((n, len(p), 4), dtype=torch.float64, generator=None)
    flip = torch.rand(n, dtype=torch.float64, generator=None) < (0.5 if FLIP else 0.0)
    op = torch.searchsorted(p.cumsum(1).contiguous(), u_op.T.contiguous(), right=True).T.clamp(max=len(mu) - 1)
    return Drawn(op, (mu[op] * u_size + SIGMA * normal).clamp(0, 1), u, flip)


def strength(name: str, magnitude: Tensor, u: Tensor) -> Tensor:
    """(B,) in physical units, in the direction that `u` decides."""
    start, end = POLICY[name].span
    value = start + (end - start) * magnitude
    return torch.where(u < 0.5, -value, value) if POLICY[name].signed else value


STAGE = {"RandomResizeCrop": 0, "Cutout": 2}  # all others: 1, in the order in which they were drawn
Kernel = Callable[[Tensor, Tensor], Tensor]
Window = Callable[[Tensor, Tensor, int, int], Tensor]
WINDOWS: dict[str, Window] = {
    "Cutout": cutout_window,
    "RandomResizeCrop": resize_window,
    "RandomCrop": crop_window,
}


def apply(images: Tensor, drawn: Drawn, kernels: dict[str, Kernel]) -> Tensor:
    """RandomResizeCrop first, then the positions in order, the mirror flip, and last Cutout."""
    images = images.clone()
    for stage in range(3):
        if stage == 2:
            images = hflip(images, drawn.flip.to(images.device))
        for k in range(drawn.op.shape[1]):
            for n in drawn.op[:, k].unique().tolist():
                name = list(POLICY)[n]
                if STAGE.get(name, 1) != stage:
                    continue
                rows = (drawn.op[:, k] == n).nonzero().squeeze(1)
                u = drawn.u[rows, k]
                value = strength(name, drawn.magnitude[rows, k], u[:, 0])
                argument = WINDOWS[name](value, u[:, 1:], *images.shape[2:]) if name in WINDOWS else value
                here = rows.to(images.device)
                images[here] = kernels[name](images[here], argument.to(images.device))
    return images
