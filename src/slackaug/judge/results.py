"""What was found about several policies: files, a table and one plain sentence."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import __version__, messages
from ..augment.display import displayed
from ..config import parse
from ..files import write_atomically
from ..messages import comparing
from ..messages.answer import smallest_gain
from ..messages.terminal import ENDLESS
from ..runs import provenance
from . import verdicts
from .intervals import LEAST, Accuracy, Interval, accuracy, paired
from .protocols import Protocol
from .verdicts import Case, Judgement, Terms

# of results.csv
COLUMNS = ("policy", "seed", "accuracy", "top5", "ece", "loss", "seconds", "images_per_second", "balanced_accuracy")
IMBALANCED = 3.0  # tested images of a class for each of another: from then on the mean over classes is shown, too
SHOWN = (Case.BETTER.value, Case.AHEAD.value, Case.EQUAL.value)  # by an interval
NAME_WIDTH = 11  # of a policy, at least, and of the reference in a narrow table, at most
NARROW, WIDE = 80, 100  # columns
LEAN: dict[str, Any] = {"box": None, "padding": (0, 2, 0, 0), "pad_edge": False}  # a look that leaves room for names


class PolicyRow(NamedTuple):
    """One policy, as results.json has it; a trial is what the file of a training has, one for each seed."""

    name: str
    accuracy: Accuracy
    balanced_accuracy: Accuracy  # the mean over classes
    difference: Interval | None  # to the first baseline, by seed; None for itself, and where they share no seed (yet)
    seconds: float  # of a training
    images_per_second: float
    trials: list[dict[str, Any]]

    @property
    def accuracies(self) -> dict[int, float]:
        return by_seed(self.trials)


@displayed
class Results(NamedTuple):
    protocol: Protocol
    class_names: tuple[str, ...]
    subject: str | None  # that the answer is about: the first policy
    reference: str | None  # that it is compared with: the first baseline
    rows: list[PolicyRow]
    answer: str
    use: str | None  # of these two; None: no answer
    verdict: str | None  # better, ahead, equal, unknown or guessing; None: nothing to compare
    others: Sequence[str]  # verdicts on the same policy, against all baselines but the first
    remarks: dict[str, Any]  # what else was found: duplicates, a grid

    def __repr__(self) -> str:
        return f"Results({self.answer!r})"

    @property
    def imbalance(self) -> float | None:
        """How much larger the largest class of the test set is than the smallest."""
        return max((one["imbalance"] for row in self.rows for one in row.trials), default=None)


def by_seed(trials: Sequence[dict[str, Any]]) -> dict[int, float]:
    return {one["seed"]: one["accuracy"] for one in trials}


def make_rows(found: dict[str, list[dict[str, Any]]], reference: str | None) -> list[PolicyRow]:
    """Make a row for each policy, in order; one without a finished trial has no row yet."""
    base = by_seed(found.get(reference, [])) if reference is not None else {}
    rows = []
    for name, trials in found.items():
        if trials:
            names = "accuracy", "balanced_accuracy", "seconds", "images_per_second"
            shares, balanced, seconds, speed = ([one[key] for one in trials] for key in names)
            difference = paired(by_seed(trials), base) if name != reference else None
            means = fmean(seconds), fmean(speed)
            rows.append(PolicyRow(name, accuracy(shares), accuracy(balanced), difference, *means, trials))
    return rows


def judge(rows: Sequence[PolicyRow], subject: str | None, reference: str | None, terms: Terms) -> Judgement:
    """What to use of the two, and whether another row is better than that."""
    found = {row.name: row for row in rows}
    if subject is None or reference is None or subject == reference or not {subject, reference} <= found.keys():
        return Judgement(comparing.NOTHING_TO_COMPARE)
    gains = {row.name: paired(found[subject].accuracies, row.accuracies) for row in rows if row.name != subject}
    scores = [(row.accuracy.mean, row.accuracy.n * terms.n_images) for row in rows]
    judged = verdicts.judge(subject, reference, gains, scores, terms)
    if judged.use is None:
        return judged
    used, others = found[judged.use], [row for row in rows if row.name not in (subject, reference)]
    better = verdicts.better_still(used.name, {row.name: paired(row.accuracies, used.accuracies) for row in others})
    return judged._replace(answer=judged.answer + better)


def seen(difference: Interval | None, verdict: str | None) -> list[str]:
    """The smallest gain that could have been; nothing where there is no answer, or where the answer says it."""
    if difference is None or verdict not in SHOWN:
        return []
    return [smallest_gain(*verdicts.points(difference)[1:])]


def reservations(rows: Sequence[PolicyRow], n_test: int, n_duplicates: int) -> str:
    """What the sentence must not hide."""
    found = [comparing.copies(n_duplicates, n_test)] if n_duplicates else []
    ways = sorted({trial["way"] for row in rows for trial in row.trials if "way" in trial})
    if len(ways) > 1:
        found.append(comparing.different_ways(ways))
    return "".join(f" {text}" for text in found)


# --- files ------------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """What JSON can hold: a named tuple becomes an object of its fields."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def to_json(**found: Any) -> str:
    """Add the version and the machine that found it."""
    about = {"schema_version": 1, "library_version": __version__, "environment": provenance.environment()}
    return json.dumps(about | plain(found), indent=1)


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
    protocol, rows = parse.to_dict(results.protocol), results.rows
    names = "answer", "use", "verdict", "others", "subject", "reference", "class_names", "imbalance"
    found = {name: getattr(results, name) for name in names}
    text = to_json(**found, protocol=protocol, policies=rows, **results.remarks)
    write_atomically(folder / "results.json", text.encode())


# --- the terminal -----------------------------------------------------------------------------------------------------


def points(difference: Interval | None) -> str:
    """A difference in percentage points, with its interval where one can be given."""
    if difference is None:
        return ""
    around = f" ± {100 * (difference.half_width or 0.0):.2f}" if difference.has_spread else "\n(all equal)"
    return f"{100 * difference.mean:+z.2f}{around if difference.n >= LEAST else ''}"


def table(results: Results, width: int = NARROW) -> Table:
    """Fits 80 columns; so the mean over classes takes the place of the time, and the files have the speed."""
    reference, is_uneven = results.reference or "", (results.imbalance or 0.0) >= IMBALANCED
    if width < WIDE and len(reference) > NAME_WIDTH:
        reference = f"{reference[: NAME_WIDTH - 1]}…"
    headers = ["accuracy\n(95 % interval)", "n", f"to {reference},\nby seed" if reference else ""]
    headers += ["mean over\nclasses" if is_uneven else "time of\na training"]
    rows = []
    for row in results.rows:
        rest = f"{100 * row.balanced_accuracy.mean:.2f} %" if is_uneven else messages.duration(row.seconds)
        rows.append([row.name, str(row.accuracy), str(row.accuracy.n), points(row.difference), rest])
    if width < NARROW:
        return make_table(headers[:-1], [row[:-1] for row in rows], **LEAN)
    boxed, lean = make_table(headers, rows), make_table(headers, rows, **LEAN)
    return lean if natural_width(lean) <= width < natural_width(boxed) else boxed


def natural_width(shown: Table) -> int:
    """Without a name that is split."""
    return Console(width=ENDLESS).measure(shown).maximum


def make_table(headers: Sequence[str], rows: Sequence[Sequence[str]], **look: Any) -> Table:
    """Each row is of the policy that it begins with. Names are no markup."""
    shown = Table(**look)
    shown.add_column("policy", overflow="fold", min_width=NAME_WIDTH)
    for header in headers:
        shown.add_column(Text(header), justify="right", no_wrap=True)
    for name, *cells in rows:
        shown.add_row(Text(name), *cells)
    return shown
