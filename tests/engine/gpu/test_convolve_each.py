"""Convolutions of groups with weights of their own, against torch's for each group in float64."""

import pytest
import torch
from torch.nn.functional import conv2d

from interpreter import Way, channels_last, with_shapes
from slackaug.engine.gpu import convolve_each
from slackaug.engine.gpu.convolve_each import convolve, input_gradient

CASES = [  # groups, images of each, channels in, channels out, pixels, kernel, stride
    (2, 3, 3, 16, 8, 3, 1),
    (2, 4, 32, 32, 8, 3, 1),
    (1, 4, 16, 32, 8, 3, 2),
    (2, 2, 16, 32, 8, 1, 2),
    (2, 2, 128, 128, 4, 3, 1),
    (3, 3, 16, 10, 5, 3, 2),
    (2, 5, 8, 80, 7, 3, 1),
]
LARGE = [(8, 32, 32, 32, 32, 3, 1), (4, 16, 64, 128, 16, 3, 2), (4, 16, 64, 128, 16, 1, 2)]
WAYS = [
    Way("cpu", torch.float64, 1e-12, by_kernel=False),
    Way("cuda", torch.bfloat16, 5e-3),
    Way("cpu", torch.float32, 1e-6),
]


def part_of_theta(shape, to):
    """Weights (A, O, C, h, w) in memory as (A, O, h, w, C), each group's between other things."""
    n_groups, n_out, n_in, *kernel = shape
    size = n_out * n_in * kernel[0] * kernel[1]
    theta = torch.randn(n_groups, size + 64, generator=torch.Generator().manual_seed(1)).to(to)
    return theta[:, 16 : size + 16].unflatten(1, (n_out, *kernel, n_in)).movedim(-1, 2)


def case(n_groups, n_images, n_in, n_out, size, k, stride, dtype, device):
    generator = torch.Generator().manual_seed(0)
    x = channels_last(torch.randn(n_groups * n_images, n_in, size, size, generator=generator), device, dtype)
    weight = part_of_theta((n_groups, n_out, n_in, k, k), x)
    options = [stride, stride], [k // 2, k // 2], [1, 1], 1
    outside = torch.randn(conv2d(x, weight[0], None, *options).shape, generator=generator)
    return x, weight, channels_last(outside, device, dtype), options


@with_shapes(WAYS, CASES, LARGE)
def test_each_group_has_its_own_weight(way, shape, monkeypatch):
    way.take(convolve_each, monkeypatch)
    x, weight, grad, options = case(*shape, way.dtype, way.device)
    assert convolve_each.is_suited(x, weight, options) is way.by_kernel
    out, back = convolve(x, weight, None, None, options), input_gradient(grad, x, weight, options)
    for part, g, w, found, found_back in zip(*(v.chunk(len(weight)) for v in (x, grad)), weight,
                                             *(v.chunk(len(weight)) for v in (out, back)), strict=True):  # fmt: skip
        leaf = part.double().requires_grad_()
        wanted = conv2d(leaf, w.double(), None, *options)
        assert (found - wanted).norm() <= way.bound * wanted.norm()
        (wanted_back,) = torch.autograd.grad(wanted, leaf, g.double())
        assert (found_back - wanted_back).norm() <= way.bound * wanted_back.norm()
    assert out.is_contiguous(memory_format=torch.channels_last)


@with_shapes(WAYS, CASES[:2])
@pytest.mark.parametrize("has_plus", [False, True])
def test_a_bias_and_what_is_added(way, shape, has_plus, monkeypatch):
    way.take(convolve_each, monkeypatch)
    x, weight, plus, options = case(*shape, way.dtype, way.device)
    bias = torch.randn(len(weight), 3 * weight.shape[1], device=x.device)[:, : weight.shape[1]]
    found = convolve(x, weight, bias, plus if has_plus else None, options)
    pairs = zip(x.double().chunk(len(weight)), weight.double(), strict=True)
    alone = torch.cat([conv2d(part, w, None, *options) for part, w in pairs])
    wanted = alone + bias.double().repeat_interleave(len(x) // len(bias), 0)[..., None, None] + has_plus * plus
    assert (found - wanted).norm() <= way.bound * wanted.norm()


@pytest.mark.parametrize(
    "change", [{"dtype": torch.float32}, {"n_in": 160}, {"k": 5}], ids=["not bfloat16", "wide", "a large kernel"]
)
@pytest.mark.gpu
def test_what_is_left_to_cudnn(change):
    options = {"n_groups": 2, "n_images": 3, "n_in": 16, "n_out": 16, "size": 8, "k": 3, "stride": 1}
    x, weight, grad, rest = case(**({"dtype": torch.bfloat16, "device": "cuda"} | options | change))
    assert not convolve_each.is_suited(x, weight, rest)
    found = convolve(x, weight, None, None, rest)
    each = [conv2d(part, w, None, *rest) for part, w in zip(x.chunk(2), weight, strict=True)]
    assert (found - torch.cat(each)).norm() <= 1e-2 * found.norm()
    assert input_gradient(grad, x, weight, rest).shape == x.shape
