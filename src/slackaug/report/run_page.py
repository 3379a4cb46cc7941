"""What the report says about one search."""

import math
import shlex
from pathlib import Path
from typing import Any

import torch

from ..augment.policy import Policy
from ..augment.stability import CHANCE, agreement_of_rounds, agreement_text
from ..auto.composing import number_of
from ..data import DataError
from ..runs.progress import duration
from . import figures, history, image_parts, samples
from .history import History
from .outcome import Outcome
from .pieces import Chart, Frame, chart
from .samples import Samples
from .strength import is_constant, shares

MAX_FRAMES = 13  # of the slider: the start and 12 rounds, evenly spread where there are more
Size = tuple[int, int] | None  # height and width of the images, where they are known
REST = [("use", "Use it"), ("settings", "Settings")]


def parts(
    folder: Path, found: Outcome | None, data: str | None, given: Samples | None, is_running: bool
) -> dict[str, Any]:
    past = history.read(folder)
    policy = past.policy
    context = nothing_searched() | {
        "kicker": "Report of a search",
        "state": state(past, is_running),
        "facts": facts(past),
        "cautions": cautions(past),
        "diagnostics": diagnostics(past),
        "anchor_text": anchor_text(past),
    }
    if policy is not None:
        context["uses"] = uses(folder, past, found)
        shown, problem = find_samples(past, data, given)
        context |= policy_parts(past, policy, None if shown is None else shown.size)
        context |= {"pictures_missing": problem} if shown is None else image_parts.parts(policy, shown)
    has = {
        "results": "Does it help?",
        "policy": "The policy" if policy is not None else "",
        "evolution": "How it was learned" if context["diagnostics"] else "",
        "images": "On your images" if policy is not None else "",
    }
    return context | {"sections": [(key, name) for key, name in has.items() if name] + REST}


def find_samples(past: History, data: str | None, given: Samples | None) -> tuple[Samples | None, str]:
    """A few of the images, or one line about why there are none; what somebody asked for with --data must be there."""
    try:
        return (samples.find(past.config.data, data) if given is None else given), ""
    except DataError as error:
        if data is not None:
            raise
        return None, f"The images cannot be shown: {str(error).splitlines()[0]}."


def nothing_searched() -> dict[str, Any]:
    """The page of a folder that holds evaluations only."""
    empty = ("facts", "cautions", "frames", "position_pies", "evolution", "diagnostics", "strips", "sheets", "uses")
    return {name: [] for name in empty} | {
        "kicker": "Report of an evaluation",
        "state": "",
        "pictures_missing": "",
        "sections": [("results", "Does it help?"), *REST],
    }


# --- words ------------------------------------------------------------------------------------------------------------


def state(past: History, is_running: bool) -> str:
    done = f"round {len(past.policies)} of {past.n_rounds} is done" if past.policies else "no round is done yet"
    if past.is_finished:
        return ""
    if len(past.policies) >= past.n_rounds:
        done = "all rounds are done, and what they have learned is not confirmed yet"
    if past.policy is not None and not past.policies:
        return f"Only policy.json is left of this search: {past.run / 'policies'}, with that of each round, is missing."
    if is_running:
        return f"The search is going on: {done}. This page renews itself until the end."
    source, folder = past.config.data.source, str(past.run)
    return (
        f"The search was left: {done}. To go on: {shlex.join(['slackaug', 'search', source, '-o', folder, '--resume'])}"
    )


def facts(past: History) -> list[tuple[str, str]]:
    config, policy = past.config, past.policy
    found = [("Data", config.data.source), ("Network", config.model), ("Preset", config.preset)]
    found.append(("Space", f"{config.space} ({len(past.names)})"))
    found.append(("Rounds", f"{len(past.policies)} of {past.n_rounds}"))
    if (agreement := agreement_of_rounds(past.policies)) is not None:
        found.append(("Rounds agree by", f"{agreement:.2f} (0 is chance)"))
    found.append(("Seed", str(config.seed)))
    if policy is not None:
        seconds = policy.learned.get("seconds")
        found += [("Time", duration(seconds))] if isinstance(seconds, int | float) else []
        found.append(("Mirror flips", "on" if policy.flip else "off"))
        found.append(("Entropy", f"{100 * entropy_share(policy):.1f} % of uniform"))
    return found


def cautions(past: History) -> list[str]:
    """Why the policy may be worth nothing, as the search has said of itself."""
    agreement = agreement_of_rounds(past.policies)
    found = [] if agreement is None or agreement >= CHANCE else [agreement_text(agreement)]
    dropped = "" if past.is_kept else past.confirmation
    return [f"{text[:1].upper()}{text[1:]}" for text in [dropped, past.remark, *found] if text]


def entropy_share(policy: Policy) -> float:
    highest = math.log(len(policy.space))
    return policy.entropy().mean().item() / highest if highest > 0 else 1.0


def has_own_positions(policy: Policy) -> bool:
    """Whether its positions differ, which those of a search with `tied` do not."""
    return any(not torch.equal(row, policy.pi[0]) for row in policy.pi[1:])


def policy_text(policy: Policy) -> str:
    k, n = number_of(policy), len(policy.space)
    if not k:
        return f"Images stay as they are{', but for mirror flips' if policy.flip else ''}."
    how = "one transformation, drawn" if k == 1 else f"{k} transformations, drawn one after the other"
    alike = " with the same probabilities" if k > 1 and not has_own_positions(policy) else ""
    return (
        f"Each image goes through {how} from {n}{alike}. A slice is as wide as a transformation is likely, and reaches "
        "as far out as its strength may go."
    )


def anchor_text(past: History) -> str:
    start = "At the start of each round the network goes back to its pre-trained state, and the policy so far becomes "
    budget = past.config.search.kl_budget
    if budget is None:
        return start + "the anchor that a KL penalty holds the round close to."
    text = f"{start}the anchor. A round goes a set way from it: a KL divergence of {budget:.3g} nats a position."
    if past.config.n_composed is None and past.policy is not None:
        text += f" How many transformations a composite has was tried before; rounds start from {len(past.start.pi)}."
    return text if past.rate is None else f"{text} The rate of re-training, {past.rate:g}, was found by trial."


def shares_text(policy: Policy, chosen: list[int]) -> list[tuple[str, str]]:
    probabilities, names = shares(policy), policy.space.names
    return [(names[n], percent(probabilities[n])) for n in chosen]


def percent(share: float) -> str:
    """For a sentence, where the sign must not begin a line."""
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def uses(folder: Path, past: History, found: Outcome | None) -> list[tuple[str, str]]:
    source, policy = past.config.data.source, str(folder / "policy.json")
    evaluate = ["slackaug", "evaluate", source, "-p", str(folder), "--baselines", "uniform,trivialaugment-wide"]
    python = f"import slackaug\n\naugment = slackaug.SlackAugment({policy!r})  # for PIL images and tensors"
    torchvision = (
        "from torchvision.transforms import v2\nfrom slackaug.torchvision import SlackAugment\n\n"
        f"augment = SlackAugment({policy!r})\n"
        "pipeline = v2.Compose([augment, v2.ToImage(), v2.ToDtype(torch.float32, scale=True),\n"
        "                       v2.Normalize(augment.policy.mean, augment.policy.std)])"
    )
    return [
        ("In your training", python),
        ("With torchvision", f"import torch\n{torchvision}"),
        ("Does it help?" if found is None else "Compare it with more", shlex.join(evaluate)),
        ("In the terminal", shlex.join(["slackaug", "show", policy])),
    ]


# --- charts -----------------------------------------------------------------------------------------------------------


def policy_parts(past: History, policy: Policy, size: Size) -> dict[str, Any]:
    positions = range(1, len(policy.pi) + 1) if has_own_positions(policy) else range(0)
    most, least = ([], []) if is_constant(policy) else figures.extremes(policy)
    return {
        "policy_text": policy_text(policy),
        "most": shares_text(policy, most),
        "least": shares_text(policy, least),
        "uniform": percent(1 / len(policy.space)),
        "frames": frames(past, size),
        "position_pies": [pie(policy, f"pie-{k}", f"How often, position {k}", k) for k in positions],
        "evolution": [evolution(past, k) for k in positions],
    }


def pie(policy: Policy, identity: str, title: str, position: int | None = None) -> Chart:
    svg, table = figures.pie(policy, position, id=identity), figures.pie_table(policy, position)
    return chart(identity, title, svg, table)


def frames(past: History, size: Size) -> list[Frame]:
    """How often and how strongly, at the start and after each round; the last comes first without a script."""
    named = [("the start", past.start)]
    named += [(f"round {i} of {past.n_rounds}", policy) for i, policy in enumerate(past.policies, 1)]
    if past.policy is not None and (not past.policies or past.is_kept is False):
        named.append(("the result" if past.policies else "policy.json", past.policy))
    last, n = len(named) - 1, min(len(named), MAX_FRAMES)
    found = []
    for number in sorted({round(i * last / max(n - 1, 1)) for i in range(n)}):
        name, policy = named[number]
        bars, identity = figures.mu_bars(policy, f"mu-{number}", size), f"mu-{number}"
        charts = [
            pie(policy, f"pie-of-{number}", f"How often, {name}"),
            chart(identity, f"How strongly, {name}", bars, figures.mu_bars_table(policy, size)),
        ]
        found.append(Frame(name, charts))
    return found


def evolution(past: History, position: int | None) -> Chart:
    identity = "course" if position is None else f"course-{position}"
    title = (
        "Probabilities over the search" if position is None else f"Probabilities over the search, position {position}"
    )
    svg = figures.evolution(past, position, id=identity)
    return chart(identity, title, svg, figures.evolution_table(past, position))


def diagnostics(past: History) -> list[Chart]:
    found = [evolution(past, None)] if past.policies else []
    if past.steps:
        found.append(chart("losses", "Losses", figures.losses(past, id="losses"), figures.losses_table(past)))
    if past.policies:
        svg, table = figures.entropy(past, id="entropy"), figures.entropy_table(past)
        found.append(chart("entropy", "Entropy of the policy", svg, table))
        found.append(chart("kl", "Distance from the anchors", figures.kl(past, id="kl"), figures.kl_table(past)))
    return found
