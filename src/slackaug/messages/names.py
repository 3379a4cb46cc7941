"""What policies and baselines are called in plain words, and what those of ours mean."""

import re
from typing import NamedTuple

from . import counted

LEARNED = "learned"  # what a search learned, among the candidates of its race
NUMBER = r"\d+(?:\.\d+)?"
FORM = re.compile(rf"{LEARNED}(?:-x({NUMBER}))?(?:-mu({NUMBER}))?(?:-([1-9]))?", re.ASCII)


class Name(NamedTuple):
    spoken: str  # after `Use`
    meaning: str  # for those who have not read the paper


TRIVIALAUGMENT = "one transformation an image, at a random strength"
NAMES = {
    "none": Name("no augmentation", "no transformations, at most the mirror flip"),
    "default": Name("the usual crops with Cutout or colour jitter", "the usual crops, with Cutout or colour jitter"),
    "uniform": Name(
        "3 random transformations per image", "all transformations equally likely, as where a search starts"
    ),
    "uniform-no-invert-solarize": Name(
        "3 random transformations per image, without Invert and Solarize", "equally likely, without Invert and Solarize"
    ),
    "trivialaugment-wide": Name("TrivialAugment (Wide)", TRIVIALAUGMENT),
    "trivialaugment-ra": Name("TrivialAugment (RA)", TRIVIALAUGMENT),
    "trivialaugment-ra-scaled": Name(
        "TrivialAugment (RA) with shifts in proportion", f"{TRIVIALAUGMENT}; shifts grow with the image"
    ),
    "randaugment": Name("RandAugment", "several transformations an image, all at one fixed strength"),
    "uniformaugment": Name("UniformAugment", "two transformations an image, at random strengths"),
    "autoaugment": Name("AutoAugment", "the published policy for CIFAR-10 or ImageNet"),
    "fast-aa-start": Name(
        "Fast AutoAugment's start", "any two of 15 transformations, each with probability 1/2, mid-range"
    ),
    "domainbed": Name(
        "DomainBed's augmentation", "crops, colour jitter and grey images, as in DomainBed, without its hue"
    ),
    "slack": Name("the policy of SLACK", "learned by the paper's Algorithm 1"),
    "auto": Name("the answer of a search", "what each search says to use: what it learned, or a simpler choice"),
}


class Form(NamedTuple):
    """The learned policy, taken further or less far, with other magnitudes, with fewer transformations."""

    strength: float
    mu: float
    n_composed: int | None  # None: as many as it has


def form_of(name: str) -> Form | None:
    """Read `learned-x2-mu0.75-1` and its parts; None for other names."""
    if (found := FORM.fullmatch(name)) is None:
        return None
    strength, mu, number = found.groups()
    return Form(float(strength or 1), float(mu or 1), None if number is None else int(number))


def augmentation(name: str) -> str:
    """A baseline in plain words, where its name does not say what it does."""
    if name == "none":
        return "no transformations"
    number = "3" if name == "uniform" else name.removeprefix("uniform-")
    if name == "uniform" or (name.startswith("uniform-") and number.isdecimal()):
        return counted(int(number), "random transformation")
    return name


def spoken(name: str) -> str:
    """What a candidate is, after `Use`."""
    if (form := form_of(name)) is not None:
        changes = [f"taken {form.strength:g} times as far"] if form.strength != 1 else []
        changes += [f"at {form.mu:g} times its magnitudes"] if form.mu != 1 else []
        changes += [f"with {counted(form.n_composed, 'transformation')} per image"] if form.n_composed else []
        return " ".join(["the learned policy", *changes])
    if name in NAMES:
        return NAMES[name].spoken
    return f"{augmentation(name)} per image" if augmentation(name) != name else name


def meaning(name: str) -> str:
    """Of `uniform`, or of a kind with its variant: `trivialaugment-wide-cifar`, `slack (paper)`; none of a user's."""
    if name in NAMES:
        return NAMES[name].meaning
    kinds = ("trivialaugment-wide", "trivialaugment-ra", "randaugment", "slack")
    found = next((NAMES[kind].meaning for kind in kinds if name.startswith((f"{kind}-", f"{kind} ("))), "")
    return found or (augmentation(name) if name.startswith("uniform-") else "")
