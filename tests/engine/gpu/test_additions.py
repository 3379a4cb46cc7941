"""Bias and residual connection, added at once, against three additions."""

from types import SimpleNamespace

import pytest
import torch

from interpreter import Way, with_shapes
from slackaug.engine.gpu import additions, triton_support

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


KERNELS = [("cuda", torch.float32), ("cuda", torch.bfloat16), ("cpu", torch.float32)]


@with_shapes([Way("cpu", torch.float32, 0.0, by_kernel=False), *(Way(*kernel, 0.0) for kernel in KERNELS)], CASES)
@pytest.mark.parametrize("has_plus", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_additions(way, shape, has_bias, has_plus, monkeypatch):
    way.take(additions, monkeypatch)
    x, bias, plus = case(shape, way.dtype, way.device)
    assert additions.is_suited(x, bias) is way.by_kernel
    given = x, bias if has_bias else None, plus if has_plus else None
    found = additions.add(*given)
    torch.testing.assert_close(found, expected(*given).to(way.dtype))  # rounded once by the kernel
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("has_triton", "is_cuda", "n", "expected"),
    [(True, True, 5, True), (False, True, 5, False), (True, False, 5, False), (True, True, 2**31, False)],
)
def test_kernels_need_triton_a_gpu_and_offsets_of_32_bits(has_triton, is_cuda, n, expected, monkeypatch):
    monkeypatch.setattr(triton_support, "HAS_TRITON", has_triton)
    assert triton_support.can_run(SimpleNamespace(is_cuda=is_cuda, numel=lambda: n)) is expected
