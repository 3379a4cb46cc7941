"""All that chance decides about the steps of a search and of a training, on the CPU and ahead of them.

Where phi moves it is standard noise, not composites: what that becomes depends on phi, which lives where the network
does. So a seed means the same on any device. Axes: A composites of K transformations, B images of a batch.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from .. import rng
from ..augment import apply
from ..augment.prepare import AS_STORED, Preparation
from ..data import Batches, Split


class Shown(NamedTuple):
    """Which images a network is to see in a step, before they are augmented."""

    batch: Tensor  # (B,), indices of images
    window: Tensor | None  # (B, ...), where their preparation has something to decide
    images: Tensor | None  # (B, 3, H, W), where they are read batch by batch


class Drawn(NamedTuple):
    """What one step of a search needs to know; the val images, eta and spent are for steps in which phi moves."""

    lr: Tensor  # (), of theta
    uniform: Tensor  # (2, A, K), becomes transformations and magnitudes
    normal: Tensor  # (A, K), blurs the magnitudes
    u: Tensor  # (A * B, K, 4), directions, crops and boxes
    flip: Tensor  # (A * B,) bool
    batch: Tensor  # as in `Shown`, of train images
    window: Tensor | None = None
    images: Tensor | None = None
    val_batch: Tensor | None = None  # (B,), indices of val images
    val_images: Tensor | None = None
    eta: Tensor | None = None  # (), the round's first lr
    spent: Tensor | None = None  # (), share of a round's KL divergence that phi may have spent after this step

    def given(self) -> dict[str, Tensor]:
        return given(self._asdict())


def given(drawn: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
    """By name, without what is not there."""
    return {name: value for name, value in drawn.items() if value is not None}


def sent(drawn: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: value.to(device, non_blocking=True) for name, value in drawn.items()}


def scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


class Feed:
    """The images of a split, in batches, epoch by epoch."""

    def __init__(self, split: Split, batch: int, order: Generator, preparation: Preparation = AS_STORED):
        self.split, self.preparation = split, preparation
        self.batches = Batches(len(split.labels), batch, order)

    def draw(self, transform: Generator) -> Shown:
        index = self.batches.next()
        height, width = self.split.images.shape[2:]
        window = self.preparation.draw(len(index), (height, width), transform)
        return Shown(index, window, self.split.read_ahead(index))


class Chance:
    """The order of images, and the noise behind each step of a search."""

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
        self.streams, self.flip = streams, flip
        self.train = Feed(train, batch, streams["train data"], preparation)
        self.val = Feed(val, val_batch, streams["val data"])

    def draw(self, n_composites: int, n_composed: int, lr: float) -> Drawn:
        """Draw what a step needs in which theta alone moves."""
        shown = self.train.draw(self.streams["transform"])
        n_images = n_composites * len(shown.batch)
        u, flip = apply.chance(n_images, n_composed, self.streams["transform"], flip=self.flip)
        uniform = rng.uniform((2, n_composites, n_composed), self.streams["policy"])
        normal = rng.normal((n_composites, n_composed), self.streams["policy"])
        return Drawn(scalar(lr), uniform, normal, u, flip, *shown)

    def draw_val(self, drawn: Drawn, eta: float, spent: float) -> Drawn:
        """Add what phi's move needs."""
        index, _, images = self.val.draw(self.streams["transform"])
        return drawn._replace(val_batch=index, val_images=images, eta=scalar(eta), spent=scalar(spent))

    def get_state(self) -> dict[str, Any]:
        return {
            "train_batches": self.train.batches.get_state(),
            "val_batches": self.val.batches.get_state(),
            "streams": rng.get_state(self.streams),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.train.batches.set_state(state["train_batches"])
        self.val.batches.set_state(state["val_batches"])
        rng.set_state(self.streams, state["streams"])
