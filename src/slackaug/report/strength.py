"""What a bound mu means: the family of a transformation, and its strengths in units that people know."""

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
WORDS = {"crop": "crop, cutout", "own": "your own"}  # where the name is not enough
EQUAL = 1e-9  # difference of probabilities that is rounding
FAMILY = {name: family for family, names in FAMILIES.items() for name in names.split()}


def family(name: str) -> str:
    return FAMILY.get(name, "own")


def family_words(name: str) -> str:
    return WORDS.get(name, name)


def by_family(names: list[str]) -> list[int]:
    """The order in which the transformations of a family are neighbours."""
    order = list(FAMILIES)
    return sorted(range(len(names)), key=lambda n: (order.index(family(names[n])), n))


def bounds_text(transform: Transform, mu: float, image_size: tuple[int, int] | None = None) -> str:
    """The strengths that magnitudes from 0 to mu give; in pixels, given the images' height and width."""
    if transform.span is None:
        return "no magnitude"
    start, end = transform.span
    reached = start + (end - start) * min(max(mu, 0.0), 1.0)
    match transform.unit:
        case "degrees":
            return span_text(transform, start, reached, "°")
        case "of circle":
            return span_text(transform, 360 * start, 360 * reached, "°")
        case "on factor 1":
            return factor_text(transform, start, reached)
        case "of area":
            return f"{100 * start:.0f} to {100 * reached:.0f} % of the area"
        case "bits":
            return f"{round(start)} to {round(reached)} bits"
        case "threshold":
            return f"threshold {start:.0f} to {reached:.0f}"
        case "of width" | "of height" | "of size" if image_size is not None:
            side = image_size[0] if transform.unit == "of height" else image_size[1]
            return span_text(transform, start * side, reached * side, " px", ".0f")
        case "of width" | "of height" | "of size":
            return span_text(transform, 100 * start, 100 * reached, f" % {transform.unit}", ".0f")
    return range_text(transform, mu)


def span_text(transform: Transform, start: float, reached: float, unit: str, form: str = ".3g") -> str:
    sign = "±" if transform.signed else ""
    begin = f"{start:{form}} to" if start else "up to"
    return f"{begin} {sign}{reached:{form}}{unit}"


def factor_text(transform: Transform, start: float, reached: float) -> str:
    if transform.signed:
        return f"factor {1 - abs(reached):.2f} to {1 + abs(reached):.2f}"
    return f"factor {1 + start:.2f} to {1 + reached:.2f}"


def shares(policy: Policy, position: int | None = None) -> list[float]:
    """The probability of each transformation, averaged over the positions, or at one of them (from 1)."""
    probabilities = policy.probabilities.detach()  # (K, N)
    check_position(position, len(probabilities))
    found = probabilities.mean(0) if position is None else probabilities[position - 1]
    values: list[float] = found.tolist()
    return values


def is_constant(policy: Policy) -> bool:
    """Whether all transformations are equally likely, so that none is the most or the least."""
    found = shares(policy)
    return len(found) > 1 and max(found) - min(found) < EQUAL


def check_position(position: int | None, n_positions: int) -> None:
    if position is not None and not 1 <= position <= n_positions:
        raise ValueError(f"position: expected a number from 1 to {n_positions}, got {position}")


def position_words(position: int | None, n_positions: int) -> str:
    if position is not None:
        return f"at position {position} of {n_positions}"
    return f"averaged over {n_positions} positions" if n_positions > 1 else ""
