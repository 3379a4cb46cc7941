"""How the plain engine executes a step: pass after pass, each composite with its own batch-norm statistics."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy

from slackaug import rng
from slackaug.augment import prepare
from slackaug.augment.apply import augment
from slackaug.augment.policy import Policy
from slackaug.data import Batches, Split
from slackaug.engine.passes import Normalise, Plain
from tiny import network as net

STREAMS = ("train data", "val data", "policy", "transform", "model")
A, B = 3, 8


def split(n: int, seed: int) -> Split:
    images = torch.randint(0, 256, (n, 3, 12, 12), generator=rng.generator(seed, "images"), dtype=torch.uint8)
    return Split(images, torch.arange(n) % 4)


TRAIN, VAL = split(30, 0), split(20, 1)
PHI = Policy.uniform("cifar")


def engine(seed: int = 0, phi: Policy = PHI, batch: int = B) -> Plain:
    return Plain(net(), phi, TRAIN, VAL, batch, {name: rng.generator(seed, name) for name in STREAMS})


def test_each_composite_is_a_pass_of_its_own():
    """Gradient, loss and statistics are those of single passes in a row, each on its composite's images alone."""
    plain = engine()
    tau = plain.draw(PHI, A)
    g, losses = plain.train_gradients(tau)
    assert g.shape == (A, sum(p.numel() for p in plain.model.parameters()))
    assert losses.shape == (A,)
    assert not losses.requires_grad

    streams, model = {name: rng.generator(0, name) for name in STREAMS}, net().train()
    images, labels = TRAIN.take(Batches(len(TRAIN.labels), B, streams["train data"]).next())
    all_images = augment(images.repeat(A, 1, 1, 1), tau.repeat(B), streams["transform"], flip=True, fill=PHI.fill)
    for a, part in enumerate(all_images.view(A, B, 3, 12, 12)):
        model.zero_grad()
        loss = cross_entropy(model(Normalise(PHI)(part)), labels)
        loss.backward()
        assert losses[a].item() == pytest.approx(loss.item(), rel=1e-6)
        torch.testing.assert_close(g[a], torch.cat([p.grad.flatten() for p in model.parameters()]))
    for name, value in model.state_dict().items():
        torch.testing.assert_close(plain.model.state_dict()[name], value, msg=name)
    assert int(plain.model[1].num_batches_tracked) == A


def test_a_single_model_has_nothing_to_average():
    gradient = torch.ones(2)
    assert engine().average(gradient) is gradient


def test_statistics_are_not_shared_between_composites():
    """One pass over all A * B images has another batch-norm, and so other gradients."""
    plain = engine()
    tau = plain.draw(PHI, A)
    g, _ = plain.train_gradients(tau)
    other = engine()
    other.draw(PHI, A)
    images, labels = TRAIN.take(other.train_batches.next())
    mixed = augment(images.repeat(A, 1, 1, 1), tau.repeat(B), other.streams["transform"], flip=PHI.flip, fill=PHI.fill)
    cross_entropy(other.model.train()(other.normalise(mixed)), labels.repeat(A)).backward()
    together = torch.cat([p.grad.flatten() for p in other.model.parameters()])
    assert (g.mean(0) - together).norm() > 0.01 * together.norm()


def test_same_streams_give_the_same_and_others_do_not():
    def three_steps(seed: int):
        plain = engine(seed)
        return [plain.train_gradients(plain.draw(PHI, A))[0] for _ in range(3)] + [plain.val_gradient()[0]]

    assert all(torch.equal(a, b) for a, b in zip(three_steps(0), three_steps(0), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(three_steps(0), three_steps(1), strict=True))


def test_val_pass_has_train_mode_statistics_and_leaves_the_running_ones_alone():
    plain = engine()
    plain.train_gradients(plain.draw(PHI, A))
    before = copy.deepcopy(plain.model.state_dict())
    twin = copy.deepcopy(plain.model).train()
    v, loss = plain.val_gradient()
    assert all(torch.equal(value, before[name]) for name, value in plain.model.state_dict().items())
    images, labels = VAL.take(
        Batches(len(VAL.labels), B, {name: rng.generator(0, name) for name in STREAMS}["val data"]).next()
    )
    expected = cross_entropy(twin(Normalise(PHI)(images)), labels)  # as they are: no composite, no flip
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    torch.testing.assert_close(v, torch.cat([p.grad.flatten() for p in twin.parameters()]))


def test_flip_is_the_policy_s():
    """Without transformations, flips are all that happens to the images."""
    space = PHI.space.exclude(*(name for name in PHI.space.names if name != "Identity"))
    losses = {}
    for flip in (True, False):
        phi = Policy.uniform(space, flip=flip)
        plain = engine(phi=phi)
        losses[flip] = plain.train_gradients(plain.draw(phi, A))[1]
    assert len(set(losses[False].tolist())) == 1  # the same images A times, each normalised with itself
    assert len(set(losses[True].tolist())) == A


def test_cold_start_restores_all_that_a_model_holds():
    plain = engine()
    before = copy.deepcopy(plain.model.state_dict())
    plain.train_gradients(plain.draw(PHI, A))
    plain.theta.add_(1)
    plain.cold_start()
    assert all(torch.equal(value, before[name]) for name, value in plain.model.state_dict().items())
    plain.theta.zero_()
    assert all(torch.count_nonzero(p) == 0 for p in plain.model.parameters())  # theta is still the model's
    assert any(torch.count_nonzero(value) for value in plain.theta_0.values())  # and theta_0 is not


def test_state_decides_all_passes_to_come():
    plain = engine()
    plain.train_gradients(plain.draw(PHI, A))
    plain.val_gradient()
    saved = plain.get_state()
    other = engine(seed=5)
    other.set_state(saved)

    def on(engine: Plain):
        return *engine.train_gradients(engine.draw(PHI, A)), *engine.val_gradient()

    expected = on(plain)  # which must not reach into what was saved
    assert all(torch.equal(a, b) for a, b in zip(on(other), expected, strict=True))
    other.set_state(saved)
    assert all(torch.equal(a, b) for a, b in zip(on(other), expected, strict=True))


def test_state_decides_the_batches_to_learn_from_too():
    def make(seed: int) -> Plain:
        streams = {name: rng.generator(seed, name) for name in STREAMS}
        return Plain(net(), PHI, TRAIN, VAL, B, streams, train_batch=7)

    def on(engine: Plain):
        return *engine.train_gradient(engine.draw_each(PHI)), *engine.train_gradients(engine.draw(PHI, A))

    plain, other = make(0), make(5)
    on(plain)
    saved = plain.get_state()
    other.set_state(saved)
    expected = on(plain)
    assert all(torch.equal(a, b) for a, b in zip(on(other), expected, strict=True))


def test_a_batch_is_at_most_the_half():
    plain = engine(batch=1000)
    assert plain.train_batches.next().shape == (30,)
    assert plain.val_batches.next().shape == (20,)


def test_normalise_is_mean_zero_and_deviation_one(images):
    out = Normalise(PHI)(images)
    mean, std = (torch.tensor(channel, dtype=torch.float64).view(3, 1, 1) for channel in (PHI.mean, PHI.std))
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.double(), (images.double() / 255 - mean) / std, rtol=0, atol=1e-6)
    filled = torch.tensor(PHI.fill, dtype=torch.uint8).view(1, 3, 1, 1)
    assert Normalise(PHI)(filled).abs().max() < 0.5 / 255 / min(PHI.std) + 1e-6  # Cutout is 0 to within half a level
    assert list(Normalise(PHI).parameters()) == []


def test_a_random_window_is_trained_on_and_the_centre_validated():
    preparation = prepare.window((10, 10))
    ours, twin = (
        Plain(net(), PHI, TRAIN, VAL, B, {name: rng.generator(0, name) for name in STREAMS}, preparation)
        for _ in range(2)
    )
    tau = ours.draw(PHI, A)
    _, losses = ours.train_gradients(tau)
    images, labels = TRAIN.take(twin.train_batches.next())
    windows = preparation.train(images, twin.streams["transform"])  # once, and then every composite on the same
    seen = augment(windows.repeat(A, 1, 1, 1), tau.repeat(B), twin.streams["transform"], flip=True, fill=PHI.fill)
    first = cross_entropy(twin.model.train()(twin.normalise(seen[:B])), labels)
    assert losses[0].item() == pytest.approx(first.item(), rel=1e-6)
    images, labels = VAL.take(twin.val_batches.next())
    expected = cross_entropy(copy.deepcopy(ours.model).train()(twin.normalise(images[:, :, 1:11, 1:11])), labels)
    assert ours.val_gradient()[1].item() == pytest.approx(expected.item(), rel=1e-6)
