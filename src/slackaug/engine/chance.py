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
    """The images of a step, and what is decided about each of them beside its composite."""

    u: Tensor  # (A * B, K, 4), directions, crops and boxes
    flip: Tensor  # (A * B,) bool
    batch: Tensor  # (B,), indices of images
    window: Tensor | None = None  # (B, ...), where their preparation has something to decide
    images: Tensor | None = None  # (B, 3, H, W), where they are read batch by batch


class Drawn(NamedTuple):
    """What one step of a search needs to know; the val images, eta and done are for steps in which phi moves."""

    lr: Tensor  # (), of theta
    uniform: Tensor  # (2, A, K), becomes transformations and magnitudes
    normal: Tensor  # (A, K), blurs the magnitudes
    u: Tensor  # from here as in `Shown`, of train images
    flip: Tensor
    batch: Tensor
    window: Tensor | None = None
    images: Tensor | None = None
    val_batch: Tensor | None = None  # (B,), indices of val images
    val_images: Tensor | None = None
    eta: Tensor | None = None  # (), the round's first lr
    done: Tensor | None = None  # (), share of the round's steps in which phi moves, this one included

    def given(self) -> dict[str, Tensor]:
        return given(self._asdict())


def given(drawn: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
    """Leave out what is not there."""
    return {name: value for name, value in drawn.items() if value is not None}


def sent(drawn: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: value.to(device, non_blocking=True) for name, value in drawn.items()}


def scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


class Feed:
    """Train images, in batches, epoch by epoch."""

    def __init__(
        self, train: Split, batch: int, streams: dict[str, Generator], preparation: Preparation, *, flip: bool
    ):
        self.train, self.transform, self.preparation, self.flip = train, streams["transform"], preparation, flip
        self.batches = Batches(len(train.labels), batch, streams["train data"])

    def draw(self, n_composites: int, n_composed: int) -> Shown:
        """The next batch, to be shown under so many composites of so many transformations."""
        index = self.batches.next()
        height, width = self.train.images.shape[2:]
        window = self.preparation.draw(len(index), (height, width), self.transform)
        u, flip = apply.chance(n_composites * len(index), n_composed, self.transform, flip=self.flip)
        return Shown(u, flip, index, window, self.train.read_ahead(index))


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
        self.streams, self.val = streams, val
        self.train = Feed(train, batch, streams, preparation, flip=flip)
        self.val_batches = Batches(len(val.labels), val_batch, streams["val data"])

    def draw(self, n_composites: int, n_composed: int, lr: float) -> Drawn:
        """Draw what a step needs in which theta alone moves."""
        uniform = rng.uniform((2, n_composites, n_composed), self.streams["policy"])
        normal = rng.normal((n_composites, n_composed), self.streams["policy"])
        return Drawn(scalar(lr), uniform, normal, *self.train.draw(n_composites, n_composed))

    def draw_val(self, drawn: Drawn, eta: float, done: float) -> Drawn:
        """Add what phi's move needs."""
        index = self.val_batches.next()
        images = self.val.read_ahead(index)
        return drawn._replace(val_batch=index, val_images=images, eta=scalar(eta), done=scalar(done))

    def get_state(self) -> dict[str, Any]:
        return {
            "train_batches": self.train.batches.get_state(),
            "val_batches": self.val_batches.get_state(),
            "streams": rng.get_state(self.streams),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.train.batches.set_state(state["train_batches"])
        self.val_batches.set_state(state["val_batches"])
        rng.set_state(self.streams, state["streams"])
