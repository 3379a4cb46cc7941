"""What to make of a difference: sentences about two candidates, and which of them to use."""

from collections.abc import Mapping
from typing import NamedTuple

from ..messages import answer as answers
from ..messages import comparing
from .intervals import LEAST, Interval, t_factor


class Judgement(NamedTuple):
    sentence: str
    use: str | None  # None: no measurable difference


def answer(subject: str, reference: str, difference: Interval | None, worth: float = 0.0) -> Judgement:
    """What to use of the two: `difference` is that of the subject; `worth`, in points, is what matters in practice."""
    if difference is None or (half_width := width_to_judge_by(difference)) is None:
        return Judgement(without_interval(subject, reference, difference), None)
    gain, low, high = (100 * (difference.mean + sign * half_width) for sign in (0, -1, 1))
    if max(-low, high) <= worth:
        return Judgement(answers.equal(reference, subject, gain, low, high, worth), reference)
    if low <= 0 <= high:
        return Judgement(answers.no_difference(subject, reference, gain, low, high), None)
    if gain > 0:
        return Judgement(answers.better(subject, reference, gain, low, high), subject)
    return Judgement(answers.better(reference, subject, -gain, -high, -low), reference)


def verdict(name: str, baseline: str, difference: Interval) -> str:
    """One plain sentence about `name` minus `baseline`, beside an answer about others."""
    if (half_width := width_to_judge_by(difference)) is None:
        return without_interval(name, baseline, difference)
    says = comparing.no_difference if abs(difference.mean) <= half_width else comparing.differs
    return says(name, baseline, difference.mean, half_width, difference.counted())


def width_to_judge_by(difference: Interval) -> float | None:
    """Half of it; None where there are too few values, or all are equal."""
    return difference.half_width if difference.n >= LEAST and difference.has_spread else None


def without_interval(name: str, baseline: str, difference: Interval | None) -> str:
    if difference is None:
        return comparing.no_common_seed(name, baseline)
    if difference.n < LEAST:
        return comparing.too_few(name, baseline, difference.n, difference.unit, LEAST)
    return comparing.no_spread(name, baseline, difference.mean, difference.counted())


def better_still(used: str, differences: Mapping[str, Interval | None]) -> str:
    """A warning where one of the others, given less what is used, is better; corrected for how many there are."""
    found = []
    for name, difference in differences.items():
        if difference is not None and (half_width := width_to_judge_by(difference)) is not None:
            reach = half_width * t_factor(difference.n, len(differences)) / t_factor(difference.n)
            found.append((difference.mean - reach, difference.mean + reach, difference.mean, name))
    low, high, gain, name = max(found, default=(0.0, 0.0, 0.0, ""))
    return f" {answers.better_still(name, used, 100 * gain, 100 * low, 100 * high)}" if low > 0 else ""
