"""Algorithm 1 against a round written down once more (oracles.slack_round), and its promises one by one."""

import copy
import io
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import oracles
from slackaug import data, models, rng
from slackaug.augment.apply import Parameters, draw
from slackaug.augment.policy import Policy
from slackaug.data import Batches
from slackaug.engine.chance import Chance
from slackaug.engine.passes import Passes
from slackaug.engine.state import Report, State
from slackaug.methods import slack
from slackaug.methods.budget import SearchConfig
from small_search import CONFIG, INVERT, SPACE, STREAMS, TRAIN, VAL, make, run, search, tiny_net, uniform

GOLDEN = Path(__file__).parents[1] / "golden" / "search.json"


# --- settings ---------------------------------------------------------------------------------------------------------


BOUNDS = {
    "be at least 1": (["n_rounds", "n_unrolled", "n_composites", "batch", "val_batch"], [0], 1),
    "be positive": (["model_lr", "mu_divisor", "clip", "val_clip"], [0.0, -1.0, math.nan, math.inf], 1e-9),
    "not be negative": (
        ["n_retrain", "policy_lr", "kl_weight", "weight_decay", "momentum"],
        [-1, math.nan, math.inf],
        0,
    ),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_numbers_out_of_bounds_are_refused(bound):
    names, values, least = BOUNDS[bound]
    for name in names:
        null = ", or null" if name in ("clip", "val_clip", "val_batch") else ""
        for value in values:
            with pytest.raises(ValueError, match=rf"^search\.{name} must {bound}{null}, got {value}$"):
                SearchConfig(**{name: value})
        SearchConfig(**{name: least}, cold_start=False)
    assert SearchConfig(clip=None, val_clip=None, val_batch=None).n_val == SearchConfig().batch


def test_something_must_be_learned():
    with pytest.raises(ValueError, match=r"^search\.learn_pi and search\.learn_mu are both false"):
        SearchConfig(learn_pi=False, learn_mu=False)


@pytest.mark.parametrize("n_rounds", [2, 10])
def test_cold_start_needs_retraining(n_rounds):
    message = r"n_retrain = 0 with a cold start and more than one round.*set search\.n_retr"
    with pytest.raises(ValueError, match=message):
        SearchConfig(n_retrain=0, n_rounds=n_rounds)
    SearchConfig(n_retrain=0, n_rounds=1)
    SearchConfig(n_retrain=0, n_rounds=n_rounds, cold_start=False)


def test_defaults_are_the_paper_s_cifar10_row():
    assert SearchConfig() == SearchConfig(
        n_rounds=10, n_retrain=1000, n_unrolled=400, n_composites=8, batch=128, val_batch=None, model_lr=0.4,
        policy_lr=1.0, kl_weight=0.02, weight_decay=2e-4, momentum=0.9, clip=5.0, val_clip=5.0, mu_divisor=40.0,
        cold_start=True, learn_pi=True, learn_mu=True, kl_budget=None, calibrate=False,
    )  # fmt: skip
    assert SearchConfig().rule == slack.SlackConfig().rule == slack.Rate(1.0, 0.02, 0.9, (1.0, 40.0))


# --- against an independent implementation ----------------------------------------------------------------------------


class Expected(NamedTuple):
    images: Tensor
    labels: Tensor
    op: Tensor  # (A, K)
    magnitude: Tensor  # (A, K)
    parameters: list[Parameters]  # of the images, for each composite
    val_images: Tensor
    val_labels: Tensor


class Draws:
    """What a step draws, in the order in which `Chance` does; val batches only where one is used."""

    def __init__(self, phi: Policy, config: SearchConfig):
        self.phi, self.config, self.step = phi, config, 0
        self.streams = {name: rng.generator(0, name) for name in STREAMS}
        self.train = Batches(len(TRAIN.labels), config.batch, self.streams["train data"])
        self.val = Batches(len(VAL.labels), config.batch, self.streams["val data"])

    def __call__(self, pi: Tensor, mu: Tensor) -> Expected:
        a, b = self.config.n_composites, self.config.batch
        tau = replace(self.phi, pi=pi, mu=mu).sample(a, self.streams["policy"])
        images, labels = TRAIN.take(self.train.next())
        (op, magnitude, active, space), u, flip = draw(tau.repeat(b), self.streams["transform"], flip=self.phi.flip)
        rows = [slice(i * b, (i + 1) * b) for i in range(a)]
        parameters = [Parameters(tau.__class__(op[r], magnitude[r], active[r], space), u[r], flip[r]) for r in rows]
        is_unrolled = self.step % self.config.n_steps >= self.config.n_retrain
        self.step += 1
        val = VAL.take(self.val.next()) if is_unrolled else VAL.take(torch.arange(0))
        return Expected(images, labels, tau.op, tau.magnitude, parameters, *val)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"clip": None, "val_clip": 2.0},
        {"val_clip": None},
        {"clip": 5.0, "kl_weight": 0.0},
        {"kl_weight": 2.0, "policy_lr": 0.5, "mu_divisor": 0.5},
        {"momentum": 0.0, "weight_decay": 0.0},
        {"mu_divisor": 1.0},
        {"n_retrain": 0, "n_rounds": 1, "n_unrolled": 6},
        {"cold_start": False},
    ],
    ids=lambda changes: ",".join(changes) or "plain",
)
def test_two_rounds_are_those_of_the_oracle(changes):
    """phi in every step, and theta with its statistics at the end, within 1e-5."""
    config = replace(CONFIG, **changes)
    phi = uniform()
    made = make(phi)
    states = run(config, made, phi)
    model, draws = tiny_net(), Draws(phi, config)
    theta_0 = copy.deepcopy(model.state_dict())
    mean, std = (torch.tensor(c).view(-1, 1, 1) for c in (phi.mean, phi.std))
    pi, mu, expected = phi.pi, phi.mu, []
    for _ in range(config.n_rounds):
        if config.cold_start:
            model.load_state_dict(theta_0)
        norm = lambda pixels: (pixels / 255 - mean) / std  # noqa: E731
        expected += list(oracles.slack_round(model, pi, mu, phi.space, config, draws, phi.fill, norm))
        pi, mu = expected[-1]
    assert len(states) == len(expected) == config.n_rounds * config.n_steps
    for state, (pi, mu) in zip(states, expected, strict=True):
        torch.testing.assert_close(state.phi.pi, pi, rtol=0, atol=1e-5)
        torch.testing.assert_close(state.phi.mu, mu, rtol=0, atol=1e-5)
    assert (states[-1].phi.pi - phi.pi).abs().max() > 1e-3  # 1e-5 says something
    assert (states[-1].phi.mu - phi.mu).abs().max() > 1e-3
    for name, value in made[1].model.state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-4, atol=1e-5, msg=name)


# --- rounds -----------------------------------------------------------------------------------------------------------


def test_steps_are_counted_in_each_round_and_phi_s_momenta_are_new_in_it():
    states, n = run(CONFIG), CONFIG.n_steps
    assert [(s.round, s.step) for s in states] == [(0, i) for i in range(1, n)] + [(1, i) for i in range(n)] + [(2, 0)]
    assert torch.count_nonzero(states[n - 1].pi_momentum)  # as the first round left it
    for state in states[n : n + CONFIG.n_retrain]:  # zero until phi moves
        assert torch.count_nonzero(state.pi_momentum) == torch.count_nonzero(state.mu_momentum) == 0


def test_reports_say_what_each_step_saw():
    reports = [report for _, report in search(CONFIG, make())]
    for i, report in enumerate(reports):
        is_unrolled = i % CONFIG.n_steps >= CONFIG.n_retrain
        assert report.train_loss.shape == ()
        assert report.tau.op.shape == (CONFIG.n_composites, 2)
        assert (report.val_loss is not None) == is_unrolled
        assert (report.weight is not None) == is_unrolled


# --- what moves -------------------------------------------------------------------------------------------------------


def test_learn_pi_and_learn_mu():
    start = uniform()
    only_pi, only_mu = run(replace(CONFIG, learn_mu=False))[-1].phi, run(replace(CONFIG, learn_pi=False))[-1].phi
    assert torch.equal(only_pi.mu, start.mu)
    assert not torch.equal(only_pi.pi, start.pi)
    assert torch.equal(only_mu.pi, start.pi)
    assert not torch.equal(only_mu.mu, start.mu)


def test_parameter_free_mu_never_moves():
    states = run(replace(CONFIG, mu_divisor=1.0))
    assert all(state.phi.mu[INVERT] == 0.75 for state in states)
    assert (states[-1].phi.mu != 0.75).sum() == len(SPACE) - 1


def test_mu_is_clamped():
    """At a rate that throws it about."""
    states = run(replace(CONFIG, mu_divisor=1.0, policy_lr=1e4))
    mu = torch.stack([state.phi.mu for state in states])
    assert mu.min() == 0.1
    assert mu.max() == 1.0
    assert torch.isfinite(states[-1].phi.pi).all()


def test_phi_before_a_step_is_left_as_it_was():
    """A state that a caller keeps must not change under him: its policy does not."""
    phi = uniform()
    kept = [(s.phi, s.phi.pi.clone(), s.phi.mu.clone()) for s, _ in search(CONFIG, make(), phi)]
    assert all(torch.equal(p.pi, pi) and torch.equal(p.mu, mu) for p, pi, mu in kept)
    assert torch.equal(phi.pi, uniform().pi)


def test_kl_and_a_cold_start_keep_the_entropy():
    """Ten short rounds on the planted colours, at a rate that is much too high: neither alone would hold the policy."""
    source = data.load("shapes:colour")
    train, val = source.halves(0)
    phi = Policy.uniform("domainnet", mean=source.mean, std=source.std)
    model = tiny_net()
    model[-1] = torch.nn.Linear(8, source.n_classes)
    models.initialise(model, rng.generator(0, "model"))

    def entropy(**changes) -> Tensor:
        """Of each position at the end, as a share of the highest."""
        config = SearchConfig(n_retrain=4, n_unrolled=8, n_composites=4, batch=16, model_lr=0.1, weight_decay=5e-4)
        config = replace(config, policy_lr=40.0, **changes)
        streams = {name: rng.generator(0, name) for name in STREAMS}
        chance = Chance(train, val, config.batch, config.batch, streams, flip=phi.flip)
        *_, (state, _) = search(config, (chance, Passes(copy.deepcopy(model), phi, train, val, streams["model"])), phi)
        return state.phi.entropy() / math.log(20)

    held, without_kl, without_both = entropy(), entropy(kl_weight=0.0), entropy(kl_weight=0.0, cold_start=False)
    assert held.min() > 0.6
    assert held.max() < 1 - 1e-6
    assert without_kl.max() < 0.4
    assert without_both.max() < 0.1


# --- leaving and coming back ------------------------------------------------------------------------------------------


def through_a_file(saved: dict) -> dict:
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@cache
def uninterrupted(config: SearchConfig) -> State:
    return run(config)[-1]


@pytest.mark.parametrize(
    ("n_done", "cold_start"), [(n, True) for n in range(1, 12)] + [(5, False), (6, False), (7, False)]
)
def test_resuming_at_any_step_is_bit_equal(n_done, cold_start):
    """Round borders too: 6 steps are the first round."""
    config = replace(CONFIG, cold_start=cold_start)
    whole = uninterrupted(config)
    chance, passes = made = make()
    state = next(state for i, (state, _) in enumerate(search(config, made), 1) if i == n_done)
    saved = through_a_file({"search": state.to_dict(), "model": passes.model.state_dict(), **chance.get_state()})
    fresh, again = make(seed=1)  # theta_0 is the same; all else comes out of the file
    fresh.set_state(saved)
    again.model.load_state_dict(saved["model"])
    state = State.from_dict(saved["search"], uniform(), again.theta)
    *_, (resumed, _) = slack.rounds(state, fresh, again, config)
    for name, value in whole.to_dict().items():
        other = resumed.to_dict()[name]
        assert torch.equal(value, other) if isinstance(value, Tensor) else value == other, name


def test_a_finished_search_has_no_more_steps():
    last, made = run(CONFIG)[-1], make()
    before = made[1].theta.clone()
    assert list(slack.rounds(last, *made, CONFIG)) == []
    assert torch.equal(made[1].theta, before)


def test_phi_goes_where_theta_is():
    state = slack.start(uniform(), torch.empty(3, device="meta"))
    assert all(value.is_meta for value in state.tensors())
    assert not uniform().to("cpu").pi.is_meta


def test_only_the_gradient_of_phi_is_averaged():
    """Passes that halve it: theta of the first unrolled step is the same, and phi moves half as far."""
    config = replace(CONFIG, n_rounds=1, n_unrolled=1, momentum=0.0)
    plain, halved = make(), make()
    halved[1].average = lambda gradient: gradient / 2
    (*_, whole), (*_, half) = run(config, plain), run(config, halved)
    assert torch.equal(plain[1].theta, halved[1].theta)
    torch.testing.assert_close(2 * half.phi.pi, whole.phi.pi)
    torch.testing.assert_close(2 * half.mu_momentum, whole.mu_momentum)


# --- five seeded steps ------------------------------------------------------------------------------------------------


def golden_steps() -> Iterator[tuple[State, Report]]:
    """A round of 1 + 2 steps and most of a second, on `shapes:colour`, in float64, so that no machine's order of
    summation is seen."""
    source = data.load("shapes:colour")
    (train, val), streams = source.halves(0), {name: rng.generator(0, name) for name in STREAMS}
    config = SearchConfig(n_rounds=2, n_retrain=1, n_unrolled=2, n_composites=2, batch=8, model_lr=0.1)
    phi = Policy.uniform("domainnet", mean=source.mean, std=source.std)
    model = models.build("small", source.n_classes, source.image_size, rng.generator(0, "model")).double()
    passes = Passes(model, phi, train, val, streams["model"])
    passes.normalise.double()
    yield from search(config, (Chance(train, val, config.batch, config.batch, streams, flip=phi.flip), passes), phi)


def golden_document() -> dict[str, list]:
    steps = [(state.phi, report) for (state, report), _ in zip(golden_steps(), range(5), strict=False)]
    return {
        "train_loss": [report.train_loss.item() for _, report in steps],
        "val_loss": [None if report.val_loss is None else report.val_loss.item() for _, report in steps],
        "weight": [None if report.weight is None else report.weight.tolist() for _, report in steps],
        "pi": steps[-1][0].pi.tolist(),
        "mu": steps[-1][0].mu.tolist(),
    }


def flat(value) -> list[float]:
    """NaN for what is not there."""
    if isinstance(value, list):
        return [number for entry in value for number in flat(entry)]
    return [math.nan if value is None else value]


def test_five_steps_are_the_golden_ones():
    """To regenerate, after a change of numbers that was meant: `PYTHONPATH=tests python tests/methods/test_slack.py`,
    and say in the commit which numbers moved and why."""
    golden, document = json.loads(GOLDEN.read_text()), golden_document()
    assert golden.keys() == document.keys()
    for name in golden:
        assert flat(document[name]) == pytest.approx(flat(golden[name]), rel=1e-6, abs=1e-12, nan_ok=True), name


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(golden_document(), indent=1) + "\n")
