"""What was found about several policies: files, a table and one plain sentence."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from .. import __version__, messages
from ..config import parse
from ..files import write_atomically
from ..runs import provenance
from . import intervals
from .intervals import Interval, interval, paired
from .training import Protocol

# of results.csv
COLUMNS = ("policy", "seed", "accuracy", "top5", "ece", "loss", "seconds", "images_per_second", "balanced_accuracy")
IMBALANCED = 3.0  # tested images of a class for each of another: from then on the mean over classes is shown, too
NAME_WIDTH = 11  # of a policy, at least, and of the reference in a narrow table, at most
NARROW, WIDE = 80, 100  # columns


class PolicyRow(NamedTuple):
    """One policy."""

    name: str
    trials: list[dict[str, Any]]  # as the result files have them, one for each seed
    accuracy: Interval
    difference: Interval | None  # to the first baseline, by seed; None for itself, and where they share no seed (yet)

    @property
    def accuracies(self) -> dict[int, float]:
        return by_seed(self.trials)

    @property
    def balanced_accuracy(self) -> Interval:
        """The mean over classes."""
        return interval([one["balanced_accuracy"] for one in self.trials])

    @property
    def seconds(self) -> float:
        return mean([found["seconds"] for found in self.trials])

    @property
    def images_per_second(self) -> float:
        return mean([found["images_per_second"] for found in self.trials])


class Results(NamedTuple):
    protocol: Protocol
    class_names: tuple[str, ...]
    reference: str | None  # the first baseline
    rows: list[PolicyRow]
    verdict: str
    remarks: dict[str, Any]  # what else was found: duplicates, a grid

    @property
    def imbalance(self) -> float | None:
        """How much larger the largest class of the test set is than the smallest."""
        return max((one["imbalance"] for row in self.rows for one in row.trials), default=None)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def by_seed(trials: Sequence[dict[str, Any]]) -> dict[int, float]:
    return {found["seed"]: found["accuracy"] for found in trials}


def make_rows(found: dict[str, list[dict[str, Any]]], reference: str | None) -> list[PolicyRow]:
    """Of the trials by policy, in order; a policy without a finished trial has no row yet."""
    rows = []
    base = by_seed(found.get(reference, [])) if reference is not None else {}
    for name, trials in found.items():
        if trials:
            accuracy = by_seed(trials)
            difference = paired(accuracy, base) if name != reference else None
            rows.append(PolicyRow(name, trials, interval(list(accuracy.values())), difference))
    return rows


def judge(rows: Sequence[PolicyRow], subject: str | None, reference: str | None) -> str:
    """The sentence about `subject`."""
    found = {row.name: row for row in rows}
    if subject is None or reference is None or subject == reference or not {subject, reference} <= found.keys():
        return messages.NOTHING_TO_COMPARE
    return intervals.verdict(subject, reference, found[subject].difference)


def reservations(rows: Sequence[PolicyRow], n_test: int, n_duplicates: int) -> str:
    """What the sentence must not hide."""
    found = [messages.copies(n_duplicates, n_test)] if n_duplicates else []
    ways = sorted({trial["way"] for row in rows for trial in row.trials if "way" in trial})
    if len(ways) > 1:
        found.append(messages.different_ways(ways))
    return "".join(f" {text}" for text in found)


# --- files ------------------------------------------------------------------------------------------------------------


def as_dict(found: Interval | None) -> dict[str, Any] | None:
    return None if found is None else found._asdict()


def to_json(results: Results) -> str:
    document = {
        "schema_version": 1,
        "library_version": __version__,
        "protocol": parse.to_dict(results.protocol),
        "environment": provenance.environment(),
        "class_names": list(results.class_names),
        "reference": results.reference,
        "verdict": results.verdict,
        "imbalance": results.imbalance,
        **results.remarks,
        "policies": [
            {
                "name": row.name,
                "accuracy": as_dict(row.accuracy),
                "balanced_accuracy": as_dict(row.balanced_accuracy),
                "difference": as_dict(row.difference),
                "seconds": row.seconds,
                "images_per_second": row.images_per_second,
                "trials": row.trials,
            }
            for row in results.rows
        ],
    }
    return json.dumps(document, indent=1)


def to_csv(results: Results) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in results.rows:
        for found in row.trials:
            writer.writerow({"policy": row.name} | found)
    return text.getvalue()


def write(results: Results, folder: Path) -> None:
    write_atomically(folder / "results.csv", to_csv(results).encode())
    write_atomically(folder / "results.json", to_json(results).encode())


# --- the terminal -----------------------------------------------------------------------------------------------------


def points(difference: Interval | None) -> str:
    """A difference in percentage points, with its interval where one can be given."""
    if difference is None:
        return ""
    around = f" ± {100 * (difference.half_width or 0.0):.2f}" if difference.has_spread else ""
    return f"{100 * difference.mean:+z.2f}{around}"


def percent(share: Interval) -> str:
    """A share with its interval, shorter than str() of it."""
    around = "" if share.half_width is None else f" ± {100 * share.half_width:.2f}"
    return f"{100 * share.mean:.2f}{around} %"


def table(results: Results, width: int = NARROW) -> Table:
    """Fits 80 columns; so the mean over classes takes the place of speed and time, which the files have."""
    reference = results.reference or ""
    if width < WIDE and len(reference) > NAME_WIDTH:
        reference = f"{reference[: NAME_WIDTH - 1]}…"
    columns: dict[str, Callable[[PolicyRow], str]] = {
        "accuracy,\n95 % interval": lambda row: str(row.accuracy),
        "n": lambda row: str(row.accuracy.n),
        f"to {reference},\nby seed" if reference else "": lambda row: points(row.difference),
    }
    if (results.imbalance or 0.0) >= IMBALANCED:
        columns["mean over\nclasses"] = lambda row: percent(row.balanced_accuracy)
    else:
        columns["images/s"] = lambda row: f"{row.images_per_second:,.0f}"
        columns["time of\na training"] = lambda row: messages.duration(row.seconds)
    shown = Table()
    shown.add_column("policy", overflow="fold", min_width=NAME_WIDTH)
    for header in columns:
        shown.add_column(Text(header), justify="right", no_wrap=True)
    for row in results.rows:
        shown.add_row(Text(row.name), *(cell(row) for cell in columns.values()))
    return shown
