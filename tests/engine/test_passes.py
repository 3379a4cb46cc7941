"""How passes are executed as they are written: one after the other, each composite with its own statistics."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy

from slackaug import rng
from slackaug.augment import prepare
from slackaug.augment.apply import augment
from slackaug.augment.policy import Policy
from slackaug.data import Batches, Split
from slackaug.data.rows import Rows
from slackaug.engine.chance import Chance, Drawn
from slackaug.engine.passes import Normalise, Passes, drawing_from, look_up
from tiny import network as net

STREAMS = ("train data", "val data", "policy", "transform", "model")
A, B = 3, 8


def split(n: int, seed: int) -> Split:
    images = torch.randint(0, 256, (n, 3, 12, 12), generator=rng.generator(seed, "images"), dtype=torch.uint8)
    return Split(images, torch.arange(n) % 4)


TRAIN, VAL = split(30, 0), split(20, 1)
PHI = Policy.uniform("cifar")


def streams(seed: int = 0) -> dict[str, torch.Generator]:
    return {name: rng.generator(seed, name) for name in STREAMS}


class Made:
    """Chance and passes, and what one step asks of them."""

    def __init__(self, seed: int = 0, phi: Policy = PHI, preparation=prepare.AS_STORED, data=(TRAIN, VAL)):
        self.phi, self.streams = phi, streams(seed)
        self.chance = Chance(*data, B, B, self.streams, flip=phi.flip, preparation=preparation)
        self.passes = Passes(net(), phi, *data, self.streams["model"], preparation)
        self.model, self.drawn = self.passes.model, Drawn(*[torch.empty(0)] * 6)

    def train(self):
        """Composites, their gradients and losses."""
        self.drawn = self.chance.draw(A, len(self.phi.pi), 0.1)
        tau = self.phi.transport(self.drawn.uniform, self.drawn.normal)
        return tau, *self.passes.train_gradients(tau, self.drawn)

    def val(self):
        return self.passes.val_gradient(self.chance.draw_val(self.drawn, 0.1, 1.0))


def test_each_composite_is_a_pass_of_its_own():
    """Gradient, loss and statistics are those of single passes in a row, each on its composite's images alone."""
    made, twin, model = Made(), streams(), net().train()
    tau, g, losses = made.train()
    assert g.shape == (A, sum(p.numel() for p in made.model.parameters()))
    assert losses.shape == (A,)
    assert not losses.requires_grad
    images, labels = TRAIN.take(Batches(len(TRAIN.labels), B, twin["train data"]).next())
    all_images = augment(images.repeat(A, 1, 1, 1), tau.repeat(B), twin["transform"], flip=True, fill=PHI.fill)
    for a, part in enumerate(all_images.view(A, B, 3, 12, 12)):
        model.zero_grad()
        loss = cross_entropy(model(Normalise(PHI)(part)), labels)
        loss.backward()
        assert losses[a].item() == pytest.approx(loss.item(), rel=1e-6)
        torch.testing.assert_close(g[a], torch.cat([p.grad.flatten() for p in model.parameters()]))
    for name, value in model.state_dict().items():
        torch.testing.assert_close(made.model.state_dict()[name], value, msg=name)
    assert int(made.model[1].num_batches_tracked) == A


def test_composites_are_those_that_a_policy_samples():
    """Noise drawn ahead becomes what sampling from the same stream gives."""
    made = Made()
    tau, *_ = made.train()
    expected = PHI.sample(A, streams()["policy"])
    assert all(torch.equal(a, b) for a, b in zip(tau[:3], expected[:3], strict=True))


def test_a_single_model_has_nothing_to_average():
    gradient = torch.ones(2)
    assert Made().passes.average(gradient) is gradient


def test_val_pass_has_train_mode_statistics_and_leaves_the_running_ones_alone():
    made = Made()
    made.train()
    made.model.eval()  # as whoever looked at the network in between leaves it
    before = copy.deepcopy(made.model.state_dict())
    twin = copy.deepcopy(made.model).train()
    v, loss = made.val()
    assert all(torch.equal(value, before[name]) for name, value in made.model.state_dict().items())
    images, labels = VAL.take(Batches(len(VAL.labels), B, streams()["val data"]).next())
    expected = cross_entropy(twin(Normalise(PHI)(images)), labels)  # as they are: no composite, no flip
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    torch.testing.assert_close(v, torch.cat([p.grad.flatten() for p in twin.parameters()]))


def test_flip_is_the_policy_s():
    """Without transformations, flips are all that happens to the images."""
    space = PHI.space.exclude(*(name for name in PHI.space.names if name != "Identity"))
    losses = {flip: Made(phi=Policy.uniform(space, flip=flip)).train()[2] for flip in (True, False)}
    assert len(set(losses[False].tolist())) == 1  # the same images A times, each normalised with itself
    assert len(set(losses[True].tolist())) == A


def test_cold_start_restores_all_that_a_model_holds():
    made = Made()
    before = copy.deepcopy(made.model.state_dict())
    made.train()
    made.passes.theta.add_(1)
    made.passes.cold_start()
    assert all(torch.equal(value, before[name]) for name, value in made.model.state_dict().items())
    made.passes.theta.zero_()
    assert all(torch.count_nonzero(p) == 0 for p in made.model.parameters())  # theta is still the model's
    assert any(torch.count_nonzero(value) for value in made.passes.theta_0.values())  # and theta_0 is not


def test_the_model_and_the_state_of_chance_decide_all_passes_to_come():
    made = Made()
    made.train()
    made.val()
    saved = {"model": copy.deepcopy(made.model.state_dict()), **made.chance.get_state()}
    other = Made(seed=5)

    def on(one: Made):
        return *one.train()[1:], *one.val()

    expected = on(made)  # which must not reach into what was saved
    for _ in range(2):
        other.model.load_state_dict(saved["model"])
        other.chance.set_state(saved)
        assert all(torch.equal(a, b) for a, b in zip(on(other), expected, strict=True))


@pytest.mark.parametrize(("asked", "n_drawn"), [((6, 11), (6, 11)), ((1000, 1000), (30, 20))])
def test_batches_are_as_large_as_is_asked_or_as_there_are_images(asked, n_drawn):
    chance = Chance(TRAIN, VAL, *asked, streams(), flip=True)
    drawn = chance.draw_val(chance.draw(A, 3, 0.1), 0.1, 1.0)
    assert (len(drawn.batch), len(drawn.val_batch)) == n_drawn
    assert (drawn.lr.item(), drawn.eta.item(), drawn.done.item()) == (0.1, 0.1, 1.0)


def streamed(split: Split) -> Split:
    """The same, from rows in another order that are read batch by batch."""
    order = torch.randperm(len(split.labels), generator=rng.generator(5, "test"))
    return Split(Rows(split.images[order].contiguous(), order.argsort()), split.labels)


def test_images_that_are_read_batch_by_batch_give_the_same():
    held, read = Made(), Made(data=(streamed(TRAIN), streamed(VAL)))
    for one in (Made.train, Made.val):
        assert all(map(torch.equal, one(held)[-2:], one(read)[-2:]))
    ahead, not_ahead = (made.chance.draw_val(made.drawn, 0.1, 1.0) for made in (read, held))
    assert ahead.images.shape == ahead.val_images.shape == (B, 3, 12, 12)
    assert not_ahead.images is None


def test_images_that_were_read_ahead_are_not_read_again():
    ahead = torch.zeros(2, 3, 12, 12, dtype=torch.uint8)
    images, labels = look_up(TRAIN, torch.tensor([5, 6]), ahead)
    assert images is ahead
    assert labels.tolist() == [1, 2]
    made = Made()
    tau, *_ = made.train()
    drawn = made.chance.draw_val(made.drawn, 0.1, 1.0)
    others = torch.zeros(B, 3, 12, 12, dtype=torch.uint8)
    assert not torch.equal(*(made.passes.train_gradients(tau, d)[1] for d in (drawn, drawn._replace(images=others))))
    assert not torch.equal(*(made.passes.val_gradient(d)[1] for d in (drawn, drawn._replace(val_images=others))))


def test_all_is_sent_to_where_the_network_and_the_images_are():
    meta = Split(TRAIN.images.to("meta"), TRAIN.labels.to("meta"))
    passes = Passes(net().to("meta"), PHI, meta, meta, streams()["model"])
    assert passes.normalise.scale.is_meta
    drawn = Made().chance.draw(A, 3, 0.1)
    assert drawn.lr.dtype is torch.float64
    assert all(value.is_meta for value in passes.send(drawn).given().values())
    assert passes.send(drawn).given().keys() == drawn.given().keys()


def test_normalise_is_mean_zero_and_deviation_one(images):
    out = Normalise(PHI)(images)
    mean, std = (torch.tensor(channel, dtype=torch.float64).view(3, 1, 1) for channel in (PHI.mean, PHI.std))
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.double(), (images.double() / 255 - mean) / std, rtol=0, atol=1e-6)
    filled = torch.tensor(PHI.fill, dtype=torch.uint8).view(1, 3, 1, 1)
    assert Normalise(PHI)(filled).abs().max() < 0.5 / 255 / min(PHI.std) + 1e-6  # Cutout is 0 to within half a level
    assert list(Normalise(PHI).parameters()) == []


def test_a_stream_can_stand_in_for_the_default_one():
    outside = torch.get_rng_state()
    with drawing_from(rng.generator(3), torch.device("cpu")):
        first = torch.rand(4), torch.rand(4)
    stream = rng.generator(3)
    for expected in first:  # in two visits, as in one
        with drawing_from(stream, torch.device("cpu")):
            assert torch.equal(torch.rand(4), expected)
    assert torch.equal(torch.get_rng_state(), outside)


def test_of_images_with_a_margin_the_centre_is_seen():
    images = torch.randint(0, 256, (3, 3, 32, 24), generator=rng.generator(0), dtype=torch.uint8)
    centre = images[:, :, 2:30, 2:23]  # 1.5 pixels: rounded to even
    normalise = Normalise(PHI, (28, 21))
    assert torch.equal(normalise(images), Normalise(PHI)(centre))
    assert torch.equal(normalise(centre), Normalise(PHI)(centre))


def test_no_window_is_drawn_where_all_is_seen():
    assert Made(preparation=prepare.window((12, 12))).chance.draw(A, 3, 0.1).window is None


def test_a_random_window_is_trained_on_and_the_centre_validated():
    preparation = prepare.window((10, 10))
    made, twin = Made(preparation=preparation), streams()
    tau, _, losses = made.train()
    images, labels = TRAIN.take(Batches(len(TRAIN.labels), B, twin["train data"]).next())
    windows = preparation.train(images, twin["transform"])  # once, and then every composite on the same
    seen = augment(windows.repeat(A, 1, 1, 1), tau.repeat(B), twin["transform"], flip=True, fill=PHI.fill)
    first = cross_entropy(net().train()(Normalise(PHI)(seen[:B])), labels)
    assert losses[0].item() == pytest.approx(first.item(), rel=1e-6)
    images, labels = VAL.take(Batches(len(VAL.labels), B, twin["val data"]).next())
    expected = cross_entropy(copy.deepcopy(made.model).train()(Normalise(PHI)(images[:, :, 1:11, 1:11])), labels)
    assert made.val()[1].item() == pytest.approx(expected.item(), rel=1e-6)
