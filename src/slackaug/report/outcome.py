"""What the evaluations found, out of eval/results.json or study.json: the answer and the rows of a table."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from .. import schema
from ..augment.policy_file import placed
from ..files import read_note
from ..judge.candidates import digest
from ..judge.intervals import Accuracy, Interval
from ..judge.results import IMBALANCED, PolicyRow, points
from ..judge.studies.plan import Study
from ..judge.studies.results import StudyRow
from ..messages import answer, duration
from ..messages.names import LEARNED, meaning, spoken
from ..runs.folders import POLICY, is_start
from ..schema import expect
from .accuracies import Mark

T = TypeVar("T")
R = TypeVar("R")
Row = TypeVar("Row", PolicyRow, StudyRow)
BETTER = ("better", "ahead")  # verdicts
Columns = dict[str, Callable[[Row], object]]  # of a table: what a cell shows


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
    digests: Mapping[str, str] = {}  # of an evaluation's policies, by name
    epochs: int | None = None  # of each training of an evaluation, if it is known


class FitShown(NamedTuple):
    epochs: int


class ProtocolShown(NamedTuple):
    """What trainings have in common, as far as a page shows it."""

    fit: FitShown


class Evaluation(NamedTuple):
    """What results.json says."""

    answer: str
    policies: Sequence[PolicyRow]
    subject: str | None
    reference: str | None
    use: str | None = None
    verdict: str | None = None
    others: Sequence[str] = ()
    duplicates: int = 0
    imbalance: float | None = None
    digests: dict[str, str] | None = None  # of policies, by name
    protocol: ProtocolShown | None = None


class Summary(NamedTuple):
    """What study.json says."""

    answer: str
    rows: Sequence[StudyRow]
    learned: str | None
    use: str | None = None
    verdict: str | None = None
    others: Sequence[str] = ()
    duplicates: int = 0
    kept: str | None = None


def read(folder: Path) -> Outcome | None:
    """Of a study or of a run's eval/; None where nothing has been evaluated. Raises a PolicyError on foreign files."""
    if (path := folder / "study.json").is_file():
        return read_as(path, Summary, of_study)
    if (path := folder / "eval" / "results.json").is_file():
        return read_as(path, Evaluation, of_results)
    return None


def best_search(folder: Path, study: Study) -> tuple[int, float] | None:
    """Which search of a study, and how good its evaluations are on average; None until all have been evaluated."""
    path = folder / "eval" / "results.json"
    if study.n_search < 2 or not path.is_file():
        return None
    means = read_as(path, Evaluation, lambda found: {row.name: row.accuracy.mean for row in found.policies})
    names = [study.search_name(s) for s in range(study.n_search)]
    if not {*names} <= means.keys():
        return None
    best = max(range(study.n_search), key=lambda s: means[names[s]])
    return best, means[names[best]]


def read_as(path: Path, kind: type[T], reader: Callable[[T], R]) -> R:
    """What complaints about it say names the file."""
    document = schema.read_json(path)
    with placed(path):
        return reader(schema.record(document, "", kind))


def of_results(found: Evaluation) -> Outcome:
    columns: Columns[PolicyRow] = {
        "mean over classes": lambda row: row.balanced_accuracy,
        "time each": lambda row: duration(row.seconds),
    }
    if (found.imbalance or 0) < IMBALANCED:
        del columns["mean over classes"]
    return outcome(found, found.subject, found.reference, found.policies, columns)._replace(
        digests=found.digests or {}, epochs=None if found.protocol is None else found.protocol.fit.epochs
    )


def of_study(found: Summary) -> Outcome:
    columns: Columns[StudyRow] = {
        "over all evaluations, as the paper counts": lambda row: f"{(a := row.over_evaluations)} ({a.counted()})",
        "the paper": lambda row: "; ".join(map(str, row.paper)),
    }
    if not any(row.paper for row in found.rows):
        del columns["the paper"]
    made = outcome(found, found.learned, found.rows[0].name if found.rows else None, found.rows, columns)
    return made._replace(kept=(found.rows[-1].name, found.kept) if found.kept else None)


def outcome(
    found: Evaluation | Summary, subject: str | None, reference: str | None, rows: Sequence[Row], columns: Columns[Row]
) -> Outcome:
    expect(bool(rows), "rows", "at least one", rows)
    for accuracy in (one for row in rows for one in row if isinstance(one, Accuracy)):
        check(accuracy)
    tone = "open" if found.verdict not in BETTER else "better" if found.use == subject else "worse"
    cells = ([str(cell(row)) for cell in columns.values()] for row in rows)
    shown = [ResultRow(row.name, row.accuracy, row.difference, own) for row, own in zip(rows, cells, strict=True)]
    return Outcome(found.answer, tone, subject, reference, [*columns], shown, found.duplicates, found.others)


def check(found: Accuracy) -> None:
    """That its interval has both ends or none, holds the mean, and does not leave 0 to 1."""
    mean, low, high = found[:3]
    expect((low is None) == (high is None), "accuracy", "both ends of an interval, or neither", [low, high])
    expect(0 <= found.ends[0] <= mean <= found.ends[1] <= 1, "accuracy", "0 <= low <= mean <= high <= 1", [*found[:3]])


def with_own_names(found: Outcome, folder: Path) -> Outcome:
    """The policy of this very run is called what it is: in a folder `runs/pets` there may be a uniform policy. Its
    digest tells, for what was evaluated under that name may have been another, as that of an earlier round."""
    now = digest((folder / POLICY).read_bytes()) if (folder / POLICY).is_file() else ""
    of_this = [name for name in found.digests if Path(name).name == folder.resolve().name]
    names = {name: f"{name} (another policy than this run has now)" for name in of_this if found.digests[name] != now}
    names |= {name: own_name(folder) for name in [one for one in found.digests if found.digests[one] == now][:1]}
    if not names:
        return found
    whole = re.compile(rf"(^|\. )?(?<![\w/-])({'|'.join(map(re.escape, names))})(?![\w/-])")

    def renamed(text: str) -> str:
        def name(match: re.Match[str]) -> str:
            called, is_first = names[match[2]], match[1] is not None
            return (match[1] or "") + (answer.capital(called) if is_first and match[2] not in called else called)

        return whole.sub(name, text)

    return found._replace(
        subject=names.get(found.subject or "", found.subject),
        reference=names.get(found.reference or "", found.reference),
        answer=renamed(found.answer),
        others=[renamed(text) for text in found.others],
        rows=[row._replace(name=names.get(row.name, row.name)) for row in found.rows],
    )


def own_name(folder: Path) -> str:
    """What the policy of a run is: the answer of its search, or what it learned."""
    learned = read_note(folder / POLICY).get("learned")
    learned = learned if isinstance(learned, dict) else {}
    use = learned.get("use")
    if not isinstance(use, str) or learned.get("is_answer") is False:
        return "the policy that learning starts from" if is_start(learned) else spoken(LEARNED)
    if use.startswith(LEARNED):
        return spoken(use)
    so_far = " so far" if learned.get("is_final") is False else ""
    return f"the answer of this search{so_far} ({spoken(use)})"


def table(found: Outcome) -> tuple[list[str], list[list[str]]]:
    """Headers and rows."""
    has_differences = any(row.difference is not None for row in found.rows)
    to_reference = [f"to {found.reference}, points"] if has_differences else []
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
