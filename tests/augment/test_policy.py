"""The policy's mathematics (Sec. 3.1 of the paper). Its files are tested in test_schema."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torch.distributions import Categorical, kl_divergence

import oracles
from drawings import drawn
from slackaug import rng
from slackaug.augment.apply import Composites
from slackaug.augment.policy import CIFAR, IMAGENET, Policy, PolicyError, SmoothedUniform
from slackaug.augment.space import Space
from slackaug.augment.transforms import SPACES
from slackaug.rng import generator

MU = st.floats(0.1, 1.0) | st.sampled_from([0.1, 1.0])
SMALL = Space("small", tuple(SPACES["cifar"][name] for name in ("Rotate", "Invert", "Cutout", "Identity")))


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def some_policy(space: Space = SMALL, n_composed: int = 2, seed: int = 0) -> Policy:
    return drawn(space, seed, n_composed=n_composed)


def with_pi(*rows: list[float]) -> Policy:
    return Policy.from_dict(Policy.uniform(SMALL).to_dict() | {"pi": list(rows)})


def composites(op: list, magnitude: list, space: Space = SMALL) -> Composites:
    op, magnitude = torch.tensor(op), torch.tensor(magnitude, dtype=torch.float64)
    return Composites(op, magnitude, torch.ones_like(op, dtype=torch.bool), space)


# --- the density of a magnitude ---------------------------------------------------------------------------------------


@given(mu=MU, scale=st.floats(0.05, 0.15), m=st.floats(-1, 2) | st.sampled_from([-1.0, 0.0, 0.1, 1.0, 2.0]))
def test_density_is_the_paper_s_everywhere(mu, scale, m):
    """In 400 digits; far outside [0, mu] the plain formula in float64 is log(0)."""
    log_prob = SmoothedUniform(f64(mu), scale).log_prob(f64(m)).item()
    assert log_prob == pytest.approx(oracles.smoothed_uniform_log_prob(m, mu, scale), rel=1e-12, abs=1e-12)


@given(mu=MU, m=st.floats(-1, 2))
def test_score_is_accurate_everywhere(mu, m):
    """d log p / d mu = N(mu - m; sigma) / (mu p) - 1 / mu."""
    high = f64(mu).requires_grad_()
    SmoothedUniform(high, 0.1).log_prob(f64(m)).sum().backward()
    log_ratio = stats.norm.logpdf(mu, m, 0.1) - math.log(mu) - oracles.smoothed_uniform_log_prob(m, mu, 0.1)
    assert high.grad.item() == pytest.approx(math.exp(log_ratio) - 1 / mu, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("mu", [0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0])
def test_unit_mass_and_no_mean_score_of_the_bound(mu):
    """The published density lacks the integral's lower bound, and its score is biased once mu < 0.3."""
    high = f64(mu).requires_grad_()
    points, weights = oracles.grid()
    log_prob = SmoothedUniform(high, 0.1).log_prob(points)
    mass = weights * log_prob.detach().exp()
    assert mass.sum().item() == pytest.approx(1.0, abs=1e-9)
    (score,) = torch.autograd.grad((mass * log_prob).sum(), high)
    assert score.item() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("mu", [0.1, 0.4, 1.0])
def test_samples_follow_the_density(mu):
    """Kolmogorov-Smirnov; true samples fail each with probability 1e-3, the seed is fixed."""
    stream = generator(0, "test")
    u, normal = rng.uniform((5000,), stream), rng.normal((5000,), stream)
    density = SmoothedUniform(f64(mu), 0.1)
    points, weights = oracles.grid()
    cumulative = (density.log_prob(points).exp() * weights).cumsum(0)

    def cdf(m):
        return cumulative[torch.searchsorted(points, torch.as_tensor(m)).clamp(max=len(points) - 1)].numpy()

    assert stats.kstest(density.sample(u, normal).numpy(), cdf).pvalue > 1e-3


# --- log p(tau) -------------------------------------------------------------------------------------------------------


def test_log_prob_is_the_sum_over_positions():
    """Every tau of 4 transformations at 2 positions, against the formula in plain numbers."""
    policy = some_policy()
    weights = policy.pi.exp().tolist()
    for i, tau in enumerate(oracles.every_tau(4, 2)):
        m = [(0.37 * i) % 1.2 - 0.1, (0.61 * i) % 1.2 - 0.1]
        expected = sum(math.log(weights[k][t] / sum(weights[k])) for k, t in enumerate(tau))
        for k, t in enumerate(tau):
            if SMALL.transforms[t].span is not None:
                expected += oracles.smoothed_uniform_log_prob(m[k], policy.mu[t].item(), 0.1)
        assert policy.log_prob(composites([list(tau)], [m])).item() == pytest.approx(expected, rel=1e-12)


def test_every_tau_together_has_probability_one_and_no_mean_score():
    """Parameter-free transformations, so that the sum over all tau is the whole space of draws."""
    space = Space("free", tuple(t for t in SPACES["domainnet"] if t.span is None))
    policy = some_policy(space, n_composed=3)
    pi = policy.pi.requires_grad_()
    tau = torch.tensor(list(oracles.every_tau(len(space), 3)))
    log_prob = policy.log_prob(Composites(tau, torch.zeros(tau.shape).double(), tau >= 0, space))
    assert log_prob.exp().sum().item() == pytest.approx(1.0, abs=1e-12)
    (score,) = torch.autograd.grad((log_prob.detach().exp() * log_prob).sum(), pi)
    assert score.abs().max() < 1e-12


def test_parameter_free_transformations_have_no_magnitude_term():
    policy = some_policy()
    mu = policy.mu.requires_grad_()
    free = composites([[1, 3]], [[0.4, -7.0]])  # Invert, Identity
    assert policy.log_prob(free).item() == policy.log_prob(free._replace(magnitude=free.magnitude + 0.3)).item()
    policy.log_prob(composites([[1, 3], [0, 1]], [[0.4, 0.2], [0.3, 0.1]])).sum().backward()
    assert (mu.grad != 0).tolist() == [True, False, False, False]  # only Rotate was drawn with a magnitude


def test_gradients_equal_finite_differences():
    policy, anchor = some_policy(), some_policy(seed=1)
    tau = policy.sample(6, generator(0, "test"))

    def log_prob(pi: Tensor, mu: Tensor) -> Tensor:
        return replace(policy, pi=pi, mu=mu).log_prob(tau)

    def kl(pi: Tensor) -> Tensor:
        return replace(policy, pi=pi).kl(anchor)

    pi, mu = policy.pi.clone().requires_grad_(), policy.mu.clone().requires_grad_()
    assert torch.autograd.gradcheck(log_prob, (pi, mu))
    assert torch.autograd.gradcheck(kl, (pi,))


# --- KL and entropy ---------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 1000))
def test_kl_and_entropy_equal_torch_distributions(seed):
    policy, anchor = some_policy(seed=seed), some_policy(seed=seed + 1)
    expected = kl_divergence(Categorical(logits=policy.pi), Categorical(logits=anchor.pi)).sum()
    assert policy.kl(anchor).item() == pytest.approx(expected.item(), rel=1e-12)
    assert torch.allclose(policy.entropy(), Categorical(logits=policy.pi).entropy())


def test_kl_takes_no_notice_of_magnitudes_and_is_finite_from_zeros():
    policy = some_policy()
    assert policy.kl(replace(policy, mu=policy.mu / 2)).item() == 0.0
    zeros = with_pi([0.5, 0.5, 0.0, 0.0])
    assert zeros.kl(Policy.uniform(SMALL, n_composed=1)).item() == pytest.approx(math.log(2))
    with pytest.raises(ValueError, match="needs one space"):
        policy.kl(Policy.uniform(SMALL.exclude("Invert")))


# --- sampling ---------------------------------------------------------------------------------------------------------


def test_transport_is_the_inverse_of_the_cumulative():
    policy = with_pi([0.5, 0, 0.25, 0.25], [0, 0, 0, 1])
    u_op = f64(2**-53, 0.499, 0.501, 0.749, 0.751, 1 - 2**-53).view(-1, 1).expand(6, 2)
    tau = policy.transport(torch.stack((u_op, u_op)), torch.zeros(6, 2).double())
    assert tau.op[:, 0].tolist() == [0, 0, 2, 2, 3, 3]
    assert tau.op[:, 1].tolist() == [3] * 6


@pytest.mark.parametrize(
    ("row", "u", "op"),
    [([0.5, 0, 0.25, 0.25], 0.5, 2), ([0.7, 0.2, 0.1, 0], 1 - 2**-53, 3)],
    ids=["at a border", "beyond a sum that rounding keeps below 1"],
)
def test_transport_at_the_borders(row, u, op):
    policy = with_pi(row)
    borders = policy.probabilities.cumsum(-1)[0].tolist()
    assert u in borders or u > borders[-1]
    assert policy.transport(torch.full((2, 1, 1), u).double(), torch.zeros(1, 1).double()).op.item() == op


def test_magnitudes_are_the_bound_times_u_plus_sigma_times_normal():
    policy = replace(some_policy(), sigma=0.2)
    stream = generator(0, "test")
    uniform, normal = rng.uniform((2, 50, 2), stream), rng.normal((50, 2), stream)
    tau = policy.transport(uniform, normal)
    assert torch.allclose(tau.magnitude, policy.mu[tau.op] * uniform[1] + 0.2 * normal, atol=1e-15)
    assert tau.active.all()
    assert (tau.active.dtype, tau.space) == (torch.bool, SMALL)


def test_transformations_are_as_frequent_as_pi_says():
    """Chi-square at each position; true draws fail each with probability 1e-3, the seed is fixed."""
    policy = some_policy(SPACES["cifar"], n_composed=3)
    op = policy.sample(20_000, generator(0, "test")).op
    for k in range(3):
        counts = torch.bincount(op[:, k], minlength=17).double()
        assert stats.chisquare(counts.numpy(), (20_000 * policy.probabilities[k]).numpy()).pvalue > 1e-3


def test_every_magnitude_has_noise_of_its_own():
    """The published code shares one normal among all magnitudes of a step. Between positions, between neighbouring
    draws and with the transformations, 36 true correlations of 0 fail |r| < 0.05 with probability 2e-5."""
    policy = replace(Policy.uniform(SMALL), mu=torch.full((4,), 0.1, dtype=torch.float64), sigma=1.0)
    tau = policy.sample(10_000, generator(0, "test"))
    m = tau.magnitude
    columns = torch.stack((*m[:-1].unbind(1), *m[1:].unbind(1), *tau.op[1:].double().unbind(1)))
    correlation = torch.corrcoef(columns) - torch.eye(9, dtype=torch.float64)
    assert correlation.abs().max() < 0.05
    assert m.std().item() == pytest.approx(1.0, abs=0.03)


def test_direction_of_u_and_of_the_magnitude_are_drawn_apart():
    """With sigma tiny the magnitude is mu u: uniform whichever transformation was drawn (KS, 1e-3)."""
    policy = replace(Policy.uniform(SMALL, mu=1.0), sigma=1e-9)
    tau = policy.sample(4000, generator(1, "test"))
    for n in range(4):
        assert stats.kstest(tau.magnitude[tau.op == n].numpy(), "uniform").pvalue > 1e-3


def test_a_seed_gives_the_same_tau_without_a_gradient():
    policy = some_policy()
    first, second = (p.sample(8, generator(3, "policy")) for p in (policy, policy.differentiable()))
    assert torch.equal(first.op, second.op)
    assert torch.equal(first.magnitude, second.magnitude)
    assert not second.magnitude.requires_grad


# --- what a search starts from ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPACES)
def test_uniform_is_the_spec_s_start(name):
    policy = Policy.uniform(name)
    assert policy.pi.shape == (3, len(SPACES[name]))
    assert (policy.probabilities - 1 / len(SPACES[name])).abs().max() < 1e-15
    assert (policy.mu == 0.75).all()
    assert (policy.sigma, policy.flip, policy.pi.dtype, policy.mu.dtype) == (0.1, True, torch.float64, torch.float64)
    plain = Policy(space=policy.space, pi=policy.pi, mu=policy.mu, fill=policy.fill, mean=policy.mean, std=policy.std)
    assert (plain.sigma, plain.flip, plain.dataset, plain.learned) == (0.1, True, None, {})


def test_fill_is_the_rounded_mean():
    assert Policy.uniform("cifar").fill == (125, 123, 114)
    assert Policy.uniform("domainnet").fill == (124, 116, 104)
    assert Policy.uniform("cifar", mean=(0.0, 0.5, 1.0)).fill == (0, 128, 255)
    assert (Policy.uniform("cifar").mean, Policy.uniform("imagenet").std) == (CIFAR[0], IMAGENET[1])
    assert (Policy.uniform("cifar").std, IMAGENET[1]) == ((0.2023, 0.1994, 0.2010), (0.229, 0.224, 0.225))
    assert Policy.uniform(SPACES["cifar"].exclude("Invert")).mean == CIFAR[0]
    assert Policy.uniform("cifar", std=(1, 2, 10)).std == (1, 2, 10)


def test_copies_for_gradients_and_for_a_device():
    policy = some_policy()
    leaves = policy.differentiable()
    assert leaves.pi.is_leaf
    assert leaves.mu.is_leaf
    assert [t.requires_grad for t in (leaves.pi, leaves.mu, policy.pi, policy.mu)] == [True, True, False, False]
    assert torch.equal(leaves.pi, policy.pi)
    assert torch.equal(leaves.mu, policy.mu)
    there = policy.to("meta")
    assert (there.pi.device.type, there.mu.device.type, there.space) == ("meta", "meta", SMALL)


def test_to_compose_none_is_identity_alone_where_there_is_a_choice():
    none = some_policy().with_composed(0)
    assert (none.can_compose_none, none.n_composed, none.pi.shape) == (True, 0, (1, 4))
    assert none.pi.tolist() == [[-690, -690, -690, 0]]
    assert (none.mu == 0.75).all()
    two = none.with_composed(2)
    assert (two.n_composed, two.pi.dtype) == (2, torch.float64)
    assert (two.probabilities == 0.25).all()
    assert replace(two, pi=torch.stack((none.pi[0], two.pi[0]))).n_composed == 2  # one position still has a choice
    assert Policy.uniform(SMALL.exclude("Rotate", "Cutout")).can_compose_none  # one other is enough
    for space in (SMALL.exclude("Identity"), Space("alone", (SMALL["Identity"],))):
        policy = Policy.uniform(space, n_composed=2)
        assert (policy.can_compose_none, policy.n_composed) == (False, 2)


def test_strengthened_multiplies_and_caps():
    policy = replace(some_policy(), mu=f64(0.1, 0.3, 0.5, 1.0))
    assert policy.strengthened(2.5).mu.tolist() == [0.25, 0.75, 1.0, 1.0]
    assert policy.mu.tolist() == [0.1, 0.3, 0.5, 1.0]


@pytest.mark.parametrize(
    "wrong",
    [{"n_composed": 0}, {"n_composed": 17}, {"n_composed": 2.5}, {"mu": -1.0}, {"mu": float("nan")}, {"mu": 1.5},
     {"mean": (0.5, 0.5, 1.5)}, {"mean": (0.5,)}, {"std": (0, 0, 0)}, {"std": (1, 1, 10.5)}, {"flip": "no"}],
    ids=str,
)  # fmt: skip
def test_uniform_refuses_what_a_file_could_not_hold(wrong):
    with pytest.raises(PolicyError, match=f"^{next(iter(wrong))}"):
        Policy.uniform("cifar", **wrong)


def test_shapes_are_checked_and_policies_compare_by_identity():
    policy = Policy.uniform("cifar")
    with pytest.raises(PolicyError, match=r"expected pi \(K, 17\)"):
        replace(policy, pi=torch.zeros(3, 5, dtype=torch.float64))
    with pytest.raises(PolicyError, match=r"and mu \(17,\)"):
        replace(policy, mu=policy.mu[1:])
    assert len(Policy.uniform("cifar", n_composed=16).pi) == 16
    assert policy == policy
    assert policy != Policy.uniform("cifar")
