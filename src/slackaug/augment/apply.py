"""How a drawn composite is applied.

Axes: B images, L positions, N transformations of a space. `draw` settles all that chance decides; `grouped` and
`branch_free` then execute the same parameters to the same pixels, and `on_pil` does so for one PIL image.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from PIL import Image
from torch import Generator, Tensor

from .. import rng
from . import functional, pil
from .branch_free import act_at
from .space import STAGES, Space, Stage


def beside(there: Tensor, value: Tensor) -> Tensor:
    """The value on the device of another tensor, copied there while the host continues."""
    return value.to(there.device, non_blocking=True)


class Composites(NamedTuple):
    """n draws of tau from one space: up to L transformations and their magnitudes each."""

    op: Tensor  # (n, L) int64, index into the space
    magnitude: Tensor  # (n, L) float64, unclamped
    active: Tensor  # (n, L) bool: false where a position does nothing
    space: Space

    def to(self, device: torch.device) -> "Composites":
        op, magnitude, active = (t.to(device, non_blocking=True) for t in self[:3])
        return Composites(op, magnitude, active, self.space)

    def repeat(self, times: int) -> "Composites":
        """Each composite for `times` images in a row."""
        op, magnitude, active = (t.repeat_interleave(times, 0) for t in self[:3])
        return Composites(op, magnitude, active, self.space)


class Parameters(NamedTuple):
    """Composites, and what chance adds for each image: replaying them gives the same pixels."""

    composites: Composites
    u: Tensor  # (B, L, 4) float64 uniforms: the direction, then what a window needs
    flip: Tensor  # (B,) bool


def draw(composites: Composites, generator: Generator | None, *, flip: bool) -> Parameters:
    """Draw, on the CPU, what is left to chance once the composites are known."""
    n, length = composites.op.shape
    u, flipped = chance(n, length, generator, flip=flip)
    return Parameters(composites, beside(composites.op, u), beside(composites.op, flipped))


def chance(n: int, length: int, generator: Generator | None, *, flip: bool) -> tuple[Tensor, Tensor]:
    """`Parameters.u` and `Parameters.flip` of n images, on the CPU."""
    u = rng.uniform((n, length, 4), generator)
    flipped = rng.uniform((n,), generator) < 0.5  # drawn in any case: switching flips off changes nothing else
    return u, flipped & flip


def augment(
    images: Tensor,
    composites: Composites,
    generator: Generator | None = None,
    *,
    flip: bool = False,
    fill: tuple[int, ...] = (0, 0, 0),
) -> Tensor:
    """Apply to each of the images (B, C, H, W) uint8 its own composite; `fill` is the colour of Cutout."""
    return execute(images, draw(composites.to(images.device), generator, flip=flip), fill)


def execute(images: Tensor, parameters: Parameters, fill: tuple[int, ...] = (0, 0, 0)) -> Tensor:
    """Apply the parameters in the way that is fastest where the images are."""
    if images.ndim != 4 or images.dtype != torch.uint8 or images.shape[1] not in (1, 3):
        raise ValueError(f"expected images (B, 1 or 3, H, W) uint8, got {tuple(images.shape)} {images.dtype}")
    on_host = images.device.type == "cpu" or not is_branch_free(parameters.composites.space)
    return (grouped if on_host else branch_free)(images, parameters, fill)


def is_branch_free(space: Space) -> bool:
    """Whether every transformation has a batched kernel."""
    return all(transform.kernel is not None for transform in space)


def check_lengths(images: Tensor, parameters: Parameters) -> None:
    n = len(parameters.composites.op)
    if n != len(images):
        raise ValueError(f"got {n} composites for {len(images)} images; Composites.repeat shares one among several")


def grouped(images: Tensor, parameters: Parameters, fill: tuple[int, ...] = (0, 0, 0)) -> Tensor:
    """Execute by transformation: at each position, the images that drew the same one go through its kernel together."""
    check_lengths(images, parameters)
    (op, magnitude, active, space), u, flip = parameters
    if not len(images):
        return images.clone()
    for stage in STAGES:
        if stage is Stage.LAST:
            images = functional.hflip(images, flip)
        extra = (functional.paint_for(fill, images.shape[1]),) if stage is Stage.LAST else ()
        acting = torch.tensor([t.stage is stage and not t.changes_nothing for t in space], device=op.device)
        for k in range(op.shape[1] if acting.any() else 0):
            drawn = torch.where(active[:, k] & acting[op[:, k]], op[:, k], -1)  # (B,)
            order = drawn.argsort()
            numbers, counts = drawn.unique(return_counts=True)
            done = []
            for n, rows in zip(numbers.tolist(), order.split(counts.tolist()), strict=True):
                group = images.index_select(0, rows)
                if n >= 0:
                    transform = space.transforms[n]
                    argument = transform.argument(magnitude[rows, k], u[rows, k], *images.shape[2:])
                    group = transform.on_batch(group, argument, *extra)
                done.append(group)
            images = torch.cat(done).index_select(0, order.argsort())
    return images


def branch_free(
    images: Tensor, parameters: Parameters, fill: tuple[int, ...] = (0, 0, 0), act: Callable[..., Tensor] | None = None
) -> Tensor:
    """Execute with static shapes and no question to the host: compute every choice, keep those that were drawn.

    `act` may be a compiled `act_at`: one position is then compiled once for all.
    """
    check_lengths(images, parameters)
    (op, magnitude, active, space), u, flip = parameters
    paint = functional.paint_for(fill, images.shape[1])
    for stage in STAGES:
        if stage is Stage.LAST:
            images = functional.hflip(images, flip)
        if any(t.stage is stage for t in space):
            for k in range(op.shape[1]):
                images = (act or act_at)(images, stage, space, paint, op[:, k], magnitude[:, k], active[:, k], u[:, k])
    return images


def on_pil(image: Image.Image, parameters: Parameters, fill: tuple[int, ...] = (0, 0, 0)) -> Image.Image:
    """Execute the parameters of one image with Pillow."""
    (op, magnitude, active, space), u, flip = parameters
    image = image.copy()
    extra = {Stage.LAST: (functional.paint_for(fill, pil.MODES[image.mode]),)}
    for stage in STAGES:
        if stage is Stage.LAST and flip.item():
            image = pil.hflip(image)
        for k, (n, is_active) in enumerate(zip(op[0].tolist(), active[0].tolist(), strict=True)):
            transform = space.transforms[n]
            if is_active and transform.stage is stage and not transform.changes_nothing:
                argument = transform.argument(magnitude[:, k], u[:, k], image.height, image.width)
                image = transform.on_image(image, argument[0].tolist(), *extra.get(stage, ()))
    return image
