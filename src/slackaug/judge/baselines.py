"""Every baseline that a policy is compared with, by name: what it draws for each image, and what it adds by default.

Its method is made of parts that act one after the other: its own, then its defaults (crop, colour jitter), the mirror
flip, and Cutout last. Axes: n draws, L positions, M levels. Departures from the methods' own code:
docs/science/fidelity.md.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch

from ..augment import prepare
from ..augment.formats import autoaugment, forms
from ..augment.formats.forms import ENHANCERS, FAST_AA, WARPS
from ..augment.policy import Policy
from ..augment.policy_file import MAX_COMPOSED
from ..augment.prepare import SMALL_IMAGE, Preparation, Size
from ..augment.samplers import All, Sampler, Some
from ..augment.space import Space
from ..augment.transforms import TRANSFORMS
from ..schema import unknown

TOP_LEVEL = 30  # of TrivialAugment and RandAugment: 31 levels, from 0
RANDAUGMENT = 2, 9  # N and M
RANDAUGMENT_ON = {"cifar10": (3, 5), "cifar100": (2, 14)}  # by validation, for WRN-28-10 (Cubuk et al., 2020)
FILE = "file:"
FAST_AA_START = "fast-aa-start"
VERSION = 2  # of the definitions: raise it when one changes, and earlier results are not taken for its own


# --- defaults ---------------------------------------------------------------------------------------------------------


class Defaults(NamedTuple):
    """What a method adds to every image, whatever it draws."""

    parts: tuple[Sampler, ...]
    preparation: Preparation


def is_small(size: Size) -> bool:
    return max(size) <= SMALL_IMAGE


def jitter(strength: float, suffix: str = "") -> All:
    """ColorJitter: factors uniform in 1 - strength .. 1 + strength, in random order."""
    transforms = (
        replace(TRANSFORMS[name], name=name + suffix, span=(-strength, strength), signed=False)
        for name in ("Brightness", "Contrast", "Color")
    )
    return All(space=Space("jitter", tuple(transforms)), shuffled=True)


def nothing(size: Size) -> Defaults:
    return Defaults((), prepare.window(size))


def cifar(size: Size) -> Defaults:
    """A random crop by 4 pixels of 32, and Cutout of 16 of 32. Of large images the preparation takes the crop."""
    crop, cutout = (
        replace(TRANSFORMS[name], name=f"{name} (default)", span=(strength, strength))
        for name, strength in (("RandomCrop", 4 / 32), ("Cutout", 16 / 32))
    )
    if is_small(size):
        return Defaults((All(space=Space("cifar defaults", (crop, cutout))),), prepare.window(size))
    return Defaults((All(space=Space("cifar defaults", (cutout,))),), prepare.padded_window(size))


def imagenet(size: Size) -> Defaults:
    """RandomResizeCrop and ColorJitter."""
    preparation = prepare.resize_crop(size, 0.08, margin=None if is_small(size) else True)
    return Defaults((jitter(0.4, suffix=" (default)"),), preparation)


def usual(size: Size) -> Defaults:
    return cifar(size) if is_small(size) else imagenet(size)


def domainbed_crop(size: Size) -> Defaults:
    return Defaults((), prepare.resize_crop(size, 0.7, margin=False))


# --- the methods' own parts -------------------------------------------------------------------------------------------

Parts = tuple[Sampler, ...]


def none(size: Size, space: Space) -> Parts:
    return (Policy.uniform(Space("none", (TRANSFORMS["Identity"],)), n_composed=1),)


def uniform(size: Size, space: Space, exclude: tuple[str, ...] = (), n_composed: int = 3) -> Parts:
    """Where SLACK's search starts."""
    present = [name for name in exclude if name in space.names]  # a search may have left it out already
    return (Policy.uniform(space.exclude(*present) if present else space, n_composed=n_composed),)


def fourteen(
    name: str, shift: tuple[float, float], shear: float = 0.3, degrees: float = 30, bits: int = 4, enhance: float = 0.9
) -> Space:
    """RandAugment's transformations without Invert, at strengths that are largest at level 30."""
    spans = dict.fromkeys(("ShearX", "ShearY"), shear) | {"TranslateX": shift[0], "TranslateY": shift[1]}
    spans |= {"Rotate": degrees} | dict.fromkeys(ENHANCERS, enhance)
    ranges: forms.Spans = {
        "Identity": None, **{transformation: (0.0, most) for transformation, most in spans.items()},
        "Posterize": (8, bits), "Solarize": (255, 0), "AutoContrast": None, "Equalize": None,
    }  # fmt: skip
    return forms.space(name, ranges, signed=WARPS + ENHANCERS)


def pixels(n: int, size: Size) -> tuple[float, float]:
    """So many pixels of an image, of its width and of its height."""
    height, width = size
    return n / width, n / height


# TrivialAugment's ranges, as released: shifts are by pixels of any image; and its smaller ones in proportion.
RANGES: dict[str, Callable[[Size], Space]] = {
    "wide": lambda size: fourteen("wide", pixels(32, size), shear=0.99, degrees=135, bits=2, enhance=0.99),
    "ra": lambda size: fourteen("ra", pixels(10, size)),
    "ra-scaled": lambda size: fourteen("ra-scaled", (10 / 32, 10 / 32)),
}


def trivialaugment(size: Size, space: Space, ranges: str) -> Parts:
    """One transformation at one of 31 levels (Mueller and Hutter, ICCV 2021)."""
    levels = torch.arange(TOP_LEVEL + 1, dtype=torch.float64) / TOP_LEVEL
    return (Some(space=RANGES[ranges](size), n_ops=1, levels=levels),)


def randaugment(size: Size, space: Space, n_ops: int, level: int) -> Parts:
    """N transformations, all at level M (Cubuk et al., 2020)."""
    levels = torch.tensor([level / TOP_LEVEL], dtype=torch.float64)
    return (Some(space=fourteen("randaugment", (150 / 331, 150 / 331)), n_ops=n_ops, levels=levels),)


def uniformaugment(size: Size, space: Space) -> Parts:
    """Two transformations; a probability uniform in [0, 1], then a coin by it, is a coin (LingChen et al., 2020)."""
    return (Some(space=FAST_AA.space, n_ops=2, chance=0.5),)


def learned_by_autoaugment(size: Size, space: Space) -> Parts:
    return (autoaugment.cifar10() if is_small(size) else autoaugment.imagenet(),)


def start_of_fast_aa(size: Size, space: Space) -> Parts:
    return (forms.all_pairs(FAST_AA_START, FAST_AA),)


def domainbed(size: Size, space: Space) -> Parts:
    """ColorJitter, then one image of ten in grey (Gulrajani and Lopez-Paz, 2021), without its hue, as SLACK has it."""
    return (jitter(0.3), All(space=Space("grey", (TRANSFORMS["Grayscale"],)), chance=0.1))


class Counts(NamedTuple):
    """How many transformations are composed, as the paper's tables count: a mirror flip is none."""

    total: int
    hard_coded: int  # of these: those that act on every image, whatever was learned or drawn


class Baseline(NamedTuple):
    parts: Callable[[Size, Space], Parts]  # of the size of the images and SLACK's space
    defaults: Callable[[Size], Defaults]

    def counts(self, size: Size, space: Space) -> Counts:
        defaults = self.defaults(size)
        return counts(self.parts(size, space) + defaults.parts, defaults.preparation)


def counts(parts: Parts, preparation: Preparation) -> Counts:
    """Of a draw, the positions; those of a part that always has all of its space, and the crop, are hard-coded."""
    generator = torch.Generator().manual_seed(0)
    n_positions = [part.sample(1, generator).op.shape[1] for part in parts]
    always = [n for n, part in zip(n_positions, parts, strict=True) if isinstance(part, All)]
    crop = int(preparation.is_transformation)
    return Counts(sum(n_positions) + crop, sum(always) + crop)


BASELINES: dict[str, Baseline] = {
    "none": Baseline(none, nothing),
    "default": Baseline(lambda size, space: (), usual),
    "uniform": Baseline(uniform, nothing),
    "uniform-no-invert-solarize": Baseline(partial(uniform, exclude=("Invert", "Solarize")), nothing),
    **{
        f"trivialaugment-{ranges}{suffix}": Baseline(partial(trivialaugment, ranges=ranges), defaults)
        for ranges in ("wide", "ra")
        for suffix, defaults in (("", usual), ("-cifar", cifar), ("-imagenet", imagenet))
    },
    "trivialaugment-ra-scaled": Baseline(partial(trivialaugment, ranges="ra-scaled"), usual),
    "randaugment": Baseline(partial(randaugment, n_ops=RANDAUGMENT[0], level=RANDAUGMENT[1]), usual),
    "uniformaugment": Baseline(uniformaugment, usual),
    "domainbed": Baseline(domainbed, domainbed_crop),
    "autoaugment": Baseline(learned_by_autoaugment, usual),
    FAST_AA_START: Baseline(start_of_fast_aa, usual),  # and of DADA
}
FORMS = ["uniform-K", "randaugment-N-M", "file:PATH"]


def define(name: str, others: Sequence[str] = ()) -> Baseline:
    """`others`, what a candidate may be besides."""
    if name in BASELINES:
        return BASELINES[name]
    if numbers := re.fullmatch(r"uniform-(\d{1,3})", name, re.ASCII):
        n_composed = int(numbers[1])
        if not 1 <= n_composed <= MAX_COMPOSED:
            raise ValueError(f"{name}: expected uniform-K with K from 1 to {MAX_COMPOSED} transformations")
        return BASELINES["uniform"]._replace(parts=partial(uniform, n_composed=n_composed))
    if numbers := re.fullmatch(r"randaugment-(\d{1,3})-(\d{1,3})", name, re.ASCII):
        n_ops, level = int(numbers[1]), int(numbers[2])
        if not 1 <= n_ops <= MAX_COMPOSED or level > TOP_LEVEL:
            expected = f"N from 1 to {MAX_COMPOSED} transformations at level M from 0 to {TOP_LEVEL}"
            raise ValueError(f"{name}: expected randaugment-N-M with {expected}")
        return BASELINES["randaugment"]._replace(parts=partial(randaugment, n_ops=n_ops, level=level))
    raise ValueError(unknown("candidate" if others else "baseline", name, [*others, *BASELINES, *FORMS]))
