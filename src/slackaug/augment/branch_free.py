"""One position of a composite, as a compiler and a CUDA graph want it: static shapes, and no question to the host.

Every transformation is computed for every image, and what was drawn is kept. Axes: B images.
"""

import torch
from torch import Tensor

from . import functional
from .space import Space, Stage, Transform

Choice = tuple[Transform, Tensor, Tensor]  # one transformation, which images drew it (B,), and what it takes there


def act_at(images: Tensor, stage: Stage, space: Space, paint: tuple[int, ...], *drawn: Tensor) -> Tensor:
    """One position: op, magnitude and active are (B,), u is (B, 4)."""
    op, magnitude, active, u = drawn
    choices = [
        (t, active & (op == n), t.argument(magnitude, u, *images.shape[2:]))
        for n, t in enumerate(space)
        if t.stage is stage and not t.changes_nothing
    ]
    if stage is Stage.POSITION:
        return apply_position(images, choices)
    return keep_drawn(images, images, choices, *((paint,) if stage is Stage.LAST else ()))


def apply_position(images: Tensor, choices: list[Choice]) -> Tensor:
    """One pass for all warps and tone curves, for only one of them is not the identity; then the other kernels."""
    matrix = functional.shift_matrix(*torch.zeros(2, len(images), dtype=torch.float64, device=images.device))
    table = functional.ramp(images).flatten(2)
    others = []
    for choice in choices:
        transform, drawn, argument = choice
        if transform.matrix is not None:
            matrix = torch.where(drawn[:, None], transform.matrix(argument, *images.shape[2:]), matrix)
        elif transform.table is not None:
            table = torch.where(drawn[:, None, None], transform.table(images, argument), table)
        else:
            others.append(choice)
    return keep_drawn(images, functional.lookup(functional.affine(images, matrix), table), others)


def keep_drawn(images: Tensor, out: Tensor, choices: list[Choice], *extra: tuple[int, ...]) -> Tensor:
    """Put the kernels' results for `images` into `out`, where they were drawn."""
    for transform, drawn, argument in choices:
        out = torch.where(functional.per_image(drawn), transform.on_batch(images, argument, *extra), out)
    return out
