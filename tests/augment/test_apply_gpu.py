"""On a GPU: the same draws, and the same pixels as on the CPU."""

import pytest
import torch

from drawn import FILL, noise, random_parameters
from slackaug.augment import apply, prepare
from slackaug.augment.apply import Parameters
from slackaug.augment.policy import Policy
from slackaug.augment.transforms import SPACES
from slackaug.engine.gpu.captured import RECOMPILE_LIMIT
from slackaug.rng import generator

pytestmark = pytest.mark.gpu


def to_cuda(parameters: Parameters) -> Parameters:
    device = torch.device("cuda")
    return Parameters(parameters.composites.to(device), parameters.u.to(device), parameters.flip.to(device))


@pytest.fixture(scope="module")
def act():
    """One position, compiled as a search does: once for each stage of a space and each shape of images."""
    with torch._dynamo.config.patch(recompile_limit=RECOMPILE_LIMIT):
        yield torch.compile(apply.act_at, fullgraph=True, dynamic=False)


@pytest.mark.parametrize(("space", "n", "size"), [*((name, 256, 32) for name in SPACES), ("domainnet", 16, 224)])
def test_compiled_pixels_equal_those_of_the_cpu(space, n, size, act):
    images = noise(n, 3, size, size)
    for seed in range(3):
        parameters = random_parameters(SPACES[space], n, 3, seed)
        out = apply.branch_free(images.cuda(), to_cuda(parameters), FILL, act).cpu()
        assert torch.equal(out, apply.grouped(images, parameters, FILL))


@pytest.mark.parametrize("execute", [apply.grouped, apply.branch_free])
def test_eager_pixels_equal_those_of_the_cpu(execute):
    images, parameters = noise(64, 3, 33, 32), random_parameters(SPACES["domainnet"], 64, 4, seed=7)
    out = execute(images.cuda(), to_cuda(parameters), FILL).cpu()
    assert torch.equal(out, apply.grouped(images, parameters, FILL))


def test_augment_gives_the_same_pixels_for_the_same_seed():
    images, tau = noise(64, 3, 32, 32), random_parameters(SPACES["domainnet"], 64, 3, seed=7).composites
    cpu, cuda = (apply.augment(x, tau, generator(0, "transform"), flip=True) for x in (images, images.cuda()))
    assert torch.equal(cuda.cpu(), cpu)


def test_same_seed_and_phi_draw_the_same_composites():
    cpu = Policy.uniform("domainnet")
    pi = torch.randn(cpu.pi.shape, generator=generator(0, "test"), dtype=torch.float64)
    cpu, cuda = (
        Policy(space=cpu.space, pi=pi.to(device), mu=cpu.mu.to(device), fill=cpu.fill, mean=cpu.mean, std=cpu.std)
        for device in ("cpu", "cuda")
    )
    a, b = (policy.sample(10_000, generator(1, "policy")) for policy in (cpu, cuda))
    assert b.op.is_cuda
    assert torch.equal(a.op, b.op.cpu())
    assert torch.allclose(a.magnitude, b.magnitude.cpu(), rtol=0, atol=1e-15)
    assert torch.allclose(cpu.log_prob(a), cuda.log_prob(b).cpu(), rtol=1e-12)


@pytest.mark.parametrize(
    "preparation",
    [prepare.window((28, 28)), prepare.padded_window((28, 28)), prepare.resize_crop((28, 28), 0.08, margin=None)],
    ids=["window", "padded", "resize crop"],
)
def test_preparations_give_the_same_pixels(preparation):
    images = noise(64, 3, 32, 32)
    cpu, cuda = (preparation.train(x, generator(0, "transform")) for x in (images, images.cuda()))
    assert torch.equal(cuda.cpu(), cpu)
