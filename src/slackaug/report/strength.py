"""What a bound mu means: the family of a transformation, and its strengths in units that people know."""

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
UNITS = {  # of a range: by what its numbers are multiplied, how they are written, and what stands behind them
    "degrees": (1, ".3g", "°"),
    "of circle": (360, ".3g", "°"),
    "of area": (100, ".0f", " % of the area"),
    "bits": (1, ".0f", " bits"),
    "of width": (100, ".0f", " % of width"),
    "of height": (100, ".0f", " % of height"),
    "of size": (100, ".0f", " % of size"),
}
SIDES = {"of height": 0, "of width": 1, "of size": 1}  # which of height and width such a range is a share of
EQUAL = 1e-9  # difference of probabilities that is rounding
FAMILY = {name: family for family, names in FAMILIES.items() for name in names.split()}


def family(name: str) -> str:
    return FAMILY.get(name, "own")


def by_family(names: list[str]) -> list[int]:
    """The order in which the transformations of a family are neighbours."""
    order = list(FAMILIES)
    return sorted(range(len(names)), key=lambda n: (order.index(family(names[n])), n))


def bounds_text(transform: Transform, mu: float, image_size: tuple[int, int] | None = None) -> str:
    """The strengths that magnitudes from 0 to mu give; in pixels, given the images' height and width."""
    if transform.span is None:
        return "no magnitude"
    unit, (start, end) = transform.unit, transform.span
    reached = start + (end - start) * min(max(mu, 0.0), 1.0)
    if unit == "on factor 1":
        low, high = (-abs(reached), abs(reached)) if transform.signed else (start, reached)
        return f"factor {1 + low:.2f} to {1 + high:.2f}"
    if unit == "threshold":
        return f"threshold {start:.0f} to {reached:.0f}"
    if unit not in UNITS:
        return range_text(transform, mu)
    factor, form, behind = UNITS[unit]
    if unit in SIDES and image_size is not None:
        factor, behind = image_size[SIDES[unit]], " px"
    begin = f"{factor * start:{form}} to" if start else "up to"
    return f"{begin} {'±' if transform.signed else ''}{factor * reached:{form}}{behind}"


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
