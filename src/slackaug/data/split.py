"""Images with their labels, and the batches that are taken of them.

Axes: B images, C = 3 channels, H, W pixels.
"""

from typing import NamedTuple

from torch import Tensor

from .rows import Images, Rows, select


class Batch(NamedTuple):
    images: Tensor  # (B, C, H, W) uint8
    labels: Tensor  # (B,) int64


class Split(NamedTuple):
    images: Images  # (B, C, H, W) uint8, in memory or in a file
    labels: Tensor  # (B,) int64

    def take(self, indices: Tensor, images: Tensor | None = None) -> Batch:
        """Some images to compute with, perhaps read ahead."""
        return Batch(self.images[indices] if images is None else images, self.labels[indices])

    def read_ahead(self, indices: Tensor) -> Tensor | None:
        """Those of a file, on the CPU; None where all images are in memory."""
        return self.images.read(indices) if isinstance(self.images, Rows) else None

    def subset(self, indices: Tensor) -> "Split":
        """A smaller split; of images in a file nothing is read."""
        return Split(select(self.images, indices), self.labels[indices])
