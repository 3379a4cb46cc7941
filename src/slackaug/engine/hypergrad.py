"""The gradient of the validation loss with respect to the policy (Sec. 3.3, "Gradient estimation").

Axes: A composites, P parameters of the model. theta is one vector (P,), and so is every gradient.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """Frozen parameters are no part of theta."""
    return [p for p in model.parameters() if p.requires_grad]


def flatten_(model: nn.Module) -> Tensor:
    """Let the model's parameters live in one vector theta (P,), and return it: who changes it changes the model."""
    parameters = trainable(model)
    theta = torch.cat([p.detach().flatten() for p in parameters])
    for p, part in zip(parameters, theta.split([p.numel() for p in parameters]), strict=True):
        p.data = part.view_as(p)
    return theta


def gradient(loss: Tensor, model: nn.Module) -> Tensor:
    """(P,)."""
    parameters = trainable(model)
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    return torch.cat(
        [(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(parameters, gradients, strict=True)]
    )


@contextmanager
def unchanged_buffers(model: nn.Module) -> Iterator[None]:
    """What passes inside leaves no trace in the batch-norm statistics."""
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


def alignment(grad_val: Tensor, grad_train: Tensor) -> Tensor:
    """w_a = <v, g_a>: how far a step along g_a lowers the validation loss."""
    return grad_train @ grad_val  # (A, P) @ (P,) -> (A,)


def less_the_others(weight: Tensor) -> Tensor:
    """w_a less the mean of the other composites' w: for a given v, the gradient's expectation stays and noise goes."""
    n = len(weight)
    return weight if n == 1 else (weight - weight.mean()) * (n / (n - 1))


def score_objective(log_prob: Tensor, weight: Tensor, eta: Tensor | float, share: Tensor | float) -> Tensor:
    """-eta sum_a share_a w_a log p(tau_a); its gradient is G_phi. `share` is 1 / A for composites drawn from p_phi."""
    return -eta * (share * weight * log_prob).sum()
