"""How a step is executed. `Plain` does what is written, pass after pass: the reference."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from .. import rng
from ..augment.apply import Composites, augment
from ..augment.policy import Policy
from ..augment.prepare import AS_STORED, Preparation
from ..augment.samplers import Method
from ..data import Batches, Split
from ..methods.slack import Report, SearchConfig, State, Step
from . import hypergrad


class Normalise(nn.Module):
    """(B, 3, H, W) uint8 to floats with the data's mean 0 and deviation 1."""

    scale: Tensor
    shift: Tensor

    def __init__(self, policy: Policy | Method):
        super().__init__()
        mean, std = (torch.tensor(channel).view(-1, 1, 1) for channel in (policy.mean, policy.std))
        self.register_buffer("scale", 1 / (255 * std))
        self.register_buffer("shift", mean / std)

    def forward(self, images: Tensor) -> Tensor:
        return images * self.scale - self.shift


def one_pass(
    model: nn.Module, normalise: Normalise, images: Tensor, labels: Tensor, stream: Generator
) -> tuple[Tensor, Tensor]:
    """The gradient (P,) of the loss in train mode, and the loss; `stream` is what the model draws from."""
    model.train()
    with rng.as_default(stream):
        loss = cross_entropy(model(normalise(images)), labels)
    return hypergrad.gradient(loss, model), loss.detach()


def alone(gradient: Tensor) -> Tensor:
    """The average over the models of an ensemble of one."""
    return gradient


class Plain:
    """One pass per composite, in float32, on the device of the data."""

    def __init__(
        self,
        model: nn.Module,
        phi: Policy,
        train: Split,
        val: Split,
        batch: int,
        streams: dict[str, Generator],
        preparation: Preparation = AS_STORED,
        average: Callable[[Tensor], Tensor] = alone,
        val_batch: int | None = None,
        train_batch: int | None = None,
    ):
        self.model = model
        self.average = average  # of a gradient of phi, over the models of an ensemble
        self.theta = hypergrad.flatten_(model)
        self.sizes = [p.numel() for p in hypergrad.trainable(model)]
        self.theta_0 = {name: value.clone() for name, value in model.state_dict().items()}
        self.normalise = Normalise(phi).to(train.images.device)
        self.train, self.val = train, val
        self.train_batches = Batches(len(train.labels), batch, streams["train data"])
        self.own_batches = None  # of images with composites of their own, if the network learns from such
        if train_batch is not None:
            self.own_batches = Batches(len(train.labels), train_batch, streams["train data"])
        self.val_batches = Batches(len(val.labels), val_batch or batch, streams["val data"])
        self.streams = streams
        self.flip, self.fill = phi.flip, phi.fill
        self.preparation = preparation

    def execute(self, step: Step, state: State, config: SearchConfig) -> tuple[State, Report]:
        return step(state, self, config)

    def scheduled(self, name: str, value: float) -> float | Tensor:
        return value

    def cold_start(self) -> None:
        self.model.load_state_dict(self.theta_0)

    def draw(self, phi: Policy, n: int) -> Composites:
        return phi.sample(n, self.streams["policy"])

    def draw_each(self, phi: Policy) -> Composites:
        assert self.own_batches is not None
        return self.draw(phi, self.own_batches.batch)

    def train_gradients(self, tau: Composites) -> tuple[Tensor, Tensor]:
        images, labels = self.train.take(self.train_batches.next())
        images = self.preparation.train(images, self.streams["transform"])  # once: all composites act on the same
        n_composites, n_images = len(tau.op), len(labels)
        augmented = augment(
            images.repeat(n_composites, 1, 1, 1),
            tau.repeat(n_images),
            self.streams["transform"],
            flip=self.flip,
            fill=self.fill,
        )
        passes = [self.one_pass(part, labels) for part in augmented.split(n_images)]  # batch-norm sees one at a time
        return torch.stack([g for g, _ in passes]), torch.stack([loss for _, loss in passes])

    def train_gradient(self, tau: Composites) -> tuple[Tensor, Tensor]:
        assert self.own_batches is not None
        images, labels = self.train.take(self.own_batches.next())
        images = self.preparation.train(images, self.streams["transform"])
        augmented = augment(images, tau, self.streams["transform"], flip=self.flip, fill=self.fill)
        return self.one_pass(augmented, labels)

    def val_gradient(self) -> tuple[Tensor, Tensor]:
        images, labels = self.val.take(self.val_batches.next())
        with hypergrad.unchanged_buffers(self.model):
            return self.one_pass(self.preparation.test(images), labels)

    def one_pass(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return one_pass(self.model, self.normalise, images, labels, self.streams["model"])

    def get_state(self) -> dict[str, Any]:
        """What decides all passes to come, beside theta_0."""
        state = {
            "model": {name: value.clone() for name, value in self.model.state_dict().items()},
            "train_batches": self.train_batches.get_state(),
            "val_batches": self.val_batches.get_state(),
            "streams": rng.get_state(self.streams),
        }
        if self.own_batches is not None:
            state["own_batches"] = self.own_batches.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.train_batches.set_state(state["train_batches"])
        if self.own_batches is not None:
            self.own_batches.set_state(state["own_batches"])
        self.val_batches.set_state(state["val_batches"])
        rng.set_state(self.streams, state["streams"])
