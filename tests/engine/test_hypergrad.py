"""The estimator against autograd through enumeration and quadrature: sign, 1 / A, eta and the point of evaluation.

Axes: A composites, P parameters of the model, K positions, N transformations.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

import oracles
from slackaug.augment.apply import Composites, augment
from slackaug.augment.policy import Policy
from slackaug.augment.space import Space
from slackaug.augment.transforms import SPACES
from slackaug.engine import passes
from slackaug.engine.chance import Drawn, scalar
from slackaug.methods import budget, slack
from slackaug.methods.budget import SearchConfig
from slackaug.rng import generator

ETA = 0.3
FREE = Space("free", tuple(SPACES["domainnet"][name] for name in ("Invert", "Identity", "Grayscale", "Equalize")))
RANGED = Space("ranged", tuple(SPACES["domainnet"][name] for name in ("Brightness", "Color", "Identity")))


def doubles(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed, "test", *shape), dtype=torch.float64)


def tiny_model() -> nn.Module:
    """Smooth, without batch-norm, float64; its values are far from what makes all gradients alike."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Softplus(), nn.Flatten(), nn.Linear(4 * 16, 3)).double()
    for i, p in enumerate(model.parameters()):
        p.data = 0.3 * doubles(*p.shape, seed=i)
    return model


def policy(space: Space, n_composed: int) -> Policy:
    """Logits and bounds at random."""
    mu = 0.2 + 0.7 * torch.rand(len(space), generator=generator(0, "mu"), dtype=torch.float64)
    return replace(Policy.uniform(space), pi=doubles(n_composed, len(space)), mu=mu)


def composites(op: Tensor, magnitude: Tensor, space: Space) -> Composites:
    return Composites(op, magnitude, torch.ones_like(op, dtype=torch.bool), space)


def every_composite(space: Space, n_composed: int) -> Composites:
    op = torch.tensor(list(oracles.every_tau(len(space), n_composed)))  # (N ** K, K)
    return composites(op, torch.full(op.shape, 0.5, dtype=torch.float64), space)


class Problem:
    """A batch to train on and one to validate on; theta is a vector, losses are functions of it."""

    def __init__(self) -> None:
        draw = generator(0, "images")
        self.model = tiny_model()
        self.images, self.val_images = torch.randint(0, 256, (2, 6, 3, 6, 6), generator=draw, dtype=torch.uint8)
        self.labels, self.val_labels = torch.arange(6) % 3, (torch.arange(6) + 1) % 3
        self.theta = passes.flatten_(self.model)
        self.sizes = [p.numel() for p in self.model.parameters()]

    def loss(self, theta: Tensor, floats: Tensor, labels: Tensor) -> Tensor:
        """By functional_call, so that autograd sees theta itself."""
        shapes = {name: p.shape for name, p in self.model.named_parameters()}
        parts = theta.split([shape.numel() for shape in shapes.values()])
        named = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
        return cross_entropy(functional_call(self.model, named, (floats,)), labels)

    def augmented(self, tau: Composites) -> list[Tensor]:
        """The train images under each composite, as floats."""
        repeated = self.images.repeat(len(tau.op), 1, 1, 1)
        pixels = augment(repeated, tau.repeat(len(self.images)), generator(0, "transform"))
        return list((pixels.double() / 255 - 0.5).split(len(self.images)))

    def val_loss(self, theta: Tensor) -> Tensor:
        return self.loss(theta, self.val_images.double() / 255 - 0.5, self.val_labels)


def exact_gradient(
    problem: Problem, inputs: list[Tensor], probability: Callable[[Tensor, Tensor], Tensor], phi: Policy
):
    """Of L_val(theta - eta grad L_train(theta, phi)) by autograd; L_train = sum_a p_phi(tau_a) l(theta, tau_a)."""
    pi, mu = phi.pi.clone().requires_grad_(), phi.mu.clone().requires_grad_()
    theta = problem.theta.clone().requires_grad_()
    losses = torch.stack([problem.loss(theta, floats, problem.labels) for floats in inputs])  # (A,)
    (g,) = torch.autograd.grad(probability(pi, mu) @ losses, theta, create_graph=True)
    grad_pi, grad_mu = torch.autograd.grad(problem.val_loss(theta - ETA * g), (pi, mu), allow_unused=True)
    return grad_pi, torch.zeros_like(mu) if grad_mu is None else grad_mu


def estimate(problem: Problem, inputs: list[Tensor], tau: Composites, share: Tensor, phi: Policy):
    """The package's own: a step of SGD without momentum on sum_a share_a g_a, then G_phi at the new theta, of weights
    that give each composite its share in place of 1 / A."""
    model, labels = problem.model, problem.labels
    g = torch.stack([passes.gradient(cross_entropy(model(floats), labels), model) for floats in inputs])  # (A, P)
    problem.theta.sub_(share @ g, alpha=ETA)
    v = passes.gradient(cross_entropy(model(problem.val_images.double() / 255 - 0.5), problem.val_labels), model)
    return g_phi(phi, tau, len(share) * share * (g @ v), problem.theta)


def g_phi(phi: Policy, tau: Composites, weight: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    drawn = Drawn(*[torch.empty(0)] * 6, eta=scalar(ETA))
    return slack.phi_gradient(slack.start(phi, theta), tau, weight, drawn, (1.0, 1.0))


# --- the estimator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_composed", [1, 2])
def test_sum_over_every_composite_is_the_gradient_by_enumeration(n_composed):
    problem, phi, tau = Problem(), policy(FREE, n_composed), every_composite(FREE, n_composed)
    inputs = problem.augmented(tau)

    def probability(pi: Tensor, mu: Tensor) -> Tensor:
        chosen = torch.stack([pi.softmax(-1)[k, tau.op[:, k]] for k in range(n_composed)])  # (K, A)
        return chosen.prod(0)

    exact, _ = exact_gradient(problem, inputs, probability, phi)
    grad_pi, grad_mu = estimate(problem, inputs, tau, probability(phi.pi, phi.mu), phi)
    assert exact.abs().max() > 1e-4  # so that 1e-8 says something
    torch.testing.assert_close(grad_pi, exact, rtol=0, atol=1e-8)
    assert torch.count_nonzero(grad_mu) == 0  # parameter-free


def test_mu_and_pi_by_quadrature_over_the_magnitude():
    """K = 1; l(theta, n, m) is smooth in m: the images, as floats, are scaled, or shifted by a pattern, or left."""
    problem, phi = Problem(), policy(RANGED, 1)
    points, weights = oracles.grid(-0.8, 1.8, 261)  # steps of sigma / 10: the trapezoidal rule is exact here
    m = points.repeat(len(RANGED))  # (A,)
    op = torch.arange(len(RANGED)).repeat_interleave(len(points))  # (A,)
    tau = composites(op[:, None], m[:, None], RANGED)
    floats, pattern = problem.images.double() / 255 - 0.5, doubles(1, 3, 6, 6, seed=9)
    changed = (lambda m: floats * (1 + 2 * m), lambda m: floats + m.square() * pattern, lambda m: floats)
    inputs = [changed[n](value) for n, value in zip(op.tolist(), m, strict=True)]

    def probability(pi: Tensor, mu: Tensor) -> Tensor:
        """p(n) p(m | n) times the quadrature's weight; Identity has no magnitude: any density does for it."""
        density = oracles.smoothed_uniform_prob(m, mu[op], phi.sigma)
        fixed = oracles.smoothed_uniform_prob(m, phi.mu[op], phi.sigma)
        return pi.softmax(-1)[0, op] * torch.where(op == 2, fixed, density) * weights.repeat(len(RANGED))

    exact_pi, exact_mu = exact_gradient(problem, inputs, probability, phi)
    share = probability(phi.pi, phi.mu)
    assert share.sum().item() == pytest.approx(1.0, abs=1e-12)
    grad_pi, grad_mu = estimate(problem, inputs, tau, share, phi)
    assert exact_mu[:2].abs().min() > 1e-4
    torch.testing.assert_close(grad_mu, exact_mu, rtol=0, atol=1e-6)
    torch.testing.assert_close(grad_pi, exact_pi, rtol=0, atol=1e-8)


class Enumeration:
    """Passes, and a policy's draws, of every composite once: under a uniform policy, 1 / A is then p(tau)."""

    def __init__(self, problem: Problem, tau: Composites):
        self.problem, self.inputs = problem, problem.augmented(tau)
        self.theta, self.sizes = problem.theta, problem.sizes

    def train_gradients(self, tau: Composites, drawn: Drawn) -> tuple[Tensor, Tensor]:
        model, labels = self.problem.model, self.problem.labels
        losses = [cross_entropy(model(floats), labels) for floats in self.inputs]
        return torch.stack([passes.gradient(loss, model) for loss in losses]), torch.stack(losses).detach()

    def val_gradient(self, drawn: Drawn) -> tuple[Tensor, Tensor]:
        theta = self.theta.clone().requires_grad_()
        loss = self.problem.val_loss(theta)
        return torch.autograd.grad(loss, theta)[0], loss.detach()

    def average(self, gradient: Tensor) -> Tensor:
        return gradient


def every_noise(phi: Policy, tau: Composites) -> Drawn:
    """Noise that becomes these composites under a uniform policy, and the schedule of a first step."""
    uniform = torch.stack([(tau.op + 0.5) / len(phi.space), torch.zeros_like(tau.magnitude)])
    unused, batch = torch.empty(0), torch.empty(0, dtype=torch.int64)
    normal = tau.magnitude / phi.sigma
    return Drawn(
        scalar(ETA),
        uniform,
        normal,
        batch,
        unused,
        unused,
        unused,
        val_batch=batch,
        eta=scalar(ETA),
        done=scalar(1),
    )


@pytest.mark.parametrize("n_composed", [1, 2])
def test_take_step_descends_the_enumerated_gradient(n_composed):
    """The same, through Algorithm 1's own step: 1 / A, eta and the order of the updates as the search has them."""
    problem, tau = Problem(), every_composite(FREE, n_composed)
    phi = Policy.uniform(FREE, n_composed=n_composed)
    exact, _ = exact_gradient(
        problem,
        problem.augmented(tau),
        lambda pi, mu: torch.stack([pi.softmax(-1)[k, tau.op[:, k]] for k in range(n_composed)]).prod(0),
        phi,
    )
    config = SearchConfig(
        n_rounds=1, n_retrain=0, n_unrolled=9, n_composites=len(tau.op), model_lr=ETA, policy_lr=2.0, kl_weight=0.7,
        momentum=0.0, weight_decay=0.0, clip=None,
    )  # fmt: skip
    start = slack.start(phi, problem.theta)
    state, report = slack.take_step(start, every_noise(phi, tau), Enumeration(problem, tau), config)
    assert torch.equal(report.tau.op, tau.op)
    torch.testing.assert_close(state.phi.pi, -2.0 * exact, rtol=0, atol=1e-8)  # at the anchor, KL has no gradient
    assert torch.equal(state.phi.mu, phi.mu)
    assert report.weight.shape == (len(tau.op),)


# --- its parts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_norm", [1e-3, 5.0, 1e3])
def test_clip_is_torch_s(max_norm):
    g = doubles(4, 50)
    for row, clipped in zip(g, passes.clip(g, max_norm), strict=True):
        parameter = nn.Parameter(torch.zeros_like(row))
        parameter.grad = row.clone()
        nn.utils.clip_grad_norm_([parameter], max_norm)
        torch.testing.assert_close(clipped, parameter.grad, rtol=2e-3 if max_norm < 1 else 1e-6, atol=0)  # its + 1e-6
        assert clipped.norm() <= max_norm * (1 + 1e-12)
        assert torch.equal(passes.clip(row, max_norm), clipped)


def test_a_baseline_leaves_the_expectation_and_takes_noise_out():
    """Over all triples of composites of one position, with their probabilities."""
    phi, reward = policy(FREE, 1), torch.tensor([5.0, 5.5, 4.0, 5.2], dtype=torch.float64)
    triples = [composites(op[:, None], torch.zeros(3, 1), FREE) for op in torch.cartesian_prod(*[torch.arange(4)] * 3)]
    p = torch.stack([phi.log_prob(tau).sum().exp() for tau in triples])[:, None]
    means, noise = [], []
    for worth in (lambda w: w, budget.minus_the_others):
        draws = torch.stack([g_phi(phi, tau, worth(reward[tau.op[:, 0]]), p)[0][0] for tau in triples])  # (4 ** 3, N)
        means.append((p * draws).sum(0))
        noise.append((p * (draws - means[-1]) ** 2).sum().item())
    torch.testing.assert_close(*means, rtol=0, atol=1e-12)
    assert noise[1] < 0.1 * noise[0]


def test_the_gradient_of_phi_is_all_in_its_own_precision():
    """So that a third is one in float64."""
    phi, tau, weight = policy(FREE, 1), composites(torch.tensor([[0], [1], [3]]), torch.zeros(3, 1), FREE), doubles(3)
    assert torch.equal(*(g_phi(phi, tau, w, weight)[0] for w in (weight.float(), weight.float().double())))


def test_clip_leaves_short_gradients_and_zero_alone_and_none_clips_nothing():
    g = doubles(3, 5)
    for given, max_norm in ((g, 100.0), (torch.zeros(2, 5), 5.0), (100 * g, None)):
        assert torch.equal(passes.clip(given, max_norm), given)


def test_clip_each_is_torch_s_on_one_tensor_at_a_time():
    sizes, g = [7, 1, 20, 12], 3 * doubles(40)
    expected = []
    for part in g.split(sizes):
        parameter = nn.Parameter(torch.zeros_like(part))
        parameter.grad = part.clone()
        nn.utils.clip_grad_norm_([parameter], 5.0)
        expected.append(parameter.grad)
    clipped = passes.clip_each(g, sizes, 5.0)
    torch.testing.assert_close(clipped, torch.cat(expected), rtol=1e-6, atol=0)
    norms = torch.stack([part.norm() for part in clipped.split(sizes)])
    assert norms.max() > 4.99  # some were clipped
    assert norms.min() < 4.9  # and some were not
    assert torch.equal(passes.clip_each(g, sizes, None), g)


def test_gradient_of_an_unused_parameter_is_zero():
    model = nn.ModuleDict({"unused": nn.Linear(2, 2), "used": nn.Linear(3, 1)})
    g = passes.gradient(model["used"](torch.ones(1, 3)).sum(), model)
    assert g.tolist() == [0.0] * 6 + [1.0] * 4
