"""What becomes of a stored image before a method acts on it: the paper's table of pre-processing, above 64 pixels.

Data may be stored with a margin around what the network sees (side 8/7, e.g. 256 for 224): training then takes a random
window, and testing the one in the centre. Axes: B images, (H, W) stored and (h, w) seen by the network.
"""

from dataclasses import dataclass

from torch import Generator, Tensor

from .. import rng
from . import functional, resize

SMALL_IMAGE = 64  # pixels; up to it, images are shown as they are stored
PADDING = 1 / 8
Size = tuple[int, int]  # height and width


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """From images (B, C, H, W) uint8 as stored to (B, C, h, w) as trained on; tested is the centre of that size."""

    size: Size | None = None  # h and w; None: as stored
    padding: float = 0.0  # black on every side, as a fraction of the size, around what the random window is taken from
    least_area: float | None = None  # RandomResizeCrop of this share of the image to all of it, in place of a window
    margin: bool | None = None  # how the data is to be stored: with a margin, whole, or either

    @property
    def is_transformation(self) -> bool:
        """Whether it is a crop that a method has chosen, and not only a window of the size that the network sees."""
        return self.least_area is not None or self.padding > 0

    def train(self, images: Tensor, generator: Generator | None) -> Tensor:
        """Draws, on the CPU, only where chance has something to decide."""
        u = self.draw(len(images), (images.shape[2], images.shape[3]), generator)
        return images if u is None else self.apply(images, u.to(images.device))

    def draw(self, n: int, stored: Size, generator: Generator | None) -> Tensor | None:
        """The uniforms (n, 4) or (n, 2) that decide about n images of the stored size; none where they are all seen."""
        if self.least_area is not None:
            return rng.uniform((n, 4), generator)
        is_decided = self.size in (None, stored) and not self.padding
        return None if is_decided else rng.uniform((2, n), generator).T

    def apply(self, images: Tensor, u: Tensor) -> Tensor:
        """What the uniforms decided."""
        assert self.size is not None
        if self.least_area is not None:
            area = self.least_area + (1 - self.least_area) * u[:, 0]
            box = resize.resize_window(area, u[:, 1:], images.shape[2], images.shape[3])  # (B, 4)
            return resize.resize_crop(images, box, *self.size)
        top, left = (
            (u[:, axis] * (have - seen + 2 * pad + 1)).floor().long() - pad
            for axis, (have, seen) in enumerate(zip(images.shape[2:], self.size, strict=True))
            for pad in [round(self.padding * seen)]
        )
        return functional.crop(images, left, top, *self.size)


AS_STORED = Preparation()


def window(size: Size) -> Preparation:
    """Resize(256) + RandomCrop(224), or CenterCrop."""
    return Preparation(size=size)


def padded_window(size: Size) -> Preparation:
    """Resize(256) + RandomCrop(224, padding=28), or CenterCrop: TrivialAugment's CIFAR defaults on large images."""
    return Preparation(size=size, padding=PADDING, margin=True)


def resize_crop(size: Size, least_area: float, *, margin: bool | None) -> Preparation:
    """RandomResizeCrop; the area is uniform from `least_area` to 1, the aspect as in `resize.resize_window`."""
    return Preparation(size=size, least_area=least_area, margin=margin)
