"""What the report says about a study: its searches side by side, and whether they agree."""

import shlex
from pathlib import Path
from typing import Any

from ..augment.policy import Policy
from ..judge.studies.plan import Study, read_study
from ..runs.folders import POLICY, RunError, learned
from ..schema import PolicyError
from . import history
from .outcome import Outcome
from .policy_figures import correlations, side_by_side
from .run_figures import evolution
from .run_page import REST, Chart, chart, pie


def parts(folder: Path, found: Outcome | None, is_running: bool) -> dict[str, Any]:
    study = read_study(folder)
    runs = {s: folder / "searches" / str(s) for s in range(study.n_search)}
    policies = {s: policy for s, run in runs.items() if (policy := read_policy(run)) is not None}
    rounds = {s: n_rounds(run) for s, run in runs.items()}
    found_by_rounds = [learned(runs[s]) for s in policies]
    same_space = len({tuple(policy.space.names) for policy in found_by_rounds}) == 1
    courses = {s: course(s, runs[s]) for s in policies}
    together = read_policy(folder) if len(policies) > 1 else None
    all_searches = [] if together is None else [pie(together, "pie-all", "How often, all searches together")]
    each = [pie(policy, f"pie-{s}", title(study, s, rounds[s])) for s, policy in policies.items()]
    context: dict[str, Any] = {
        "kicker": "Report of a study",
        "state": "" if (folder / "study.json").is_file() else state(folder, study, rounds, is_running),
        "facts": facts(study),
        "uses": uses(folder, study, next(iter(policies), None)),
        "searches": all_searches + each,
        "evolution": [chart for chart in courses.values() if isinstance(chart, Chart)],
        "remarks": [f"Search {s} cannot be shown: {text}." for s, text in courses.items() if isinstance(text, str)],
        "stability": found.stability if found is not None else [],
        "comparison": comparison(found_by_rounds, list(policies)) if same_space else [],
    }
    has = {
        "results": "Does it help?",
        "searches": "The searches" if policies else "",
        "evolution": "How they were learned" if policies else "",
        "stability": "Stability" if context["stability"] else "",
    }
    return context | {"sections": [(key, name) for key, name in has.items() if name] + REST}


def read_policy(run: Path) -> Policy | None:
    """Of a search that has begun to find something, or of all together."""
    try:
        return Policy.load(run / POLICY)
    except PolicyError:
        return None


def n_rounds(run: Path) -> int:
    return sum(1 for _ in (run / "policies").glob("round_*.json"))


def is_done(folder: Path, study: Study, s: int, n: int) -> bool:
    """Whether a search that has done n rounds is over."""
    is_confirmed = not study.search.confirm or (folder / "searches" / str(s) / "confirmation.json").is_file()
    return n >= study.search.search.n_rounds and is_confirmed


def title(study: Study, s: int, done: int) -> str:
    planned = study.search.search.n_rounds
    return f"How often, search {s}" + (f", round {done} of {planned}" if done < planned else "")


def state(folder: Path, study: Study, rounds: dict[int, int], is_running: bool) -> str:
    """Of a study that is not finished: how far it is."""
    planned = study.search.search.n_rounds
    done = f"{sum(is_done(folder, study, s, n) for s, n in rounds.items())} of {study.n_search} searches are done"
    going = [f"search {s} has done round {n} of {planned}" for s, n in rounds.items() if 0 < n < planned]
    n_trained = sum(1 for _ in (folder / "eval" / "trials").glob("*.json"))
    trained = [f"{n_trained} training{'s are' if n_trained != 1 else ' is'} done"] if n_trained else []
    where = "; ".join([*([done] if study.n_search else []), *going, *trained]) or "nothing is done yet"
    if is_running:
        return f"The study is going on: {where}. This page renews itself until the end."
    return f"The study was left: {where}. To go on: {resume(folder, study)}"


def resume(folder: Path, study: Study) -> str:
    model = study.foreign_model()
    return shlex.join(["slackaug", "study", "-o", str(folder), "--resume", *(["--model", model] if model else [])])


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


def uses(folder: Path, study: Study, first: int | None) -> list[tuple[str, str]]:
    found = [("Continue it, or show its result again", resume(folder, study))]
    if first is not None:
        run = folder / "searches" / str(first)
        found.append(("The report of one search", shlex.join(["slackaug", "report", str(run)])))
    if (folder / POLICY).is_file():
        found.append(("The policy of all searches together", shlex.join(["slackaug", "show", str(folder)])))
        python = f"import slackaug\n\naugment = slackaug.SlackAugment({str(folder / POLICY)!r})"
        found.append(("In your training", python))
    return found


def course(s: int, run: Path) -> Chart | str:
    """Or why there is none: one broken file must not hide the other searches."""
    try:
        past = history.read(run)
    except (RunError, PolicyError) as error:
        return str(error)
    return chart(f"course-{s}", f"Probabilities over search {s}", evolution(past))


def comparison(policies: list[Policy], numbers: list[int]) -> list[Chart]:
    names = [f"search {s}" for s in numbers]
    found = [chart("side", "Probabilities, a dot for each search", side_by_side(policies, names))]
    if len(policies) > 1:
        found.append(chart("alike", "How alike they are, pair by pair", correlations(policies, names)))
    return found
