"""The ranges and the draws of the other methods, against their definitions. All policies here are made up."""

from itertools import permutations, product
from typing import Any

import pytest
import torch
from torch import Tensor

import published_files
from slackaug.augment import apply, describe
from slackaug.augment.apply import Composites
from slackaug.augment.formats import forms
from slackaug.augment.formats.forms import DEEPAA_CROP, deepaa_transform, expected
from slackaug.augment.formats.published import from_document
from slackaug.augment.space import Space
from slackaug.augment.transforms import TRANSFORMS

N_DRAWS = 20_000


def assert_frequency(hits: Tensor, probability: float) -> None:
    """Within 5.5 standard deviations: a false alarm in 4e-8 of all seeds, and the seed is fixed."""
    n = hits.numel()
    margin = 5.5 * max(probability * (1 - probability), 1 / n) ** 0.5 / n**0.5
    assert hits.double().mean().item() == pytest.approx(probability, abs=margin)


def strength_at(levels: forms.Levels, name: str, level: float) -> float:
    transform = levels.space[name]
    magnitude = torch.tensor([levels.magnitude(transform, level)], dtype=torch.float64)
    return transform.strength(magnitude, torch.ones(1)).item()


@pytest.mark.parametrize(
    ("levels", "name", "level", "strength"),
    [
        (forms.AUTOAUGMENT, "ShearX", 8, 0.24),
        (forms.AUTOAUGMENT, "TranslateY", 9, 9 / 32),
        (forms.AUTOAUGMENT, "Rotate", 3, 9),
        (forms.AUTOAUGMENT, "Solarize", 3, 256 - 76),  # int(76.8)
        (forms.AUTOAUGMENT, "Posterize", 4, 3),  # 4 - int(1.6)
        (forms.AUTOAUGMENT, "Posterize", 5, 2),
        (forms.AUTOAUGMENT, "Posterize", 9, 1),
        (forms.AUTOAUGMENT, "Contrast", 0, 0.1 - 1),
        (forms.AUTOAUGMENT, "Color", 9, 0.1 + 0.9 * 1.8 - 1),
        (forms.AUTOAUGMENT, "Cutout", 4, 8 / 32),
        (forms.AUTOAUGMENT_KAKAOBRAIN, "TranslateXAbs", 5, 5 / 32),
        (forms.AUTOAUGMENT_KAKAOBRAIN, "Posterize2", 7, 2),
        (forms.AUTOAUGMENT_TORCHVISION, "ShearY", 9, 0.3),
        (forms.AUTOAUGMENT_TORCHVISION, "TranslateX", 3, 50 / 331),
        (forms.AUTOAUGMENT_TORCHVISION, "Solarize", 6, 85),
        (forms.AUTOAUGMENT_TORCHVISION, "Sharpness", 1, 0.1),
        (forms.FAST_AA, "Rotate", 0.1, -24),
        (forms.FAST_AA, "TranslateX", 1, 0.45),
        (forms.FAST_AA, "Solarize", 0.25, 64),
        (forms.FAST_AA, "Posterize", 0.7, 6),  # int(6.8)
        (forms.FAST_AA, "Brightness", 0.75, 0.45),
        (forms.DADA, "Cutout", 0.5, 0.1),
        (forms.PBA, "Solarize", 9, 26),
    ],
)
def test_strength_at_level(levels, name, level, strength):
    assert strength_at(levels, name, level) == pytest.approx(strength, abs=1e-9)


def test_which_ranges_are_mirrored_and_which_are_rounded():
    bits = [round(strength_at(forms.AUTOAUGMENT_TORCHVISION, "Posterize", level)) for level in range(10)]
    assert bits == [8, 8, 7, 7, 6, 6, 5, 5, 4, 4]
    warps = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}
    assert {t.name for t in forms.FAST_AA.space if t.signed} == warps
    assert {t.name for t in forms.PBA.space if t.signed} == warps
    enhancers = {"Contrast", "Color", "Brightness", "Sharpness"}
    assert {t.name for t in forms.AUTOAUGMENT_TORCHVISION.space if t.signed} == warps | enhancers


@pytest.mark.parametrize("levels", [value for value in vars(forms).values() if isinstance(value, forms.Levels)])
def test_every_level_is_a_magnitude(levels):
    for transform in levels.space:
        for level in range(levels.highest + 1):
            assert 0 <= levels.magnitude(transform, level) <= 1


# --- draws ------------------------------------------------------------------------------------------------------------


def subpolicies() -> Any:
    """Half of the images: Rotate (1/2), then Invert (always); the others: Solarize (1/4) alone."""
    entries = [[["Rotate", 0.5, 3], ["Invert", 1.0, 0]], [["Solarize", 0.25, 5]]]
    return from_document(published_files.subpolicies(subpolicies=entries))


def deepaa() -> Any:
    """Five choices in two layers; the last crops."""
    spans = {"Identity": "0.0,,1.0", "Rotate": "-30.0,,30.0", "RandFlip": "0.0,,1.0", DEEPAA_CROP: "0.0,,1.0"}
    rows = [[0.1, 0.2, 0.3, 0.4, 0.0], [0.0, 0.0, 0.5, 0.0, 0.5]]
    names = [f"{name}:({span})" for name, span in spans.items()]
    changes = {"policy_probs": rows, "ops": [0, 1, 1, 2, 3], "mags": [2, 0, 3, 2, 0], "l_mags": 5, "op_names": names}
    return from_document(published_files.deepaa(**changes))


def pba() -> Any:
    """No augmentation for 10 of 100 epochs; then Rotate (0.4, 1.0 in its copy); from 60 on also Equalize (0.5)."""
    none = [0] * 60
    rotate = [4, 1, *none[2:30], 10, 5, *none[32:]]
    equalize = [*rotate]
    equalize[2 * forms.PBA.space.index("Equalize")] = 5
    updates = ["1", "0", 10, 10, none, rotate], ["2", "1", 60, 60, rotate, equalize]
    return from_document(published_files.pba(*updates, epochs=100))


EVERY = pytest.mark.parametrize("policy", [subpolicies(), deepaa(), pba()], ids=lambda policy: type(policy).__name__)


@EVERY
@pytest.mark.parametrize("n", [0, 1, 50])
def test_draws_have_shapes_and_types_and_depend_on_the_generator_alone(policy, n):
    before = torch.get_rng_state()
    tau, again, other = (policy.sample(n, torch.Generator().manual_seed(seed), progress=1.0) for seed in (0, 0, 1))
    assert tau.op.shape == tau.magnitude.shape == tau.active.shape == (n, 2)
    assert (tau.op.dtype, tau.magnitude.dtype, tau.active.dtype) == (torch.int64, torch.float64, torch.bool)
    assert tau.space is policy.space
    assert all(map(torch.equal, tau[:3], again[:3]))
    assert n < 50 or not all(map(torch.equal, tau[:3], other[:3]))
    assert torch.equal(torch.get_rng_state(), before)
    images = torch.zeros(n, 3, 5, 5, dtype=torch.uint8)
    assert apply.augment(images, tau).shape == images.shape


@EVERY
@pytest.mark.parametrize("progress", [0.0, 0.3, 1.0])
def test_rows_say_how_often_each_acts(policy, progress, generator):
    op, _, active, _ = policy.sample(N_DRAWS, generator, progress)
    for n, row in enumerate(policy.rows(progress)):
        count = ((op == n) & active).sum(1)  # per image: 0, 1 or 2
        deviation = 5.5 * max(count.double().std().item(), N_DRAWS**-0.5) / N_DRAWS**0.5
        assert count.double().mean().item() == pytest.approx(row.share, abs=deviation)  # false alarms: 4e-8 each


def test_subpolicies_are_drawn_whole(generator):
    op, magnitude, active, space = subpolicies().sample(N_DRAWS, generator)
    first = op[:, 0] == space.index("Rotate")
    assert_frequency(first, 0.5)
    assert_frequency(active[first, 0], 0.5)
    assert active[first, 1].all()
    assert (op[first, 1] == space.index("Invert")).all()
    assert_frequency(active[~first, 0], 0.25)
    assert not active[~first, 1].any()  # the shorter one
    assert set(magnitude[first, 0].tolist()) == {0.3}


def test_deepaa_draws_choices_by_layer(generator):
    op, magnitude, active, _ = deepaa().sample(N_DRAWS, generator)
    assert active.all()
    for (n, m), probability in {(0, 0.5): 0.1, (1, 0.0): 0.2, (1, 0.75): 0.3, (2, 0.5): 0.4}.items():
        assert_frequency((op[:, 0] == n) & (magnitude[:, 0] == m), probability)
    area = magnitude[:, 1][op[:, 1] == 3]
    assert_frequency(area < 0.3, 0.3)  # drawn anew for each image
    assert ((op[:, 1] == 3) | (magnitude[:, 1] == 0.75)).all()


def test_pba_applies_up_to_two(generator):
    op, magnitude, active, space = pba().sample(N_DRAWS, generator, progress=0.3)
    first, second = active.unbind(1)
    assert_frequency(first, 0.8)  # one entry always acts, unless none may
    assert_frequency(second, 0.5 * 0.4)  # two may, and the other entry acts as well
    assert (op[active] == space.index("Rotate")).all()
    assert_frequency(magnitude[second, 0] == 0.1, 0.5)  # in either order
    assert not (second & ~first).any()


def test_pba_phases():
    schedule = pba()
    at = [schedule.phase(epoch / 100) for epoch in range(100)]
    assert at == [0] * 10 + [1] * 50 + [2] * 40
    assert schedule.phase(1.0) == 2
    assert not schedule.sample(100, None, 0.05).active.any()
    for progress in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="between 0 and 1"):
            schedule.phase(progress)


def test_expected_matches_enumeration():
    """Every subset of entries that would act, every order, every allowed number."""
    p = [0.3, 1.0, 0.0, 0.6]
    share = [0.0] * len(p)
    orders = list(permutations(range(len(p))))
    for acts, order, (count, weight) in product(product((0, 1), repeat=len(p)), orders, enumerate(forms.PBA_COUNT)):
        chance = weight / len(orders)
        for acted, probability in zip(acts, p, strict=True):
            chance *= probability if acted else 1 - probability
        for entry in [entry for entry in order if acts[entry]][:count]:
            share[entry] += chance
    assert expected(torch.tensor(p, dtype=torch.float64)).tolist() == pytest.approx(share)


# --- DeepAA's transformations, and the tables -------------------------------------------------------------------------


def test_rand_flip_mirrors_every_second_image(generator):
    space = Space("flips", (deepaa_transform("RandFlip", (0, 1), 32),))
    images = torch.randint(0, 256, (2000, 3, 2, 5), generator=generator, dtype=torch.uint8)
    op = torch.zeros(2000, 1, dtype=torch.int64)
    parameters = apply.draw(Composites(op, op.double(), op == 0, space), generator, flip=False)
    out = apply.grouped(images, parameters)
    flipped = (out != images).flatten(1).any(1)
    assert_frequency(flipped, 0.5)
    assert torch.equal(out, torch.where(flipped.view(-1, 1, 1, 1), images.flip(3), images))
    assert torch.equal(out, apply.branch_free(images, parameters))
    for i in range(4):
        tau = Composites(op[:1], op[:1].double(), op[:1] == 0, space)
        one = apply.Parameters(tau, *(t[i : i + 1] for t in parameters[1:]))
        assert torch.equal(out[i], apply.pil.to_tensor(apply.on_pil(apply.pil.from_tensor(images[i]), one)))


def test_deepaa_transforms_keep_their_names_and_enhancers_are_relative_to_one():
    assert [deepaa_transform(name, (1.0, 1.5), 224).name for name in forms.DEEPAA_NAMES] == forms.DEEPAA_NAMES
    transform = deepaa_transform("Color", (0.1, 1.9), 32)
    assert (transform.span, transform.signed) == ((-0.9, 0.9), False)


def test_rows_in_physical_units():
    rows = {row.name: row for row in subpolicies().rows()}
    assert (rows["Rotate"].share, rows["Rotate"].strength) == (0.25, "±9°")
    assert (rows["Solarize"].share, rows["Solarize"].strength) == (0.125, "threshold 128")
    assert (rows["Invert"].share, rows["Invert"].strength) == (0.5, "")
    assert (rows["Color"].share, rows["Color"].strength) == (0.0, "")


def test_rows_average_sizes_where_directions_cancel():
    op = torch.tensor([forms.FAST_AA.space.index("Rotate")] * 2 + [forms.FAST_AA.space.index("Color")])
    weight, magnitude = torch.tensor([[0.1, 0.3, 1.0], [0.0, 0.75, 0.75]], dtype=torch.float64)
    rows = {row.name: row for row in describe.rows(forms.FAST_AA.space, op, weight, magnitude)}
    assert rows["Rotate"].share == pytest.approx(0.4)
    assert rows["Rotate"].strength == "±18.8°"  # (0.1 * 30 + 0.3 * 15) / 0.4
    assert rows["Color"].strength == "factor 1.45"
    assert describe.strength_text(TRANSFORMS["Invert"], 0.0) == ""
    assert describe.strength_text(TRANSFORMS["Hue"], -0.25) == "±90°"
