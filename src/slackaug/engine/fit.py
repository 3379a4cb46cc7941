"""Training a model under a policy: the pre-training of theta_0, and evaluation (App. B.5).

One composite per image, drawn anew each time. Axes: B images of a batch, P parameters of the model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .. import rng
from ..augment.apply import Composites, Parameters
from ..augment.policy import Policy
from ..augment.prepare import AS_STORED, Preparation
from ..augment.samplers import Method
from ..data import Split
from ..schema import check_bounds
from .chance import Feed, Shown, given, scalar, sent
from .passes import Normalise, PlainModel, clip, drawing_from, flatten_, look_up, trainable


class Diverged(RuntimeError):
    """A loss is no longer a number."""


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """How a network is trained: SGD, with a rate that falls along a cosine."""

    epochs: Annotated[int, "passes over the training images"] = 200
    batch: Annotated[int, "images of a step"] = 128
    lr: Annotated[float, "highest rate; cosine to zero, step by step"] = 0.1
    warmup_epochs: Annotated[int, "epochs in which the rate rises evenly, before the cosine"] = 0
    momentum: Annotated[float, "momentum of SGD"] = 0.9
    nesterov: Annotated[bool, "the momentum is Nesterov's; no effect where it is 0"] = True
    weight_decay: Annotated[float, "weight decay, of all parameters but batch-norm's"] = 5e-4
    clip: Annotated[float | None, "highest norm of the gradient; null: any"] = 5.0

    def __post_init__(self) -> None:
        not_negative = "warmup_epochs", "momentum", "weight_decay"
        check_bounds(self, at_least_1=("epochs", "batch"), not_negative=not_negative, positive=("lr", "clip"))
        if self.warmup_epochs > self.epochs:
            raise ValueError(f"warmup_epochs must not exceed epochs, got {self.warmup_epochs} of {self.epochs}")


def decaying(model: nn.Module) -> Tensor:
    """(P,): 1 where weight decay applies, 0 for the parameters of batch-norm."""
    exempt = {id(p) for m in model.modules() if isinstance(m, _BatchNorm) for p in m.parameters()}
    parameters = trainable(model)
    return torch.cat([torch.full_like(p, float(id(p) not in exempt)).flatten().detach() for p in parameters])


def descend(theta: Tensor, momentum: Tensor, g: Tensor, decay: Tensor, lr: Tensor, config: FitConfig) -> None:
    """A step of SGD along the gradient g, in place; all (P,) but lr."""
    g = clip(g, config.clip) + decay * theta
    momentum.mul_(config.momentum).add_(g)
    g = g + config.momentum * momentum if config.nesterov else momentum
    theta.sub_(lr * g)


class Fit:
    """A training that runs step by step and can be left and taken up again at any of them."""

    def __init__(
        self,
        model: nn.Module,
        policy: Policy | Method,
        train: Split,
        config: FitConfig,
        streams: dict[str, Generator],
        preparation: Preparation = AS_STORED,
    ):
        self.model, self.policy, self.train, self.config, self.streams = model, policy, train, config, streams
        self.feed = Feed(train, config.batch, streams, preparation, flip=policy.flip)
        self.theta = flatten_(model)
        self.decay = config.weight_decay * decaying(model)
        self.momentum = torch.zeros_like(self.theta)
        self.normalise = Normalise(policy, preparation.size).to(train.images.device)
        self.way = PlainModel(model, self.normalise, policy.fill, streams["model"])
        self.n_steps = config.epochs * self.feed.batches.per_epoch
        self.descend = descend
        self.done = 0

    def lr(self) -> float:
        warmup = self.config.warmup_epochs * self.feed.batches.per_epoch
        if self.done < warmup:
            return self.config.lr * (self.done + 1) / warmup
        progress = (self.done - warmup) / max(self.n_steps - warmup, 1)
        return self.config.lr * 0.5 * (1 + math.cos(math.pi * progress))

    def step(self) -> Tensor:
        """One step of SGD; the loss before it."""
        loss = self.move(**sent(self.draw(), self.theta.device))
        self.done += 1
        return loss

    def draw(self) -> dict[str, Tensor]:
        """All that chance and the schedule decide about the next step, on the CPU."""
        tau = self.policy.sample(self.feed.batches.batch, self.streams["policy"], self.done / self.n_steps)
        shown = self.feed.draw(1, tau.op.shape[1])._asdict()
        return given({"lr": scalar(self.lr()), "op": tau.op, "magnitude": tau.magnitude, "active": tau.active, **shown})

    def shown(self, op: Tensor, magnitude: Tensor, active: Tensor, **rest: Tensor) -> tuple[Tensor, Tensor, Parameters]:
        """Images, their labels, and how they are to be augmented."""
        shown = Shown(**rest)
        images, labels = look_up(self.train, shown.batch, shown.images, shown.window, self.feed.preparation)
        composites = Composites(op, magnitude, active, self.policy.space)
        return images, labels, Parameters(composites, shown.u, shown.flip)

    def move(self, lr: Tensor, **drawn: Tensor) -> Tensor:
        """Take the images, augment them as was drawn, and move theta; on the device."""
        images, labels, parameters = self.shown(**drawn)
        g, loss = self.way.gradient(self.way.augment(images, parameters), labels)
        self.descend(self.theta, self.momentum, g, self.decay, lr, self.config)
        return loss

    def get_state(self) -> dict[str, Any]:
        return {
            "done": self.done,
            "model": {name: value.clone() for name, value in self.model.state_dict().items()},
            "momentum": self.momentum.clone(),
            "batches": self.feed.batches.get_state(),
            "streams": rng.get_state(self.streams),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.done = state["done"]
        self.model.load_state_dict(state["model"])
        self.momentum.copy_(state["momentum"])
        self.feed.batches.set_state(state["batches"])
        rng.set_state(self.streams, state["streams"])


class Fits:
    """Trainings that go on together: here each takes its step in turn."""

    def __init__(self, fits: Sequence[Fit]):
        self.fits, self.way = fits, fits[0].way

    def step(self) -> Tensor:
        """One step of each; the losses before it."""
        return torch.stack([fit.step() for fit in self.fits])

    def settle(self) -> None:
        """Leave each training in the state it would have reached alone."""


@torch.no_grad()
def predict(model: nn.Module, normalise: Normalise, data: Split, batch: int = 500) -> Tensor:
    """The logits (B, C) for images without augmentation, with the running statistics of batch-norm.

    The same each time: a model that draws even now has a stream of its own.
    """
    model.eval()
    with drawing_from(rng.generator(0, "prediction"), data.labels.device):
        return torch.cat([model(normalise(images)) for images in data.images.split(batch)])


def to_device(split: Split, device: str) -> Split:
    return Split(split.images.to(device), split.labels.to(device))
