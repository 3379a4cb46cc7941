"""Passes of a network over images, and its gradients. All that it learns is one vector theta, and so is a gradient.

`PlainModel` does what is written, pass after pass, in float32: the reference. Axes: A composites, B images of a batch,
P parameters of the network.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from ..augment.apply import Composites, Parameters, execute
from ..augment.policy import Policy
from ..augment.prepare import AS_STORED, Preparation, Size
from ..augment.samplers import Method
from ..data import Split
from .chance import Drawn, sent
from .state import Step

Average = Callable[[Tensor], Tensor]


class Normalise(nn.Module):
    """(B, 3, H, W) uint8 to floats with the data's mean 0 and deviation 1; of larger images than `size`, the centre."""

    scale: Tensor
    shift: Tensor

    def __init__(self, policy: Policy | Method, size: Size | None = None):
        super().__init__()
        self.size = size
        mean, std = (torch.tensor(channel).view(-1, 1, 1) for channel in (policy.mean, policy.std))
        self.register_buffer("scale", 1 / (255 * std))
        self.register_buffer("shift", mean / std)

    def forward(self, images: Tensor) -> Tensor:
        if self.size is not None:
            (height, width), stored = self.size, images.shape[2:]
            top, left = round((stored[0] - height) / 2), round((stored[1] - width) / 2)
            images = images[:, :, top : top + height, left : left + width]
        return images * self.scale - self.shift


def look_up(
    split: Split,
    index: Tensor,
    images: Tensor | None = None,
    window: Tensor | None = None,
    preparation: Preparation = AS_STORED,
) -> tuple[Tensor, Tensor]:
    """Images, prepared as was drawn, and their labels; those of a file have been read ahead."""
    images = split.images[index] if images is None else images
    return images if window is None else preparation.apply(images, window), split.labels[index]


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """Frozen parameters are no part of theta."""
    return [p for p in model.parameters() if p.requires_grad]


def flatten_(model: nn.Module) -> Tensor:
    """Make the model's parameters views of one vector theta (P,), and return it: a change of it changes the model."""
    parameters = trainable(model)
    theta = torch.cat([p.detach().flatten() for p in parameters])
    for p, part in zip(parameters, theta.split([p.numel() for p in parameters]), strict=True):
        p.data = part.view_as(p)
    return theta


def gradient(loss: Tensor, model: nn.Module) -> Tensor:
    """(P,)."""
    gradients = torch.autograd.grad(loss, trainable(model), materialize_grads=True)  # zeros of what was not used
    return torch.cat([g.flatten() for g in gradients])


@contextmanager
def unchanged_buffers(model: nn.Module) -> Iterator[None]:
    """Passes inside leave no trace in the batch-norm statistics."""
    before = [buffer.clone() for buffer in model.buffers()]
    try:
        yield
    finally:
        for buffer, value in zip(model.buffers(), before, strict=True):
            buffer.copy_(value)


def clip(g: Tensor, max_norm: float | None) -> Tensor:
    """Each gradient (..., P) scaled down to `max_norm`."""
    if max_norm is None:
        return g
    norm: Tensor = torch.linalg.vector_norm(g, dim=-1, keepdim=True)
    return g * (max_norm / norm.clamp(min=max_norm))


def clip_each(g: Tensor, sizes: Sequence[int], max_norm: float | None) -> Tensor:
    """A gradient (P,) with the part of each of the model's tensors scaled down to `max_norm`."""
    if max_norm is None:
        return g
    norms = torch.stack(torch._foreach_norm(g.split(list(sizes))))  # one kernel on a GPU, where there are many tensors
    scales = max_norm / norms.clamp(min=max_norm)
    return g * torch.cat([scale.expand(n) for scale, n in zip(scales, sizes, strict=True)])


@contextmanager
def drawing_from(stream: Generator, device: torch.device) -> Iterator[None]:
    """Inside, torch's default stream is this one, and a GPU's is seeded by it: for dropout, which knows no other."""
    gpus = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(gpus, device_type=device.type):
        if gpus:
            torch.get_device_module(device).manual_seed(int(torch.randint(2**62, (), generator=stream)))
        torch.set_rng_state(stream.get_state())
        yield
        stream.set_state(torch.get_rng_state())


class PlainModel:
    """A model's passes, over images that are augmented for them."""

    def __init__(self, model: nn.Module, normalise: Normalise, fill: tuple[int, ...], stream: Generator):
        self.model, self.normalise, self.fill, self.stream = model, normalise, fill, stream

    def augment(self, images: Tensor, parameters: Parameters) -> Tensor:
        return execute(images, parameters, self.fill)

    def gradient(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(P,), in train mode, and the loss; dropout and the like draw from the stream."""
        self.model.train()
        with drawing_from(self.stream, images.device):
            loss = cross_entropy(self.model(self.normalise(images)), labels)
        return gradient(loss, self.model), loss.detach()

    def gradients(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients (A, P) and losses (A,) of A groups of B images; batch-norm sees one group at a time."""
        pairs = [self.gradient(part, labels) for part in images.split(len(labels))]
        return torch.stack([g for g, _ in pairs]), torch.stack([loss for _, loss in pairs])


def alone(gradient: Tensor) -> Tensor:
    """The average over the models of an ensemble of one."""
    return gradient


class Passes:
    """What one step of a search asks of a network and of the images: gradients, at what chance has drawn."""

    def __init__(
        self,
        model: nn.Module,
        phi: Policy,
        train: Split,
        val: Split,
        stream: Generator,
        preparation: Preparation = AS_STORED,
        average: Average = alone,
    ):
        self.model, self.train, self.val, self.preparation = model, train, val, preparation
        self.average = average  # of a gradient of phi, over the models of an ensemble
        self.theta = flatten_(model)
        self.sizes = [p.numel() for p in trainable(model)]
        self.theta_0 = {name: value.clone() for name, value in model.state_dict().items()}
        self.normalise = Normalise(phi, preparation.size).to(train.images.device)
        self.way = PlainModel(model, self.normalise, phi.fill, stream)

    def train_gradients(self, tau: Composites, drawn: Drawn) -> tuple[Tensor, Tensor]:
        """A batch of train images under each composite: g (A, P) and the losses (A,)."""
        images, labels = look_up(self.train, drawn.batch, drawn.images, drawn.window, self.preparation)
        parameters = Parameters(tau.repeat(len(labels)), drawn.u, drawn.flip)
        return self.way.gradients(self.way.augment(images.repeat(len(tau.op), 1, 1, 1), parameters), labels)

    def val_gradient(self, drawn: Drawn) -> tuple[Tensor, Tensor]:
        """A batch of val images as they are: v (P,) and the loss, leaving the batch-norm statistics alone."""
        assert drawn.val_batch is not None
        images, labels = look_up(self.val, drawn.val_batch, drawn.val_images)
        with unchanged_buffers(self.model):
            return self.way.gradient(images, labels)

    def cold_start(self) -> None:
        """theta <- theta_0, batch-norm statistics too."""
        self.model.load_state_dict(self.theta_0)

    def send(self, drawn: Drawn) -> Drawn:
        """What was drawn, to where the step wants it."""
        return Drawn(**sent(drawn.given(), self.theta.device))

    def as_captured(self, step: Step) -> Step:
        """The step, in the way that suits these passes: here as it is written."""
        return step
