"""The digits and the generated shapes."""

import pytest
import torch

from slackaug import rng
from slackaug.augment.transforms import get_space
from slackaug.data import DATASETS, embedded, load


@pytest.mark.parametrize("name", DATASETS)
def test_contract(name):
    before = torch.get_rng_state()
    dataset, again = load(name), load(name)
    assert torch.equal(before, torch.get_rng_state())
    assert dataset.fingerprint == again.fingerprint != load(name, size=24).fingerprint
    for split in (dataset.train, dataset.test):
        assert split.images.dtype == torch.uint8
        assert split.images.shape[1:] == (3, *dataset.image_size)
        assert set(split.labels.tolist()) == set(range(dataset.n_classes))
    assert load(name, size=24).image_size == (24, 24)
    assert dataset.flip is (name in ("shapes", "shapes:colour"))


def test_digits_and_some_of_each_to_learn_from():
    digits, few = load("digits"), load("digits:few")
    assert [len(split.labels) for split in (digits.train, digits.test, few.train, few.test)] == [1438, 359, 200, 359]
    assert (digits.image_size, digits.n_classes) == ((16, 16), 10)
    assert torch.equal(digits.train.images[:, 0], digits.train.images[:, 2])
    assert few.train.labels.bincount().min() >= 19
    assert torch.equal(few.test.images, digits.test.images)
    known, some = ({image.numpy().tobytes() for image in data.train.images} for data in (digits, few))
    assert some <= known


def test_shapes_are_few_to_learn_from_and_balanced():
    for name in ("shapes:colour", "shapes:angle"):
        dataset = load(name)
        assert dataset.train.labels.bincount().tolist() == [100] * 4
        assert dataset.test.labels.bincount().tolist() == [250] * 4
        assert not (dataset.train.images[:, None] == dataset.test.images[None, :100]).flatten(2).all(-1).any()


def test_an_inverted_colour_is_one_of_the_opposite_class():
    degrees = torch.tensor([0.0, 90.0, 200.0], dtype=torch.float64)
    half, full = torch.full((3,), 0.4, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    assert torch.allclose(1 - embedded.hsl(degrees, full, half), embedded.hsl(degrees + 180, full, 1 - half))
    assert embedded.hsl(degrees[:1], full[:1], torch.tensor([0.5], dtype=torch.float64)).tolist() == [[1, 0, 0]]


def applied(images, name, strength):
    """One transformation, in its positive direction."""
    transform = get_space("domainnet")[name]
    return transform.kernel(images, torch.full((len(images),), float(strength), dtype=torch.float64))


def noise_free(kind, monkeypatch):
    monkeypatch.setattr(embedded, f"{kind.upper()}_NOISE", 0.0)
    make = {"colour": embedded.colour_split, "angle": embedded.angle_split}[kind]
    return make(200, 20, rng.generator(0))


def hue_class(images):
    """The nearest of the four hues, of the most colourful pixel."""
    pixels = images.double().flatten(2)  # (B, 3, HW)
    best = (pixels.amax(1) - pixels.amin(1)).argmax(1)
    red, green, blue = pixels[torch.arange(len(images)), :, best].unbind(1)
    hue = torch.atan2(3**0.5 * (green - blue), 2 * red - green - blue).rad2deg()
    return (hue / 90).round().long() % 4


def orientation_class(images):
    """The nearest of four orientations, by the second moments of what differs from the corner's colour."""
    weight = (images.double() - images[:, :, :1, :1].double()).abs().sum(1)  # (B, H, W)
    weight = weight / weight.sum((1, 2), keepdim=True)
    x = torch.arange(images.shape[-1], dtype=torch.float64)
    dx = x - (weight * x).sum((1, 2))[:, None, None]
    dy = ((weight * x[:, None]).sum((1, 2))[:, None, None] - x[:, None]).expand_as(weight)
    xx, yy, xy = ((weight * a * b).sum((1, 2)) for a, b in ((dx, dx), (dy, dy), (dx, dy)))
    return (torch.atan2(2 * xy, xx - yy).rad2deg() / 90).round().long() % 4


def test_hue_and_invert_and_grayscale_destroy_the_colour_and_rotation_does_not(monkeypatch):
    images, labels = noise_free("colour", monkeypatch)
    agree = {name: (hue_class(out) == labels).double().mean() for name, out in {
        "plain": images,
        "Rotate": applied(images, "Rotate", 30),
        "Hue": applied(images, "Hue", 0.5),
        "Invert": 255 - images,
    }.items()}  # fmt: skip
    assert agree["plain"] == 1
    assert agree["Rotate"] > 0.97
    assert agree["Hue"] < 0.05
    assert agree["Invert"] < 0.05
    grey = applied(images, "Grayscale", 0)
    assert torch.equal(grey[:, 0], grey[:, 1])


def test_rotations_and_mirrors_destroy_the_angle_and_colours_do_not(monkeypatch):
    images, labels = noise_free("angle", monkeypatch)
    assert (orientation_class(images) == labels).double().mean() > 0.97
    assert (orientation_class(255 - images) == labels).double().mean() > 0.97
    assert torch.equal(orientation_class(images.rot90(1, (2, 3))), (orientation_class(images) + 2) % 4)
    mirrored = orientation_class(images.flip(3))
    assert (mirrored[labels % 2 == 1] != labels[labels % 2 == 1]).double().mean() > 0.97
