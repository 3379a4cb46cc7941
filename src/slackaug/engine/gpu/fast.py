"""The fast way: mixed precision, compiled passes, and every kind of step captured as one CUDA graph.

The same numbers as the plain way within rounding, and the same draws. Axes: A composites of B images, P parameters.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ... import models, rng
from ...augment import apply, branch_free
from ...augment.apply import Composites, Parameters
from ...augment.policy import Policy
from ...augment.prepare import Preparation
from ...data import Batches, Split
from ...data.dataset import Batch
from ...methods import slack
from ...methods.slack import Report, SearchConfig, State, Step
from .. import hypergrad
from ..fit import Fit, descend
from ..passes import Normalise, Plain, alone
from . import grouped
from .graphs import Graphs, Outputs
from .norms import precise

N_REPEATED = 4  # blocks of one class that make it worth compiling the block instead of the whole model
RECOMPILE_LIMIT = 64  # a block is compiled once for each shape that it meets; act_at for each stage of a space, too


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """The outermost modules of a class that the model has several of, such as a network's residual blocks."""
    counts = Counter(type(module) for module in model.modules())
    found: list[nn.Module] = []

    def visit(module: nn.Module) -> None:
        for child in module.children():
            is_layer = type(child).__module__.startswith("torch.") or type(child) in grouped.LAYERS
            if not is_layer and counts[type(child)] >= N_REPEATED:
                found.append(child)
            else:
                visit(child)

    visit(model)
    return found


COMPILED: dict[type[nn.Module], type[nn.Module]] = {}  # by the class as it was written


def compiled_class(kind: type[nn.Module]) -> type[nn.Module]:
    """The class with its forward pass compiled, once for all of its objects."""
    if kind not in COMPILED:
        forward = torch.compile(kind.forward, dynamic=False)
        COMPILED[kind] = type(f"Compiled{kind.__name__}", (kind,), {"forward": forward})
    return COMPILED[kind]


class Passes:
    """Forward and backward passes of a model, in a precision, compiled or as they are written."""

    def __init__(
        self,
        model: nn.Module,
        theta: Tensor,
        normalise: Normalise,
        precision: torch.dtype,
        *,
        compiled: bool,
        few: Batch | None = None,
    ):
        """With `few` images, for two groups, it is tried whether the model can take groups."""
        self.model, self.normalise, self.precision = model.train(), normalise, precision  # as far as it lets itself
        self.grouped = grouped.Grouped(model, theta, precision) if grouped.is_groupable(model) else None
        if self.grouped is not None and few is not None:
            x = normalise(few.images).contiguous(memory_format=torch.channels_last)
            if not grouped.keeps_apart(model, theta, x, few.labels[: len(x) // 2]):
                self.grouped = None
        self.loss, self.losses, self.act = self.loss_of, self.losses_of, branch_free.act_at
        self.kinds = {} if self.grouped is None else dict(self.grouped.layers)  # what modules are in a pass
        if compiled:
            self.act = torch.compile(branch_free.act_at, dynamic=False)
            blocks = repeated_blocks(model)
            if blocks:
                self.kinds |= {block: compiled_class(type(block)) for block in blocks}
            elif not any(kind in grouped.BLOCKS for kind in self.kinds.values()):
                self.loss = torch.compile(self.loss_of, dynamic=False)
                self.losses = torch.compile(self.losses_of, dynamic=False)

    @contextmanager
    def prepared(self, n_groups: int) -> Iterator[None]:
        """For a pass: train mode, the model's compiled blocks, and layers that take groups."""
        self.model.train()
        if self.grouped is not None:
            self.grouped.prepare(n_groups)
        with torch._dynamo.config.patch(recompile_limit=RECOMPILE_LIMIT), grouped.swapped(self.kinds):
            yield

    def loss_of(self, images: Tensor, labels: Tensor) -> Tensor:
        device = images.device.type
        with torch.autocast(device, self.precision, enabled=self.precision is not torch.float32):
            x = self.normalise(images).contiguous(memory_format=torch.channels_last)
            return cross_entropy(precise(self.model(x)), labels)

    def losses_of(self, parameters: dict[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
        assert self.grouped is not None
        x = self.normalise(images).to(self.precision).contiguous(memory_format=torch.channels_last)
        return self.grouped.losses(parameters, x, labels)

    def augment(self, images: Tensor, parameters: Parameters, fill: tuple[int, ...]) -> Tensor:
        if not apply.is_branch_free(parameters.composites.space):
            return apply.execute(images, parameters, fill)
        (op, magnitude, active, space), u, flip = parameters
        op, magnitude, active, u = map(columns, (op, magnitude, active, u))
        parameters = Parameters(Composites(op, magnitude, active, space), u, flip)
        with torch._dynamo.config.patch(recompile_limit=RECOMPILE_LIMIT):
            return apply.branch_free(images, parameters, fill, self.act)

    def gradient(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(P,), and the loss."""
        if self.grouped is not None:
            g, losses = self.gradients(images, labels)
            return g[0], losses[0]
        with self.prepared(1):
            loss = self.loss(images, labels)
            return hypergrad.gradient(loss, self.model), loss.detach()

    def gradients(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Of each of the A groups in images (A * B, C, H, W): (A, P), and the losses (A,)."""
        if self.grouped is None:
            pairs = [self.gradient(part, labels) for part in images.split(len(labels))]
            return torch.stack([g for g, _ in pairs]), torch.stack([loss for _, loss in pairs])
        n_groups = len(images) // len(labels)
        with self.prepared(n_groups):
            parameters = self.grouped.parameters(n_groups)
            losses = self.losses(parameters, images, labels)
            return self.grouped.gradients(losses, parameters), losses.detach()


def few_images(model: nn.Module, split: Split, preparation: Preparation) -> Batch | None:
    """To try groups with, two of three images; none for our own models, which are known to take them."""
    if type(model).__module__ == models.__name__:
        return None
    index = torch.arange(6) % len(split.labels)
    ahead = split.read_ahead(index)
    device = split.labels.device
    images, labels = split.take(index.to(device), None if ahead is None else ahead.to(device))
    return Batch(preparation.test(images), labels)


def columns(value: Tensor) -> Tensor:
    """The same (B, L, ...) with each position in one piece, which a compiled kernel can then read as it is."""
    return value.transpose(0, 1).contiguous().transpose(0, 1)


class FastFit(Fit):
    """A training whose steps are captured."""

    def __init__(self, *arguments: Any, precision: torch.dtype, compiled: bool = True):
        super().__init__(*arguments)
        if compiled:
            self.descend = torch.compile(descend, dynamic=False)
        few = few_images(self.model, self.train, self.preparation)
        self.passes = Passes(self.model, self.theta, self.normalise, precision, compiled=compiled, few=few)
        self.graphs = Graphs(self.theta.device)

    def step(self) -> Tensor:
        (loss,) = self.graphs.run("training", self.move_captured, self.draw(), self.changed)
        self.done += 1
        return loss.clone()

    def move_captured(self, **drawn: Tensor) -> Outputs:
        return (self.move(**drawn),)

    def changed(self) -> list[Tensor]:
        return [self.theta, self.momentum, *self.model.buffers()]

    def augment(self, images: Tensor, parameters: Parameters) -> Tensor:
        return self.passes.augment(images, parameters, self.policy.fill)

    def gradient(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return self.passes.gradient(images, labels)


class Fast(Plain):
    """All composites in one pass, and every step of a search captured."""

    def __init__(self, *arguments: Any, precision: torch.dtype, compiled: bool = True, **options: Any):
        super().__init__(*arguments, **options)
        few = few_images(self.model, self.train, self.preparation)
        self.passes = Passes(self.model, self.theta, self.normalise, precision, compiled=compiled, few=few)
        self.graphs = Graphs(self.theta.device)
        self.drawn: dict[str, Tensor] = {}  # what the host has sent for this step
        self.state: State | None = None  # whose tensors keep their places

    def execute(self, step: Step, state: State, config: SearchConfig) -> tuple[State, Report]:
        is_unrolled = state.step >= config.n_retrain
        kind, first = ("policy", config.n_retrain) if is_unrolled else ("re-training", 0)
        drawn = self.draw_noise(state, config, is_unrolled)
        own = self.adopt(state)._replace(step=first)
        move = partial(self.move, step, config, own)
        if is_unrolled and self.average is not alone:  # the processes of an ensemble talk in this step
            train_loss, *rest = move(**{name: value.to(self.theta.device) for name, value in drawn.items()})
        else:
            train_loss, *rest = self.graphs.run(kind, move, drawn, self.changed)
        op, magnitude, active, *val = rest
        tau = Composites(op, magnitude, active, state.phi.space)
        val_loss, weight = (val[0].clone(), val[1].clone()) if val else (None, None)
        return own._replace(step=state.step + 1, round=state.round), Report(train_loss.clone(), val_loss, weight, tau)

    def move(self, step: Step, config: SearchConfig, own: State, **drawn: Tensor) -> Outputs:
        """A step on the state's own tensors."""
        self.drawn = drawn
        new, report = step(own, self, config)
        for place, value in zip(tensors(own), tensors(new), strict=True):
            if value is not place:
                place.copy_(value)
        val = () if report.val_loss is None or report.weight is None else (report.val_loss, report.weight)
        return (report.train_loss, *report.tau[:3], *val)

    def adopt(self, state: State) -> State:
        """The state with tensors that stay where they are from step to step, on the device."""
        if self.state is None:
            places = [value.to(self.theta.device, copy=True) for value in tensors(state)]
            self.state = with_tensors(state, places)
        else:
            for place, value in zip(tensors(self.state), tensors(state), strict=True):
                if value is not place:
                    place.copy_(value)
        return self.state

    def changed(self) -> list[Tensor]:
        assert self.state is not None
        return [self.theta, *self.model.buffers(), *tensors(self.state)]

    # --- what a step asks for -----------------------------------------------------------------------------------------

    def draw_noise(self, state: State, config: SearchConfig, is_unrolled: bool) -> dict[str, Tensor]:
        """All that chance and the schedule decide about a step, on the CPU and in the order of the plain way."""
        k = len(state.phi.pi)
        drawn = {"lr": torch.tensor(slack.model_lr(state.step, config), dtype=torch.float64)}
        if self.own_batches is not None:
            own = self.draw_batch(self.own_batches, k)
            drawn |= {f"own_{name}": value for name, value in own.items()}
        if is_unrolled or self.own_batches is None:
            drawn |= self.draw_batch(self.train_batches, k, config.n_composites)
        if is_unrolled:
            drawn["val_index"] = self.val_batches.next()
            val_images = self.val.read_ahead(drawn["val_index"])
            drawn |= {} if val_images is None else {"val_images": val_images}
            drawn["eta"] = torch.tensor(config.model_lr, dtype=torch.float64)
            if config.kl_budget is not None:
                drawn["kl"] = torch.tensor(slack.kl_allowed(state.step + 1, config), dtype=torch.float64)
        return drawn

    def draw_batch(self, batches: Batches, k: int, n_composites: int | None = None) -> dict[str, Tensor]:
        """Images, and composites of k transformations: so many for all of them, or one for each."""
        index = batches.next()
        n, n_augmented = (n_composites, n_composites * len(index)) if n_composites else (len(index), len(index))
        height, width = self.train.images.shape[2:]
        window = self.preparation.draw(len(index), (height, width), self.streams["transform"])
        u, flip = apply.chance(n_augmented, k, self.streams["transform"], flip=self.flip)
        drawn = {
            "uniform": rng.uniform((2, n, k), self.streams["policy"]),
            "normal": rng.normal((n, k), self.streams["policy"]),
            "index": index,
            "window": window,
            "u": u,
            "flip": flip,
        }
        images = self.train.read_ahead(index)
        return drawn if images is None else drawn | {"images": images}

    def scheduled(self, name: str, value: float) -> float | Tensor:
        return self.drawn[name]

    def draw(self, phi: Policy, n: int) -> Composites:
        return phi.transport(self.drawn["uniform"], self.drawn["normal"])

    def draw_each(self, phi: Policy) -> Composites:
        return phi.transport(self.drawn["own_uniform"], self.drawn["own_normal"])

    def train_images(self, prefix: str = "") -> Batch:
        images, labels = self.train.take(self.drawn[f"{prefix}index"], self.drawn.get(f"{prefix}images"))
        return Batch(self.preparation.apply(images, self.drawn[f"{prefix}window"]), labels)

    def augment(self, images: Tensor, tau: Composites, prefix: str = "") -> Tensor:
        parameters = Parameters(tau, self.drawn[f"{prefix}u"], self.drawn[f"{prefix}flip"])
        return self.passes.augment(images, parameters, self.fill)

    def train_gradients(self, tau: Composites) -> tuple[Tensor, Tensor]:
        images, labels = self.train_images()
        augmented = self.augment(images.repeat(len(tau.op), 1, 1, 1), tau.repeat(len(labels)))
        return self.passes.gradients(augmented, labels)

    def train_gradient(self, tau: Composites) -> tuple[Tensor, Tensor]:
        images, labels = self.train_images("own_")
        return self.passes.gradient(self.augment(images, tau, "own_"), labels)

    def val_gradient(self) -> tuple[Tensor, Tensor]:
        images, labels = self.val.take(self.drawn["val_index"], self.drawn.get("val_images"))
        with hypergrad.unchanged_buffers(self.model):
            return self.passes.gradient(self.preparation.test(images), labels)


def tensors(state: State) -> list[Tensor]:
    phi, anchor = state.phi, state.anchor
    return [phi.pi, phi.mu, anchor.pi, anchor.mu, state.theta_momentum, state.pi_momentum, state.mu_momentum]


def with_tensors(state: State, values: list[Tensor]) -> State:
    pi, mu, anchor_pi, anchor_mu, theta_momentum, pi_momentum, mu_momentum = values
    return state._replace(
        phi=replace(state.phi, pi=pi, mu=mu),
        anchor=replace(state.anchor, pi=anchor_pi, mu=anchor_mu),
        theta_momentum=theta_momentum,
        pi_momentum=pi_momentum,
        mu_momentum=mu_momentum,
    )
