"""Bias and residual connection, added at once, against three additions."""

from types import SimpleNamespace

import pytest
import torch

from interpreter import interpreted
from slackaug.engine.gpu import triton_support
from slackaug.engine.gpu.additions import add, by_kernel, is_suited

CASES = [(2, 16, 8, 8), (3, 5, 3, 7), (1, 32, 32, 33)]


def case(shape, dtype, device="cpu"):
    generator = torch.Generator().manual_seed(0)
    x, plus = (
        torch.randn(shape, generator=generator).to(device, dtype).contiguous(memory_format=torch.channels_last)
        for _ in range(2)
    )
    return x, torch.randn(shape[1], generator=generator).to(device), plus


def expected(x, bias, plus):
    total = x.double() if bias is None else x.double() + bias.double()[:, None, None]
    return total if plus is None else total + plus.double()


@pytest.mark.parametrize("has_plus", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("shape", CASES, ids=str)
def test_as_it_is_written(shape, has_bias, has_plus):
    x, bias, plus = case(shape, torch.float32)
    assert not is_suited(x, bias)
    given = x, bias if has_bias else None, plus if has_plus else None
    torch.testing.assert_close(add(*given).double(), expected(*given), rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("has_plus", [False, True])
@pytest.mark.parametrize("shape", CASES, ids=str)
def test_the_kernel(shape, has_plus, dtype):
    x, bias, plus = case(shape, dtype, "cuda")
    assert is_suited(x, bias)
    given = x, bias, plus if has_plus else None
    torch.testing.assert_close(add(*given), expected(*given).to(dtype))  # rounded once


@interpreted
@pytest.mark.parametrize("has_plus", [False, True])
@pytest.mark.parametrize("shape", CASES, ids=str)
def test_the_kernel_as_triton_interprets_it(shape, has_plus):
    x, bias, plus = case(shape, torch.float32)
    given = x, bias, plus if has_plus else None
    found = by_kernel(*given)
    torch.testing.assert_close(found.double(), expected(*given), rtol=1e-5, atol=1e-6)
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("has_triton", "is_cuda", "n", "expected"),
    [(True, True, 5, True), (False, True, 5, False), (True, False, 5, False), (True, True, 2**31, False)],
)
def test_kernels_need_triton_a_gpu_and_offsets_of_32_bits(has_triton, is_cuda, n, expected, monkeypatch):
    monkeypatch.setattr(triton_support, "HAS_TRITON", has_triton)
    assert triton_support.can_run(SimpleNamespace(is_cuda=is_cuda, numel=lambda: n)) is expected
