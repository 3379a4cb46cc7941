"""What a policy means: the family of a transformation, its strengths, and how often it acts."""

import math

from ..augment.describe import range_text
from ..augment.policy import Policy
from ..augment.space import Transform

FAMILIES = {
    "geometric": "ShearX ShearY TranslateX TranslateY Rotate",
    "tone": "AutoContrast Equalize Invert Solarize Posterize Contrast Brightness Sharpness",
    "colour": "Color Hue Grayscale",
    "crop": "Cutout RandomCrop RandomResizeCrop",
    "identity": "Identity",
    "own": "",  # whatever users bring
}
WORDS = {name: name for name in FAMILIES} | {"crop": "crop, cutout", "own": "your own"}  # of a legend
EQUAL = 1e-9  # difference of probabilities that is rounding
FAMILY = {name: family for family, names in FAMILIES.items() for name in names.split()}


def family(name: str) -> str:
    return FAMILY.get(name, "own")


def idle(policy: Policy) -> list[str]:
    """The transformations of colour, if the policy was learned on grey images, which they leave as they are: all three
    channels of those have one mean and one deviation."""
    is_grey = policy.dataset is not None and len({*policy.mean}) == len({*policy.std}) == 1
    return [name for name in policy.space.names if family(name) == "colour"] if is_grey else []


def by_family(names: list[str]) -> list[int]:
    """The order in which the transformations of a family are neighbours."""
    order = list(FAMILIES)
    return sorted(range(len(names)), key=lambda n: (order.index(family(names[n])), n))


def bounds_text(transform: Transform, mu: float) -> str:
    return range_text(transform, mu) or "no magnitude"


def shares(policy: Policy, position: int | None = None) -> list[float]:
    """The probability of each transformation, averaged over the positions, or at one of them (from 1)."""
    probabilities = policy.probabilities.detach()  # (K, N)
    if position is not None and not 1 <= position <= len(probabilities):
        raise ValueError(f"position: expected a number from 1 to {len(probabilities)}, got {position}")
    found = probabilities.mean(0) if position is None else probabilities[position - 1]
    values: list[float] = found.tolist()
    return values


def is_constant(policy: Policy) -> bool:
    """Whether all transformations are equally likely, so that none is the most or the least."""
    found = shares(policy)
    return len(found) > 1 and max(found) - min(found) < EQUAL


def entropy_share(policy: Policy) -> float:
    """How much of the uniform policy's entropy is left; all of it where there is one transformation."""
    highest = math.log(len(policy.space))
    return policy.entropy().mean().item() / highest if highest > 0 else 1.0


def position_words(position: int | None, n_positions: int) -> str:
    """Behind what is shown."""
    if position is not None:
        return f", at position {position} of {n_positions}"
    return f", averaged over {n_positions} positions" if n_positions > 1 else ""
