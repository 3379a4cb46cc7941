"""One pass over several composites at once, as if each had gone through the model alone.

Axes: A groups (composites) of B images, stacked to A * B; P parameters of the model. In a pass every parameter has the
shape (A, ...), one copy for each group, so that its gradient comes by group: batch-norm takes the statistics of each
group, and a convolution's forward and input gradient are one call for all groups.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import conv2d, cross_entropy

from . import hypergrad, models
from .norms import norm, precise
from .weight_gradients import Options, weight_gradients

Backward = Any  # autograd's context


class GroupedConvolution(torch.autograd.Function):
    """conv2d with one weight for all groups; the gradients of weight and bias are those of each group."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, lowered: Tensor, options: Options) -> Tensor:
        """x (A * B, C, H, W), weight (A, O, C / n, h, w), bias (A, O), all A the same; `lowered`: the weight for x."""
        out = conv2d(x, lowered, None, *options)
        return out if bias is None else out + bias[0].to(out.dtype)[:, None, None]

    @staticmethod
    def setup_context(ctx: Backward, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, bias, lowered, ctx.options = inputs
        ctx.n_groups, ctx.has_bias, ctx.precision = len(weight), bias is not None, weight.dtype
        ctx.save_for_backward(x, lowered)

    @staticmethod
    def backward(ctx: Backward, grad: Tensor) -> tuple[Any, ...]:
        x, lowered = ctx.saved_tensors
        stride, padding, dilation, n = ctx.options
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.ops.aten.convolution_backward(
                grad, x, lowered, None, stride, padding, dilation, False, [0, 0], n, [True, False, False]
            )[0]
        weights, biases = weight_gradients(grad, x, lowered, ctx.n_groups, ctx.options)
        return grad_x, weights.to(ctx.precision), biases.to(ctx.precision) if ctx.has_bias else None, None, None


class Convolution(nn.Conv2d):
    lowered: Tensor  # the weight, in the precision of the pass

    def forward(self, x: Tensor) -> Tensor:
        options = list(self.stride), list(self.padding), list(self.dilation), self.groups
        out: Tensor = GroupedConvolution.apply(x, self.weight, self.bias, self.lowered, options)  # type: ignore[no-untyped-call]
        return out


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.to(x.dtype)  # (A, O, I)
        out: Tensor = x.unflatten(0, (len(weight), -1)) @ weight.mT  # (A, B, I) @ (A, I, O)
        if self.bias is not None:
            out = out + self.bias.to(x.dtype)[:, None]
        return out.flatten(0, 1)


class BatchNorm(nn.BatchNorm2d):
    """In train mode. The running statistics become what one pass after the other would have made of them."""

    n_groups: int
    relu = False  # after it

    def forward(self, x: Tensor) -> Tensor:
        out, moments = norm(x, self.weight, self.bias, self.n_groups, self.eps, self.relu)
        if self.track_running_stats:
            self.track(moments[:, 0], moments[:, 1], x.numel() // moments[:, 0].numel())
        return out

    def track(self, mean: Tensor, var: Tensor, n: int) -> None:
        """r <- (1 - m) r + m s_a for each group in turn; mean and var are (A, C)."""
        assert self.momentum is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        keep = 1 - self.momentum
        weight = self.momentum * keep ** torch.arange(len(mean) - 1, -1, -1, device=mean.device)[:, None]  # (A, 1)
        for running, new in ((self.running_mean, mean), (self.running_var, var * (n / max(n - 1, 1)))):
            running.mul_(keep ** len(mean)).add_((weight * new).sum(0))


class NormReLU(BatchNorm):
    relu = True


LAYERS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv2d: Convolution,
    nn.Linear: Linear,
    nn.BatchNorm2d: BatchNorm,
    models.NormReLU: NormReLU,
}


def is_groupable(model: nn.Module) -> bool:
    """Whether all that a model learns, and all that mixes images, is in layers that are known here."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if type(module) not in LAYERS or module.momentum is None:
                return False
        elif isinstance(module, nn.Conv2d) and (isinstance(module.padding, str) or module.padding_mode != "zeros"):
            return False
        if any(True for _ in module.parameters(recurse=False)) and type(module) not in LAYERS:
            return False
    return True


class Grouped:
    """A model whose passes take several groups. `theta` (P,) holds what it learns, tensor after tensor."""

    def __init__(self, model: nn.Module, theta: Tensor, precision: torch.dtype):
        self.model, self.theta, self.precision = model, theta, precision
        self.layers = {module: LAYERS[type(module)] for module in model.modules() if type(module) in LAYERS}
        self.trainable = hypergrad.trainable(model)
        order = channels_last_order(self.trainable)  # one look-up, not a copy of each tensor
        self.channels_last, self.as_written = order.int(), order.argsort().int()  # half of the bytes to read
        norms = [module for module in self.layers if isinstance(module, nn.BatchNorm2d)]
        self.counts = [norm.num_batches_tracked for norm in norms if norm.num_batches_tracked is not None]

    def prepare(self, n_groups: int) -> None:
        """Tell the layers how many groups come, and give convolutions their weights in the pass's precision."""
        flat = self.theta.to(self.precision).index_select(0, self.channels_last)
        parts = dict(zip(self.trainable, flat.split([p.numel() for p in self.trainable]), strict=True))
        for module, kind in self.layers.items():
            module.n_groups = n_groups  # type: ignore[assignment]
            if kind is Convolution:
                weight: nn.Parameter = module.weight  # type: ignore[assignment]
                n_out, n_in, height, width = weight.shape
                module.lowered = (
                    parts[weight].view(n_out, height, width, n_in).permute(0, 3, 1, 2)
                    if weight in parts
                    else weight.detach().to(self.precision)
                )

    def parameters(self, n_groups: int) -> dict[str, Tensor]:
        """As leaves (A, ...), without copying them; frozen ones stay so."""
        return {
            name: p.detach().expand(n_groups, *p.shape).requires_grad_(p.requires_grad)
            for name, p in self.model.named_parameters()
        }

    def losses(self, parameters: dict[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
        """(A,): of each group, with parameters (A, ...), for images (A * B, C, H, W) and labels (B,)."""
        n_groups = len(images) // len(labels)
        logits = precise(functional_call(self.model, parameters, (images,)))
        each: Tensor = cross_entropy(logits, labels.repeat(n_groups), reduction="none")
        by_group: Tensor = each.unflatten(0, (n_groups, -1)).mean(1)
        return by_group

    def gradients(self, losses: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        """(A, P); and batch-norm has counted the batches."""
        trainable = [p for p in parameters.values() if p.requires_grad]
        found = torch.autograd.grad(losses.sum(), trainable, allow_unused=True)
        if self.counts:
            torch._foreach_add_(self.counts, len(losses))
        pairs = zip(trainable, found, strict=True)
        parts = [channels_last(torch.zeros_like(p) if g is None else g).flatten(1) for p, g in pairs]
        return torch.cat(parts, 1).index_select(1, self.as_written)


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
