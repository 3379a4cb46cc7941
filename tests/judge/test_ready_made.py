"""Baselines as files for other libraries: the same as in a race, or none."""

import ast

import pytest
import torch

from slackaug.augment import pil
from slackaug.augment.policy import Policy
from slackaug.export.fidelity import FIDELITY
from slackaug.judge import baselines, ready_made

SMALL, LARGE = (32, 32), (96, 128)
LEARNED = Policy.uniform("cifar")


def executed(text: str) -> dict:
    namespace: dict = {"__name__": "augment"}
    exec(text, namespace)
    return namespace


@pytest.mark.parametrize("name", [*baselines.BASELINES, "uniform-2", "file:x.json"])
def test_only_what_is_the_same_is_offered(name):
    own = {"default": [*FIDELITY], "trivialaugment-wide": ["torchvision"]}
    assert ready_made.targets(name, SMALL) == own.get(name, [])
    assert ready_made.targets(name, LARGE) == (["torchvision"] if name in own else [])


def test_small_defaults_are_a_policy_that_always_does_them(generator):
    (part,) = baselines.define("default").defaults((32, 48)).parts
    policy = ready_made.as_policy(part, LEARNED)
    drawn, as_raced = (one.sample(50, generator) for one in (policy, part))
    assert torch.equal(drawn.op, as_raced.op)
    for n, (ours, raced) in enumerate(zip(policy.space, part.space, strict=True)):
        assert (ours.kernel, ours.window, ours.span) == (raced.kernel, raced.window, raced.span)
        assert ours.strength(drawn.magnitude[:, n], generator).unique().tolist() == [raced.span[0]]


@pytest.mark.parametrize("flip", [True, False])
def test_small_defaults_in_torch_alone(flip):
    learned = Policy.uniform("cifar", flip=flip)
    file = ready_made.file("default", "python", SMALL, learned, "runs/pets")
    namespace = executed(file.text)
    assert [(name, one.p, one.span) for name, one in namespace["POLICY"].items()] == [
        ("RandomCrop", (1.0, 0.0), (4 / 32, 4 / 32)), ("Cutout", (0.0, 1.0), (0.5, 0.5))]  # fmt: skip
    assert (namespace["FLIP"], namespace["FILL"], file.name) == (flip, learned.fill, "SlackAugment")
    assert ast.get_docstring(ast.parse(file.text)).startswith("The usual crops")
    images = torch.full((8, 3, 32, 32), 255, dtype=torch.uint8)
    fill = torch.tensor(learned.fill).view(1, 3, 1, 1)
    assert (namespace["SlackAugment"]()(images) == fill).all(1).flatten(1).any(1).all()  # Cutout, in each


@pytest.mark.parametrize("name", ["default", "trivialaugment-wide"])
@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("flip", [True, False])
def test_what_torchvision_does_comes_in_the_order_of_the_race(name, size, flip):
    text = ready_made.file(name, "torchvision", size, Policy.uniform("cifar", flip=flip), "runs/pets").text
    own = ["v2.TrivialAugmentWide()"] if name != "default" else []
    steps = [*own, "SlackAugment()"]
    if size == LARGE:
        steps = ["v2.RandomResizedCrop((96, 128))", *own, "v2.ColorJitter(0.4, 0.4, 0.4)"]
        steps += ["v2.RandomHorizontalFlip()"] if flip else []
    found = [line.strip(" ,") for line in text.partition("\ntransform = v2.Compose([\n")[2].splitlines()]
    assert found[:-1] == (steps if size == LARGE or own else [])
    ast.parse(text)


@pytest.mark.torchvision
@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_torchvision_has_the_trivialaugment_of_the_race(size, images):
    """Each transformation at each strength: the pixels of an enhancer differ by rounding, a shift by one pixel."""
    from torchvision.transforms import InterpolationMode, v2

    (part,) = baselines.define("trivialaugment-wide").parts(size, LEARNED.space)
    theirs, image = v2.TrivialAugmentWide(), torch.nn.functional.interpolate(images[:1], size)[0]
    spaces = theirs._AUGMENTATION_SPACE
    assert sorted(spaces) == sorted(part.space.names)
    for transform in part.space:
        magnitudes, is_signed = spaces[transform.name]
        assert is_signed == transform.signed
        strengths = magnitudes(len(part.levels), *size)
        for n, level in enumerate(part.levels.tolist() if transform.span else []):
            start, end = transform.span
            strength, their = start + (end - start) * level, float(strengths[n])
            if transform.name.startswith("Translate"):
                pixels = strength * size[transform.name == "TranslateX"]
                assert abs(int(their) - pixels) <= 1
                continue
            options = {"interpolation": InterpolationMode.NEAREST, "fill": {}}
            one = theirs._apply_image_or_video_transform(pil.from_tensor(image), transform.name, their, **options)
            other = transform.pil(pil.from_tensor(image), strength)
            difference = (pil.to_tensor(one).int() - pil.to_tensor(other).int()).abs()
            assert (difference > 0).float().mean() < 0.03, transform.name


@pytest.mark.torchvision
@pytest.mark.parametrize("name", ["default", "trivialaugment-wide"])
@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_the_files_for_torchvision_work(name, size, images):
    file = ready_made.file(name, "torchvision", size, LEARNED, "runs/pets")
    found = executed(file.text)[file.name]
    transform = found() if isinstance(found, type) else found
    image = pil.from_tensor(torch.nn.functional.interpolate(images[:1], size)[0])
    assert transform(image).size == image.size
