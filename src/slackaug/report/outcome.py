"""What the evaluations found, out of eval/results.json or study.json: the verdict and the rows of a table."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from .. import schema
from ..judge.intervals import Interval, paired, verdict
from ..judge.results import IMBALANCED, percent, points
from ..judge.studies.paper_tables import Figure
from ..messages import duration
from ..schema import PolicyError, expect
from .geometry import ticks

TONES = ("better", "worse")
LONGEST = 1000  # characters of a sentence
STABILITY = {
    "pi": "probabilities",
    "pi_rest": "probabilities, without Invert and Solarize",
    "mu": "magnitude bounds",
    "mu_rest": "magnitude bounds, without Solarize",
}
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
    accuracy: Interval
    difference: Interval | None
    cells: list[str]  # what else the table says of it, under Outcome.headers


class Outcome(NamedTuple):
    verdict: str
    tone: str  # better, worse or open
    reference: str | None
    headers: list[str]
    rows: list[ResultRow]
    n_duplicates: int = 0
    stability: list[tuple[str, str]] = []  # noqa: RUF012  # a tuple's default, never changed
    others: list[str] = []  # noqa: RUF012  # verdicts on the same policy, against all but the reference
    kept: tuple[str, str] | None = None  # of a study: the row of the learned policy, and how many searches kept it


def read(folder: Path) -> Outcome | None:
    """Of a study or of a run's eval/; None where nothing has been evaluated. Raises a PolicyError on foreign files."""
    for path, reader in ((folder / "study.json", of_study), (folder / "eval" / "results.json", of_results)):
        if path.is_file():
            try:
                document = schema.read_json(path)
                return reader(document)
            except KeyError as error:
                raise PolicyError(f"{path}: {error.args[0]} is missing; is it a file of slackaug?") from None
            except PolicyError as error:
                raise PolicyError(f"{path}: {error}") from None
    return None


def of_results(document: Mapping[str, Any]) -> Outcome:
    rows, imbalance = [], document.get("imbalance")
    by_class = imbalance is not None and schema.number(imbalance, "imbalance") >= IMBALANCED
    for i, entry in enumerate(entries(document, "policies")):
        where = f"policies[{i}]"
        speed, seconds = (
            schema.number(entry[key], f"{where}.{key}", low=0) for key in ("images_per_second", "seconds")
        )
        cells = [f"{speed:,.0f}", duration(seconds)]
        if by_class:
            cells.insert(0, percent(read_interval(entry["balanced_accuracy"], f"{where}.balanced_accuracy")))
        rows.append(read_row(entry, where, cells))
    reference = document["reference"]
    reference = None if reference is None else schema.string(reference, "reference")
    headers = [*(["mean over classes"] if by_class else []), "images/s", "time of a training"]
    found = outcome(document, reference, headers, rows)
    return found._replace(others=other_verdicts(found, document))


def other_verdicts(found: Outcome, document: Mapping[str, Any]) -> list[str]:
    """What the verdict's policy is against the others: who is worse than none may still be better than uniform."""
    subjects = [row.name for row in found.rows if found.verdict.startswith(f"{row.name} ")]
    if not subjects:
        return []
    accuracies = {}
    for i, entry in enumerate(entries(document, "policies")):
        accuracies[entry["name"]] = dict(schema.sequence(entry["trials"], f"policies[{i}].trials", read_trial, 0))
    subject = max(subjects, key=len)  # of which another name may be the beginning
    others = [name for name in accuracies if name not in (subject, found.reference)]
    pairs = [(name, paired(accuracies[subject], accuracies[name])) for name in others]
    return [verdict(subject, name, difference) for name, difference in pairs if difference is not None]


def read_trial(value: Any, where: str) -> tuple[int, float]:
    """Seed and accuracy."""
    seed = schema.integer(as_object(value, where)["seed"], f"{where}.seed", 0, 2**63)
    return seed, schema.number(value["accuracy"], f"{where}.accuracy")


def of_study(document: Mapping[str, Any]) -> Outcome:
    rows = []
    found = entries(document, "rows")
    has_paper = any(entry["paper"] for entry in found)
    for i, entry in enumerate(found):
        where = f"rows[{i}]"
        over = read_interval(entry["over_evaluations"], f"{where}.over_evaluations")
        cells = [f"{over} ({over.counted()})"]
        if has_paper:
            cells.append("; ".join(str(figure) for figure in read_figures(entry["paper"], f"{where}.paper")))
        rows.append(read_row(entry, where, cells))
    headers = ["over all evaluations, as the paper counts", *(["the paper"] if has_paper else [])]
    others = schema.sequence(document.get("others", []), "others", partial(schema.string, most=LONGEST), 0)
    final = outcome(document, rows[0].name, headers, rows)
    kept = document.get("kept")
    if kept is not None:
        expect(isinstance(kept, str) and len(kept) <= LONGEST, "kept", "a sentence, or null", kept)
        final = final._replace(kept=(rows[-1].name, kept))
    return final._replace(stability=read_stability(document["stability"]), others=others)


def outcome(document: Mapping[str, Any], reference: str | None, headers: list[str], rows: list[ResultRow]) -> Outcome:
    sentence = schema.string(document["verdict"], "verdict", LONGEST)
    n_duplicates = schema.integer(document.get("duplicates", 0), "duplicates", 0, 10**12)
    return Outcome(sentence, tone(sentence, rows), reference, headers, rows, n_duplicates)


def tone(sentence: str, rows: list[ResultRow]) -> str:
    """For the colour. Names in the sentence are a user's, so the words of the verdict are looked for behind them."""
    found = [word for row in rows for word in TONES if sentence.startswith(f"{row.name} is {word} than ")]
    return found[0] if found else "open"


def entries(document: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    return schema.sequence(document[key], key, as_object)


def as_object(value: Any, where: str) -> dict[str, Any]:
    expect(isinstance(value, dict), where, "an object", value)
    found: dict[str, Any] = value
    return found


def read_row(entry: dict[str, Any], where: str, cells: list[str]) -> ResultRow:
    difference = entry["difference"]
    return ResultRow(
        schema.string(entry["name"], f"{where}.name"),
        read_interval(entry["accuracy"], f"{where}.accuracy"),
        None if difference is None else read_interval(difference, f"{where}.difference"),
        cells,
    )


def read_interval(value: Any, where: str) -> Interval:
    half_width = as_object(value, where)["half_width"]
    return Interval(
        schema.number(value["mean"], f"{where}.mean"),
        None if half_width is None else schema.number(half_width, f"{where}.half_width", 0),
        schema.integer(value["n"], f"{where}.n", 1, 10**9),
        schema.string(value["unit"], f"{where}.unit"),
    )


def read_figures(value: Any, where: str) -> list[Figure]:
    def figure(value: Any, where: str) -> Figure:
        half_width = as_object(value, where)["half_width"]
        width = None if half_width is None else schema.number(half_width, f"{where}.half_width")
        return Figure(schema.number(value["accuracy"], f"{where}.accuracy"), width)

    return schema.sequence(value, where, figure, 0)


def read_stability(value: Any) -> list[tuple[str, str]]:
    """What each number means, and the number."""
    if value is None:
        return []
    rows = []
    for key, text in STABILITY.items():
        found = as_object(value, "stability")[key]
        rows.append((text, "undefined" if found is None else f"{schema.number(found, f'stability.{key}'):.2f}"))
    share = value["entropy_share"]
    of_highest = "" if share is None else f", {schema.number(share, 'stability.entropy_share'):.1%} of the highest"
    rows.append(("entropy", f"{schema.number(value['entropy'], 'stability.entropy'):.3f} nats{of_highest}"))
    return rows


def table(found: Outcome) -> tuple[list[str], list[list[str]]]:
    """Headers and rows."""
    to_reference = [f"to {found.reference}, points"] if found.reference is not None else []
    headers = ["policy", "accuracy, 95 % interval", *to_reference, "n", *found.headers]
    rows = []
    for row in found.rows:
        difference = [points(row.difference)] if to_reference else []
        rows.append([row.name, str(row.accuracy), *difference, row.accuracy.counted(), *row.cells])
    return headers, rows


def meanings(found: Outcome) -> list[tuple[str, str]]:
    """What the names in the table stand for, as far as they are ours."""
    return [(row.name, text) for row in found.rows if (text := meaning(row.name))]


def meaning(name: str) -> str:
    """Of `uniform`, or of a kind with its variant: `trivialaugment-wide`, `slack (paper)`."""
    kinds = (kind for kind in ("trivialaugment", "randaugment", "slack") if name.startswith((f"{kind}-", f"{kind} (")))
    return MEANINGS.get(name) or next((MEANINGS[kind] for kind in kinds), "")


class Axis(NamedTuple):
    """Of the chart of intervals."""

    low: float
    high: float

    @property
    def ticks(self) -> list[float]:
        return ticks(self.low, self.high, 4)

    def at(self, value: float) -> float:
        """In per cent of the width."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)


def axis(found: Outcome) -> Axis:
    """From the lowest end of an interval to the highest, with a little room."""
    ends = [row.accuracy.mean + sign * (row.accuracy.half_width or 0) for row in found.rows for sign in (-1, 1)]
    room = max(0.06 * (max(ends) - min(ends)), 0.001)
    return Axis(min(ends) - room, max(ends) + room)
