"""All that chance decides about the steps of a search, on the CPU and ahead of them.

Standard noise, not composites: what it becomes depends on phi, which lives where the network does. So a seed means the
same on any device. Axes: A composites of K transformations, B images of a batch.
"""

from typing import Any, NamedTuple, Self

import torch
from torch import Generator, Tensor

from .. import rng
from ..augment import apply
from ..augment.prepare import AS_STORED, Preparation
from ..data import Batches, Split


class Drawn(NamedTuple):
    """What one step needs to know; the last four where phi moves, and images where they are read batch by batch."""

    lr: Tensor  # (), of theta
    uniform: Tensor  # (2, A, K), becomes transformations and magnitudes
    normal: Tensor  # (A, K), blurs the magnitudes
    batch: Tensor  # (B,), indices of train images
    window: Tensor  # (B, ...), where the preparation of images has something to decide
    u: Tensor  # (A * B, K, 4), directions, crops and boxes
    flip: Tensor  # (A * B,) bool
    images: Tensor | None = None  # (B, 3, H, W)
    val_batch: Tensor | None = None  # (B,), indices of val images
    val_images: Tensor | None = None
    eta: Tensor | None = None  # (), the round's first lr
    spent: Tensor | None = None  # (), share of a round's KL divergence that phi may have spent after this step

    def given(self) -> dict[str, Tensor]:
        """By name, without what is not there."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def to(self, device: torch.device) -> Self:
        return self._replace(**{name: value.to(device, non_blocking=True) for name, value in self.given().items()})


def scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


class Chance:
    """The order of images, and the noise behind each step."""

    def __init__(
        self,
        train: Split,
        val: Split,
        batch: int,
        val_batch: int,
        streams: dict[str, Generator],
        *,
        flip: bool,
        preparation: Preparation = AS_STORED,
    ):
        self.train, self.val, self.streams, self.flip, self.preparation = train, val, streams, flip, preparation
        self.train_batches = Batches(len(train.labels), batch, streams["train data"])
        self.val_batches = Batches(len(val.labels), val_batch, streams["val data"])

    def draw(self, n_composites: int, n_composed: int, lr: float) -> Drawn:
        """Draw what a step needs in which theta alone moves."""
        index = self.train_batches.next()
        height, width = self.train.images.shape[2:]
        window = self.preparation.draw(len(index), (height, width), self.streams["transform"])
        u, flip = apply.chance(n_composites * len(index), n_composed, self.streams["transform"], flip=self.flip)
        return Drawn(
            lr=scalar(lr),
            uniform=rng.uniform((2, n_composites, n_composed), self.streams["policy"]),
            normal=rng.normal((n_composites, n_composed), self.streams["policy"]),
            batch=index,
            window=window,
            u=u,
            flip=flip,
            images=self.train.read_ahead(index),
        )

    def draw_val(self, drawn: Drawn, eta: float, spent: float) -> Drawn:
        """Add what phi's move needs."""
        index = self.val_batches.next()
        images = self.val.read_ahead(index)
        return drawn._replace(val_batch=index, val_images=images, eta=scalar(eta), spent=scalar(spent))

    def get_state(self) -> dict[str, Any]:
        return {
            "train_batches": self.train_batches.get_state(),
            "val_batches": self.val_batches.get_state(),
            "streams": rng.get_state(self.streams),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.train_batches.set_state(state["train_batches"])
        self.val_batches.set_state(state["val_batches"])
        rng.set_state(self.streams, state["streams"])
