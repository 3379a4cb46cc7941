"""Training under a policy (App. B.5 of the paper) against torch.optim."""

import io
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from slackaug import data, models, rng
from slackaug.augment import prepare
from slackaug.augment.apply import augment
from slackaug.augment.policy import Policy
from slackaug.augment.transforms import get_space
from slackaug.data import Batches, Split
from slackaug.data.rows import Rows
from slackaug.engine.fit import Fit, FitConfig, decaying, predict
from slackaug.engine.passes import Normalise
from slackaug.judge import baselines
from slackaug.judge.candidates import from_name
from slackaug.judge.scoring import score
from tiny import network as net

STREAMS = ("train data", "policy", "transform", "model")
PHI = Policy.uniform("cifar")


def split(n: int = 30) -> Split:
    images = torch.randint(0, 256, (n, 3, 12, 12), generator=rng.generator(0, "images"), dtype=torch.uint8)
    return Split(images, torch.arange(n) % 4)


TRAIN = split()


def fit(config: FitConfig, seed: int = 0, train: Split = TRAIN) -> Fit:
    return Fit(net(), PHI, train, config, {name: rng.generator(seed, name) for name in STREAMS})


def reference(config: FitConfig, n_steps: int) -> tuple[nn.Module, list[float]]:
    """torch.optim.SGD with two groups, torch's clip, and the draws that Fit makes."""
    model, streams, losses = net().train(), {name: rng.generator(0, name) for name in STREAMS}, []
    groups = [
        {"params": [p for m in model for p in m.parameters() if not isinstance(m, nn.BatchNorm2d)]},
        {"params": list(model[1].parameters()), "weight_decay": 0.0},
    ]
    optimiser = torch.optim.SGD(
        groups, config.lr, momentum=config.momentum, nesterov=config.nesterov, weight_decay=config.weight_decay
    )
    batches = Batches(len(TRAIN.labels), config.batch, streams["train data"])
    warmup, total = (epochs * batches.per_epoch for epochs in (config.warmup_epochs, config.epochs))
    for step in range(n_steps):
        for group in optimiser.param_groups:
            linear = (step + 1) / max(warmup, 1)
            cosine = 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))
            group["lr"] = config.lr * (linear if step < warmup else cosine)
        images, labels = TRAIN.take(batches.next())
        tau = PHI.sample(len(labels), streams["policy"])
        images = augment(images, tau, streams["transform"], flip=True, fill=PHI.fill)
        optimiser.zero_grad()
        loss = cross_entropy(model(Normalise(PHI)(images)), labels)
        loss.backward()
        if config.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimiser.step()
        losses.append(loss.item())
    return model, losses


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"nesterov": False},
        {"clip": 0.1},
        {"clip": None},
        {"warmup_epochs": 2},
        {"weight_decay": 0.0, "momentum": 0.0, "nesterov": False},
    ],
    ids=lambda changes: ",".join(changes) or "plain",
)
def test_steps_are_torch_optim_s(changes):
    config = FitConfig(**{"epochs": 4, "batch": 7, "weight_decay": 0.05, "lr": 0.3} | changes)
    ours = fit(config)
    n_steps = ours.n_steps - 4
    losses = [ours.step().item() for _ in range(n_steps)]
    model, expected = reference(config, n_steps)
    assert losses == pytest.approx(expected, rel=1e-4)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(ours.model.state_dict()[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_batch_norm_is_exempt_from_decay():
    model = models.build("wrn-10-1", 4, (8, 8), rng.generator(0, "model"))
    decay = decaying(model)
    expected = torch.cat([torch.full((p.numel(),), float("norm" not in name)) for name, p in model.named_parameters()])
    assert torch.equal(decay, expected)
    assert not decay.requires_grad


def test_the_rate_is_highest_after_the_warm_up_and_zero_at_the_end():
    """Between them it is torch's, above."""
    ours = fit(FitConfig(epochs=6, batch=10, lr=0.2, warmup_epochs=2))
    for ours.done, rate in ((5, 0.2), (6, 0.2), (18, 0.0)):
        assert ours.lr() == pytest.approx(rate, abs=1e-12)
    assert ours.n_steps == 18


def test_an_incomplete_batch_is_dropped_and_a_large_one_cut():
    assert fit(FitConfig(epochs=3, batch=20)).n_steps == 3
    assert fit(FitConfig(epochs=3, batch=1000)).n_steps == 3


@pytest.mark.parametrize("n_done", [0, 1, 4, 5, 9])
def test_resuming_is_bit_equal(n_done):
    """4 steps are an epoch."""
    config = FitConfig(epochs=3, batch=7)
    whole, broken = fit(config), fit(config)
    for _ in range(whole.n_steps):
        whole.step()
    for _ in range(n_done):
        broken.step()
    file = io.BytesIO()
    saved = broken.get_state()
    broken.step()  # must not reach into what was saved
    torch.save(saved, file)
    file.seek(0)
    fresh = fit(config, seed=1)
    fresh.set_state(torch.load(file, weights_only=True))
    assert fresh.done == n_done
    for _ in range(fresh.n_steps - n_done):
        fresh.step()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, fresh.model.state_dict()[name]), name
    assert torch.equal(whole.momentum, fresh.momentum)


def test_score_is_computed_directly_and_changes_nothing():
    ours = fit(FitConfig(epochs=1, batch=10))
    ours.step()
    before = {name: value.clone() for name, value in ours.model.state_dict().items()}
    result = score(predict(ours.model, ours.normalise, TRAIN, batch=7), TRAIN.labels)  # the last one incomplete
    assert all(torch.equal(value, before[name]) for name, value in ours.model.state_dict().items())
    logits = ours.model.eval()(ours.normalise(TRAIN.images)).detach()
    right = [int(row.argmax()) == int(label) for row, label in zip(logits, TRAIN.labels, strict=True)]
    loss = [-float(row.log_softmax(0)[label]) for row, label in zip(logits, TRAIN.labels, strict=True)]
    assert result.accuracy == sum(right) / 30
    assert result.loss == pytest.approx(sum(loss) / 30, rel=1e-5)
    ours.step()
    assert ours.model.training


BOUNDS = {
    "be at least 1": (["epochs", "batch"], [0, -1]),
    "be positive": (["lr", "clip"], [0.0, -0.1, math.nan, math.inf]),
    "not be negative": (["warmup_epochs", "momentum", "weight_decay"], [-1, math.nan]),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_numbers_out_of_bounds_are_refused(bound):
    names, values = BOUNDS[bound]
    for name in names:
        null = ", or null" if name == "clip" else ""
        for value in values:
            with pytest.raises(ValueError, match=f"^{name} must {bound}{null}, got {value}$"):
                FitConfig(**{name: value})
        FitConfig(**{name: 1 if bound == "be at least 1" else 1e-9 if bound == "be positive" else 0})
    assert FitConfig(clip=None).clip is None


def test_defaults_are_the_evaluation_s():
    assert FitConfig() == FitConfig(
        epochs=200, batch=128, lr=0.1, warmup_epochs=0, momentum=0.9, nesterov=True, weight_decay=5e-4, clip=5.0
    )


@pytest.mark.parametrize(("is_augmented", "least"), [(True, 0.9), (False, 0.95)])
def test_it_learns_the_digits(is_augmented, least):
    digits = data.load("digits")
    policy = Policy.uniform("cifar", mu=0.3, mean=digits.mean, std=digits.std, flip=digits.flip)  # mild: it is short
    policy = policy if is_augmented else policy.with_composed(0)
    model = models.build("small", digits.n_classes, digits.image_size, rng.generator(0, "model"))
    streams = {name: rng.generator(0, name) for name in STREAMS}
    ours = Fit(model, policy, digits.train, FitConfig(epochs=3, batch=32), streams)
    while ours.done < ours.n_steps:
        ours.step()
    assert score(predict(model, ours.normalise, digits.test), digits.test.labels).accuracy > least


def test_images_that_are_read_batch_by_batch_give_the_same():
    order = torch.randperm(len(TRAIN.labels), generator=rng.generator(5, "test"))
    streamed = Split(Rows(TRAIN.images[order].contiguous(), order.argsort()), TRAIN.labels)
    assert streamed.read_ahead(torch.tensor([3, 1])) is not None
    held, read = (fit(FitConfig(epochs=1, batch=8), train=split) for split in (TRAIN, streamed))
    assert [held.step() for _ in range(3)] == [read.step() for _ in range(3)]
    assert torch.equal(held.theta, read.theta)


def test_images_are_prepared_before_they_are_augmented():
    """As if the windows had been the data."""
    preparation, config = prepare.window((10, 10)), FitConfig(epochs=1, batch=8)
    streams = {name: rng.generator(0, name) for name in STREAMS}
    ours = Fit(net(), PHI, TRAIN, config, streams, preparation)
    loss = ours.step()
    streams = {name: rng.generator(0, name) for name in STREAMS}
    images, labels = TRAIN.take(Batches(len(TRAIN.labels), 8, streams["train data"]).next())
    tau = PHI.sample(8, streams["policy"])
    windows = preparation.train(images, streams["transform"])
    assert windows.shape == (8, 3, 10, 10)
    seen = augment(windows, tau, streams["transform"], flip=PHI.flip, fill=PHI.fill)
    assert loss.item() == pytest.approx(cross_entropy(net().train()(Normalise(PHI)(seen)), labels).item(), rel=1e-6)
    centre = Split(TRAIN.images[:, :, 1:11, 1:11], TRAIN.labels)
    assert torch.equal(predict(ours.model, ours.normalise, TRAIN), predict(ours.model, ours.normalise, centre))


def test_a_model_that_draws_even_in_evaluation_is_tested_alike():
    class Dropping(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x.flatten(1))

    ours, outside = fit(FitConfig()), torch.get_rng_state()
    first = predict(Dropping(), ours.normalise, TRAIN)
    assert torch.equal(torch.get_rng_state(), outside)
    torch.rand(3)  # whatever others draw
    assert torch.equal(predict(Dropping(), ours.normalise, TRAIN), first)


@pytest.mark.parametrize("name", baselines.BASELINES)
def test_every_baseline_trains(name):
    source = data.build("made up", TRAIN, TRAIN, ["a", "b", "c", "d"])
    method = from_name(name).method(source, get_space("cifar"))
    streams = {stream: rng.generator(0, stream) for stream in STREAMS}
    ours = Fit(net(), method, source.train, FitConfig(epochs=1, batch=8), streams, method.preparation)
    while ours.done < ours.n_steps:
        assert ours.step().isfinite()
