"""The order in which images are seen: epoch by epoch, without replacement within one."""

import torch
from torch import Generator, Tensor


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
