"""The spaces of the paper, and what users make of them."""

import pytest
import torch

from slackaug import Policy
from slackaug.augment.transforms import SPACES, TRANSFORMS, custom, get_space


def test_spaces_are_ordered_as_in_the_spec():
    cifar = (
        "ShearX ShearY TranslateX TranslateY Rotate AutoContrast Invert Equalize Solarize Posterize Contrast Color "
        "Brightness Sharpness Cutout RandomCrop Identity"
    )
    imagenet = cifar.replace("Cutout", "Hue Cutout").replace("RandomCrop", "RandomResizeCrop")
    domainnet = (
        cifar.replace("Equalize", "Equalize Grayscale")
        .replace("Cutout", "Hue Cutout")
        .replace("RandomCrop", "RandomResizeCrop RandomCrop")
    )
    expected = {"cifar": cifar.split(), "imagenet": imagenet.split(), "domainnet": domainnet.split()}
    assert {name: space.names for name, space in SPACES.items()} == expected
    assert [len(space) for space in SPACES.values()] == [17, 18, 20]


def test_has_magnitude_is_false_where_parameter_free():
    free = [t.name for t, has in zip(SPACES["domainnet"], SPACES["domainnet"].has_magnitude, strict=True) if not has]
    assert free == ["AutoContrast", "Invert", "Equalize", "Grayscale", "Identity"]


def test_spaces_are_changed_and_say_so():
    cifar = SPACES["cifar"]
    fewer = cifar.exclude("Invert").exclude("Solarize")
    assert fewer.names == [name for name in cifar.names if name not in ("Invert", "Solarize")]
    assert fewer.name == "cifar*"
    assert Policy.uniform(fewer).mean == Policy.uniform("cifar").mean
    assert cifar.add(custom("Blur", lambda images, value: images)).names == [*cifar.names, "Blur"]
    assert repr(cifar.exclude(*cifar.names[2:])) == "Space('cifar*': ShearX, ShearY)"


def test_rerange_changes_one_span_and_not_the_table():
    space = SPACES["cifar"].rerange(Rotate=(0, 30))
    assert (space["Rotate"].span, space["ShearX"].span, TRANSFORMS["Rotate"].span) == ((0, 30), (0, 1), (0, 90))
    assert space["Rotate"].strength(torch.tensor([1.0]), torch.tensor([0.9])).item() == 30


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: SPACES["cifar"].exclude("Rotat"), r"unknown transformation 'Rotat'; did you mean 'Rotate'\?"),
        (lambda: SPACES["cifar"].exclude("Hue"), "unknown transformation 'Hue'; known: ShearX, ShearY, "),
        (lambda: SPACES["cifar"]["rotate"], r"did you mean 'Rotate'\?"),
        (lambda: SPACES["cifar"].rerange(Rotation=(0, 30)), r"unknown transformation 'Rotation'; did you mean"),
        (lambda: SPACES["cifar"].rerange(Invert=(0, 1)), "Invert has no magnitude, so it cannot be given a range"),
        (lambda: SPACES["cifar"].rerange(Posterize=(8, 0)), "Posterize takes strengths from 1 to 8 bits, got 8 to 0"),
        (lambda: SPACES["cifar"].rerange(Rotate=(0, float("nan"))), "Rotate: expected a range of two finite strengths"),
        (lambda: SPACES["cifar"].add(TRANSFORMS["Rotate"]), "lists Rotate more than once"),
        (lambda: SPACES["cifar"].exclude(*SPACES["cifar"].names), "'cifar\\*' has no transformations"),
        (lambda: get_space("cifr"), r"unknown space 'cifr'; did you mean 'cifar'\?"),
        (lambda: get_space("xyz"), "unknown space 'xyz'; known: cifar, imagenet, domainnet"),
    ],
)
def test_errors_say_what_and_what_to_do(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()
