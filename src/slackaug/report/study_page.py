"""What the report says about a study: its searches side by side, and whether they agree."""

import shlex
from pathlib import Path
from typing import Any

from ..policy import Policy
from ..schema import PolicyError
from ..study_plan import Study, read_study
from . import figures, history
from .outcome import Outcome
from .pieces import Chart, chart
from .run_page import REST, pie


def parts(folder: Path, found: Outcome | None) -> dict[str, Any]:
    study = read_study(folder)
    runs = {s: folder / "searches" / str(s) for s in range(study.n_search)}
    policies = {s: policy for s, run in runs.items() if (policy := read_policy(run)) is not None}
    same_space = len({tuple(policy.space.names) for policy in policies.values()}) == 1
    context: dict[str, Any] = {
        "kicker": "Report of a study",
        "state": state(study, len(policies), found),
        "facts": facts(study),
        "uses": uses(folder, study, list(policies)),
        "searches": [pie(policy, f"pie-{s}", f"How often, search {s}") for s, policy in policies.items()],
        "evolution": [evolution(s, runs[s]) for s in policies],
        "stability": found.stability if found is not None else [],
        "comparison": comparison(list(policies.values()), list(policies)) if same_space else [],
    }
    has = {
        "results": "Does it help?",
        "searches": "The searches" if policies else "",
        "evolution": "How they were learned" if policies else "",
        "stability": "Stability" if context["stability"] else "",
    }
    return context | {"sections": [(key, name) for key, name in has.items() if name] + REST}


def read_policy(run: Path) -> Policy | None:
    """Of a search that has begun to find something."""
    try:
        return Policy.load(run / "policy.json")
    except PolicyError:
        return None


def state(study: Study, n_policies: int, found: Outcome | None) -> str:
    if found is not None:
        return ""
    return f"The study is not finished: {n_policies} of {study.n_search} searches have a policy."


def facts(study: Study) -> list[tuple[str, str]]:
    search = study.search
    return [
        ("Recipe", study.recipe),
        ("Data", study.data.source),
        ("Searches", f"{study.n_search}, with {search.model}"),
        ("Evaluations of each", f"{study.n_eval}, with {study.model}"),
        ("Preset", search.preset),
        ("Space", search.space),
        ("Rounds", str(search.search.n_rounds)),
        ("Baselines", ", ".join(study.baselines) or "none"),
    ]


def uses(folder: Path, study: Study, done: list[int]) -> list[tuple[str, str]]:
    found = [("Go on, or say it again", shlex.join(["slackaug", "study", "-o", str(folder), "--resume"]))]
    for s in done[:1]:
        run = folder / "searches" / str(s)
        found.append(("The report of one search", shlex.join(["slackaug", "report", str(run)])))
        python = f"import slackaug\n\naugment = slackaug.SlackAugment({str(run / 'policy.json')!r})"
        found.append(("In your training", python))
    return found


def evolution(s: int, run: Path) -> Chart:
    past = history.read(run)
    svg = figures.evolution(past, id=f"course-{s}")
    return chart(f"course-{s}", f"Probabilities over search {s}", svg, figures.evolution_table(past))


def comparison(policies: list[Policy], numbers: list[int]) -> list[Chart]:
    names = [f"search {s}" for s in numbers]
    svg, table = figures.side_by_side(policies, names, id="side"), figures.side_by_side_table(policies, names)
    found = [chart("side", "Probabilities, a dot for each search", svg, table)]
    if len(policies) > 1:
        svg, table = figures.correlations(policies, names, id="alike"), figures.correlations_table(policies, names)
        found.append(chart("alike", "How alike they are, pair by pair", svg, table))
    return found
