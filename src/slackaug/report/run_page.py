"""What the report says about one search."""

import shlex
from pathlib import Path
from typing import Any, NamedTuple

import torch
from markupsafe import Markup

from ..augment.policy import Policy
from ..augment.stability import CHANCE, agreement_of_rounds
from ..data import DataError, samples
from ..data.samples import Samples
from ..messages import duration
from ..messages.search import agreement as agreement_text
from ..runs.folders import POLICY
from . import history, pictures, policy_figures, run_figures
from .history import History
from .render import svg
from .scene import Numbers, Scene
from .strength import entropy_share, shares

MAX_FRAMES = 13  # of the slider: the start and 12 rounds, evenly spread where there are more
Size = tuple[int, int] | None  # height and width of the images, where they are known


class Chart(NamedTuple):
    """A figure on a page, and the table behind it."""

    id: str
    title: str
    svg: Markup
    table: Numbers


class Stop(NamedTuple):
    """What the slider shows of one round."""

    name: str
    charts: list[Chart]


def chart(identity: str, title: str, scene: Scene) -> Chart:
    """An SVG is text of ours, in which all that is not ours has been escaped."""
    return Chart(identity, title, Markup(svg(scene, identity)), scene.table)


def parts(folder: Path, data: str | None, given: Samples | None, is_running: bool) -> dict[str, Any]:
    past = history.read(folder)
    context = {
        "past": past,
        "policy": past.policy,
        "file": str(folder / POLICY),
        "state": state(past, is_running),
        "facts": facts(past),
        "diagnostics": diagnostics(past),
    }
    if past.policy is None:
        return context
    try:
        shown = samples.find(past.config.data, data) if given is None else given
    except DataError as error:
        if data is not None:  # what somebody asks for must be there
            raise
        missing = f"The images cannot be shown: {str(error).splitlines()[0]}."
        return context | policy_parts(past, past.policy, None) | {"pictures_missing": missing}
    return context | policy_parts(past, past.policy, shown.size) | pictures.parts(past.policy, shown)


# --- words ------------------------------------------------------------------------------------------------------------


def state(past: History, is_running: bool) -> str:
    done = f"round {len(past.policies)} of {past.n_rounds} is done" if past.policies else "no round is done yet"
    if past.is_finished:
        return ""
    if len(past.policies) >= past.n_rounds:
        done = "all rounds are done, and what they have learned has not been raced yet"
    if past.policy is not None and not past.policies:
        return f"Only policy.json is left of this search: {past.run / 'policies'}, with that of each round, is missing."
    if is_running:
        return f"The search is going on: {done}. This page renews itself until the end."
    resume = shlex.join(["slackaug", "search", past.config.data.source, "-o", str(past.run), "--resume"])
    return f"The search was left: {done}. To go on: {resume}"


def facts(past: History) -> list[tuple[str, str]]:
    config, policy, agreement = past.config, past.policy, agreement_of_rounds(past.policies)
    seconds = policy.learned.get("seconds") if policy else None
    found = {
        "Data": config.data.source,
        "Network": config.model,
        "Preset": config.preset,
        "Space": f"{config.space} ({len(past.names)})",
        "Rounds": f"{len(past.policies)} of {past.n_rounds}",
        "Rounds agree by": "" if agreement is None else f"{agreement:.2f} (0 is chance)",
        "Seed": str(config.seed),
        "Time": duration(seconds) if isinstance(seconds, int | float) else "",
        "Mirror flips": "" if policy is None else "on" if policy.flip else "off",
        "Entropy": "" if policy is None else f"{100 * entropy_share(policy):.1f} % of uniform",
    }
    return [(name, value) for name, value in found.items() if value]


def cautions(past: History) -> list[str]:
    """Why the policy may be worth nothing, as the search has said of itself."""
    agreement = agreement_of_rounds(past.policies)
    found = [] if agreement is None or agreement >= CHANCE else [agreement_text(agreement, is_chance=True)]
    return [f"{text[:1].upper()}{text[1:]}" for text in [past.remark, *found] if text]


def has_own_positions(policy: Policy) -> bool:
    """Whether its positions differ, which those of a search with a budget do not."""
    return any(not torch.equal(row, policy.pi[0]) for row in policy.pi[1:])


def policy_text(policy: Policy) -> str:
    k, n = policy.n_composed, len(policy.space)
    if not k:
        return f"Images stay as they are{', but for mirror flips' if policy.flip else ''}."
    how = "one transformation, drawn" if k == 1 else f"{k} transformations, drawn one after the other"
    alike = " with the same probabilities" if k > 1 and not has_own_positions(policy) else ""
    return (
        f"Each image goes through {how} from {n}{alike}. A slice is as wide as a transformation is likely, and reaches "
        "as far out as its strength may go."
    )


def percent(share: float) -> str:
    """For a sentence, where the sign must not begin a line."""
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


# --- charts -----------------------------------------------------------------------------------------------------------


def policy_parts(past: History, policy: Policy, size: Size) -> dict[str, Any]:
    positions = range(1, len(policy.pi) + 1) if has_own_positions(policy) else range(0)
    probabilities, names = shares(policy), policy.space.names
    most, least = pictures.extremes(policy)
    return {
        "cautions": cautions(past),
        "policy_text": policy_text(policy),
        "most": [(names[n], probabilities[n]) for n in most],
        "least": [(names[n], probabilities[n]) for n in least],
        "frames": frames(past, size),
        "position_pies": [pie(policy, f"pie-{k}", f"How often, position {k}", k) for k in positions],
        "evolution": [evolution(past, f"course-{k}", f"over the search, position {k}", k) for k in positions],
    }


def pie(policy: Policy, identity: str, title: str, position: int | None = None) -> Chart:
    return chart(identity, title, policy_figures.pie(policy, position))


def evolution(past: History, identity: str, title: str, position: int | None = None) -> Chart:
    return chart(identity, f"Probabilities {title}", run_figures.evolution(past, position))


def frames(past: History, size: Size) -> list[Stop]:
    """How often and how strongly, at the start and after each round; the last comes first without a script."""
    named = [("the start", past.start)]
    named += [(f"round {i} of {past.n_rounds}", policy) for i, policy in enumerate(past.policies, 1)]
    if past.policy is not None and (not past.policies or past.is_kept is False):
        named.append(("the result" if past.policies else "policy.json", past.policy))
    found = []
    for number in run_figures.evenly(len(named) - 1, MAX_FRAMES):
        name, policy = named[number]
        strong = chart(f"mu-{number}", f"How strongly, {name}", policy_figures.mu_bars(policy, size))
        found.append(Stop(name, [pie(policy, f"pie-of-{number}", f"How often, {name}"), strong]))
    return found


def diagnostics(past: History) -> list[Chart]:
    found = [evolution(past, "course", "over the search")] if past.policies else []
    if past.steps:
        found.append(chart("losses", "Losses", run_figures.losses(past)))
    if past.policies:
        found.append(chart("entropy", "Entropy of the policy", run_figures.entropy(past)))
        found.append(chart("kl", "Distance from the anchors", run_figures.kl(past)))
    return found
