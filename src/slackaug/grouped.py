"""One pass over several composites at once, as if each had gone through the model alone.

Axes: A groups (composites) of B images, stacked to A * B; P parameters of the model. In a pass every parameter has the
shape (A, ...), one copy for each group, so that its gradient comes by group: batch-norm takes the statistics of each
group, and a convolution's forward and input gradient are one call for all groups while its weight gradient is one call
for each.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import conv2d, cross_entropy

Backward = Any  # autograd's context


def precise(x: Tensor) -> Tensor:
    """In float32, where it is not more already."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class GroupedConvolution(torch.autograd.Function):
    """conv2d with one weight for all groups; the gradients of weight and bias are those of each group."""

    @staticmethod
    def forward(
        x: Tensor, weight: Tensor, stride: list[int], padding: list[int], dilation: list[int], n: int
    ) -> Tensor:
        """x (A * B, C, H, W), weight (A, O, C / n, h, w), all A the same."""
        return conv2d(x, weight[0].to(x.dtype), None, stride, padding, dilation, n)

    @staticmethod
    def setup_context(ctx: Backward, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, *ctx.options = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Backward, grad: Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        stride, padding, dilation, n = ctx.options
        kernel = weight[0].to(x.dtype)

        def gradients(grad: Tensor, x: Tensor, mask: list[bool]) -> tuple[Tensor, ...]:
            out: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
                grad, x, kernel, None, stride, padding, dilation, False, [0, 0], n, mask
            )
            return out

        grad_x = gradients(grad, x, [True, False, False])[0] if ctx.needs_input_grad[0] else None
        pairs = zip(grad.chunk(len(weight)), x.chunk(len(weight)), strict=True)
        grad_weight = torch.stack([gradients(g, part, [False, True, False])[1] for g, part in pairs])
        return grad_x, grad_weight.to(weight.dtype), None, None, None, None


class Convolution(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        padding = list(self.padding)
        options = list(self.stride), padding, list(self.dilation), self.groups
        out: Tensor = GroupedConvolution.apply(x, self.weight, *options)  # type: ignore[no-untyped-call]
        if self.bias is not None:
            bias = self.bias.to(out.dtype)  # (A, O)
            out = (out.unflatten(0, (len(bias), -1)) + bias[:, None, :, None, None]).flatten(0, 1)
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

    def forward(self, x: Tensor) -> Tensor:
        groups = precise(x.unflatten(0, (self.n_groups, -1)))  # (A, B, C, H, W)
        var, mean = torch.var_mean(groups, (1, 3, 4), correction=0, keepdim=True)
        scale = torch.rsqrt(var + self.eps)
        if self.affine:
            scale = scale * self.weight[:, None, :, None, None]
        out = (groups - mean) * scale
        if self.affine:
            out = out + self.bias[:, None, :, None, None]
        if self.track_running_stats:
            self.track(mean.detach().flatten(1), var.detach().flatten(1), groups[0, :, 0].numel())
        return out.to(x.dtype).flatten(0, 1)

    def track(self, mean: Tensor, var: Tensor, n: int) -> None:
        """r <- (1 - m) r + m s_a for each group in turn; mean and var are (A, C)."""
        assert self.momentum is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        keep = 1 - self.momentum
        weight = self.momentum * keep ** torch.arange(len(mean) - 1, -1, -1, device=mean.device)[:, None]  # (A, 1)
        for running, new in ((self.running_mean, mean), (self.running_var, var * (n / max(n - 1, 1)))):
            running.mul_(keep ** len(mean)).add_((weight * new).sum(0))
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(len(mean))


LAYERS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv2d: Convolution,
    nn.Linear: Linear,
    nn.BatchNorm2d: BatchNorm,
}


def is_groupable(model: nn.Module) -> bool:
    """Whether all that a model learns, and all that mixes images, is in layers that are known here."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if type(module) is not nn.BatchNorm2d or module.momentum is None:
                return False
        elif isinstance(module, nn.Conv2d) and (isinstance(module.padding, str) or module.padding_mode != "zeros"):
            return False
        if any(True for _ in module.parameters(recurse=False)) and type(module) not in LAYERS:
            return False
    return True


def layers(model: nn.Module, n_groups: int) -> dict[nn.Module, type[nn.Module]]:
    """The model's layers and what they become, for `swapped`, to take groups."""
    found = {module: LAYERS[type(module)] for module in model.modules() if type(module) in LAYERS}
    for module in found:
        module.n_groups = n_groups  # type: ignore[assignment]
    return found


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


def losses(model: nn.Module, parameters: dict[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
    """(A,): of each group, with parameters (A, ...), for images (A * B, C, H, W) and labels (B,)."""
    n_groups = len(images) // len(labels)
    logits = precise(functional_call(model, parameters, (images,)))
    each: Tensor = cross_entropy(logits, labels.repeat(n_groups), reduction="none")
    by_group: Tensor = each.unflatten(0, (n_groups, -1)).mean(1)
    return by_group


def expanded(model: nn.Module, n_groups: int) -> dict[str, Tensor]:
    """The parameters as leaves (A, ...), without copying them; frozen ones stay so."""
    return {
        name: p.detach().expand(n_groups, *p.shape).requires_grad_(p.requires_grad)
        for name, p in model.named_parameters()
    }


def gradients(loss: Tensor, parameters: dict[str, Tensor]) -> Tensor:
    """(A, P), of those that are not frozen."""
    trainable = [p for p in parameters.values() if p.requires_grad]
    found = torch.autograd.grad(loss.sum(), trainable, allow_unused=True)
    pairs = zip(trainable, found, strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten(1) for p, g in pairs], 1)
