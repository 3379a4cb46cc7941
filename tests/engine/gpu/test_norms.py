"""Batch-norm over groups, with and without ReLU, against torch's own, group by group, in float64."""

import pytest
import torch
from torch.nn.functional import batch_norm

from interpreter import interpreted
from slackaug.engine.gpu.norms import Norm, NormBeside, NormJoined, is_suited, norm, norm_beside, norm_joined

EPS = 1e-5
KINK = 1e-3  # so near to zero, rounding decides whether a ReLU lets a gradient through
CASES = [  # groups, images of each, channels, pixels
    (1, 4, 32, 8),
    (3, 5, 16, 6),
    (2, 3, 160, 4),
    (2, 2, 3, 5),
    (2, 2, 100, 3),
    (1, 40, 8, 20),
]


def case(n_groups, n_images, n_channels, size, dtype, device="cpu"):
    """Means far from zero, one channel that hardly varies, and no gradient where the ReLU has its kink."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n_groups * n_images, n_channels, size, size, generator=generator, dtype=torch.float64)
    x = x * torch.linspace(0.1, 3, n_channels)[:, None, None] + torch.linspace(-20, 20, n_channels)[:, None, None]
    grad = torch.randn(x.shape, generator=generator)
    weight, bias = (torch.randn(n_channels, generator=generator) for _ in range(2))
    x, grad = (value.to(device, dtype).contiguous(memory_format=torch.channels_last) for value in (x, grad))
    before = [batch_norm(part, None, None, *(v.to(device).double() for v in (weight, bias)), training=True, eps=EPS)
              for part in x.double().chunk(n_groups)]  # fmt: skip
    grad[torch.cat(before).abs() < KINK] = 0
    kind = torch.promote_types(dtype, torch.float32)
    return x, grad, *(value.to(device, kind).expand(n_groups, -1).requires_grad_() for value in (weight, bias))


def expected(x, grad, weight, bias, relu):
    """Output, moments and gradients, group after group."""
    found = []
    for part, g in zip(x.double().chunk(len(weight)), grad.double().chunk(len(weight)), strict=True):
        leaves = part.clone().requires_grad_(), *(v[0].detach().double().requires_grad_() for v in (weight, bias))
        out = batch_norm(leaves[0], None, None, *leaves[1:], training=True, eps=EPS)
        out = out.relu() if relu else out
        var, mean = torch.var_mean(part, (0, 2, 3), correction=0)
        found.append((out.detach(), torch.stack([mean, var]), *torch.autograd.grad(out, leaves, g)))
    out, moments, grad_x, grad_weight, grad_bias = zip(*found, strict=True)
    return torch.cat(out), torch.stack(moments), torch.cat(grad_x), torch.stack(grad_weight), torch.stack(grad_bias)


def measured(function, x, grad, weight, bias):
    x = x.detach().requires_grad_()
    out, moments = function(x)
    return out.detach(), moments, *torch.autograd.grad(out, (x, weight, bias), grad)


def assert_close(found, wanted, bound):
    for name, a, b in zip(("output", "moments", "of x", "of weight", "of bias"), found, wanted, strict=True):
        assert a.shape == b.shape, name
        error = (a - b).norm() / b.norm()
        assert error <= bound, f"{name}: {error:.2g}"


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", CASES, ids=str)
def test_as_it_is_written(shape, relu):
    x, grad, weight, bias = case(*shape, torch.float64)
    assert not is_suited(x, weight)
    found = measured(lambda x: norm(x, weight, bias, len(weight), EPS, relu), x, grad, weight, bias)
    assert_close(found, expected(x, grad, weight, bias, relu), 1e-9)


# Each shape in both precisions, with and without ReLU: a kernel is compiled anew for each combination.
@pytest.mark.gpu
@pytest.mark.parametrize("shape", [*CASES, (8, 128, 32, 32), (1, 128, 128, 8)], ids=str)
@pytest.mark.parametrize(("relu", "dtype", "bound"), [(False, torch.float32, 1e-4), (True, torch.bfloat16, 5e-3)])
def test_the_kernels(shape, relu, dtype, bound):
    x, grad, weight, bias = case(*shape, dtype, "cuda")
    assert is_suited(x, weight)
    found = measured(lambda x: norm(x, weight, bias, len(weight), EPS, relu), x, grad, weight, bias)
    assert_close(found, expected(x, grad, weight, bias, relu), bound)


@interpreted
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", CASES, ids=str)
def test_the_kernels_as_triton_interprets_them(shape, relu):
    x, grad, weight, bias = case(*shape, torch.float32)
    found = measured(lambda x: Norm.apply(x, weight, bias, EPS, relu), x, grad, weight, bias)
    assert_close(found, expected(x, grad, weight, bias, relu), 1e-4)


def gradient_beside(function, x, grad, weight, bias):
    """Of x, where as much as `grad` comes back along the way around, too."""
    x = x.detach().requires_grad_()
    out, _, around = function(x)
    return torch.autograd.grad((out * grad).sum() + (around * grad).sum(), x)[0]


def assert_beside(function, x, grad, weight, bias, bound):
    wanted = expected(x, grad, weight, bias, True)[2] + grad
    assert (gradient_beside(function, x, grad, weight, bias) - wanted).norm() <= bound * wanted.norm()


def test_a_way_around():
    x, grad, weight, bias = case(2, 3, 160, 4, torch.float64)
    assert_beside(lambda x: norm_beside(x, weight, bias, 2, EPS, True), x, grad, weight, bias, 1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-4), (torch.bfloat16, 5e-3)], ids=str)
def test_a_way_around_by_the_kernels(dtype, bound):
    x, grad, weight, bias = case(2, 64, 160, 32, dtype, "cuda")
    assert_beside(lambda x: norm_beside(x, weight, bias, 2, EPS, True), x, grad, weight, bias, bound)


@interpreted
def test_a_way_around_as_triton_interprets_it():
    x, grad, weight, bias = case(2, 3, 160, 4, torch.float32)
    assert_beside(lambda x: NormBeside.apply(x, weight, bias, EPS, True), x, grad, weight, bias, 1e-4)


def shortcut_for(x, grad, weight, bias):
    """Like x; and no gradient where the sum lies at the ReLU's kink."""
    generator = torch.Generator().manual_seed(1)
    shortcut = torch.randn(x.shape, generator=generator).to(x).contiguous(memory_format=torch.channels_last)
    before = expected(x, grad, weight, bias, False)[0] + shortcut
    grad[before.abs() < KINK] = 0
    return shortcut


def expected_joined(x, grad, weight, bias, shortcut):
    """Output, moments, and the gradients of x, weight, bias and shortcut: those of a norm whose gradient is masked."""
    out, moments, *_ = expected(x, grad, weight, bias, False)
    out = (out + shortcut).relu()
    masked = torch.where(out > 0, grad.double(), 0)
    return out, moments, *expected(x, masked, weight, bias, False)[2:], masked


def assert_joined(function, x, grad, weight, bias, bound):
    shortcut = shortcut_for(x, grad, weight, bias).requires_grad_()
    x = x.detach().requires_grad_()
    out, moments = function(x, shortcut)
    found = out.detach(), moments, *torch.autograd.grad(out, (x, weight, bias, shortcut), grad)
    wanted = expected_joined(x.detach(), grad, weight, bias, shortcut.detach())
    assert_close(found[:5], wanted[:5], bound)
    assert (found[5] - wanted[5]).norm() <= bound * wanted[5].norm()


@pytest.mark.parametrize("shape", CASES, ids=str)
def test_a_shortcut_that_joins(shape):
    x, grad, weight, bias = case(*shape, torch.float64)
    assert_joined(lambda x, s: norm_joined(x, weight, bias, s, len(weight), EPS), x, grad, weight, bias, 1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "dtype", "bound"),
    [
        *((shape, torch.bfloat16, 5e-3) for shape in (*CASES, (32, 32, 64, 32), (1, 128, 512, 4))),
        *((shape, torch.float32, 1e-4) for shape in (CASES[2], CASES[3], (1, 128, 512, 4))),
    ],
    ids=str,
)
def test_a_shortcut_that_joins_by_the_kernels(shape, dtype, bound):
    x, grad, weight, bias = case(*shape, dtype, "cuda")
    assert_joined(lambda x, s: norm_joined(x, weight, bias, s, len(weight), EPS), x, grad, weight, bias, bound)


@interpreted
@pytest.mark.parametrize("shape", CASES, ids=str)
def test_a_shortcut_that_joins_as_triton_interprets_it(shape):
    x, grad, weight, bias = case(*shape, torch.float32)
    assert_joined(lambda x, s: NormJoined.apply(x, weight, bias, s, EPS), x, grad, weight, bias, 1e-4)
