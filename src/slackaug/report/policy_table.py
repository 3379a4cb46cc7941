"""Policies as tables for a terminal."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from .. import schema
from ..augment import describe
from ..augment.formats.forms import PBASchedule
from ..augment.formats.published import AnyPolicy
from ..augment.policy import Policy
from ..augment.stability import stability
from ..messages import answer as messages
from ..messages import counted, on_grey
from ..runs.folders import is_start
from .strength import entropy_share, idle

LONGEST = len("threshold")  # word of a strength
WRAPPED = ("strength", "by position", "mean strength")
BAR = "▏▎▍▌▋▊▉█"


def plain(text: str) -> Text:
    """A text out of a file or a file's name: no markup, and no control characters for the terminal."""
    return Text("".join(c if c == "\n" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def bar(share: float, full: float, width: int = 12) -> str:
    """A bar of eighths of a character."""
    eighths = round(width * 8 * min(share / full, 1)) if full > 0 else 0
    return "█" * (eighths // 8) + (BAR[eighths % 8 - 1] if eighths % 8 else "")


def empty_table(title: str, *columns: str) -> Table:
    """What is below a name that begins with > stands to the right. Only what has several words is ever wrapped."""
    table = Table(title=plain(title), title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in columns:
        name, is_text = column.removeprefix(">"), column.startswith(WRAPPED)
        justify: JustifyMethod = "right" if column.startswith(">") else "left"
        table.add_column(name, justify=justify, no_wrap=not is_text, min_width=LONGEST if is_text else None)
    return table


def show(console: Console, name: str, policy: AnyPolicy, *, is_verbose: bool) -> None:
    if isinstance(policy, Policy):
        console.print(policy_table(name, policy, is_verbose))
        console.print(plain(policy_remarks(policy, is_verbose)))
        return
    milestones = policy.MILESTONES if isinstance(policy, PBASchedule) else (0.0,)
    when = [f" at {progress:.0%}" if len(milestones) > 1 else "" for progress in milestones]
    columns = [column for at in when for column in (f">times an image{at}", "mean strength")]
    title = f"{name}: {type(policy).__name__} over the space {policy.space.name!r}"
    table = empty_table(title, "transformation", *columns)
    for rows in zip(*(policy.rows(progress) for progress in milestones), strict=True):
        table.add_row(rows[0].name, *(cell for row in rows for cell in (f"{row.share:.3f}", row.strength)))
    console.print(table)
    if policy.source:
        console.print(plain(f"source: {policy.source}; licence: {policy.licence or 'not stated'}"))


def policy_table(name: str, policy: Policy, is_verbose: bool) -> Table:
    """What can be drawn, most likely first: its probability, averaged and perhaps by position, and its strengths."""
    probabilities = policy.probabilities.detach()  # (K, N)
    mean, drawn, transforms = probabilities.mean(0), describe.drawn(policy), policy.space.transforms
    order = mean.argsort(descending=True, stable=True).tolist()
    ranked = [(n, transforms[n]) for n in order if transforms[n].name in drawn]
    table = empty_table(name, "transformation", ">probability", "by position" if is_verbose else "", "strength")
    for n, transform in ranked:
        each = " ".join(f"{p:.1%}" for p in probabilities[:, n].tolist())
        strength = describe.range_text(transform, policy.mu[n].item())
        shown = each if is_verbose else bar(mean[n].item(), mean.max().item())
        table.add_row(transform.name, f"{mean[n]:.1%}", shown, strength)
    return table


def policy_remarks(policy: Policy, is_verbose: bool) -> str:
    number, n_left_out = policy.n_composed, len(policy.space) - len(describe.drawn(policy))
    remarks = describe.policy_text(number, len(policy.space), flip=policy.flip)
    remarks += f"; entropy {entropy_share(policy):.1%} of uniform" if is_verbose and number else ""
    remarks += f"\n{counted(n_left_out, 'other transformation')} cannot be drawn" if n_left_out else ""
    remarks += f"\n{grey}" if (grey := on_grey(idle(policy))) else ""
    history = {key: value for key, value in policy.learned.items() if not isinstance(value, dict | list)}
    shown = [f"{key[:40]}: {schema.describe(value)}" for key, value in history.items() if is_verbose]
    return "\n".join([remarks, *shown, *of_the_race(policy)])


def of_the_race(policy: AnyPolicy) -> list[str]:
    """What a race says of the policy in the folder of a run; nothing of others."""
    learned = policy.learned if isinstance(policy, Policy) else {}
    if "use" not in learned:
        return []
    if (use := learned["use"]) is None:
        return [messages.not_the_answer(None)]
    if is_start(learned):
        return [messages.no_time_so_far(use)]
    said = [] if learned.get("is_final", True) else [messages.race_was_stopped(use)]
    said += [] if learned.get("is_answer", True) else [messages.not_the_answer(use)]
    return said or ([] if learned.get("is_kept", True) else [messages.did_not_win(use)])


def compare(console: Console, names: Sequence[str], policies: Sequence[AnyPolicy], *, is_verbose: bool) -> None:
    """Two policies side by side, by the expected number of applications per image."""
    one, other = policies
    first, second = ({row.name: row for row in rows_of(policy)} for policy in policies)
    columns = ("transformation", ">A", ">B", ">B - A", "strength A", "strength B")
    title = f"A: {names[0]}\nB: {names[1]}\nHow many times an image, and how strong:"
    table, absent = empty_table(title, *columns), describe.Row("", 0.0, "")
    table.padding = (0, 1, 0, 0)  # six columns fit 60
    pairs = [(name, first.get(name, absent), second.get(name, absent)) for name in first | second]
    for name, a, b in sorted(pairs, key=lambda pair: pair[1].share - pair[2].share):
        table.add_row(name, f"{a.share:.3f}", f"{b.share:.3f}", f"{b.share - a.share:+.3f}", a.strength, b.strength)
    console.print(table)
    for letter, policy in zip("AB", policies, strict=True):
        for remark in of_the_race(policy):
            console.print(plain(f"{letter}: {remark}"))
    if is_verbose and isinstance(one, Policy) and isinstance(other, Policy) and alike(one, other):
        console.print(agreement(one, other), highlight=False)


def as_dict(name: str, policy: AnyPolicy) -> dict[str, Any]:
    """For programs: the same numbers as in the table."""
    rows = [
        {"transformation": row.name, "times_an_image": row.share, "strength": row.strength} for row in rows_of(policy)
    ]
    return {"source": name, "kind": type(policy).__name__, "space": policy.space.name, "transformations": rows}


def alike(a: Policy, b: Policy) -> bool:
    return a.space.names == b.space.names and len(a.pi) == len(b.pi)


def rows_of(policy: AnyPolicy) -> list[describe.Row]:
    if not isinstance(policy, Policy):
        return policy.rows(0.5)
    share = policy.probabilities.detach().sum(0)
    return [
        describe.Row(t.name, often, describe.range_text(t, mu))
        for t, often, mu in zip(policy.space, share.tolist(), policy.mu.tolist(), strict=True)
    ]


def agreement(a: Policy, b: Policy) -> str:
    """How alike two policies over the same space are."""
    found = ("undefined (one of them is constant)" if r is None else f"{r:.2f}" for r in stability([a, b])[1:4])
    pi, pi_rest, mu = found
    return (
        f"KL(A || B) = {a.kl(b).item():.4f} nats over {counted(len(a.pi), 'position')}\n"
        f"correlation of the probabilities: {pi}; without Invert and Solarize: {pi_rest}\n"
        f"correlation of the magnitude bounds: {mu}"
    )
