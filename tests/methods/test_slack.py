"""Algorithm 1 against a round written down once more (oracles.slack_round), and its promises one by one."""

import copy
import io
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

import oracles
from slackaug import data, models, rng
from slackaug.augment.apply import Parameters, draw
from slackaug.augment.policy import Policy
from slackaug.data import Batches
from slackaug.engine import hypergrad
from slackaug.engine.fit import Fit, FitConfig
from slackaug.engine.passes import Plain
from slackaug.methods import slack
from slackaug.methods.slack import SearchConfig, State
from small_search import CONFIG, INVERT, SPACE, STREAMS, TRAIN, VAL, make_engine, run, tiny_net, uniform

GOLDEN = Path(__file__).parents[1] / "golden" / "search.json"


# --- against an independent implementation ----------------------------------------------------------------------------


class Drawn(NamedTuple):
    images: Tensor
    labels: Tensor
    op: Tensor  # (A, K)
    magnitude: Tensor  # (A, K)
    parameters: list[Parameters]  # of the images, for each composite
    val_images: Tensor
    val_labels: Tensor


class Chance:
    """What a step draws, in the order in which an engine does; val batches only where one is used."""

    def __init__(self, phi: Policy, config: SearchConfig):
        self.phi, self.config, self.streams, self.step = (
            phi,
            config,
            {name: rng.generator(0, name) for name in STREAMS},
            0,
        )
        self.train = Batches(len(TRAIN.labels), config.batch, self.streams["train data"])
        self.val = Batches(len(VAL.labels), config.batch, self.streams["val data"])

    def __call__(self, pi: Tensor, mu: Tensor) -> Drawn:
        a, b = self.config.n_composites, self.config.batch
        tau = replace(self.phi, pi=pi, mu=mu).sample(a, self.streams["policy"])
        images, labels = TRAIN.take(self.train.next())
        (op, magnitude, active, space), u, flip = draw(tau.repeat(b), self.streams["transform"], flip=self.phi.flip)
        rows = [slice(i * b, (i + 1) * b) for i in range(a)]
        parameters = [Parameters(tau.__class__(op[r], magnitude[r], active[r], space), u[r], flip[r]) for r in rows]
        is_unrolled = self.step % self.config.n_steps >= self.config.n_retrain
        self.step += 1
        val = VAL.take(self.val.next()) if is_unrolled else VAL.take(torch.arange(0))
        return Drawn(images, labels, tau.op, tau.magnitude, parameters, *val)


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
    engine = make_engine(phi)
    states = run(config, engine, phi)
    model, chance = tiny_net(), Chance(phi, config)
    theta_0 = copy.deepcopy(model.state_dict())
    mean, std = (torch.tensor(c).view(-1, 1, 1) for c in (phi.mean, phi.std))
    pi, mu, expected = phi.pi, phi.mu, []
    for _ in range(config.n_rounds):
        if config.cold_start:
            model.load_state_dict(theta_0)
        norm = lambda pixels: (pixels / 255 - mean) / std  # noqa: E731
        expected += list(oracles.slack_round(model, pi, mu, phi.space, config, chance, phi.fill, norm))
        pi, mu = expected[-1]
    assert len(states) == len(expected) == config.n_rounds * config.n_steps
    for state, (pi, mu) in zip(states, expected, strict=True):
        torch.testing.assert_close(state.phi.pi, pi, rtol=0, atol=1e-5)
        torch.testing.assert_close(state.phi.mu, mu, rtol=0, atol=1e-5)
    assert (states[-1].phi.pi - phi.pi).abs().max() > 1e-3  # 1e-5 says something
    assert (states[-1].phi.mu - phi.mu).abs().max() > 1e-3
    for name, value in engine.model.state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-4, atol=1e-5, msg=name)


# --- rounds -----------------------------------------------------------------------------------------------------------


class Recorder(Plain):
    """Notes theta, the statistics and phi at each draw, so before each step."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.seen: list[dict[str, Tensor]] = []
        self.policies: list[Policy] = []

    def draw(self, phi, n):
        self.seen.append({name: value.clone() for name, value in self.model.state_dict().items()})
        self.policies.append(phi)
        return super().draw(phi, n)


def recorded(config: SearchConfig) -> tuple[Recorder, list[State]]:
    phi = uniform()
    engine = Recorder(tiny_net(), phi, TRAIN, VAL, config.batch, {name: rng.generator(0, name) for name in STREAMS})
    return engine, run(config, engine, phi)


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> list[str]:
    """Names of the entries that are equal."""
    return [name for name in a if torch.equal(a[name], b[name])]


def test_cold_start_restores_parameters_and_statistics():
    engine, _ = recorded(CONFIG)
    first, last, again = engine.seen[0], engine.seen[CONFIG.n_steps - 1], engine.seen[CONFIG.n_steps]
    assert same(first, last) == []
    assert same(first, again) == list(first)
    assert any("running_var" in name for name in first)


def test_warm_start_keeps_theta():
    config = replace(CONFIG, cold_start=False)
    engine, _ = recorded(replace(config, n_rounds=1))
    longer, _ = recorded(config)
    carried = longer.seen[config.n_steps]
    assert same(carried, engine.model.state_dict()) == list(carried)
    assert same(carried, longer.seen[0]) == []


def test_anchor_is_phi_at_the_start_of_the_round_and_momenta_are_new():
    states = run(CONFIG)
    n = CONFIG.n_steps
    assert [(s.round, s.step) for s in states] == [(0, i) for i in range(1, n)] + [(1, i) for i in range(n)] + [(2, 0)]
    start, end_of_first = uniform(), states[n - 1].phi
    assert all(torch.equal(s.anchor.pi, start.pi) for s in states[:n])
    assert all(torch.equal(s.anchor.pi, end_of_first.pi) for s in states[n:])
    assert not torch.equal(end_of_first.pi, start.pi)
    assert torch.count_nonzero(states[n - 1].pi_momentum)  # as the first round left it
    for state in states[n : n + CONFIG.n_retrain]:  # phi's are zero until it moves
        assert torch.count_nonzero(state.pi_momentum) == torch.count_nonzero(state.mu_momentum) == 0


def test_theta_momentum_is_reset_at_each_round():
    """Its first value in a round is a gradient plus decay alone, so at most clip + decay * |theta| long."""
    config = replace(CONFIG, momentum=0.99, weight_decay=0.0)
    norms = [state.theta_momentum.norm().item() for state in run(config)]
    assert norms[0] <= config.clip
    assert norms[config.n_steps] <= config.clip
    assert norms[config.n_steps - 1] > config.clip


def test_learning_rate_falls_to_zero_over_each_round():
    """Without momentum a step's length over its gradient's is the rate."""
    config = replace(CONFIG, momentum=0.0)
    engine, states = recorded(config)
    thetas = [torch.cat([seen[name].flatten() for name, _ in engine.model.named_parameters()]) for seen in engine.seen]
    for i in range(config.n_steps - 1):
        expected = config.model_lr * 0.5 * (1 + math.cos(math.pi * i / config.n_steps))
        rate = (thetas[i] - thetas[i + 1]).norm() / states[i].theta_momentum.norm()
        assert rate.item() == pytest.approx(expected, rel=1e-4)


def test_phi_rests_while_theta_is_retrained():
    states = run(CONFIG)
    phis = [uniform()] + [state.phi for state in states]
    for i, (before, after) in enumerate(pairwise(phis)):
        is_unrolled = i % CONFIG.n_steps >= CONFIG.n_retrain
        assert torch.equal(before.pi, after.pi) != is_unrolled
        assert torch.equal(before.mu, after.mu) != is_unrolled


def test_reports_say_what_each_step_saw():
    engine = make_engine()
    reports = [report for _, report in slack.search(slack.start(uniform(), engine), engine, CONFIG)]
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
    engine = make_engine()
    kept = [
        (s.phi, s.phi.pi.clone(), s.phi.mu.clone()) for s, _ in slack.search(slack.start(phi, engine), engine, CONFIG)
    ]
    assert all(torch.equal(p.pi, pi) and torch.equal(p.mu, mu) for p, pi, mu in kept)
    assert torch.equal(phi.pi, uniform().pi)


def test_kl_pulls_towards_the_anchor():
    free, held = (run(replace(CONFIG, kl_weight=weight, policy_lr=2.0))[-1].phi for weight in (0.0, 0.3))
    assert held.kl(uniform()) < free.kl(uniform())


def test_kl_and_a_cold_start_keep_the_entropy():
    """Ten short rounds on the planted colours, at a rate that is much too high: neither alone would hold the policy."""
    source = data.load("shapes:colour")
    train, val = source.halves(0)
    phi = Policy.uniform("domainnet", mean=source.mean, std=source.std)

    def entropy(**changes) -> torch.Tensor:
        """Of each position at the end, as a share of the highest."""
        config = SearchConfig(n_retrain=4, n_unrolled=8, n_composites=4, batch=16, model_lr=0.1, weight_decay=5e-4)
        config = replace(config, policy_lr=40.0, **changes)
        streams = {name: rng.generator(0, name) for name in STREAMS}
        engine = Plain(tiny_net_for(4), phi, train, val, config.batch, streams)
        *_, (state, _) = slack.search(slack.start(phi, engine), engine, config)
        assert state.round == 10
        return state.phi.entropy() / math.log(20)

    held, without_kl, without_both = entropy(), entropy(kl_weight=0.0), entropy(kl_weight=0.0, cold_start=False)
    assert held.min() > 0.6
    assert held.max() < 1 - 1e-6
    assert without_kl.max() < 0.4
    assert without_both.max() < 0.1


def tiny_net_for(n_classes: int) -> nn.Module:
    model = tiny_net()
    model[-1] = nn.Linear(8, n_classes)
    models.initialise(model, rng.generator(0, "model"))
    return model


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
    engine = make_engine()
    steps = slack.search(slack.start(uniform(), engine), engine, config)
    state = next(state for i, (state, _) in enumerate(steps, 1) if i == n_done)
    saved = through_a_file({"search": slack.to_tensors(state), "engine": engine.get_state()})
    fresh = make_engine(seed=1)  # theta_0 is the same; all else comes out of the file
    fresh.set_state(saved["engine"])
    *_, (resumed, _) = slack.search(slack.from_tensors(saved["search"], uniform()), fresh, config)
    for name, value in slack.to_tensors(whole).items():
        other = slack.to_tensors(resumed)[name]
        assert torch.equal(value, other) if isinstance(value, Tensor) else value == other, name


def test_a_finished_search_has_no_more_steps():
    last = run(CONFIG)[-1]
    engine = make_engine()
    before = engine.theta.clone()
    assert list(slack.search(last, engine, CONFIG)) == []
    assert torch.equal(engine.theta, before)


def test_state_round_trip():
    state = run(CONFIG)[7]
    back = slack.from_tensors(through_a_file(slack.to_tensors(state)), uniform())
    assert (back.round, back.step) == (state.round, state.step) == (1, 2)
    assert torch.equal(back.phi.pi, state.phi.pi)
    assert torch.equal(back.phi.mu, state.phi.mu)
    assert torch.equal(back.anchor.pi, state.anchor.pi)
    assert (back.phi.space, back.phi.flip, back.phi.fill) == (SPACE, True, uniform().fill)


def test_only_the_gradient_of_phi_is_averaged():
    """An engine that halves it: theta of the first unrolled step is the same, and phi moves half as far."""
    config = replace(CONFIG, n_rounds=1, n_unrolled=1, momentum=0.0)
    plain, halved = make_engine(), make_engine()
    halved.average = lambda gradient: gradient / 2
    (*_, whole), (*_, half) = run(config, plain), run(config, halved)
    assert torch.equal(plain.theta, halved.theta)
    torch.testing.assert_close(2 * half.phi.pi, whole.phi.pi)
    torch.testing.assert_close(2 * half.mu_momentum, whole.mu_momentum)


# --- against noise ----------------------------------------------------------------------------------------------------


def test_tied_positions_move_by_the_mean_of_their_gradients():
    config = replace(CONFIG, n_rounds=1, n_unrolled=1, kl_weight=0.0)
    free, tied = (run(replace(config, tied=value))[-1] for value in (False, True))
    assert (free.phi.pi[0] - free.phi.pi[1]).abs().max() > 1e-3
    torch.testing.assert_close(tied.pi_momentum, free.pi_momentum.mean(0).expand_as(free.pi_momentum))
    assert torch.equal(tied.mu_momentum, free.mu_momentum)


@pytest.mark.parametrize("changes", [{}, {"kl_budget": 0.01}])
def test_tied_positions_stay_equal(changes):
    states = run(replace(CONFIG, tied=True, **changes))
    assert all(torch.equal(state.phi.pi[0], state.phi.pi[1]) for state in states)
    assert (states[-1].phi.pi - uniform().pi).abs().max() > 1e-3


def test_a_baseline_changes_what_a_composite_is_worth_and_not_what_is_reported():
    config = replace(CONFIG, n_rounds=1, n_unrolled=1, kl_weight=0.0, baseline=True)
    phi = uniform()
    engine = make_engine(phi)
    *_, (state, report) = slack.search(slack.start(phi, engine), engine, config)
    n, w = config.n_composites, report.weight
    less = torch.stack([w[a] - w[torch.arange(n) != a].mean() for a in range(n)])
    (_, plain) = list(
        slack.search(slack.start(phi, other := make_engine(phi)), other, replace(config, baseline=False))
    )[-1]
    torch.testing.assert_close(report.weight, plain.weight)
    expected, _ = slack.policy_gradient(state._replace(phi=phi), config, report.tau, less, config.model_lr)
    torch.testing.assert_close(state.pi_momentum, expected)


def test_v_has_a_batch_of_its_own():
    streams = {name: rng.generator(0, name) for name in STREAMS}
    engine = Plain(tiny_net(), uniform(), TRAIN, VAL, 6, streams, val_batch=11)
    assert (engine.train_batches.batch, engine.val_batches.batch) == (6, 11)
    assert (SearchConfig(batch=6).n_val, SearchConfig(batch=6, val_batch=11).n_val) == (6, 11)


# --- a network that learns from images with composites of their own ---------------------------------------------------


def learned_apart(config: SearchConfig) -> tuple[Plain, list[tuple[State, slack.Report]]]:
    streams, phi = {name: rng.generator(0, name) for name in STREAMS}, uniform()
    batches = {"val_batch": config.val_batch, "train_batch": config.train_batch}
    engine = Plain(tiny_net(), phi, TRAIN, VAL, config.batch, streams, **batches)
    return engine, [copy.deepcopy(pair) for pair in slack.search(slack.start(phi, engine), engine, config)]


def test_re_training_is_a_training_with_the_policy():
    """The same images, draws and steps as a `Fit` with the same rates, which evaluations are."""
    config = replace(CONFIG, n_rounds=1, n_retrain=4, n_unrolled=1, train_batch=7, weight_decay=0.0, clip=0.7)
    _, found = learned_apart(config)
    settings = FitConfig(epochs=1, batch=7, lr=config.model_lr, nesterov=False, weight_decay=0.0, clip=0.7)
    fit = Fit(tiny_net(), uniform(), TRAIN, settings, {name: rng.generator(0, name) for name in STREAMS})
    fit.n_steps = config.n_steps
    for state, report in found[:4]:
        torch.testing.assert_close(report.train_loss, fit.step())
        torch.testing.assert_close(state.theta_momentum, fit.momentum)
        assert report.tau.op.shape == (7, 2)
        assert report.val_loss is None


def test_composites_of_whole_batches_do_not_move_the_network():
    """A network goes the same way, whatever composites are drawn beside it, as long as the policy is the same."""
    config = replace(CONFIG, n_rounds=1, train_batch=7, learn_mu=False, policy_lr=0.0)
    few, many = (learned_apart(replace(config, n_composites=n)) for n in (2, 5))
    for i, ((a, with_few), (b, with_many)) in enumerate(zip(few[1], many[1], strict=True)):
        is_unrolled = i >= config.n_retrain
        assert (len(with_few.tau.op), len(with_many.tau.op)) == ((2, 5) if is_unrolled else (7, 7))
        if i <= config.n_retrain:  # the draws of later steps follow upon other ones
            assert torch.equal(a.theta_momentum, b.theta_momentum)
            assert torch.equal(with_few.train_loss, with_many.train_loss)


def test_rewards_are_those_of_the_composites():
    config = replace(CONFIG, n_rounds=1, n_retrain=0, n_unrolled=1, train_batch=7, kl_weight=0.0)
    _, ((state, report),) = learned_apart(config)
    streams = {name: rng.generator(0, name) for name in STREAMS}
    engine = Plain(tiny_net(), uniform(), TRAIN, VAL, config.batch, streams, train_batch=7)
    g, _ = engine.train_gradient(engine.draw_each(uniform()))
    grad_train, _ = engine.train_gradients(engine.draw(uniform(), config.n_composites))
    theta = engine.theta.clone()
    engine.theta.sub_(config.model_lr * (hypergrad.clip(g, config.clip) + config.weight_decay * theta))
    v = hypergrad.clip_each(engine.val_gradient()[0], engine.sizes, config.val_clip)
    torch.testing.assert_close(report.weight, hypergrad.clip(grad_train, config.clip) @ v)
    assert not torch.equal(state.phi.pi, uniform().pi)


def test_a_network_learns_from_no_more_images_than_there_are():
    _, found = learned_apart(replace(CONFIG, n_rounds=1, train_batch=1000))
    assert len(found[0][1].tau.op) == len(TRAIN.labels)


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n_rounds", "n_unrolled", "n_composites", "batch"])
def test_counts_must_be_positive(name):
    with pytest.raises(ValueError, match=rf"^search\.{name} must be at least 1, got 0$"):
        SearchConfig(**{name: 0})


@pytest.mark.parametrize("name", ["n_retrain", "policy_lr", "kl_weight", "weight_decay", "momentum"])
def test_must_not_be_negative(name):
    for value in (-1, math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"^search\.{name} must not be negative, got {value}$"):
            SearchConfig(**{name: value})
    SearchConfig(**{name: 0}, cold_start=False)


@pytest.mark.parametrize("name", ["model_lr", "mu_divisor"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_must_be_positive(name, value):
    with pytest.raises(ValueError, match=rf"^search\.{name} must be positive, got {value}$"):
        SearchConfig(**{name: value})


@pytest.mark.parametrize("value", [0.0, -5.0, math.nan])
def test_clips_must_be_positive(value):
    for name in ("clip", "val_clip"):
        with pytest.raises(ValueError, match=rf"^search\.{name} must be positive, or null for none, got {value}$"):
            SearchConfig(**{name: value})
    assert SearchConfig(clip=None).clip is None


def test_a_batch_of_v_has_images():
    with pytest.raises(ValueError, match=r"^search\.val_batch must be at least 1, or null for search\.batch, got 0$"):
        SearchConfig(val_batch=0)


def test_a_batch_to_learn_from_has_images():
    says = r"^search\.train_batch must be at least 1, or null for the images under composites, got 0$"
    with pytest.raises(ValueError, match=says):
        SearchConfig(train_batch=0)


def test_something_must_be_learned():
    with pytest.raises(ValueError, match=r"^search\.learn_pi and search\.learn_mu are both false"):
        SearchConfig(learn_pi=False, learn_mu=False)


def test_cold_start_needs_retraining():
    with pytest.raises(
        ValueError, match=r"n_retrain = 0 with a cold start and more than one round.*set search\.n_retr"
    ):
        SearchConfig(n_retrain=0)
    SearchConfig(n_retrain=0, n_rounds=1)
    SearchConfig(n_retrain=0, cold_start=False)


def test_defaults_are_the_paper_s_cifar10_row():
    c = SearchConfig()
    assert (c.n_rounds, c.n_retrain, c.n_unrolled, c.n_composites, c.batch) == (10, 1000, 400, 8, 128)
    assert (c.model_lr, c.policy_lr, c.kl_weight, c.weight_decay) == (0.4, 1.0, 0.02, 2e-4)
    assert (c.momentum, c.clip, c.mu_divisor, c.n_steps) == (0.9, 5.0, 40.0, 1400)
    assert c.cold_start
    assert c.learn_pi
    assert c.learn_mu


# --- five seeded steps ------------------------------------------------------------------------------------------------


def golden_steps() -> Iterator[tuple[State, slack.Report]]:
    """A round of 1 + 2 steps and most of a second, on `shapes:colour`, in float64, so that no machine's order of
    summation is seen."""
    source = data.load("shapes:colour")
    train, val = source.halves(0)
    config = SearchConfig(n_rounds=2, n_retrain=1, n_unrolled=2, n_composites=2, batch=8, model_lr=0.1)
    phi = Policy.uniform("domainnet", mean=source.mean, std=source.std)
    model = models.build("small", source.n_classes, source.image_size, rng.generator(0, "model")).double()
    engine = Plain(model, phi, train, val, config.batch, {name: rng.generator(0, name) for name in STREAMS})
    engine.normalise.double()
    yield from slack.search(slack.start(phi, engine), engine, config)


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
    """To regenerate, after a change of numbers that was meant: `PYTHONPATH=tests python tests/test_slack.py`, and say
    in the commit which numbers moved and why (CONVENTIONS, section 8)."""
    golden, document = json.loads(GOLDEN.read_text()), golden_document()
    assert golden.keys() == document.keys()
    for name in golden:
        assert flat(document[name]) == pytest.approx(flat(golden[name]), rel=1e-6, abs=1e-12, nan_ok=True), name


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(golden_document(), indent=1) + "\n")
