"""The same seed gives the same bits on the CPU, and the same draws on a GPU.

The number of threads is part of what decides the bits of a search or a training, for one reason: the gradient of the
weights of a convolution or a matrix product is a sum over images, which oneDNN and MKL divide among the threads. Draws
and pixels do not depend on it.
"""

import json

import pytest
import torch
from rich.console import Console

import slackaug
import tiny
from slackaug.augment.apply import augment, draw
from slackaug.augment.policy import Policy

pytestmark = pytest.mark.usefixtures("quick_search", "threads_as_before")
DIGITS = {"pretrain__batch": 64, "search__batch": 64, "search__n_composites": 4, "pretrain__epochs": 1}


def searched(data, out, threads, **settings):
    slackaug.search(str(data), out, threads=threads, set=tiny.assignments(**settings), console=Console(quiet=True))
    assert json.loads((out / "env.json").read_text())["threads"] == threads
    return tiny.outcome(out)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("settings", [{}, pytest.param(DIGITS, marks=pytest.mark.slow)], ids=["tiny", "digits"])
def test_the_same_number_of_threads_gives_the_same_bits(settings, threads, tiny_npz, tmp_path):
    data = "digits" if settings else tiny_npz
    one, other = (searched(data, tmp_path / name, threads, **settings) for name in ("one", "other"))
    assert one == other


def test_draws_and_pixels_are_the_same_in_any_number_of_threads():
    phi = Policy.uniform("domainnet")
    images = torch.randint(0, 256, (96, 3, 40, 40), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    found = []
    for n in (1, 2, 4):
        torch.set_num_threads(n)
        stream = torch.Generator().manual_seed(0)
        tau = phi.sample(len(images), stream)
        pixels = augment(images, tau, stream, flip=True, fill=phi.fill)
        found.append((tau.op, tau.magnitude, pixels, phi.log_prob(tau)))
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


@pytest.mark.gpu
@pytest.mark.parametrize("space", ["cifar", "imagenet", "domainnet"])
def test_the_same_draws_on_a_gpu(space):
    """Composites, and what is drawn for each image: 10,000 of them, from a policy that is not uniform."""
    generator = torch.Generator().manual_seed(1)
    phi = Policy.uniform(space)
    pi = phi.pi + torch.randn(phi.pi.shape, generator=generator, dtype=torch.float64)
    mu = torch.rand(phi.mu.shape, generator=generator, dtype=torch.float64) * 0.9 + 0.1
    drawn = []
    for device in ("cpu", "cuda"):
        policy = Policy(**{**vars(phi), "pi": pi.to(device), "mu": mu.to(device)})
        stream = torch.Generator().manual_seed(0)
        tau = policy.sample(10_000, stream)
        (op, magnitude, active, _), u, flip = draw(tau, stream, flip=True)
        drawn.append([value.cpu() for value in (op, magnitude, active, u, flip)])
    for on_cpu, on_gpu in zip(*drawn, strict=True):
        assert torch.equal(on_cpu, on_gpu)
