"""The sentences that a user reads as information, progress and verdicts; errors stand beside their checks. Here are the
words that all of them use.

Functions take plain values and return plain English; each subject has a file. Accuracies and their differences are
shares, and become per cents and points here. A line that ends with a path or a command has no full stop: it can
be copied.
"""

from collections.abc import Sequence


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def counted(n: int, unit: str) -> str:
    """Such as `1 seed`, `4 searches` or `2 studies`."""
    if n != 1 and unit.endswith(("dy", "cy")):
        return f"{n:,} {unit[:-1]}ies"
    plural = "" if n == 1 else "es" if unit.endswith(("rch", "ss")) else "s"
    return f"{n:,} {unit}{plural}"


def listed(words: Sequence[str]) -> str:
    """Such as `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def on_grey(idle: Sequence[str]) -> str:
    """Of transformations that leave grey images as they are; nothing if there are none."""
    return (
        f"The policy was learned on grey images: {listed(idle)} {'do' if len(idle) > 1 else 'does'} nothing to them."
        if idle
        else ""
    )


def starts_from(path: str, new_classes: int | None, old_classes: int | None) -> str:
    """`new_classes`, of a last layer that is new, and `old_classes`, of that in the file, if it has one."""
    if new_classes is None:
        return f"The network starts from {path}"
    there = "" if old_classes is None else f" (the file has {old_classes})"
    return f"The network starts from {path}, but for its last layer, which is new: {new_classes} classes{there}."


def report(path: str) -> str:
    return f"The report is {path}"


def no_report(reason: str) -> str:
    return f"The report cannot be written ({reason}). Everything else is saved."


def results(*paths: str) -> str:
    return f"All results are in {listed(paths)}"
