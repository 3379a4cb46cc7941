"""One pass over several composites at once, as if each had gone through the model alone.

Axes: A groups (composites) of B images, stacked to A * B; P parameters of the model. In a pass every parameter has the
shape (A, ...), one copy for each group, so that its gradient comes by group: batch-norm takes the statistics of each
group, and a convolution's forward and input gradient are one call for all groups, where they share its weight.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import conv2d, cross_entropy, pad

from ... import models
from ..passes import trainable
from .convolutions import MAX_CHANNELS, Options, add, weight_gradients
from .convolve_each import convolve, input_gradient
from .norms import norm, precise

ALIGNED = 16  # parameters: where those of the next group begin, a kernel reads several at once
Backward = Any  # autograd's context


class GroupedConvolution(torch.autograd.Function):
    """conv2d; the gradients of weight and bias are those of each group."""

    @staticmethod
    def forward(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        plus: Tensor | None,
        lowered: Tensor,
        options: Options,
        adds_bias: bool,
    ) -> Tensor:
        """x (A * B, C, H, W), weight (A, O, C / n, h, w), bias (A, O); `lowered`: the weight for x, without A where all
        share one."""
        bias = bias if adds_bias else None
        if lowered.ndim == 5:
            return convolve(x, lowered, bias, plus, options)
        return add(conv2d(x, lowered, None, *options), None if bias is None else bias[0], plus)

    @staticmethod
    def setup_context(ctx: Backward, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, bias, plus, lowered, ctx.options, adds_bias = inputs
        ctx.n_groups, ctx.precision = len(weight), weight.dtype
        ctx.has_plus = plus is not None
        ctx.needs_bias = bias is not None and adds_bias  # a batch-norm takes any other out again: its gradient is zero
        ctx.save_for_backward(x, lowered)

    @staticmethod
    def backward(ctx: Backward, grad: Tensor) -> tuple[Any, ...]:
        x, lowered = ctx.saved_tensors
        grad_x = input_gradient(grad, x, lowered, ctx.options) if ctx.needs_input_grad[0] else None
        like = lowered[0] if lowered.ndim == 5 else lowered
        weights, biases = weight_gradients(grad, x, like, ctx.n_groups, ctx.options, of_bias=ctx.needs_bias)
        of_bias, of_plus = None if biases is None else biases.to(ctx.precision), grad if ctx.has_plus else None
        return grad_x, weights.to(ctx.precision), of_bias, of_plus, None, None, None


class Convolution(nn.Conv2d):
    lowered: Tensor  # the weight, in the precision of the pass

    def forward(self, x: Tensor, plus: Tensor | None = None, *, adds_bias: bool = True) -> Tensor:
        options = list(self.stride), list(self.padding), list(self.dilation), self.groups
        given = x, self.weight, self.bias, plus, self.lowered, options, adds_bias
        out: Tensor = GroupedConvolution.apply(*given)  # type: ignore[no-untyped-call]
        return out


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        """x (A * B, ..., I): places within an image count as images."""
        weight = self.weight.to(x.dtype)  # (A, O, I)
        out: Tensor = x.reshape(len(weight), -1, x.shape[-1]) @ weight.mT  # (A, B, I) @ (A, I, O)
        if self.bias is not None:
            out = out + self.bias.to(x.dtype)[:, None]
        return out.reshape(*x.shape[:-1], -1)


class BatchNorm(nn.BatchNorm2d):
    """In train mode. What the running statistics are to learn is kept until all layers learn at once."""

    n_groups: int
    relu = False  # after it
    seen: Tensor  # means and variances (A, 2, C) of the last pass
    n_seen: int  # pixels that they are of
    shift: Tensor | None  # to be added to these means

    def forward(self, x: Tensor, shift: Tensor | None = None, shortcut: Tensor | None = None) -> Tensor:
        """`shift` (A, C) is meant to have been added to x: it is taken out again, so only the means tell of it. With a
        shortcut, the ReLU of the output and the shortcut together."""
        joined = self.relu or shortcut is not None
        out, seen, _ = norm(x, self.weight, self.bias, self.n_groups, self.eps, joined, shortcut)
        self.keep(seen, x, shift)
        return out

    def beside(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The output, and x for a way around this layer."""
        out, seen, around = norm(x, self.weight, self.bias, self.n_groups, self.eps, self.relu, beside=True)
        self.keep(seen, x, None)
        return out, around

    def keep(self, seen: Tensor, x: Tensor, shift: Tensor | None) -> None:
        self.seen, self.n_seen, self.shift = seen, x.numel() // seen[:, 0].numel(), shift


class GroupedNormReLU(BatchNorm):
    relu = True


class GroupedWideBlock(models.WideBlock):
    """With fewer passes over memory: one bias goes into a batch-norm, the other is added with the shortcut."""

    def forward(self, x: Tensor) -> Tensor:
        out, x = cast(GroupedNormReLU, self.norm1).beside(x)
        out = self.conv1(out, adds_bias=False)
        out = self.norm2(out, shift=self.conv1.bias)
        total: Tensor = self.conv2(out, plus=self.shortcut(x))
        return total


class GroupedBasicBlock(models.BasicBlock):
    """With fewer passes over memory: the shortcut joins in the last batch-norm."""

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv2(self.norm1(self.conv1(x)))
        joined: Tensor = self.norm2(out, shortcut=self.shortcut(x))
        return joined


LAYERS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv2d: Convolution,
    nn.Linear: Linear,
    nn.BatchNorm2d: BatchNorm,
    models.NormReLU: GroupedNormReLU,
    models.WideBlock: GroupedWideBlock,
    models.BasicBlock: GroupedBasicBlock,
}
BLOCKS = GroupedWideBlock, GroupedBasicBlock  # that leave nothing to a compiler: their kernels are our own


class Grouped:
    """A model whose passes take several groups. `theta` holds what it learns, tensor after tensor: (P,) for all groups,
    or (A, P) for each its own."""

    def __init__(self, model: nn.Module, theta: Tensor, precision: torch.dtype):
        self.model, self.theta, self.precision = model, theta, precision
        self.layers = {module: LAYERS[type(module)] for module in model.modules() if type(module) in LAYERS}
        self.trainable = trainable(model)
        order = channels_last_order(self.trainable)  # one look-up, not a copy of each tensor
        whole = pad(order, (0, -len(order) % ALIGNED))
        self.channels_last, self.as_written = whole.int(), order.argsort().int()  # half of the bytes to read
        self.lowered: dict[Tensor, Tensor] = {}  # weights whose gradients come in the pass's precision
        norms = (module for module, kind in self.layers.items() if issubclass(kind, BatchNorm))
        self.norms = [cast(BatchNorm, norm) for norm in norms if norm.track_running_stats]  # what they are in a pass

    def prepare(self, n_groups: int) -> None:
        """Tell the layers how many groups come, and give convolutions their weights in the pass's precision."""
        flat = self.theta.to(self.precision).index_select(-1, self.channels_last)[..., : self.theta.shape[-1]]
        parts = dict(zip(self.trainable, flat.split([p.numel() for p in self.trainable], -1), strict=True))
        self.lowered = {}
        for module, kind in self.layers.items():
            module.n_groups = n_groups  # type: ignore[assignment]
            if kind is Convolution:
                weight: nn.Parameter = module.weight  # type: ignore[assignment]
                n_out, n_in, height, width = weight.shape
                module.lowered = (
                    parts[weight].unflatten(-1, (n_out, height, width, n_in)).movedim(-1, -3)
                    if weight in parts
                    else weight.detach().to(self.precision)
                )
                if max(n_out, n_in) > MAX_CHANNELS:
                    self.lowered[weight] = module.lowered

    def parameters(self, n_groups: int) -> dict[str, Tensor]:
        """As leaves (A, ...), without copying them; frozen ones stay so.

        A leaf has the precision that its gradient comes in, which for the weights of wide convolutions is the pass's.
        """
        own = dict(zip(self.trainable, self.theta.split([p.numel() for p in self.trainable], -1), strict=True))

        def leaf(p: nn.Parameter) -> Tensor:
            value = self.lowered.get(p, own[p].unflatten(-1, p.shape) if p in own else p)
            return value.detach().expand(n_groups, *p.shape).requires_grad_(p.requires_grad)

        return {name: leaf(p) for name, p in self.model.named_parameters()}

    def losses(self, parameters: dict[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
        """(A,): of each group, with parameters (A, ...), for images (A * B, C, H, W) and labels (B,) or (A, B)."""
        n_groups = len(images) // labels.shape[-1]
        logits = precise(functional_call(self.model, parameters, (images,)))
        each: Tensor = cross_entropy(logits, labels.expand(n_groups, -1).flatten(), reduction="none")
        by_group: Tensor = each.unflatten(0, (n_groups, -1)).mean(1)
        return by_group

    def gradients(self, losses: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        """(A, P); and batch-norm has learned from the pass."""
        trainable = [p for p in parameters.values() if p.requires_grad]
        found = torch.autograd.grad(losses.sum(), trainable, materialize_grads=True)  # zeros of what was not used
        if self.norms:
            self.update_statistics()
        parts = [channels_last(g).flatten(1) for g in found]
        whole = self.theta.new_empty(len(losses), self.theta.shape[-1])
        places = whole.split([part.shape[1] for part in parts], 1)
        for dtype in dict.fromkeys(part.dtype for part in parts):
            same = [(to, of) for to, of in zip(places, parts, strict=True) if of.dtype is dtype]
            rows = [row for to, of in same for row in zip(to, of, strict=True)]
            torch._foreach_copy_([to for to, _ in rows], [of for _, of in rows])  # twice as fast as torch.cat
        return whole.index_select(1, self.as_written)

    def update_statistics(self) -> None:
        track(self.norms)


def track(layers: Sequence[BatchNorm]) -> None:
    """r <- (1 - m) r + m s_a for each group in turn; for many layers at once, since each has few numbers."""
    for momentum in {layer.momentum for layer in layers}:
        assert momentum is not None
        same = [layer for layer in layers if layer.momentum == momentum]
        seen = torch.cat([layer.seen for layer in same], 2)  # (A, 2, C of all)
        keep, n_groups = 1 - momentum, len(seen)
        weight = momentum * keep ** torch.arange(n_groups - 1, -1, -1, device=seen.device)  # (A,)
        mean, var = (weight[:, None, None] * seen).sum(0)
        sizes = [layer.num_features for layer in same]
        means, variances = list(mean.split(sizes)), list(var.split(sizes))
        torch._foreach_mul_(variances, [layer.n_seen / max(layer.n_seen - 1, 1) for layer in same])
        shifts = [(m, layer.shift[0].detach()) for m, layer in zip(means, same, strict=True) if layer.shift is not None]
        if shifts:
            torch._foreach_add_([m for m, _ in shifts], [shift for _, shift in shifts], alpha=1 - keep**n_groups)
        running = [cast(Tensor, value) for layer in same for value in (layer.running_mean, layer.running_var)]
        torch._foreach_mul_(running, keep**n_groups)
        torch._foreach_add_(running, [value for pair in zip(means, variances, strict=True) for value in pair])
    counts = [layer.num_batches_tracked for layer in layers if layer.num_batches_tracked is not None]
    torch._foreach_add_(counts, len(layers[0].seen))


def channels_last(values: Tensor) -> Tensor:
    """(A, O, C, h, w) as (A, O, h, w, C); others as they are."""
    return values.movedim(2, -1) if values.ndim == 5 else values


def channels_last_order(tensors: Sequence[Tensor]) -> Tensor:
    """(P,): where to look in the tensors, written one after the other, to read each with its channels last."""
    places = torch.arange(sum(t.numel() for t in tensors), device=tensors[0].device).split([t.numel() for t in tensors])
    pairs = zip(places, tensors, strict=True)
    return torch.cat([channels_last(place.view(1, *t.shape)).flatten() for place, t in pairs])


@contextmanager
def swapped(kinds: dict[nn.Module, type[nn.Module]]) -> Iterator[None]:
    """Inside, modules are of other classes, which have other ways to do the same."""
    before = {module: type(module) for module in kinds}
    try:
        for module, kind in kinds.items():
            module.__class__ = kind
        yield
    finally:
        for module, kind in before.items():
            module.__class__ = kind
