"""The trainings of a study: as many as were asked for, then more where these make the verdict's interval narrower.

More evaluations average out what evaluations differ by, not what searches differ by. If that is too much, only more
searches help, and it says so. A search that was singled out as the most uncertain one would be so by chance: of a few
evaluations no deviation is known well. So all get as many. Interrupted, it comes to the same end.
"""

from collections.abc import Callable, Sequence

from ...messages import comparing
from .. import queue
from ..candidates import Candidate
from ..intervals import n_evaluations_for, n_for, nested_difference
from ..protocols import Training
from ..queue import ByPolicy, Comparison
from .plan import MAX_EVALUATIONS, Study
from .results import differences_to
from .search_jobs import SearchJob, result_of

MAX_SEARCHES = 1000
LEAST_EVALUATIONS = 2  # to know what they differ by


def evaluate_all(
    work: Comparison,
    study: Study,
    fixed: Sequence[Candidate],
    searched: Sequence[SearchJob],
    write_results: Callable[[ByPolicy, str], None],
) -> ByPolicy:
    """Baselines and files with all seeds, each learned policy with its own."""
    policies = [result_of(one.folder)._replace(name=study.search_name(s)) for s, one in enumerate(searched)]
    n = study.n_eval if study.until is None else max(study.n_eval, LEAST_EVALUATIONS)

    def wanted(n: int) -> list[Training]:
        return [work.training(*entry) for entry in entries(study, fixed, policies, n)]

    def needed(found: ByPolicy, n: int) -> int | None:
        return None if study.until is None else n_needed(work, study, fixed[0].name, found, n)

    def on_result(found: ByPolicy, n_wanted: int) -> None:
        write_results(found, comparing.no_answer_yet(sum(map(len, found.values())), n_wanted))

    return queue.conduct_until(work, wanted, n, needed, on_result)


def entries(
    study: Study, fixed: Sequence[Candidate], policies: Sequence[Candidate], n: int
) -> list[tuple[Candidate, int]]:
    """Candidates and seeds. Those added are of the policies and of the baseline of the verdict, in turn."""
    found = [(candidate, seed) for candidate in fixed for seed in range(study.n_seeds)]
    found += [(policy, seed) for s, policy in enumerate(policies) for seed in study.seeds(s)]
    for added in zip(*(study.more_seeds(s, n) for s in range(len(policies))), strict=True):
        found += [(one, seed) for policy, seed in zip(policies, added, strict=True) for one in (policy, fixed[0])]
    return found


def n_needed(work: Comparison, study: Study, reference: str, found: ByPolicy, n: int) -> int | None:
    """Evaluations of each search; None where the n that there are will do, or where more would not."""
    assert study.until is not None
    until, differences = study.until / 100, differences_to(reference, study, found)
    difference = nested_difference(differences)
    if difference.reach() <= until:
        return None
    needed = n_evaluations_for(differences, until, MAX_EVALUATIONS)
    if needed is None:
        n_searches = n_for(difference, until, MAX_SEARCHES)
        work.say(comparing.needs_searches(difference.reach(), until, n_searches, is_most=n_searches == MAX_SEARCHES))
        return None
    needed = max(needed, n + 1)
    seconds = [one["seconds"] for trials in found.values() for one in trials]
    each = 2 * study.n_search * sum(seconds) / len(seconds)  # of a policy and of the baseline
    about = "evaluation", "each search and of the baseline", each * (needed - n)
    work.say(comparing.more_needed(difference.reach(), until, needed - n, *about))
    return needed
