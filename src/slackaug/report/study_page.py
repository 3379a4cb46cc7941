"""What the report says about a study: its searches side by side, and whether they agree."""

from pathlib import Path
from typing import Any

from ..augment.policy import Policy
from ..augment.stability import stability
from ..judge.studies.plan import Study, read_study
from ..messages import studying
from ..messages.terminal import TO_CONTINUE
from ..runs.folders import POLICY, RunError, learned
from ..schema import PolicyError
from . import history
from .policy_figures import correlations, side_by_side
from .run_page import Chart, chart, evolution, pie
from .use import Use, command, with_policy

STABILITY = {
    "pi": "probabilities",
    "pi_rest": "probabilities, without Invert and Solarize",
    "mu": "magnitude bounds",
    "mu_rest": "magnitude bounds, without Solarize",
}


def parts(folder: Path, shown_folder: Path, is_running: bool) -> dict[str, Any]:
    """`shown_folder` is how the page calls the folder."""
    study = read_study(folder)
    model, n_planned = study.foreign_model(), study.search.search.n_rounds
    resume = command("study", "-o", str(shown_folder), "--resume", *(["--model", model] if model else []))
    runs = {s: folder / "searches" / str(s) for s in range(study.n_search)}
    policies, unreadable = read_policies(runs)
    rounds = {s: sum(1 for _ in (run / "policies").glob("round_*.json")) for s, run in runs.items()}
    courses = {s: course(s, runs[s]) for s in policies}
    status = "" if (folder / "study.json").is_file() else state(folder, study, rounds, is_running)
    together, problem = history.read_result(folder / POLICY, [])
    pies = [pie(together, "pie-all", "How often, all searches together")] if together and len(policies) > 1 else []
    for s, policy in policies.items():
        which = f", round {rounds[s]} of {n_planned}" if rounds[s] < n_planned else ""
        pies.append(pie(policy, f"pie-{s}", f"How often, search {s}{which}"))
    compared = {f"search {s}": learned(runs[s]) for s in policies}
    if len({tuple(policy.space.names) for policy in compared.values()}) > 1:
        compared = {}
    broken = [f"Search {s} cannot be shown: {text}." for s, text in courses.items() if isinstance(text, str)]
    return {
        "study": study,
        "state": status,
        "to_type": "" if is_running or not status else resume,
        "study_problems": [problem] if problem else [],
        "use": of_study(shown_folder, list(policies), resume, has_policy=together is not None),
        "searches": pies,
        "evolution": [chart for chart in courses.values() if isinstance(chart, Chart)],
        "remarks": [*unreadable, *broken],
        "stability": stability_rows([*compared.values()]),
        "comparison": comparison([*compared.values()], [*compared]),
    }


def read_policies(runs: dict[int, Path]) -> tuple[dict[int, Policy], list[str]]:
    """Of the searches that have begun to find something, and what cannot be read."""
    policies, wrong = {}, []
    for s, run in runs.items():
        policy, problem = history.read_result(run / POLICY, [])
        if policy is not None:
            policies[s] = policy
        elif problem:
            wrong.append(f"Search {s}: {problem}")
    return policies, wrong


def of_study(folder: Path, done: list[int], resume: str, *, has_policy: bool) -> Use:
    """What to type: the policy of all searches first, as soon as there is one."""
    go_on = ("Continue it, or show its result again", resume)
    others = [("The report of one search", command("report", str(folder / "searches" / str(s)))) for s in done[:1]]
    if not has_policy:
        return Use("", [go_on, *others], [])
    found = with_policy(folder)
    note = "This is the policy of all searches together, which the study itself has not measured."
    return Use(note, found.steps, [*found.others, go_on, *others])


def state(folder: Path, study: Study, rounds: dict[int, int], is_running: bool) -> str:
    """Of a study that is not finished: how far it is."""
    planned, answer = study.search.search.n_rounds, "searches/{}/answer.json"
    over = [s for s, n in rounds.items() if n >= planned]
    if study.search.race.candidates:
        over = [s for s in over if (folder / answer.format(s)).is_file()]
    where = [f"{len(over)} of {study.n_search} searches are done"] if study.n_search else []
    where += [f"search {s} has done round {n} of {planned}" for s, n in rounds.items() if 0 < n < planned]
    n_trained = sum(1 for _ in (folder / "eval" / "trials").glob("*.json"))
    where += [f"{n_trained} training{'s are' if n_trained != 1 else ' is'} done"] if n_trained else []
    done = "; ".join(where) or "nothing is done yet"
    if is_running:
        return f"The study is running: {done}. This page renews itself until the end."
    return f"The study was interrupted: {done}. {TO_CONTINUE}:"


def course(s: int, run: Path) -> Chart | str:
    """Or why there is none: one broken file must not hide the other searches."""
    try:
        return evolution(history.read(run), f"course-{s}", f"over search {s}")
    except (RunError, PolicyError) as error:
        return str(error)


def comparison(policies: list[Policy], names: list[str]) -> list[Chart]:
    """Charts of searches over one space."""
    found = [chart("side", "Probabilities, a dot for each search", side_by_side(policies, names))] if policies else []
    if len(policies) > 1:
        found.append(chart("alike", "How alike they are, pair by pair", correlations(policies, names)))
    return found


def stability_rows(policies: list[Policy]) -> list[tuple[str, str]]:
    """What each number means, and the number; none of a lone search."""
    if len(policies) < 2:
        return []
    found = stability(policies)
    shown = [(text, getattr(found, key)) for key, text in STABILITY.items()]
    rows = [(text, "undefined" if value is None else f"{value:.2f}") for text, value in shown]
    return [*rows, ("entropy", studying.entropy(found.entropy, found.entropy_share).removeprefix("entropy "))]
