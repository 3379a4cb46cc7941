"""Exported files in the libraries they are for: the same draws, the same order, and pixels within the stated bounds."""

import pickle
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy import stats

import exported
import slackaug
from slackaug import Policy
from slackaug.augment import pil
from slackaug.augment.apply import Parameters, on_pil
from slackaug.augment.transforms import TRANSFORMS, get_space
from slackaug.export.fidelity import FIDELITY, TESTED

pytestmark = pytest.mark.exports
MAGNITUDES = (0.0, 0.03, 0.2, 0.5, 0.77, 1.0)
FALSE_ALARM = 1e-3  # of each statistical test, had the seed not been fixed
LIBRARIES = ("torchvision", "timm", "albumentations", "kornia")


class Target(NamedTuple):
    """How one image (C, H, W) goes through a kernel of an exported file."""

    library: str
    image: Any  # from (C, H, W) uint8
    pixels: Any  # and back


TARGETS = {
    "python": Target("python", lambda x: x.unsqueeze(0), lambda x: x[0]),
    "kornia": Target("kornia", lambda x: x.unsqueeze(0), lambda x: x[0]),
    "timm": Target("timm", *exported.FORMS["timm"]),
    "torchvision, PIL images": Target("torchvision", *exported.FORMS["torchvision"]),
    "torchvision, tensors": Target("torchvision", lambda x: x, lambda x: x),
    "albumentations": Target("albumentations", *exported.FORMS["albumentations"]),
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    return {library: exported.module(exported.uneven(), library, folder) for library in FIDELITY}


def test_bounds_were_measured_with_these_versions():
    import albumentations
    import kornia
    import timm
    import torchvision

    found = {
        module.__name__: module.__version__.partition("+")[0] for module in (albumentations, kornia, timm, torchvision)
    }
    assert found == {library: TESTED[library] for library in LIBRARIES}


# --- pixels -----------------------------------------------------------------------------------------------------------


def largest_difference(module, target: Target, name: str, channels: int) -> tuple[int, float]:
    """In levels, and the share of values that differ at all."""
    transform, levels, shares = TRANSFORMS[name], 0, []
    generator = torch.Generator().manual_seed(0)
    for image in exported.pictures(channels):
        for m in MAGNITUDES if transform.span else (0.5,):
            u = torch.rand(1, 4, generator=generator, dtype=torch.float64)
            argument = transform.argument(torch.tensor([m], dtype=torch.float64), u, *image.shape[1:])
            extra = ((module.FILL if channels == 3 else (module.FILL_GREY,)),) if name == "Cutout" else ()
            ours = transform.kernel(image.unsqueeze(0), argument, *extra)[0]
            given = argument if target.library in ("python", "kornia") else argument[0].tolist()
            theirs = target.pixels(module.KERNELS[name](target.image(image), given))
            assert theirs.shape == ours.shape
            assert theirs.dtype == torch.uint8
            difference = (theirs.int() - ours.int()).abs()
            levels = max(levels, int(difference.max()))
            shares.append((difference > 0).double().mean().item())
    return levels, sum(shares) / len(shares)


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("key", TARGETS)
def test_pixels_are_within_the_stated_bound(modules, key, name, channels, record_property):
    target = TARGETS[key]
    stated = FIDELITY[target.library][name]
    levels, share = largest_difference(modules[target.library], target, name, channels)
    record_property("measured", (levels, share))
    assert levels <= (0 if key == "torchvision, PIL images" else stated.levels)
    assert share <= stated.share
    if stated.levels and channels == 3 and key != "torchvision, PIL images":  # one that is exact must be said to be
        assert levels == stated.levels
        assert share >= stated.share / 4


# --- draws ------------------------------------------------------------------------------------------------------------


def draws(module, library: str, n: int) -> list[list[tuple[str, float]]]:
    """n composites as (name, strength), in the order of execution; of the batched files as drawn, the flip last."""
    torch.manual_seed(0)
    if library == "albumentations":
        augment = module.SlackAugment()
        augment.set_random_seed(0)
        drawn = [augment.get_params_dependent_on_data({}, {})["steps"] for _ in range(n)]
    else:
        drawn = module.draw(n)
    if library not in ("python", "kornia"):
        return [[(step.name, step.strength) for step in steps] for steps in drawn]
    out, names = [], list(module.POLICY)
    for op, magnitude, u, flip in zip(*drawn, strict=True):
        steps = zip([names[i] for i in op], magnitude, u[:, 0], strict=True)
        out.append([(name, module.strength(name, m, v).item()) for name, m, v in steps] + [("Flip", 0.0)] * flip.item())
    return out


@pytest.mark.parametrize("library", FIDELITY)
def test_draws_are_those_of_the_policy(library, tmp_path, generator):
    policy, n = exported.uneven(n_composed=1), 4000
    found = draws(exported.module(policy, library, tmp_path), library, n)
    assert stats.binomtest(sum("Flip" in dict(steps) for steps in found), n, 0.5).pvalue > FALSE_ALARM
    drawn = [step for steps in found for step in steps if step[0] != "Flip"]
    assert len(drawn) == n
    counts = Counter(name for name, _ in drawn)
    expected = policy.probabilities[0].numpy()
    observed = [counts[name] for name in policy.space.names]
    assert stats.chisquare(observed, expected / expected.sum() * n).pvalue > FALSE_ALARM
    ours = policy.sample(20 * n, generator)
    for name in ("Rotate", "Solarize", "Hue", "Brightness", "RandomCrop"):
        mine = ours.op[:, 0] == policy.space.index(name)
        u = torch.rand(int(mine.sum()), generator=generator, dtype=torch.float64)
        strengths = policy.space[name].strength(ours.magnitude[mine, 0], u)
        theirs = [strength for other, strength in drawn if other == name]
        assert stats.ks_2samp(theirs, strengths.tolist()).pvalue > FALSE_ALARM, name


@pytest.mark.parametrize("library", FIDELITY)
def test_without_flips_nothing_is_flipped(library, tmp_path):
    module = exported.module(exported.uneven(flip=False), library, tmp_path)
    assert not any("Flip" in dict(steps) for steps in draws(module, library, 100))


@pytest.mark.parametrize("library", ["torchvision", "timm", "albumentations"])
def test_steps_come_in_order(modules, library):
    """RandomResizeCrop first, then as drawn, the flip, and Cutout last."""
    seen = set()
    for steps in draws(modules[library], library, 2000):
        stages = [{"RandomResizeCrop": 0, "Flip": 2, "Cutout": 3}.get(name, 1) for name, _ in steps]
        assert stages == sorted(stages)
        seen |= set(stages)
    assert seen == {0, 1, 2, 3}


# --- whole composites, against slackaug's own -------------------------------------------------------------------------


def exact_policy(library: str) -> Policy:
    """Of the transformations whose pixels are exact in a library."""
    inexact = [name for name, entry in FIDELITY[library].items() if entry.levels]
    return Policy.uniform(get_space("domainnet").exclude(*inexact))


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_the_same_seed_gives_the_same_pil_image(modules, library, channels):
    theirs, ours = modules[library].SlackAugment(), slackaug.SlackAugment(exported.uneven())
    for seed in range(60):
        image = exported.pictures(channels)[seed % 3 * 3]
        torch.manual_seed(seed)
        expected = exported.through(ours, library, image)
        torch.manual_seed(seed)
        assert torch.equal(exported.through(theirs, library, image), expected), seed


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize("library", ["torchvision", "kornia"])
def test_the_same_seed_gives_the_same_batch(library, channels, tmp_path, generator):
    policy = exact_policy(library)
    theirs, ours = exported.module(policy, library, tmp_path).SlackAugment(), slackaug.SlackAugment(policy)
    images = torch.randint(0, 256, (64, channels, 24, 40), generator=generator, dtype=torch.uint8)
    torch.manual_seed(3)
    expected = ours(images)
    torch.manual_seed(3)
    found = theirs(images.float() / 255).mul(255).round().to(torch.uint8) if library == "kornia" else theirs(images)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("channels", [3, 1])
def test_the_same_noise_gives_the_same_array(channels, tmp_path):
    policy = exact_policy("albumentations")
    augment = exported.module(policy, "albumentations", tmp_path).SlackAugment()
    for seed in range(40):
        image = exported.pictures(channels)[seed % 3 * 3]
        augment.set_random_seed(seed)
        noise, k = np.random.default_rng(seed), len(policy.pi)
        uniform, normal = torch.from_numpy(noise.random((2, 1, k))), torch.from_numpy(noise.standard_normal((1, k)))
        u, flip = torch.from_numpy(noise.random((1, k, 4))), torch.tensor([noise.random() < 0.5])
        parameters = Parameters(policy.transport(uniform, normal), u, flip)
        expected = pil.to_tensor(on_pil(pil.from_tensor(image), parameters, policy.fill))
        assert torch.equal(exported.through(augment, "albumentations", image), expected), seed


# --- as members of their libraries ------------------------------------------------------------------------------------


def test_in_a_torchvision_pipeline(modules, generator):
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    module = modules["torchvision"]
    pipeline = v2.Compose([module.SlackAugment(), v2.ToDtype(torch.float32, scale=True)])
    image = tv_tensors.Image(torch.randint(0, 256, (3, 24, 24), generator=generator, dtype=torch.uint8))
    out, label = pipeline(image, 7)
    assert isinstance(out, tv_tensors.Image)
    assert (out.shape, out.dtype, label) == (image.shape, torch.float32, 7)
    boxes = tv_tensors.BoundingBoxes([[0, 0, 4, 4]], format="XYXY", canvas_size=(24, 24))
    with pytest.raises(TypeError, match="BoundingBoxes"):
        pipeline({"image": image, "boxes": boxes})
    with pytest.raises(TypeError, match=r"expected uint8, got .*: augment before v2\.ToDtype"):
        module.SlackAugment()(image.float())


def test_in_a_timm_pipeline(modules, generator):
    from timm.data import create_transform

    transform = create_transform(32, is_training=True, auto_augment=None, hflip=0.0, color_jitter=None)
    transform.transforms.insert(1, modules["timm"].SlackAugment())
    image = pil.from_tensor(torch.randint(0, 256, (3, 40, 50), generator=generator, dtype=torch.uint8))
    assert [type(step).__name__ for step in transform.transforms][1:3] == ["SlackAugment", "MaybeToTensor"]
    assert transform(image).shape == (3, 32, 32)
    with pytest.raises(TypeError, match="RGBA"):
        modules["timm"].SlackAugment()(image.convert("RGBA"))


def test_in_an_albumentations_pipeline(modules):
    import albumentations as A

    def pipeline(seed):
        return A.Compose([modules["albumentations"].SlackAugment(), A.Normalize()], seed=seed)

    image = np.random.default_rng(0).integers(0, 256, (24, 40, 3), dtype=np.uint8)
    first, again, other = (pipeline(seed)(image=image)["image"] for seed in (1, 1, 2))
    assert first.shape == image.shape
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert modules["albumentations"].SlackAugment()(image=image[..., 0])["image"].shape == (24, 40)
    with pytest.raises(TypeError, match=r"expected uint8, got float32: augment before A\.Normalize"):
        modules["albumentations"].SlackAugment()(image=image.astype(np.float32))


def test_in_a_kornia_pipeline(modules, generator):
    from kornia import augmentation as K

    pipeline = K.ImageSequential(modules["kornia"].SlackAugment(), K.Normalize(mean=0.5, std=0.5))
    images = torch.rand(8, 3, 24, 24, generator=generator)
    assert pipeline(images).shape == images.shape
    assert modules["kornia"].SlackAugment()(images[0]).shape == (3, 24, 24)
    with pytest.raises(ValueError, match="before the normalisation"):
        modules["kornia"].SlackAugment()(images * 2)
    with pytest.raises(TypeError, match="expected floats"):
        modules["kornia"].SlackAugment()(images.to(torch.uint8))


@pytest.mark.parametrize("library", FIDELITY)
def test_can_be_sent_to_a_worker(modules, library):
    augment = pickle.loads(pickle.dumps(modules[library].SlackAugment()))
    assert type(augment) is modules[library].SlackAugment


@pytest.mark.parametrize(("library", "form"), [*zip(FIDELITY, FIDELITY, strict=True), ("torchvision", "python")])
def test_input_is_left_as_it_was(modules, library, form, generator):
    pixels = torch.randint(0, 256, (3, 24, 24), generator=generator, dtype=torch.uint8)
    augment, image = modules[library].SlackAugment(), exported.FORMS[form][0](pixels)
    before = pickle.dumps(image)
    for seed in range(20):
        torch.manual_seed(seed)
        augment(image=image) if library == "albumentations" else augment(image)
        assert pickle.dumps(image) == before
