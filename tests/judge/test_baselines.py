"""Every baseline against its definition. Policies in files are made up here, but for those marked `data`.

Frequencies: a false alarm in 4e-8 of all seeds for each (5.5 standard deviations), p-values: in 1e-6; seeds are fixed.
"""

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from published_files import AUTOAUGMENT_KIND, DOCUMENTS, FAST_AA_KIND, deepaa, pba, subpolicies
from slackaug import rng
from slackaug.augment import apply, prepare
from slackaug.augment.apply import Composites
from slackaug.augment.formats import autoaugment, forms, published
from slackaug.augment.formats.forms import FAST_AA, DeepAA
from slackaug.augment.policy import Policy
from slackaug.augment.samplers import Method, Sampler
from slackaug.augment.transforms import SPACES, get_space
from slackaug.data import Dataset, Split, build
from slackaug.judge.baselines import BASELINES, counts, define
from slackaug.judge.candidates import Candidate, from_name
from slackaug.schema import PolicyError

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "peer_policies"
N_DRAWS = 20_000
FOURTEEN = {
    "Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
    "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize",
}  # fmt: skip
ENHANCED = ("Brightness", "Color", "Contrast", "Sharpness")


def data(size: int = 32, width: int | None = None, flip: bool = True) -> Dataset:
    images = torch.randint(0, 256, (8, 3, size, width or size), generator=rng.generator(0, "images"), dtype=torch.uint8)
    split = Split(images, torch.arange(8) % 2)
    return build("made up", split, split, ["a", "b"], flip=flip)


SMALL, LARGE = data(32), data(96)
sizes = pytest.mark.parametrize("dataset", [SMALL, LARGE], ids=["32", "96"])


def method(augmentation, dataset=SMALL, space="cifar", flip=None, uniform_magnitudes=False) -> Method:
    name = augmentation if isinstance(augmentation, str) else "x"
    return Candidate(name, augmentation, "", uniform_magnitudes).method(dataset, get_space(space), flip)


def drawn(made: Sampler, n: int = N_DRAWS, seed: int = 0, progress: float = 0.0) -> Composites:
    return made.sample(n, torch.Generator().manual_seed(seed), progress)


def draw_alike(made: Sampler, other: Sampler) -> bool:
    return all(torch.equal(a, b) for a, b in zip(drawn(made, 50)[:3], drawn(other, 50)[:3], strict=True))


def names_at(tau: Composites, position: int) -> Counter[str]:
    return Counter(tau.space.names[i] for i in tau.op[:, position].tolist())


def strengths(tau: Composites, position: int, name: str) -> Tensor:
    """Without direction, of the images that drew it at that position."""
    rows = tau.op[:, position] == tau.space.index(name)
    magnitude = tau.magnitude[rows, position]
    return tau.space[name].strength(magnitude, torch.ones_like(magnitude))


def assert_frequency(hits: Tensor, probability: float) -> None:
    n = hits.numel()
    margin = 5.5 * max(probability * (1 - probability), 1 / n) ** 0.5 / n**0.5
    assert hits.double().mean().item() == pytest.approx(probability, abs=margin)


def assert_equally_likely(counts: Counter, expected: set) -> None:
    assert set(counts) == expected
    assert stats.chisquare(list(counts.values())).pvalue > 1e-6


def assert_uniform(values: Tensor, low: float, high: float) -> None:
    assert stats.kstest(values.numpy(), stats.uniform(low, high - low).cdf).pvalue > 1e-6


def same_in_both_executions(made: Method, tau: Composites, images: Tensor) -> Tensor:
    parameters = apply.draw(tau, torch.Generator().manual_seed(1), flip=made.flip)
    out = apply.grouped(images, parameters, made.fill)
    assert torch.equal(out, apply.branch_free(images, parameters, made.fill))
    return out


# --- the contract -----------------------------------------------------------------------------------------------------


@sizes
@pytest.mark.parametrize("name", [*BASELINES, "randaugment-3-5"])
def test_contract(name, dataset):
    made = method(name, dataset)
    assert (made.name, made.flip, made.mean, made.std) == (name, True, dataset.mean, dataset.std)
    assert made.fill == tuple(round(255 * channel) for channel in dataset.mean)
    tau = drawn(made, 40)
    assert tau.space is made.space
    assert tau.op.shape == tau.magnitude.shape == tau.active.shape == (40, tau.op.shape[1])
    assert (tau.op.dtype, tau.magnitude.dtype, tau.active.dtype) == (torch.int64, torch.float64, torch.bool)
    assert ((tau.op >= 0) & (tau.op < len(made.space))).all()
    assert draw_alike(made, made)
    assert not torch.equal(tau.magnitude, drawn(made, 40, seed=1).magnitude) or name.startswith("randaugment")
    images = dataset.train.images.repeat(5, 1, 1, 1)
    out = same_in_both_executions(made, tau, images)
    assert torch.equal(out, apply.augment(images, tau, torch.Generator().manual_seed(1), flip=True, fill=made.fill))
    without = method(name, dataset, flip=False)
    assert not without.flip
    assert "RandFlip" not in without.space.names
    assert not method(name, data(flip=False)).flip


def test_none_flips_only():
    made = method("none")
    assert (made.space.names, made.flip) == (["Identity"], True)


def test_a_uniform_policy_is_where_a_search_starts():
    assert draw_alike(method("uniform"), Policy.uniform("cifar"))
    assert method("uniform", space="domainnet").space.names == SPACES["domainnet"].names
    for number in (1, 2, 5):
        ours = method(f"uniform-{number}")
        assert drawn(ours, 50).op.shape == (50, number)
        assert draw_alike(ours, Policy.uniform("cifar", n_composed=number))
    rest = set(SPACES["cifar"].names) - {"Invert", "Solarize"}
    assert set(method("uniform-no-invert-solarize").space.names) == rest


# --- the defaults -----------------------------------------------------------------------------------------------------

CIFAR_DEFAULTS = ["RandomCrop (default)", "Cutout (default)"]
JITTER = {"Brightness (default)", "Contrast (default)", "Color (default)"}


@pytest.mark.parametrize(("size", "pad", "side"), [(32, 4, 16), (64, 8, 32), (28, 4, 14)])
def test_small_images_are_cropped_and_cut_in_proportion(size, pad, side):
    tau = drawn(method("default", data(size)), 2000)
    assert tau.space.names == CIFAR_DEFAULTS
    assert tau.active.all()
    assert torch.equal(tau.op, torch.tensor([0, 1]).expand(2000, 2))  # crop, then Cutout
    u = rng.uniform((2000, 2, 4), rng.generator(0, "u"))
    crop, cutout = (t.argument(tau.magnitude[:, k], u[:, k], size, size) for k, t in enumerate(tau.space))
    assert set(crop[:, :2].flatten().tolist()) == set(range(-pad, pad + 1))
    assert (cutout[:, 2:] == side).all()


def test_large_images_get_colour_jitter_in_random_order():
    made = method("default", LARGE)
    tau = drawn(made)
    assert set(made.space.names) == JITTER
    assert made.preparation.least_area == 0.08
    assert tau.active.all()
    assert_equally_likely(Counter(map(tuple, tau.op.tolist())), set(permutations(range(3))))
    for position in range(3):
        for name in JITTER:
            assert_uniform(1 + strengths(tau, position, name), 0.6, 1.4)
    assert not any(transform.signed for transform in made.space)


@pytest.mark.parametrize("name", ["trivialaugment-ra", "trivialaugment-wide"])
@pytest.mark.parametrize(
    ("suffix", "small", "large"),
    [
        ("", CIFAR_DEFAULTS, JITTER),
        ("-cifar", CIFAR_DEFAULTS, ["Cutout (default)"]),  # the crop is the preparation's
        ("-imagenet", JITTER, JITTER),
    ],
)
def test_the_suffix_picks_the_defaults(name, suffix, small, large):
    for dataset, names in ((SMALL, small), (LARGE, large)):
        found = method(name + suffix, dataset).space.names
        assert found[:14] == method(name).space.names[:14]
        assert sorted(found[14:]) == sorted(names)


# What the paper prints under "# Augmentations", total and hard-coded; its stars are footnotes on DeepAA.
PRINTED = {
    "32": {"autoaugment": (4, 2), "fast-aa-start": (4, 2), "randaugment": (4, 2), "uniformaugment": (4, 2),
           "trivialaugment-wide": (3, 2), "uniform": (3, 0)},
    "96": {"trivialaugment-ra-imagenet": (5, 4), "trivialaugment-wide-imagenet": (5, 4),
           "trivialaugment-ra-cifar": (3, 2), "trivialaugment-wide-cifar": (3, 2), "uniform": (3, 0),
           "domainbed": (5, 5)},
}  # fmt: skip


@sizes
def test_transformations_are_counted_as_the_paper_counts_them(dataset):
    printed, space = PRINTED[str(dataset.image_size[0])], get_space("domainnet")
    found = {name: BASELINES[name].counts(dataset.image_size, space) for name in printed}
    assert found == printed


def test_randaugment_is_not_counted_as_the_paper_counts_it():
    """Which prints 4: two and the defaults. On CIFAR-10 its own configuration has three."""
    for name, n in (("cifar10", 5), ("cifar100", 4)):
        chosen = from_name("randaugment").on(f"torchvision:{name}").augmentation
        assert define(chosen).counts((32, 32), get_space("cifar")) == (n, 2)


@pytest.mark.data
def test_deepaa_is_counted_as_the_paper_counts_it():
    if not REFERENCE.is_dir():
        pytest.skip(f"the published policies are not under {REFERENCE}")
    policy = published.read_file(REFERENCE / "deepaa_cifar_1.json")
    assert counts((policy,), prepare.window((32, 32))) == (6, 0)


def test_the_order_of_acting():
    """TrivialAugment's own first, then crop and flip, Cutout last: replayed step by step."""
    made, images, expected = method("trivialaugment-wide"), SMALL.train.images, []
    tau = drawn(made, len(images))
    parameters = apply.draw(tau, torch.Generator().manual_seed(0), flip=True)
    for i in range(len(images)):
        own, crop, cutout = (made.space.transforms[n] for n in tau.op[i])
        assert (crop.name, cutout.name) == ("RandomCrop (default)", "Cutout (default)")
        first, second, third = (
            transform.argument(tau.magnitude[i : i + 1, k], parameters.u[i : i + 1, k], 32, 32)
            for k, transform in enumerate((own, crop, cutout))
        )
        out = crop.on_batch(own.on_batch(images[i : i + 1], first), second)
        out = out.flip(3) if parameters.flip[i] else out
        expected.append(cutout.on_batch(out, third, made.fill))
    assert torch.equal(apply.grouped(images, parameters, made.fill), torch.cat(expected))


# --- TrivialAugment, RandAugment, UniformAugment ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "size", "most"),
    [
        ("wide", 32, {"ShearX": 0.99, "TranslateX": 1, "TranslateY": 1, "Rotate": 135, "Posterize": 2, "Color": 0.99}),
        ("wide", 96, {"ShearY": 0.99, "TranslateX": 1 / 3, "TranslateY": 1 / 3, "Rotate": 135, "Brightness": 0.99}),
        ("ra", 32, {"ShearX": 0.3, "TranslateX": 10 / 32, "Rotate": 30, "Posterize": 4, "Solarize": 0, "Color": 0.9}),
        ("ra", 96, {"ShearY": 0.3, "TranslateY": 10 / 96, "Rotate": 30, "Posterize": 4, "Sharpness": 0.9}),
        ("ra-scaled", 32, {"TranslateX": 10 / 32, "TranslateY": 10 / 32}),
        ("ra-scaled", 96, {"TranslateX": 10 / 32, "TranslateY": 10 / 32, "Rotate": 30}),
    ],
)
def test_trivialaugment(name, size, most):
    tau = drawn(method(f"trivialaugment-{name}", data(size)))
    assert_equally_likely(names_at(tau, 0), FOURTEEN)
    assert tau.active.all()
    level = (30 * tau.magnitude[:, 0]).round()
    assert_equally_likely(Counter(level.tolist()), set(range(31)))
    assert torch.allclose(level / 30, tau.magnitude[:, 0])
    for transformation, strongest in most.items():
        start = {"Posterize": 8, "Solarize": 255}.get(transformation, 0)
        expected = torch.linspace(start, strongest, 31, dtype=torch.float64)
        found = strengths(tau, 0, transformation).unique()
        assert torch.allclose(found, expected.sort().values)
    signed = {t.name for t in tau.space if t.signed}
    assert signed == {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", *ENHANCED}


@pytest.mark.parametrize(("ranges", "pixels"), [("wide", 32), ("ra", 10), ("ra-cifar", 10), ("ra-imagenet", 10)])
def test_trivialaugment_shifts_by_pixels_of_any_image_as_released(ranges, pixels):
    space = method(f"trivialaugment-{ranges}", data(48, 96)).space
    assert (space["TranslateX"].span, space["TranslateY"].span) == ((0, pixels / 96), (0, pixels / 48))


@pytest.mark.parametrize(("name", "n_ops", "level"), [("randaugment", 2, 9), ("randaugment-3-5", 3, 5)])
def test_randaugment(name, n_ops, level):
    tau = drawn(method(name))
    assert tau.op.shape[1] == n_ops + 2
    assert tau.active.all()
    pairs = Counter(zip(*(tau.op[:, k].tolist() for k in (0, 1)), strict=True))
    assert_equally_likely(pairs, {(i, j) for i in range(14) for j in range(14)})  # with replacement
    for k in range(n_ops):
        assert set(names_at(tau, k)) == FOURTEEN
        assert (tau.magnitude[:, k] == level / 30).all()
        assert strengths(tau, k, "TranslateX").unique().item() == pytest.approx(150 / 331 * level / 30)
        assert strengths(tau, k, "Rotate").unique().item() == pytest.approx(level)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("torchvision:CIFAR10", "randaugment-3-5"),
        ("torchvision:CIFAR100", "randaugment-2-14"),
        ("hf:cifar10", "randaugment-3-5"),
        ("pets/", "randaugment-2-9"),
        ("imagenet100:x", "randaugment-2-9"),
    ],
)
def test_randaugment_has_the_numbers_of_its_data(source, name):
    given = Candidate("randaugment", "randaugment", "")
    assert given.on(source) == from_name(name)._replace(name="randaugment")
    made = given.method(replace(SMALL, name=source), get_space("cifar"))
    assert (made.name, made.parts[0].n_ops) == ("randaugment", method(name).parts[0].n_ops)
    assert draw_alike(made, method(name))
    other = Candidate("none", "none", "x")
    assert other.on(source) == other


def test_uniformaugment():
    tau = drawn(method("uniformaugment"))
    for k in range(2):
        assert_equally_likely(names_at(tau, k), set(FAST_AA.space.names))
        assert_frequency(tau.active[:, k], 0.5)
        assert_uniform(strengths(tau, k, "Rotate"), -30, 30)
        assert_uniform(strengths(tau, k, "Solarize"), 0, 256)
        assert_uniform(strengths(tau, k, "Cutout"), 0, 0.2)
    n_active = tau.active[:, :2].sum(1)
    for count, probability in enumerate((0.25, 0.5, 0.25)):
        assert_frequency(n_active == count, probability)
    assert tau.active[:, 2:].all()
    assert tau.space.names[-2:] == CIFAR_DEFAULTS


def test_domainbed():
    """Five augmentations, as the paper counts them: crop, Color, Contrast, Brightness and grey; no hue."""
    made = method("domainbed", LARGE)
    tau = drawn(made)
    jittered = {"Brightness", "Contrast", "Color"}
    assert set(made.space.names) == {*jittered, "Grayscale"}
    assert (made.preparation.least_area, made.preparation.margin) == (0.7, False)
    assert len(set(map(tuple, tau.op[:, :3].tolist()))) == math.factorial(3)
    assert tau.active[:, :3].all()
    for position in range(3):
        counts = names_at(tau, position)
        assert_equally_likely(counts, jittered)
        for name in counts:
            assert_uniform(strengths(tau, position, name), -0.3, 0.3)
    assert names_at(tau, 3) == {"Grayscale": N_DRAWS}
    assert_frequency(tau.active[:, 3], 0.1)


# --- AutoAugment ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dataset", "table"), [(SMALL, autoaugment.CIFAR10), (LARGE, autoaugment.IMAGENET)])
def test_autoaugment_draws_its_own_sub_policies(dataset, table):
    made = method("autoaugment", dataset)
    tau = drawn(made, 500)
    names = made.space.names
    ops = {tuple(names[i] for i in row) for row in tau.op[:, :2].tolist()}
    rows = autoaugment.rows(table)
    assert len(rows) == 25
    assert ops == {(first[0], second[0]) for first, second in rows}
    own, added = set(names[: len(forms.AUTOAUGMENT.space)]), names[len(forms.AUTOAUGMENT.space) :]
    assert own == set(forms.AUTOAUGMENT.space.names)
    assert added == CIFAR_DEFAULTS if dataset is SMALL else set(added) == JITTER


# --- policies and files -----------------------------------------------------------------------------------------------

ENTRIES = [[["Rotate", 0.25, 0.3], ["Cutout", 1.0, 0.5]]]
FLIPS = {"policy_probs": [[0.1, 0.2, 0.7]], "ops": [0, 1, 2], "mags": [6, 3, 6],
         "op_names": ["Identity:(0.0,,1.0)", "Rotate:(-30.0,,30.0)", "RandFlip:(0.0,,1.0)"]}  # fmt: skip
SUBPOLICIES = published.from_document(subpolicies(FAST_AA_KIND, subpolicies=ENTRIES))
DEEPAA = published.from_document(deepaa(**FLIPS))
# The first transformation of both copies in the first half, the second in the second
SCHEDULE = published.from_document(pba(["1", "0", 9, 5, [10, 4] + [0, 0] * 29, [0, 0, 10, 4] + [0, 0] * 28], epochs=10))


@pytest.mark.parametrize("policy", [SUBPOLICIES, SCHEDULE], ids=["sub-policies", "schedule"])
def test_others_get_the_usual_defaults(policy):
    made = method(policy)
    assert made.space.names[-2:] == CIFAR_DEFAULTS
    assert drawn(made, 100).active[:, -2:].all()
    assert made.flip
    assert not method(policy, data(flip=False)).flip
    assert not method(policy, flip=False).flip


def test_a_schedule_follows_the_progress():
    for progress, op in ((0.0, 0), (0.9, 1)):
        tau = drawn(method(SCHEDULE), 200, progress=progress)
        assert set(tau.op[:, :2][tau.active[:, :2]].tolist()) == {op}


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("flip", [None, True, False])
def test_slack_adds_nothing_and_keeps_its_flips(own, allowed, flip, tmp_path):
    policy, dataset = Policy.uniform("cifar", mean=(0.1, 0.2, 0.3), std=(1.0, 1.0, 1.0), flip=own), data(flip=allowed)
    made = method(policy, dataset, flip=flip)
    assert made.space.names == policy.space.names
    assert made.flip is (own and allowed if flip is None else flip)
    assert (made.mean, made.std) == (dataset.mean, dataset.std)  # the data's, whatever the policy says
    assert draw_alike(made, policy)
    policy.save(tmp_path / "x.json")  # as a baseline, never switched on behind the policy's back
    assert method(f"file:{tmp_path / 'x.json'}", dataset, flip=flip).flip is (
        own and (allowed if flip is None else flip)
    )


@pytest.mark.parametrize(
    ("dataset", "flip", "acts"),
    [(SMALL, None, True), (SMALL, True, True), (SMALL, False, False), (data(flip=False), None, False)],
)
def test_deepaas_flips_are_its_own(dataset, flip, acts):
    made = method(DEEPAA, dataset, flip=flip)
    assert not made.flip
    assert made.space.names == ["Identity", "Rotate", "RandFlip"]
    tau = drawn(made)
    is_flip = tau.op == 2
    assert_frequency(is_flip, 0.7)
    assert tau.active[~is_flip].all()
    assert (tau.active[is_flip] == acts).all()


def test_uniform_magnitudes_are_the_methods_own_only():
    tau = drawn(method(SUBPOLICIES, uniform_magnitudes=True))
    assert_uniform(strengths(tau, 0, "Rotate"), -30, 30)
    assert_uniform(strengths(tau, 1, "Cutout"), 0, 0.2)
    assert_frequency(tau.active[:, 0], 0.25)
    assert (strengths(tau, 3, "Cutout (default)") == 0.5).all()
    plain = drawn(method(SUBPOLICIES))
    assert torch.equal(plain.op, tau.op)
    assert torch.equal(plain.active[:, :2], tau.active[:, :2])
    uniform = drawn(method("randaugment", uniform_magnitudes=True))
    assert_uniform(uniform.magnitude[:, :2].flatten(), 0, 1)
    assert_uniform(drawn(method(Policy.uniform("cifar", mu=0.3), uniform_magnitudes=True)).magnitude.flatten(), 0, 1)


def test_where_fast_aa_and_dada_start():
    """All 105 pairs of their 15 transformations, each of the two with probability 1/2, halfway along its range."""
    tau = drawn(method("fast-aa-start"))
    pairs = Counter(map(tuple, tau.op[:, :2].tolist()))
    assert_equally_likely(pairs, set(combinations(range(15), 2)))
    assert tau.space.names[:15] == FAST_AA.space.names
    assert_frequency(tau.active[:, :2], 0.5)
    halfway = {"ShearX": 0, "Rotate": 0, "Color": 0, "Posterize": 6, "Solarize": 128, "Cutout": 0.1}
    for position in range(2):
        for name, strength in halfway.items():
            found = strengths(tau, position, name)
            assert torch.equal(found, torch.full_like(found, strength)), name
    uniform = drawn(method("fast-aa-start", uniform_magnitudes=True))
    assert torch.equal(uniform.op, tau.op)
    assert_uniform(strengths(uniform, 1, "Rotate").abs(), 0, 30)
    assert_uniform(strengths(uniform, 1, "Cutout"), 0, 0.2)


def test_a_file_is_its_policy(tmp_path):
    path = tmp_path / "aa.json"
    path.write_text(json.dumps(DOCUMENTS[AUTOAUGMENT_KIND]))
    assert method(f"file:{path}").flip
    assert method(f"file:{path}").space.names[-2:] == CIFAR_DEFAULTS
    with pytest.raises(PolicyError, match=r"missing\.json: cannot be read"):
        method(f"file:{tmp_path / 'missing.json'}")


@pytest.mark.data
@pytest.mark.parametrize("path", sorted(REFERENCE.glob("*_*.json")) or [None], ids=lambda p: p.stem if p else "absent")
@sizes
def test_published_files(path, dataset):
    if path is None:
        pytest.skip(f"the published policies are not under {REFERENCE}")
    made = method(f"file:{path}", dataset, flip=False)
    same_in_both_executions(made, drawn(made, 8), dataset.train.images)
    is_deepaa = isinstance(published.load(path), DeepAA)
    assert is_deepaa != any(name.endswith("(default)") for name in made.space.names)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("trivialaugment-wyde", "unknown baseline 'trivialaugment-wyde'; did you mean 'trivialaugment-wide'"),
        ("trivalaugment", "unknown baseline 'trivalaugment'; did you mean 'trivialaugment-wide'"),
        ("trivialaugment", "unknown baseline 'trivialaugment'; did you mean 'trivialaugment-wide'"),
        ("randaugment-2", "unknown baseline 'randaugment-2'; did you mean 'randaugment'"),
        ("uniform-0", "expected uniform-K with K from 1 to 16 transformations"),
        ("uniform-17", "expected uniform-K with K from 1 to 16 transformations"),
        ("uniform-2-9", "unknown baseline 'uniform-2-9'"),
        ("randaugment-0-9", "N from 1 to 16 transformations at level M from 0 to 30"),
        ("randaugment-2-31", "N from 1 to 16 transformations at level M from 0 to 30"),
        ("", "unknown baseline ''; known: none, default"),
    ],
)
def test_names_that_are_not_known(name, message):
    with pytest.raises(ValueError, match=message):
        method(name)


@pytest.mark.parametrize(
    ("augmentation", "size", "margin"),
    [
        ("none", 224, None), ("uniform", 224, None), ("default", 32, None), ("default", 224, True),
        ("trivialaugment-wide", 224, True), ("trivialaugment-wide-cifar", 224, True), ("autoaugment", 224, True),
        ("trivialaugment-wide-imagenet", 32, None), ("domainbed", 224, False), (SUBPOLICIES, 224, True),
        (DEEPAA, 224, None), (Policy.uniform("imagenet"), 224, None),
    ],
)  # fmt: skip
def test_how_the_data_is_to_be_stored(augmentation, size, margin):
    assert method(augmentation, data(size)).preparation.margin is margin


# --- torchvision ------------------------------------------------------------------------------------------------------

Pairs = Counter[tuple[str, float]]  # of a transformation and its strength


def theirs(monkeypatch, transform, size: int) -> Pairs:
    """What torchvision's class passes on to be applied, over many images."""
    from torchvision.transforms import autoaugment as module

    calls = []
    with monkeypatch.context() as patch, torch.random.fork_rng():
        patch.setattr(module, "_apply_op", lambda image, name, value, **_: calls.append((name, value)) or image)
        torch.manual_seed(0)
        for _ in range(N_DRAWS):
            transform(torch.zeros(3, size, size, dtype=torch.uint8))
    return Counter((name, round(value, 3) + 0.0) for name, value in calls)


def ours(tau: Composites, n_ops: int, size: int) -> Pairs:
    """In their units: shifts in pixels, bits rounded, directions as `augment` draws them."""
    u = rng.uniform((len(tau.op), n_ops), rng.generator(0, "direction"))
    found: Pairs = Counter()
    for k in range(n_ops):
        for op, m, v in zip(tau.op[:, k].tolist(), tau.magnitude[:, k], u[:, k], strict=True):
            transform = tau.space.transforms[op]
            strength = in_their_units(transform.name, transform.strength(m, v).item(), size)
            found[transform.name, round(strength, 3) + 0.0] += 1
    return found


def in_their_units(name: str, strength: float, size: int) -> float:
    strength *= size if name.startswith("Translate") else 1
    return round(strength) if name == "Posterize" else strength


@pytest.mark.torchvision
@pytest.mark.parametrize("size", [32, 96])
@pytest.mark.parametrize("name", ["trivialaugment-wide", "randaugment-2-9", "randaugment-1-30"])
def test_torchvision_draws_alike(name, size, monkeypatch):
    """The same set of (transformation, strength) pairs, equally often."""
    from torchvision.transforms import RandAugment, TrivialAugmentWide

    levels = [int(word) for word in name.split("-") if word.isdigit()]
    expected = theirs(monkeypatch, RandAugment(*levels) if levels else TrivialAugmentWide(), size)
    found = ours(drawn(method(name, data(size))), levels[0] if levels else 1, size)
    assert set(found) == set(expected)
    table = np.array([[counts[pair] for pair in expected] for counts in (found, expected)])
    assert stats.chi2_contingency(table).pvalue > 1e-6
    by_name = [Counter(pair[0] for pair in counts.elements()) for counts in (found, expected)]
    assert stats.chi2_contingency([[counts[op] for op in sorted(FOURTEEN)] for counts in by_name]).pvalue > 1e-6


@pytest.mark.torchvision
def test_torchvision_means_the_same_strength_by_a_level():
    from torchvision.transforms import RandAugment, TrivialAugmentWide

    for name, table in (
        ("trivialaugment-wide", TrivialAugmentWide()._augmentation_space(31)),
        ("randaugment", RandAugment()._augmentation_space(31, (96, 96))),
    ):
        space = method(name, LARGE).space
        assert set(space.names[:14]) == set(table)
        for op, (values, signed) in table.items():
            found = space[op].strength(torch.linspace(0, 1, 31, dtype=torch.float64), torch.ones(31)).tolist()
            expected = values.tolist() if values.ndim else [0.0] * 31
            assert [in_their_units(op, strength, 96) for strength in found] == pytest.approx(expected, abs=1e-4)
            assert space[op].signed == signed
