"""Agreement between policies: against numpy, in the corners, and (marked data) on the published policies."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from drawings import drawn
from slackaug.augment.formats import published
from slackaug.augment.policy import MU_START, Policy
from slackaug.augment.stability import CHANCE, agreement_of_rounds, consensus, stability
from slackaug.augment.transforms import get_space

OFFICIAL = Path(__file__).parents[3] / "shared" / "reference" / "official_policies"


def expected(policies: list[Policy], values: list[np.ndarray], left_out: set[str], magnitudes: bool) -> float:
    chosen = [
        i for i, t in enumerate(policies[0].space) if t.name not in left_out and (t.span is not None or not magnitudes)
    ]
    pairs = [(i, j) for i in range(len(values)) for j in range(i)]
    return float(np.mean([np.corrcoef(values[i][chosen], values[j][chosen])[0, 1] for i, j in pairs]))


@pytest.mark.parametrize("space", ["cifar", "imagenet", "domainnet"])
@pytest.mark.parametrize("n", [2, 4])
def test_is_numpys_correlation_over_all_pairs(space, n):
    policies = [drawn(space, seed=seed) for seed in range(n)]
    found = stability(policies)
    pi, mu = ([f(p).numpy() for p in policies] for f in (lambda p: p.probabilities.mean(0), lambda p: p.mu))
    discarded = {"Invert", "Solarize"}
    assert found.n_policies == n
    assert found.pi == pytest.approx(expected(policies, pi, set(), False))
    assert found.pi_rest == pytest.approx(expected(policies, pi, discarded, False))
    assert found.mu == pytest.approx(expected(policies, mu, set(), True))
    assert found.mu_rest == pytest.approx(expected(policies, mu, discarded, True))
    assert found.entropy == pytest.approx(np.mean([p.entropy().numpy() for p in policies]))
    assert found.entropy_share == pytest.approx(found.entropy / math.log(len(policies[0].space)))


def test_magnitudes_of_parameter_free_transformations_do_not_count():
    a, b = drawn(seed=0), drawn(seed=1)
    mu = torch.where(b.space.has_magnitude, b.mu, 1 - b.mu)
    assert stability([a, b]).mu == stability([a, replace(b, mu=mu)]).mu


def test_a_constant_has_no_correlation_and_hides_no_other():
    """Uniform probabilities, and magnitudes that were not learned."""
    learned = drawn()
    start = Policy.uniform("cifar")
    assert stability([start]) == (1, None, None, None, None, pytest.approx(math.log(17)), pytest.approx(1))
    assert stability([learned, start])[1:5] == (None, None, None, None)
    assert stability([learned, learned])[1:5] == pytest.approx((1, 1, 1, 1))
    one_position = drawn(n_composed=1, seed=1)
    assert stability([learned, start, one_position]).pi == stability([learned, one_position]).pi is not None
    pi_only = [replace(drawn(seed=seed), mu=start.mu) for seed in range(2)]
    assert stability(pi_only).pi is not None
    assert stability(pi_only)[3:5] == (None, None)


def test_only_the_discarded_differ_and_a_space_without_them():
    """Equal probabilities but for Invert: alike with it, undefined without."""
    pi = torch.zeros(3, 17, dtype=torch.float64)
    pi[:, get_space("cifar").index("Invert")] = -1
    found = stability([replace(drawn(seed=seed), pi=pi) for seed in range(2)])
    assert (found.pi, found.pi_rest) == (pytest.approx(1), None)
    found = stability([drawn(get_space("cifar").exclude("Invert", "Solarize"), seed=seed) for seed in range(2)])
    assert found.pi == found.pi_rest


@pytest.mark.parametrize("function", [stability, consensus])
def test_refuses_no_policy_and_two_spaces(function):
    with pytest.raises(ValueError, match="at least one policy, got none"):
        function([])
    with pytest.raises(ValueError, match=r"expected policies of one space, got .*Invert.* and .*Hue"):
        function([drawn("cifar"), drawn("domainnet")])


def steps(directions: list[torch.Tensor]) -> list[Policy]:
    """A search whose rounds change the logits in these directions."""
    rounds = [Policy.uniform("cifar")]
    for direction in directions:
        rounds.append(replace(rounds[-1], pi=rounds[-1].pi + direction))
    return rounds[1:]


def test_rounds_that_go_one_way_agree_and_rounds_by_chance_do_not():
    stream = torch.Generator().manual_seed(0)
    noise = torch.randn(200, 17, generator=stream, dtype=torch.float64)
    assert agreement_of_rounds(steps([noise[0]] * 4)) == pytest.approx(1)
    assert agreement_of_rounds(steps([noise[0], -noise[0]])) == pytest.approx(-1)
    by_chance = [agreement_of_rounds(steps([*noise[i : i + 5]])) for i in range(0, 200, 5)]
    assert abs(np.mean(by_chance)) < 0.05
    assert max(by_chance) < CHANCE  # 40 searches that have found nothing
    mixed = steps([noise[0] + noise[i] for i in range(1, 6)])
    assert 0.25 < agreement_of_rounds(mixed) < 0.75


def test_one_round_or_none_that_moves_has_no_agreement():
    for directions in ([], [torch.ones(17)], [torch.zeros(17)] * 2):
        assert agreement_of_rounds(steps(directions)) is None


def test_a_consensus_is_the_nearest_to_all_and_has_their_mean_bounds():
    policies = [drawn(seed=seed) for seed in range(3)]
    found = consensus(policies)

    def divergence(policy: Policy) -> float:
        return sum(policy.kl(one).item() for one in policies)

    for seed in range(20):
        shift = 0.1 * torch.randn(found.pi.shape, generator=torch.Generator().manual_seed(seed), dtype=found.pi.dtype)
        assert divergence(replace(found, pi=found.pi + shift)) > divergence(found)
    np.testing.assert_allclose(found.mu.numpy(), np.mean([policy.mu.numpy() for policy in policies], 0))
    assert found.learned["searches"] == 3
    Policy.from_dict(found.to_dict())


def test_a_consensus_has_less_of_the_chance_of_each():
    truth = drawn(seed=99)
    noisy = [replace(truth, pi=truth.pi + drawn(seed=seed).pi) for seed in range(8)]
    halves = consensus(noisy[:4]), consensus(noisy[4:])
    assert stability(halves).pi > stability(noisy).pi + 0.1


@pytest.mark.parametrize(("numbers", "expected"), [((1, 4), 1), ((2, 1, 2), 2), ((3, 2, 3, 2), 2), ((5, 3, 3), 3)])
def test_a_consensus_has_as_many_positions_as_most(numbers, expected):
    policies = [drawn(n_composed=number, seed=seed) for seed, number in enumerate(numbers)]
    found = consensus(policies)
    assert found.pi.shape == (expected, len(found.space))
    rows = [p.probabilities if len(p.pi) == expected else p.probabilities.mean(0, keepdim=True) for p in policies]
    mean = torch.stack([row.log().expand(expected, -1) for row in rows]).mean(0)
    torch.testing.assert_close(found.probabilities, mean.softmax(-1))


def test_images_as_they_are_decide_a_consensus_only_where_they_are_most():
    one, two, three = (drawn(n_composed=1, seed=seed) for seed in range(3))
    none = one.with_composed(0)
    found = consensus([one, none, two, three])
    torch.testing.assert_close(found.probabilities, consensus([one, two, three]).probabilities)
    assert (found.learned["searches"], found.learned["images as they are"]) == (4, 1)
    assert consensus([one, none, none]).n_composed == 0
    assert consensus([none, none]).n_composed == 0
    assert consensus([one, none]).n_composed == 1


def judged(policy: Policy, *, is_kept: bool) -> Policy:
    return replace(policy, learned=policy.learned | {"is_kept": is_kept})


def test_what_was_not_kept_decides_a_consensus_only_where_it_is_most():
    one, two = judged(drawn(seed=0), is_kept=True), drawn(seed=1)  # nobody has judged the second
    uniform_1, uniform_2 = (judged(Policy.uniform("cifar", n_composed=n), is_kept=False) for n in (1, 2))
    found = consensus([one, uniform_2, two, uniform_2])
    torch.testing.assert_close(found.probabilities, consensus([one, two]).probabilities)
    torch.testing.assert_close(found.mu, consensus([one, two]).mu)
    for policies, number in (([one, uniform_2, uniform_2], 2), ([uniform_1, uniform_2, one, uniform_1], 1)):
        found = consensus(policies)
        torch.testing.assert_close(found.probabilities, Policy.uniform("cifar", n_composed=number).probabilities)
        assert (found.mu == MU_START).all()


# --- the published policies -------------------------------------------------------------------------------------------


@pytest.mark.data
def test_published_policies_are_where_the_documents_have_them():
    """Means over splits: 0.51 to 0.73, 0.10 to 0.69 without Invert and Solarize, 0.05 to 0.14 nats below uniform."""
    if not OFFICIAL.is_dir():
        pytest.skip(f"the published policies are not under {OFFICIAL}")
    found, below = {}, []
    for name in sorted({path.stem.rpartition("_s")[0] for path in OFFICIAL.glob("*_s?.json")}):
        policies = [published.load(OFFICIAL / f"{name}_s{split}.json") for split in range(4)]
        assert all(isinstance(policy, Policy) for policy in policies)
        found[name] = stability(policies)
        below.append(math.log(len(policies[0].space)) - found[name].entropy)
    assert len(found) == 11
    assert ranged(s.pi for s in found.values()) == (0.51, 0.73)
    assert ranged(s.pi_rest for s in found.values()) == (0.10, 0.69)
    assert ranged(below) == (0.05, 0.14)
    cifar = found["cifar10_wrn-40-2"]
    assert (cifar.pi, cifar.pi_rest) == pytest.approx((0.70, 0.39), abs=0.005)


def ranged(values) -> tuple[float, float]:
    values = list(values)
    return round(min(values), 2), round(max(values), 2)
