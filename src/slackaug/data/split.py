"""Images with their labels, and the batches that are taken of them, epoch by epoch.

Axes: B images, C = 3 channels, H, W pixels.
"""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from .rows import Images, Rows


class Batch(NamedTuple):
    images: Tensor  # (B, C, H, W) uint8
    labels: Tensor  # (B,) int64


class Split(NamedTuple):
    images: Images  # (B, C, H, W) uint8, in memory or in a file
    labels: Tensor  # (B,) int64

    def take(self, indices: Tensor) -> Batch:
        return Batch(self.images[indices], self.labels[indices])

    def read_ahead(self, indices: Tensor) -> Tensor | None:
        """Those of a file, on the CPU; None where all images are in memory."""
        return self.images.read(indices) if isinstance(self.images, Rows) else None

    def subset(self, indices: Tensor) -> "Split":
        """A smaller split; of images in a file nothing is read."""
        images = self.images.select(indices) if isinstance(self.images, Rows) else self.images[indices]
        return Split(images, self.labels[indices])


class Batches:
    """Endless batches of indices below n; each epoch is a new permutation, its last incomplete batch is dropped."""

    def __init__(self, n: int, batch: int, generator: Generator) -> None:
        if n < 1 or batch < 1:
            raise ValueError(f"need at least one image and one per batch, got n={n} and batch={batch}")
        self.n = n
        self.batch = min(batch, n)
        self.generator = generator
        self.order = torch.empty(0, dtype=torch.int64)  # drawn by the first next()
        self.position = 0

    @property
    def per_epoch(self) -> int:
        return self.n // self.batch

    def next(self) -> Tensor:
        """(batch,) int64, all different."""
        if self.position + self.batch > len(self.order):
            self.order = torch.randperm(self.n, generator=self.generator)
            self.position = 0
        indices = self.order[self.position : self.position + self.batch]
        self.position += self.batch
        return indices.clone()

    def get_state(self) -> dict[str, Tensor]:
        """All that decides the batches to come, the generator included."""
        return {
            "order": self.order.clone(),
            "position": torch.tensor(self.position),
            "size": torch.tensor([self.n, self.batch]),
            "generator": self.generator.get_state(),
        }

    def set_state(self, state: dict[str, Tensor]) -> None:
        n, batch = state["size"].tolist()
        if (n, batch) != (self.n, self.batch):
            raise ValueError(
                f"the state is for batches of {batch} out of {n} images, these are {self.batch} out of {self.n}: "
                "resume with the same data and settings"
            )
        self.order = state["order"].clone()
        self.position = int(state["position"])
        self.generator.set_state(state["generator"])
