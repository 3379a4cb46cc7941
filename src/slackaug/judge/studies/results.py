"""What a study found: one row for each baseline, one for all searches together, beside the paper's figures.

Axes: S searches, E evaluations of each.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from ... import __version__
from ...augment.policy import Policy
from ...augment.stability import Stability, stability
from ...auto.composing import PAPER, number_of
from ...config import parse
from ...runs import provenance
from .. import intervals, results
from ..intervals import Interval
from ..results import as_dict, points
from .paper_tables import Figure
from .plan import LEARNED, Study

Found = dict[str, list[dict[str, Any]]]  # finished trials by policy


class Row(NamedTuple):
    name: str
    accuracy: Interval  # over the searches, for the learned policy: the one that the verdict uses
    over_evaluations: Interval  # the paper's
    difference: Interval | None  # to the first baseline
    paper: list[Figure]


class StudyResults(NamedTuple):
    rows: list[Row]
    verdict: str
    stability: Stability | None  # of what was learned, whether it was kept or not; None where nothing was searched
    others: tuple[str, ...] = ()  # verdicts against all baselines but the first
    kept: str | None = None  # in how many searches what was learned is the result; None where none has tried that


def learned_name(s: int) -> str:
    return f"{LEARNED}, search {s}"


def summarise(
    study: Study, found: Found, fixed_names: Sequence[str], policies: Sequence[Policy], learned: Sequence[Policy]
) -> StudyResults:
    """`policies` are the results of the searches, and `learned` what their rounds have come to."""
    fixed = {name: results.by_seed(found[name]) for name in fixed_names}
    reference = next(iter(fixed), None)
    rows = []
    for name, accuracy in fixed.items():
        overall = intervals.interval(list(accuracy.values()))
        difference = intervals.paired(accuracy, fixed[reference]) if reference and name != reference else None
        rows.append(Row(name, overall, overall, difference, study.figures(name)))
    if not policies:
        return StudyResults(rows, "Nothing was searched, so there is no verdict.", None)
    accuracies = [[one["accuracy"] for one in found[learned_name(s)]] for s in range(study.n_search)]  # (S, E)
    both, differences = intervals.nested(accuracies), {}
    for name, accuracy in fixed.items():
        base = [[accuracy[seed] for seed in study.seeds(s)] for s in range(study.n_search)]  # (S, E)
        differences[name] = intervals.nested_difference(accuracies, base)
    verdict, *others = [intervals.verdict("SLACK", name, difference) for name, difference in differences.items()] or [
        "No baseline, so there is no verdict."
    ]
    difference = None if reference is None else differences[reference]
    rows.append(Row(LEARNED, both.searches, both.evaluations, difference, study.figures(LEARNED)))
    return StudyResults(rows, verdict, stability(learned), tuple(others), kept_text(policies))


def kept_text(policies: Sequence[Policy]) -> str | None:
    """In how many searches a whole training kept what was learned, and which baseline the others end with."""
    decided = [policy for policy in policies if isinstance(policy.learned.get("is_kept"), bool)]
    if not decided:
        return None
    numbers = Counter(number_of(policy) for policy in decided if not policy.learned["is_kept"])
    n_kept = len(decided) - numbers.total()
    text = f"what was learned is the result in {n_kept} of {len(decided)} searches, as whole trainings decided"
    others = [f"in {n} it is {baseline(number)}" for number, n in sorted(numbers.items())]
    return "; ".join([text, ", ".join(others)]) if others else text


def baseline(number: int) -> str:
    """The name of the uniform policy with so many transformations."""
    return {0: "none", PAPER: "uniform"}.get(number, f"uniform-{number}")


def gap(row: Row) -> str:
    """To the paper's figures, in points."""
    return "\n".join(f"{100 * row.accuracy.mean - figure.accuracy:+.2f}" for figure in row.paper)


def table(study: Study, final: StudyResults) -> Table:
    """Fits a terminal of 80 columns."""
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown.add_column("policy", overflow="fold", min_width=12)
    headers = ["accuracy,\n95 % interval", "n", f"to {final.rows[0].name}"]
    headers += ["the paper", "gap"] if study.paper else []
    for header in headers:
        shown.add_column(Text(header), justify="right", no_wrap=True)
    for row in final.rows:
        cells = [str(row.accuracy), row.accuracy.counted(), points(row.difference)]
        cells += ["\n".join(map(str, row.paper)) or "-", gap(row) or "-"] if study.paper else []
        shown.add_row(Text(row.name), *cells)
    return shown


def remarks(final: StudyResults) -> list[str]:
    found = final.stability
    if found is None:
        return []

    def number(value: float | None) -> str:
        return "undefined" if value is None else f"{value:.2f}"

    over = final.rows[-1].over_evaluations
    share = "" if found.entropy_share is None else f", {found.entropy_share:.1%} of the highest"
    entropy = f"entropy {found.entropy:.3f} nats{share}"
    kept = [final.kept] if final.kept else []
    if found.n_policies < 2:
        return [f"one search says nothing about stability; {entropy}", *kept]
    return [
        f"{LEARNED} over all evaluations, as the paper counts: {over} ({over.counted()})",
        f"stability over {found.n_policies} searches (mean pairwise correlation): pi {number(found.pi)}, without "
        f"Invert and Solarize {number(found.pi_rest)}; mu {number(found.mu)}, without Solarize "
        f"{number(found.mu_rest)}; {entropy}",
        *kept,
    ]


def to_json(study: Study, final: StudyResults, n_duplicates: int) -> str:
    """The summary; single trials are in eval/results.json."""
    document = {
        "schema_version": 1,
        "library_version": __version__,
        "study": parse.to_dict(study),
        "environment": provenance.environment(),
        "duplicates": n_duplicates,
        "verdict": final.verdict,
        "others": list(final.others),
        "kept": final.kept,
        "stability": None if final.stability is None else final.stability._asdict(),
        "rows": [
            {
                "name": row.name,
                "accuracy": as_dict(row.accuracy),
                "over_evaluations": as_dict(row.over_evaluations),
                "difference": as_dict(row.difference),
                "paper": [figure._asdict() for figure in row.paper],
            }
            for row in final.rows
        ],
    }
    return json.dumps(document, indent=1)
