"""A convolution's gradients by group, and additions to its output, against torch's own in float64."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import conv2d

from interpreter import SHAPES, Way, channels_last, with_shapes
from slackaug.engine.gpu import convolutions, norms
from slackaug.engine.gpu.convolutions import add, channel_sums, weight_gradients
from slackaug.engine.gpu.triton_support import HAS_TRITON

CASES = [  # groups, images of each, channels in, channels out, pixels, kernel, stride
    (2, 3, 3, 16, 8, 3, 1),
    (2, 4, 32, 32, 8, 3, 1),
    (1, 4, 16, 32, 8, 3, 2),
    (2, 2, 16, 32, 8, 1, 2),
    (2, 2, 128, 128, 4, 3, 1),
    (3, 3, 16, 10, 5, 3, 1),
    (2, 40, 8, 8, 16, 3, 1),
]


def case(n_groups, n_images, n_in, n_out, size, k, stride, dtype, device="cpu"):
    generator = torch.Generator().manual_seed(0)
    shapes = (n_groups * n_images, n_in, size, size), (n_out, n_in, k, k)
    x, weight = (channels_last(torch.randn(shape, generator=generator), device, dtype) for shape in shapes)
    options = [stride, stride], [k // 2, k // 2], [1, 1], 1
    grad = torch.randn(conv2d(x, weight, None, *options).shape, generator=generator)
    return channels_last(grad, device, dtype), x, weight, n_groups, options


def expected(grad, x, weight, n_groups, options):
    """By autograd, group after group, in float64."""
    found = []
    for g, part in zip(grad.double().chunk(n_groups), x.double().chunk(n_groups), strict=True):
        leaves = weight.double().requires_grad_(), torch.zeros_like(weight[:, 0, 0, 0]).double().requires_grad_()
        found.append(torch.autograd.grad(conv2d(part, *leaves, *options), leaves, g))
    return tuple(torch.stack(each) for each in zip(*found, strict=True))


def assert_close(found, wanted, bound):
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert (a - b).norm() <= bound * b.norm()


WRITTEN = Way("cpu", torch.float64, 1e-12, by_kernel=False)


@with_shapes([WRITTEN, Way("cuda", torch.bfloat16, 1e-5), Way("cpu", torch.float32, 1e-6)], CASES)
def test_a_call_for_each_group_and_one_kernel_for_all(way, shape, monkeypatch):
    way.take(convolutions, monkeypatch)
    arguments = case(*shape, way.dtype, way.device)
    assert convolutions.is_suited(*arguments[:3], arguments[4]) is way.by_kernel
    assert_close(weight_gradients(*arguments), expected(*arguments), way.bound)


@pytest.mark.parametrize(
    ("change", "why"),
    [({"dtype": torch.float32}, "not bfloat16"), ({"n_in": 160}, "many channels"), ({"k": 5}, "a large kernel")],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.gpu
def test_what_the_kernel_leaves_to_cudnn(change, why):
    options = {"n_groups": 2, "n_images": 3, "n_in": 16, "n_out": 16, "size": 8, "k": 3, "stride": 1}
    grad, x, weight, n_groups, rest = case(**({"dtype": torch.bfloat16, "device": "cuda"} | options | change))
    assert HAS_TRITON
    assert not convolutions.is_suited(grad, x, weight, rest)
    assert_close(weight_gradients(grad, x, weight, n_groups, rest), expected(grad, x, weight, n_groups, rest), 1e-2)


# --- biases alone, where cuDNN has the weights ------------------------------------------------------------------------

KERNELS = [("cuda", torch.float32), ("cuda", torch.bfloat16), ("cpu", torch.float32)]


@with_shapes([WRITTEN, *(Way(*kernel, 1e-5) for kernel in KERNELS)], SHAPES, [(8, 128, 32, 32), (1, 128, 160, 32)])
def test_sums_of_channels(way, shape, monkeypatch):
    way.take(convolutions, monkeypatch)
    n_groups, n_images, n_channels, size = shape
    generator = torch.Generator().manual_seed(0)
    grad = 1 + torch.randn(n_groups * n_images, n_channels, size, size, generator=generator)
    grad = channels_last(grad, way.device, way.dtype)
    wanted = grad.double().unflatten(0, (n_groups, -1)).sum((1, 3, 4))
    found = channel_sums(grad, n_groups)
    assert found.dtype is (torch.float32 if way.by_kernel else torch.float64)
    assert (found - wanted).norm() <= way.bound * wanted.norm()


# --- additions --------------------------------------------------------------------------------------------------------

SUMMANDS = [(2, 16, 8, 8), (3, 5, 3, 7), (1, 32, 32, 33)]


def summands(shape, dtype, device="cpu"):
    generator = torch.Generator().manual_seed(0)
    x, plus = (channels_last(torch.randn(shape, generator=generator), device, dtype) for _ in range(2))
    return x, torch.randn(shape[1], generator=generator).to(device), plus


def added(x, bias, plus):
    total = x.double() if bias is None else x.double() + bias.double()[:, None, None]
    return total if plus is None else total + plus.double()


@with_shapes([Way("cpu", torch.float32, 0.0, by_kernel=False), *(Way(*kernel, 0.0) for kernel in KERNELS)], SUMMANDS)
@pytest.mark.parametrize("has_plus", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_additions(way, shape, has_bias, has_plus, monkeypatch):
    way.take(convolutions, monkeypatch)
    x, bias, plus = summands(shape, way.dtype, way.device)
    given = x, bias if has_bias else None, plus if has_plus else None
    found = add(*given)
    torch.testing.assert_close(found, added(*given).to(way.dtype))  # rounded once by the kernel
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("has_triton", "is_cuda", "n", "expected"),
    [(True, True, 5, True), (False, True, 5, False), (True, False, 5, False), (True, True, 2**31, False)],
)
def test_kernels_need_triton_a_gpu_and_offsets_of_32_bits(has_triton, is_cuda, n, expected, monkeypatch):
    monkeypatch.setattr(norms, "HAS_TRITON", has_triton)
    assert norms.can_run(SimpleNamespace(is_cuda=is_cuda, numel=lambda: n)) is expected
