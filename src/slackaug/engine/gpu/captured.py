"""Steps captured as CUDA graphs: mixed precision, compiled passes, and one launch for each kind of step.

The same functions as the plain way, `Fit.move` and Algorithm 1's `take_step`; the same draws, and the same numbers
within rounding. Axes: A composites of B images, P parameters.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...augment import apply, branch_free
from ...augment.apply import Composites, Parameters
from ...data import Split
from ..chance import Drawn, sent
from ..fit import Fit, descend
from ..passes import Normalise, Passes, PlainModel, alone, gradient
from ..state import Report, State, Step
from . import groupable
from .graphs import Graphs, Outputs
from .grouped import BLOCKS, LAYERS, Grouped, swapped
from .norms import precise

N_REPEATED = 4  # blocks of one class that make it worth compiling the block instead of the whole model
RECOMPILE_LIMIT = 64  # a block is compiled once for each shape that it meets; act_at for each stage of a space, too


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """The outermost modules of a class that the model has several of, such as a network's residual blocks."""
    counts = Counter(type(module) for module in model.modules())
    found: list[nn.Module] = []

    def visit(module: nn.Module) -> None:
        for child in module.children():
            is_layer = type(child).__module__.startswith("torch.") or type(child) in LAYERS
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


class CompiledModel(PlainModel):
    """In a precision, compiled or as it is written; all composites in one pass, where the model takes groups."""

    def __init__(self, plain: PlainModel, grouped: Grouped | None, precision: torch.dtype, *, compiled: bool):
        super().__init__(plain.model, plain.normalise, plain.fill, plain.stream)
        self.precision, self.grouped, model = precision, grouped, plain.model
        self.loss, self.losses, self.act = self.loss_of, self.losses_of, branch_free.act_at
        self.kinds = {} if self.grouped is None else dict(self.grouped.layers)  # what modules are in a pass
        if compiled:
            self.act = torch.compile(branch_free.act_at, dynamic=False)
            blocks = repeated_blocks(model)
            if blocks:
                self.kinds |= {block: compiled_class(type(block)) for block in blocks}
            elif not any(kind in BLOCKS for kind in self.kinds.values()):
                self.loss = torch.compile(self.loss_of, dynamic=False)
                self.losses = torch.compile(self.losses_of, dynamic=False)

    @contextmanager
    def prepared(self, n_groups: int) -> Iterator[None]:
        """Prepare a pass: train mode, the model's compiled blocks, and layers that take groups."""
        self.model.train()
        if self.grouped is not None:
            self.grouped.prepare(n_groups)
        with torch._dynamo.config.patch(recompile_limit=RECOMPILE_LIMIT), swapped(self.kinds):
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

    def augment(self, images: Tensor, parameters: Parameters) -> Tensor:
        if not apply.is_branch_free(parameters.composites.space):
            return super().augment(images, parameters)
        (op, magnitude, active, space), u, flip = parameters
        op, magnitude, active, u = map(columns, (op, magnitude, active, u))
        parameters = Parameters(Composites(op, magnitude, active, space), u, flip)
        with torch._dynamo.config.patch(recompile_limit=RECOMPILE_LIMIT):
            return apply.branch_free(images, parameters, self.fill, self.act)

    def gradient(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(P,), and the loss."""
        if self.grouped is not None:
            g, losses = self.gradients(images, labels)
            return g[0], losses[0]
        with self.prepared(1):
            loss = self.loss(images, labels)
            return gradient(loss, self.model), loss.detach()

    def gradients(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients (A, P) and losses (A,) of A groups of B images; labels are (B,) or (A, B)."""
        if self.grouped is None:
            return super().gradients(images, labels)
        n_groups = len(images) // labels.shape[-1]
        with self.prepared(n_groups):
            parameters = self.grouped.parameters(n_groups)
            losses = self.losses(parameters, images, labels)
            return self.grouped.gradients(losses, parameters), losses.detach()


def in_groups(
    model: nn.Module, theta: Tensor, normalise: Normalise, train: Split, precision: torch.dtype
) -> Grouped | None:
    """None where the model does not take groups, for which it is tried with `train` images."""
    model.train()  # as far as it lets itself
    takes_groups = groupable.takes_groups(model, theta, normalise, train)
    return Grouped(model, theta, precision) if takes_groups else None


def columns(value: Tensor) -> Tensor:
    """The same (B, L, ...) with each position in one piece, which a compiled kernel can then read as it is."""
    return value.transpose(0, 1).contiguous().transpose(0, 1)


class CapturedFit(Fit):
    """A training whose steps are captured."""

    def __init__(self, *arguments: Any, precision: torch.dtype, compiled: bool = True):
        super().__init__(*arguments)
        if compiled:
            self.descend = torch.compile(descend, dynamic=False)
        groups = in_groups(self.model, self.theta, self.normalise, self.train, precision)
        self.way = CompiledModel(self.way, groups, precision, compiled=compiled)
        self.graphs = Graphs(self.theta.device)

    def step(self) -> Tensor:
        (loss,) = self.graphs.run("training", self.move_captured, self.draw(), self.changed)
        self.done += 1
        return loss.clone()

    def move_captured(self, **drawn: Tensor) -> Outputs:
        return (self.move(**drawn),)

    def changed(self) -> list[Tensor]:
        return [self.theta, self.momentum, *self.model.buffers()]


class CapturedPasses(Passes):
    """All composites in one pass, and every kind of a search's steps captured."""

    def __init__(self, *arguments: Any, precision: torch.dtype, compiled: bool = True, **options: Any):
        super().__init__(*arguments, **options)
        groups = in_groups(self.model, self.theta, self.normalise, self.train, precision)
        self.way = CompiledModel(self.way, groups, precision, compiled=compiled)
        self.graphs = Graphs(self.theta.device)
        self.own: State | None = None  # whose tensors keep their places

    def send(self, drawn: Drawn) -> Drawn:
        return drawn  # the mailbox of a captured step sends it

    def as_captured(self, step: Step) -> Step:
        return partial(self.take, step)

    def take(self, step: Step, state: State, drawn: Drawn, passes: Passes, config: Any) -> tuple[State, Report]:
        """What the step would do, on a state whose tensors stay where they are, as one launch.

        The settings that the first step of its kind had are captured with it: rates that change come with `drawn`.
        """
        self.adopt(state)
        moves_phi = drawn.val_batch is not None
        body = partial(self.in_place, step, config)
        if moves_phi and self.average is not alone:  # the processes of an ensemble talk in this step
            outputs = body(**sent(drawn.given(), self.theta.device))
        else:
            outputs = self.graphs.run("policy" if moves_phi else "re-training", body, drawn.given(), self.changed)
        train_loss, op, magnitude, active, *val = outputs
        val_loss, weight = (value.clone() for value in val) if val else (None, None)
        report = Report(train_loss.clone(), val_loss, weight, Composites(op, magnitude, active, state.phi.space))
        assert self.own is not None
        return self.own._replace(round=state.round, step=state.step + 1), report

    def in_place(self, step: Step, config: Any, **drawn: Tensor) -> Outputs:
        """The step, on the state's own tensors; its place in the round is no part of it."""
        assert self.own is not None
        new, report = step(self.own, Drawn(**drawn), self, config)
        self.adopt(new)
        val = () if report.val_loss is None or report.weight is None else (report.val_loss, report.weight)
        return (report.train_loss, *report.tau[:3], *val)

    def adopt(self, state: State) -> None:
        """Take over a state's values, on the device."""
        if self.own is None:
            self.own = state.with_tensors([value.to(self.theta.device, copy=True) for value in state.tensors()])
            return
        for place, value in zip(self.own.tensors(), state.tensors(), strict=True):
            if value is not place:
                place.copy_(value)

    def changed(self) -> list[Tensor]:
        assert self.own is not None
        return [self.theta, *self.model.buffers(), *self.own.tensors()]
