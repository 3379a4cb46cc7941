"""Batch-norm over groups, with and without ReLU, against torch's own, group by group, in float64."""

import pytest
import torch
from torch.nn.functional import batch_norm

from interpreter import SHAPES, Way, channels_last, with_shapes
from slackaug.engine.gpu import norms
from slackaug.engine.gpu.norms import norm

EPS = 1e-5
KINK = 1e-3  # so near to zero, rounding decides whether a ReLU lets a gradient through
WAYS = [
    Way("cpu", torch.float64, 1e-9, by_kernel=False),
    Way("cuda", torch.float32, 1e-4),
    Way("cuda", torch.bfloat16, 5e-3),
    Way("cpu", torch.float32, 1e-4),
]


def case(n_groups, n_images, n_channels, size, dtype, device="cpu", *, shared=True):
    """Means far from zero, one channel that hardly varies, and no gradient where the ReLU has its kink. Groups share
    weights, or have their own, which are parts of what holds other things, too."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n_groups * n_images, n_channels, size, size, generator=generator, dtype=torch.float64)
    x = x * torch.linspace(0.1, 3, n_channels)[:, None, None] + torch.linspace(-20, 20, n_channels)[:, None, None]
    grad = torch.randn(x.shape, generator=generator)
    own = torch.randn(n_groups, 3 * n_channels, generator=generator).to(device)
    weight, bias, _ = (own[:1].expand_as(own) if shared else own).split(n_channels, 1)
    x, grad = (channels_last(value, device, dtype) for value in (x, grad))
    before = [batch_norm(part, None, None, w.double(), b.double(), training=True, eps=EPS)
              for part, w, b in zip(x.double().chunk(n_groups), weight, bias, strict=True)]  # fmt: skip
    grad[torch.cat(before).abs() < KINK] = 0
    kind = torch.promote_types(dtype, torch.float32)
    return x, grad, *(value.to(kind).detach().requires_grad_() for value in (weight, bias))


def expected(x, grad, weight, bias, relu):
    """Output, moments and gradients, group after group."""
    found = []
    parts = (value.double().chunk(len(weight)) for value in (x, grad))
    for part, g, *own in zip(*parts, weight, bias, strict=True):
        leaves = part.clone().requires_grad_(), *(value.detach().double().requires_grad_() for value in own)
        out = batch_norm(leaves[0], None, None, *leaves[1:], training=True, eps=EPS)
        out = out.relu() if relu else out
        var, mean = torch.var_mean(part, (0, 2, 3), correction=0)
        found.append((out.detach(), torch.stack([mean, var]), *torch.autograd.grad(out, leaves, g)))
    out, moments, grad_x, grad_weight, grad_bias = zip(*found, strict=True)
    return torch.cat(out), torch.stack(moments), torch.cat(grad_x), torch.stack(grad_weight), torch.stack(grad_bias)


def measured(function, x, grad, weight, bias):
    x = x.detach().requires_grad_()
    out, moments, _ = function(x)
    return out.detach(), moments, *torch.autograd.grad(out, (x, weight, bias), grad)


def assert_close(found, wanted, bound):
    for name, a, b in zip(("output", "moments", "of x", "of weight", "of bias"), found, wanted, strict=True):
        assert a.shape == b.shape, name
        error = (a - b).norm() / b.norm()
        assert error <= bound, f"{name}: {error:.2g}"


@with_shapes(WAYS, SHAPES, [(8, 128, 32, 32), (1, 128, 128, 8)])
@pytest.mark.parametrize(("relu", "shared"), [(False, True), (True, True), (True, False)])
def test_the_norm(way, shape, relu, shared, monkeypatch):
    way.take(norms, monkeypatch)
    x, grad, weight, bias = case(*shape, way.dtype, way.device, shared=shared)
    assert norms.is_suited(x, weight) is way.by_kernel
    found = measured(lambda x: norm(x, weight, bias, len(weight), EPS, relu), x, grad, weight, bias)
    assert_close(found, expected(x, grad, weight, bias, relu), way.bound)


@with_shapes(WAYS, [(2, 3, 160, 4)], [(2, 64, 160, 32)])
def test_a_way_around(way, shape, monkeypatch):
    """As much as `grad` comes back to x along the way around the norm, too."""
    way.take(norms, monkeypatch)
    x, grad, weight, bias = case(*shape, way.dtype, way.device)
    wanted = expected(x, grad, weight, bias, True)[2] + grad
    leaf = x.detach().requires_grad_()
    out, _, around = norm(leaf, weight, bias, 2, EPS, True, beside=True)
    (found,) = torch.autograd.grad((out * grad).sum() + (around * grad).sum(), leaf)
    assert (found - wanted).norm() <= way.bound * wanted.norm()


def shortcut_for(x, grad, weight, bias):
    """Like x; and no gradient where the sum lies at the ReLU's kink."""
    generator = torch.Generator().manual_seed(1)
    shortcut = channels_last(torch.randn(x.shape, generator=generator), x)
    before = expected(x, grad, weight, bias, False)[0] + shortcut
    grad[before.abs() < KINK] = 0
    return shortcut


def expected_joined(x, grad, weight, bias, shortcut):
    """Output, moments, and the gradients of x, weight, bias and shortcut: those of a norm whose gradient is masked."""
    out, moments, *_ = expected(x, grad, weight, bias, False)
    out = (out + shortcut).relu()
    masked = torch.where(out > 0, grad.double(), 0)
    return out, moments, *expected(x, masked, weight, bias, False)[2:], masked


@with_shapes(WAYS, SHAPES, [(32, 32, 64, 32), (1, 128, 512, 4)])
def test_a_shortcut_that_joins(way, shape, monkeypatch):
    way.take(norms, monkeypatch)
    x, grad, weight, bias = case(*shape, way.dtype, way.device)
    shortcut = shortcut_for(x, grad, weight, bias).requires_grad_()
    leaf = x.detach().requires_grad_()
    out, moments, _ = norm(leaf, weight, bias, len(weight), EPS, True, shortcut)
    found = out.detach(), moments, *torch.autograd.grad(out, (leaf, weight, bias, shortcut), grad)
    wanted = expected_joined(x, grad, weight, bias, shortcut.detach())
    assert_close(found[:5], wanted[:5], way.bound)
    assert (found[5] - wanted[5]).norm() <= way.bound * wanted[5].norm()
