"""What a study found: one row for each baseline, one for all searches together, beside the paper's figures.

Axes: S searches, E evaluations of each.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich.table import Table

from ...augment.display import displayed
from ...augment.policy import Policy
from ...augment.stability import Stability, stability
from ...config import parse
from ...messages import comparing, studying
from ...messages.names import LEARNED
from .. import intervals, results, verdicts
from ..intervals import Accuracy, Interval
from ..queue import ByPolicy
from ..results import points
from ..verdicts import Judgement, Terms
from .paper_tables import Figure
from .plan import Study


class StudyRow(NamedTuple):
    name: str
    accuracy: Accuracy  # over the searches, for the learned policy, as the answer counts
    over_evaluations: Accuracy  # the paper's
    difference: Interval | None  # to the first baseline
    paper: list[Figure]
    accuracies: intervals.Matrix = ()  # (S, E) of the learned policies; of others a row of all


@displayed
class StudyResults(NamedTuple):
    rows: list[StudyRow]
    answer: str
    use: str | None = None  # the row to use, of the learned policy's and the first baseline's; None: no answer
    verdict: str | None = None  # better, ahead, equal, unknown or guessing; None: nothing to compare
    others: Sequence[str] = ()  # verdicts against all baselines but the first
    learned: str | None = None  # the row of the learned policies, named after what was run; None: nothing was searched
    stability: Stability | None = None  # of the learned policies, whether they were kept or not; None likewise
    kept: str | None = None  # how many searches kept the learned policy; None where none has asked

    def __repr__(self) -> str:
        return f"StudyResults({self.answer!r})"


def summarise(
    study: Study,
    found: ByPolicy,
    fixed_names: Sequence[str],
    policies: Sequence[Policy],
    learned: Sequence[Policy],
    terms: Terms,
) -> StudyResults:
    """`policies` are the results of the searches, and `learned` what their rounds have come to."""
    fixed = {name: found[name] for name in fixed_names}
    rows = [
        StudyRow(
            row.name,
            row.accuracy,
            row.accuracy,
            row.difference,
            list(study.figures(row.name).values()),
            [[*row.accuracies.values()]],
        )
        for row in results.make_rows(fixed, next(iter(fixed), None))
    ]
    if not policies:
        return StudyResults(rows, comparing.NOTHING_SEARCHED)
    accuracies = [[one["accuracy"] for one in found[study.search_name(s)]] for s in range(study.n_search)]
    both = intervals.nested(accuracies)
    differences = {name: intervals.nested_difference(differences_to(name, study, found)) for name in fixed}
    difference, paper = next(iter(differences.values()), None), list(study.figures(study.learned).values())
    rows.append(StudyRow(study.learned, both.searches, both.evaluations, difference, paper, accuracies))
    scores = [(row.over_evaluations.mean, row.over_evaluations.n * terms.n_images) for row in rows]
    judged = Judgement(comparing.NO_BASELINE)
    if fixed:
        judged = verdicts.judge(study.learned, fixed_names[0], differences, scores, terms)
        over_used = {row.name: row.difference for row in rows[1:-1]}
        if judged.use == study.learned:
            over_used = {name: differences[name]._replace(mean=-differences[name].mean) for name in over_used}
        if judged.use is not None:
            judged = judged._replace(answer=judged.answer + verdicts.better_still(judged.use, over_used))
    return StudyResults(rows, *judged, study.learned, stability(learned), kept_text(policies))


def differences_to(name: str, study: Study, found: ByPolicy) -> intervals.Matrix:
    """(S, E), by the seeds that `name` was trained with, too."""
    base = results.by_seed(found[name])
    learned = [results.by_seed(found[study.search_name(s)]) for s in range(study.n_search)]
    return [[value - base[seed] for seed, value in one.items() if seed in base] for one in learned]


def kept_text(policies: Sequence[Policy]) -> str | None:
    """Count the searches whose race kept the learned policy, and the baselines that the others end with."""
    used = Counter(use for policy in policies if isinstance(use := policy.learned.get("use"), str))
    instead = {name: n for name, n in sorted(used.items()) if not name.startswith(LEARNED)}
    n_raced = sum(used.values())
    return studying.kept(n_raced - sum(instead.values()), n_raced, instead) if used else None


def table(study: Study, final: StudyResults) -> Table:
    """Fits a terminal of 80 columns."""
    headers = ["accuracy\n(95 % interval)", "n", f"to {final.rows[0].name}"]
    headers += ["the paper", "gap"] if study.paper else []
    rows = []
    for row in final.rows:
        accuracy, n = str(row.accuracy), row.accuracy.counted()
        if study.paper:
            accuracy, n = accuracy.replace(" (", "\n("), n.replace(" ", "\n")
        cells = [row.name, accuracy, n, points(row.difference)]
        if study.paper:
            gaps = [f"{100 * row.accuracy.mean - figure.accuracy:+.2f}" for figure in row.paper]  # points
            cells += ["\n".join(map(str, row.paper)) or "-", "\n".join(gaps) or "-"]
        rows.append(cells)
    return results.make_table(headers, rows, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def remarks(final: StudyResults) -> list[str]:
    found = final.stability
    if found is None or final.learned is None:
        return []
    over, entropy = final.rows[-1].over_evaluations, studying.entropy(found.entropy, found.entropy_share)
    kept = [final.kept] if final.kept else []
    kept += results.seen(final.rows[-1].difference, final.verdict)
    if found.n_policies < 2:
        return [studying.stability_of_one(entropy), *kept]
    return [
        studying.as_the_paper_counts(final.learned, str(over), over.counted()),
        studying.stability(found.n_policies, found._asdict(), entropy),
        *kept,
    ]


def to_json(study: Study, final: StudyResults, n_duplicates: int) -> str:
    """The summary; single trials are in eval/results.json."""
    return results.to_json(study=parse.to_dict(study), duplicates=n_duplicates, **final._asdict())
