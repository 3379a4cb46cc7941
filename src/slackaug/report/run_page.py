"""What the report says about one search."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from markupsafe import Markup

from ..augment.describe import drawn
from ..augment.policy import IDENTITY, Policy
from ..augment.stability import CHANCE, agreement_of_rounds
from ..data import DataError, samples
from ..data.samples import Samples
from ..messages import counted, duration
from ..messages.search import agreement as agreement_text
from ..messages.terminal import TO_CONTINUE
from ..runs.folders import FINISHED, POLICY
from . import history, pictures, policy_figures, run_figures, use
from .history import History
from .render import svg
from .scene import Numbers, Scene
from .strength import bounds_text, entropy_share, shares
from .use import command

MAX_FRAMES = 13  # of the slider: the start and 12 rounds, evenly spread where there are more


class Chart(NamedTuple):
    """A figure on a page, and the table behind it."""

    id: str
    title: str
    svg: Markup
    table: Numbers


class PolicyBar(NamedTuple):
    """A transformation in the table of a policy; widths are in per cent of the column."""

    name: str
    share: float
    width: float
    strength: str
    mu_width: float | None  # None: it has no magnitude


class Stop(NamedTuple):
    """What the slider shows of one round."""

    name: str
    bars: list[PolicyBar]


def chart(identity: str, title: str, scene: Scene) -> Chart:
    """An SVG is text of ours, in which all that is not ours has been escaped."""
    return Chart(identity, title, Markup(svg(scene, identity)), scene.table)


def parts(
    folder: Path, shown_folder: Path, data: str | None, given: Samples | None, is_running: bool
) -> dict[str, Any]:
    """`shown_folder` is how the page calls the folder."""
    past = history.read(folder)
    policy = past.policy if past.policy is None or is_answer(past) or past.has_learned else None  # to show
    shown, missing = find_pictures(past, data, given)
    status, to_type = state(past, shown_folder, is_running)
    context = {
        "past": past,
        "policy": policy,
        "about": about(past),
        "state": status,
        "to_type": to_type,
        "facts": facts(past),
        "diagnostics": diagnostics(past),
        "use": use.of_run(past, shown_folder, None if shown is None else shown.size),
        "pictures_missing": missing,
        "changes_images": policy is not None and {*drawn(policy)} != {IDENTITY},
    }
    if policy is None:
        return context
    context |= policy_parts(past, policy)
    return context | pictures.parts(policy, shown) if shown is not None and context["changes_images"] else context


def find_pictures(past: History, data: str | None, given: Samples | None) -> tuple[Samples | None, str]:
    """Of the policy's images, or why there are none."""
    if past.policy is None:
        return None, ""
    try:
        return (samples.find(past.config.data, data) if given is None else given), ""
    except DataError as error:
        if data is not None:  # what somebody asks for must be there
            raise
        return None, f"The images cannot be shown: {str(error).splitlines()[0]}."


# --- words ------------------------------------------------------------------------------------------------------------


def state(past: History, folder: Path, is_running: bool) -> tuple[str, str]:
    """Of a search that is not finished, or not whole: how far it is, and what to type."""
    resume = command("search", past.config.data.source, "-o", str(folder), "--resume")
    done = f"round {len(past.policies)} of {past.n_rounds} is done" if past.policies else "no round is done yet"
    if past.problems and len(past.policies) >= past.n_rounds:
        if past.config.race.candidates:
            return f"To get it back, remove {FINISHED} from the folder and run:", resume
        return f"To get it back, copy policies/round_{past.n_rounds:02d}.json to {POLICY}.", ""
    if past.is_finished:
        return "", ""
    if len(past.policies) >= past.n_rounds:
        done = "all rounds are done, but the race is not"
    if past.has_learned and not past.policies:
        missing = folder / "policies"
        return f"Only policy.json is left of this search: {missing}, with that of each round, is missing.", ""
    if is_running:
        return f"The search is running: {done}. This page renews itself until the end.", ""
    return f"The search was interrupted: {done}. {TO_CONTINUE}:", resume


def about(past: History) -> str:
    """One line on what was searched."""
    config, policy = past.config, past.policy
    seconds = policy.learned.get("seconds") if policy else None
    found = [config.data.source, f"network {config.model}", counted(len(past.names), "transformation")]
    found.append("mirror flips on" if policy and policy.flip else "mirror flips off" if policy else "")
    found.append(f"learned in {duration(seconds)}" if isinstance(seconds, int | float) else "")
    return " · ".join(filter(None, found))


def facts(past: History) -> list[tuple[str, str]]:
    config, agreement = past.config, agreement_of_rounds(past.policies)
    learned = past.policies[-1] if past.policies else past.policy
    found = {
        "Preset": config.preset,
        "Space": config.space,
        "Rounds": f"{len(past.policies)} of {past.n_rounds}",
        "Rounds agree by": "" if agreement is None else f"{agreement:.2f} (0 is chance)",
        "Entropy": "" if learned is None else f"{100 * entropy_share(learned):.1f} % of uniform",
        "Seed": str(config.seed),
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


def is_uniform(policy: Policy) -> bool:
    return torch.equal(policy.pi.amin(-1), policy.pi.amax(-1))


def policy_text(policy: Policy) -> str:
    k, n = policy.n_composed, len(policy.space)
    if not k:
        return f"Images stay as they are{', but for mirror flips' if policy.flip else ''}."
    how = "one transformation, drawn" if k == 1 else f"{k} transformations, drawn one after the other"
    if is_uniform(policy):
        return f"Each image goes through {how} from {n}, all equally likely."
    same = f" {'Both' if k == 2 else f'All {k}'} draws use the probabilities below."
    return f"Each image goes through {how} from {n}.{same if k > 1 and not has_own_positions(policy) else ''}"


def is_answer(past: History) -> bool:
    """Whether the policy to show is what the search says to use, as far as it says so: what it learned, or where it
    has learned nothing yet, one that needs no learning."""
    if not past.has_learned and past.policy is not None:
        return past.policy.learned.get("is_answer") is not False
    return past.race is None or past.race.is_learned


def percent(share: float) -> str:
    """For a sentence, where the sign must not begin a line."""
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


# --- charts -----------------------------------------------------------------------------------------------------------


def has_answer(past: History, policy: Policy) -> bool:
    """Whether policy.json is what a race has found."""
    return past.race is not None and not past.is_stand_in and policy.learned.get("is_answer") is not False


def policy_parts(past: History, policy: Policy) -> dict[str, Any]:
    """Of the answer, if that is the learned policy; else of the last round's, which is not the answer."""
    shown = policy if is_answer(past) or not past.policies else past.policies[-1]
    positions = range(1, len(shown.pi) + 1) if has_own_positions(shown) else range(0)
    stops = frames(past, shown)
    return {
        "cautions": cautions(past),
        "is_answer": is_answer(past),
        "policy_text": policy_text(shown),
        "frames": stops,
        "uniform": stops[0].bars[0].width if stops else 0.0,
        "pictured": "the answer" if has_answer(past, policy) else "the learned policy",
        "pies": [
            pie(shown, "pie", "How often, and how strongly"),
            *(pie(shown, f"pie-{k}", f"Position {k}", k) for k in positions),
        ],
        "evolution": [evolution(past, f"course-{k}", f"over the search, position {k}", k) for k in positions],
    }


def pie(policy: Policy, identity: str, title: str, position: int | None = None) -> Chart:
    return chart(identity, title, policy_figures.pie(policy, position))


def evolution(past: History, identity: str, title: str, position: int | None = None) -> Chart:
    return chart(identity, f"Probabilities {title}", run_figures.evolution(past, position))


def frames(past: History, shown: Policy) -> list[Stop]:
    """The table of the policy, at the start and after each round; the last comes first without a script."""
    named = [("the start", past.start)]
    named += [(f"round {i} of {past.n_rounds}", policy) for i, policy in enumerate(past.policies, 1)]
    if not any(shown is policy for _, policy in named) and not alike(shown, named[-1][1]):
        named.append(("the answer" if past.policies else "policy.json", shown))
    chosen = [named[number] for number in run_figures.evenly(len(named) - 1, MAX_FRAMES)]
    most = max(max(shares(policy)) for _, policy in chosen)
    return [Stop(name, bars(policy, most)) for name, policy in chosen]


def alike(one: Policy, other: Policy) -> bool:
    same_shape = one.pi.shape == other.pi.shape
    return same_shape and torch.allclose(one.pi, other.pi) and torch.allclose(one.mu, other.mu)


def bars(policy: Policy, most: float) -> list[PolicyBar]:
    """The likeliest first; `most` is as wide as the column."""
    rows = []
    for transform, share, mu in zip(policy.space, shares(policy), policy.mu.tolist(), strict=True):
        width, mu_width = round(100 * share / most, 1), round(100 * mu, 1) if transform.span else None
        rows.append(PolicyBar(transform.name, share, width, bounds_text(transform, mu), mu_width))
    return sorted(rows, key=lambda bar: -bar.share)


def diagnostics(past: History) -> list[Chart]:
    found = [evolution(past, "course", "over the search")] if past.policies else []
    if past.steps:
        found.append(chart("losses", "Losses", run_figures.losses(past)))
    if past.policies:
        found.append(chart("entropy", "Entropy of the policy", run_figures.entropy(past)))
        found.append(chart("kl", "Distance from the anchors", run_figures.kl(past)))
    return found
