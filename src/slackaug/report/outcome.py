"""What the evaluations found, out of eval/results.json or study.json: the answer and the rows of a table."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .. import messages, schema
from ..files import read_note
from ..judge.intervals import Accuracy, Interval, paired, verdict
from ..judge.results import IMBALANCED, points
from ..judge.studies.paper_tables import Figure
from ..messages import answer, duration
from ..runs.folders import POLICY
from ..schema import PolicyError, expect
from .accuracies import Mark

T = TypeVar("T")
LONGEST = 1000  # characters of a sentence
MAY_BE_MISSING = {"duplicates": 0, "others": [], "kept": None, "imbalance": None, "use": None}
MEANINGS = {  # for those who have not read the paper
    "none": "no transformations, at most the mirror flip",
    "default": "the usual crops, with Cutout or colour jitter",
    "uniform": "all transformations equally likely, as where a search starts",
    "uniform-no-invert-solarize": "equally likely, without Invert and Solarize",
    "trivialaugment": "one transformation an image, at a random strength",
    "randaugment": "several transformations an image, all at one fixed strength",
    "uniformaugment": "two transformations an image, at random strengths",
    "autoaugment": "the published policy for CIFAR-10 or ImageNet",
    "domainbed": "crops, colour jitter and grey images, as in DomainBed",
    "slack": "learned by the paper's Algorithm 1",
    "auto": "learned by slackaug for this data",
}


class ResultRow(NamedTuple):
    name: str
    accuracy: Accuracy
    difference: Interval | None
    cells: list[str]  # what else the table says of it, under Outcome.headers


class Outcome(NamedTuple):
    answer: str
    tone: str  # better, worse or open
    subject: str | None  # that the answer is about
    reference: str | None
    headers: list[str]
    rows: list[ResultRow]
    n_duplicates: int = 0
    others: Sequence[str] = ()  # verdicts on the same policy, against all but the reference
    kept: tuple[str, str] | None = None  # of a study: the row of the learned policy, and how many searches kept it


class Entry:
    """An object of the document; complaints about it say where it stands. What is missing is a KeyError."""

    def __init__(self, value: Any, where: str = ""):
        expect(isinstance(value, dict), where, "an object", value)
        self.value, self.where = value, where

    def read(self, key: str, reader: Callable[..., T], *bounds: Any) -> T:
        return reader(self.value[key], f"{self.where}.{key}".lstrip("."), *bounds)

    def read_or_null(self, key: str, reader: Callable[..., T], *bounds: Any) -> T | None:
        return None if self.value[key] is None else self.read(key, reader, *bounds)


def read(folder: Path) -> Outcome | None:
    """Of a study or of a run's eval/; None where nothing has been evaluated. Raises a PolicyError on foreign files."""
    for path, reader in ((folder / "study.json", of_study), (folder / "eval" / "results.json", of_results)):
        if path.is_file():
            return read_file(path, reader)
    return None


def read_file(path: Path, reader: Callable[[dict[str, Any]], T]) -> T:
    """What complaints about it say names the file."""
    document = schema.read_json(path)
    try:
        return reader(document)
    except KeyError as error:
        raise PolicyError(f"{path}: {error.args[0]} is missing; is it a file of slackaug?") from None
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from None


def of_results(content: dict[str, Any]) -> Outcome:
    document = Entry(MAY_BE_MISSING | content)
    rows, entries = [], document.read("policies", schema.sequence, Entry)
    by_class = (document.read_or_null("imbalance", schema.number) or 0) >= IMBALANCED
    for entry in entries:
        cells = [str(entry.read("balanced_accuracy", read_accuracy))] if by_class else []
        cells.append(f"{entry.read('images_per_second', schema.number, 0):,.0f}")
        rows.append(read_row(entry, [*cells, duration(entry.read("seconds", schema.number, 0))]))
    headers = [*(["mean over classes"] if by_class else []), "images/s", "time of a training"]
    subject, reference = (document.read_or_null(key, schema.string) for key in ("subject", "reference"))
    found = outcome(document, subject, reference, headers, rows)
    return found._replace(others=other_verdicts(found, entries))


def other_verdicts(found: Outcome, entries: list[Entry]) -> list[str]:
    """What the policy is against the others: who is worse than none may still be better than uniform."""
    accuracies = {entry.value["name"]: dict(entry.read("trials", schema.sequence, read_trial, 0)) for entry in entries}
    subject = found.subject
    if subject is None or subject not in accuracies or found.reference is None:
        return []
    others = [name for name in accuracies if name not in (subject, found.reference)]
    pairs = [(name, paired(accuracies[subject], accuracies[name])) for name in others]
    return [verdict(subject, name, difference) for name, difference in pairs if difference is not None]


def of_study(content: dict[str, Any]) -> Outcome:
    document = Entry(MAY_BE_MISSING | content)
    rows, entries = [], document.read("rows", schema.sequence, Entry)
    has_paper = any(entry.value["paper"] for entry in entries)
    for entry in entries:
        over = entry.read("over_evaluations", read_accuracy)
        figures = "; ".join(map(str, entry.read("paper", schema.sequence, read_figure, 0))) if has_paper else ""
        rows.append(read_row(entry, [f"{over} ({over.counted()})", *([figures] if has_paper else [])]))
    headers = ["over all evaluations, as the paper counts", *(["the paper"] if has_paper else [])]
    found = outcome(document, document.read_or_null("learned", schema.string), rows[0].name, headers, rows)
    kept = document.read_or_null("kept", schema.string, LONGEST)
    return found._replace(
        kept=None if kept is None else (rows[-1].name, kept),
        others=document.read("others", schema.sequence, partial(schema.string, most=LONGEST), 0),
    )


def outcome(
    document: Entry, subject: str | None, reference: str | None, headers: list[str], rows: list[ResultRow]
) -> Outcome:
    sentence, use = document.read("answer", schema.string, LONGEST), document.read_or_null("use", schema.string)
    is_worse = use is not None and any(
        one.difference and one.difference.mean < 0 for one in rows if one.name == subject
    )
    tone = "better" if subject is not None and use == subject else "worse" if is_worse else "open"
    n_duplicates = document.read("duplicates", schema.integer, 0, 10**12)
    return Outcome(sentence, tone, subject, reference, headers, rows, n_duplicates)


def read_row(entry: Entry, cells: list[str]) -> ResultRow:
    difference = entry.read_or_null("difference", read_interval)
    return ResultRow(entry.read("name", schema.string), entry.read("accuracy", read_accuracy), difference, cells)


def read_interval(value: Any, where: str) -> Interval:
    entry = Entry(value, where)
    mean, half_width = entry.read("mean", schema.number), entry.read_or_null("half_width", schema.number, 0)
    return Interval(mean, half_width, entry.read("n", schema.integer, 1, 10**9), entry.read("unit", schema.string))


def read_accuracy(value: Any, where: str) -> Accuracy:
    entry = Entry(value, where)
    mean = entry.read("mean", schema.number, 0, 1)
    low, high = entry.read_or_null("low", schema.number, 0, mean), entry.read_or_null("high", schema.number, mean, 1)
    expect((low is None) == (high is None), where, "both ends of an interval, or neither", value)
    return Accuracy(mean, low, high, entry.read("n", schema.integer, 1, 10**9), entry.read("unit", schema.string))


def read_figure(value: Any, where: str) -> Figure:
    entry = Entry(value, where)
    return Figure(entry.read("accuracy", schema.number), entry.read_or_null("half_width", schema.number))


def read_trial(value: Any, where: str) -> tuple[int, float]:
    """Seed and accuracy."""
    entry = Entry(value, where)
    return entry.read("seed", schema.integer, 0, 2**63), entry.read("accuracy", schema.number)


def with_own_name(found: Outcome, folder: Path) -> Outcome:
    """The policy of this very run is called what it is: in a folder `runs/pets` there may be a uniform policy."""
    name, learned = found.subject, read_note(folder / POLICY).get("learned")
    if name is None or Path(name).name != folder.resolve().name or meaning(name) or not isinstance(learned, dict):
        return found
    use = learned.get("use")
    own = answer.spoken(answer.LEARNED)
    if isinstance(use, str) and learned.get("is_answer") is not False:
        is_learned = use.startswith(answer.LEARNED)
        own = answer.spoken(use) if is_learned else f"the answer of this search ({answer.spoken(use)})"
    whole = re.compile(rf"(?<![\w/-]){re.escape(name)}(?![\w/-])")

    def renamed(text: str) -> str:
        return answer.capital(whole.sub(lambda _: own, text))

    return found._replace(
        subject=own,
        reference=own if found.reference == name else found.reference,
        answer=renamed(found.answer),
        others=[renamed(text) for text in found.others],
        rows=[row._replace(name=own) if row.name == name else row for row in found.rows],
    )


def table(found: Outcome) -> tuple[list[str], list[list[str]]]:
    """Headers and rows."""
    to_reference = [f"to {found.reference}, points"] if found.reference is not None else []
    headers = ["policy", "accuracy, 95 % interval", *to_reference, "n", *found.headers]
    rows = []
    for row in found.rows:
        difference = [points(row.difference)] if to_reference else []
        rows.append([row.name, str(row.accuracy), *difference, row.accuracy.counted(), *row.cells])
    return headers, rows


def marks(found: Outcome) -> list[Mark]:
    return [Mark(row.name, row.accuracy, kind="out" if row.name == found.reference else "first") for row in found.rows]


def meanings(found: Outcome) -> list[tuple[str, str]]:
    """What the names in the table stand for, as far as they are ours."""
    return [(row.name, text) for row in found.rows if (text := meaning(row.name))]


def meaning(name: str) -> str:
    """Of `uniform`, or of a kind with its variant: `trivialaugment-wide`, `slack (paper)`."""
    kinds = (kind for kind in ("trivialaugment", "randaugment", "slack") if name.startswith((f"{kind}-", f"{kind} (")))
    found = MEANINGS.get(name) or next((MEANINGS[kind] for kind in kinds), "")
    return found or (messages.augmentation(name) if name.startswith("uniform-") else "")
