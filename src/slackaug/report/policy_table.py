"""Policies as tables for a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import schema
from ..augment import describe
from ..augment.formats.forms import PBASchedule
from ..augment.formats.published import AnyPolicy
from ..augment.policy import Policy
from ..augment.stability import stability
from .strength import entropy_share

BAR = "▏▎▍▌▋▊▉█"


def plain(text: str) -> Text:
    """A text out of a file or a file's name: no markup, and no control characters for the terminal."""
    return Text("".join(c if c == "\n" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def bar(share: float, full: float, width: int = 12) -> str:
    """A bar of eighths of a character."""
    eighths = round(width * 8 * min(share / full, 1)) if full > 0 else 0
    return "█" * (eighths // 8) + (BAR[eighths % 8 - 1] if eighths % 8 else "")


def show(console: Console, name: str, policy: AnyPolicy) -> None:
    if isinstance(policy, Policy):
        console.print(policy_table(name, policy))
        console.print(plain(policy_remarks(policy)))
        return
    milestones = policy.MILESTONES if isinstance(policy, PBASchedule) else (0.0,)
    tables = [policy.rows(progress) for progress in milestones]
    title = f"{name}: {type(policy).__name__} over the space {policy.space.name!r}"
    table = Table(title=plain(title), title_justify="left")
    table.add_column("transformation")
    for progress in milestones:
        when = f" at {progress:.0%}" if len(milestones) > 1 else ""
        table.add_column(f"times an image{when}", justify="right")
        table.add_column("mean strength")
    for rows in zip(*tables, strict=True):
        table.add_row(rows[0].name, *(cell for row in rows for cell in (f"{row.share:.3f}", row.strength)))
    console.print(table)
    if policy.source:
        console.print(plain(f"source: {policy.source}; licence: {policy.licence or 'not stated'}"))


def policy_table(name: str, policy: Policy) -> Table:
    """Most likely first: the probability, averaged and by position, and how strong it can become."""
    probabilities = policy.probabilities.detach()  # (K, N)
    mean = probabilities.mean(0)
    table = Table(title=plain(name), title_justify="left")
    table.add_column("transformation")
    table.add_column("probability", justify="right")
    table.add_column("", min_width=12)
    table.add_column(f"positions 1 to {len(policy.pi)}" if len(policy.pi) > 1 else "position 1", justify="right")
    table.add_column("strength")
    for n in mean.argsort(descending=True, stable=True).tolist():
        transform = policy.space.transforms[n]
        positions = " ".join(f"{p:.3f}" for p in probabilities[:, n].tolist())
        strength = describe.range_text(transform, policy.mu[n].item())
        table.add_row(transform.name, f"{mean[n]:.3f}", bar(mean[n].item(), mean.max().item()), positions, strength)
    return table


def policy_remarks(policy: Policy) -> str:
    flips = "with" if policy.flip else "without"
    if number := policy.n_composed:
        remarks = f"{describe.number_text(number)} an image out of {len(policy.space)}, {flips} mirror flips; "
        remarks += f"entropy {entropy_share(policy):.1%} of uniform"
    else:
        remarks = f"images stay as they are, {flips} mirror flips"
    history = {key: value for key, value in policy.learned.items() if not isinstance(value, dict | list)}
    return remarks + "".join(f"\n{key[:40]}: {schema.describe(value)}" for key, value in history.items())


def compare(console: Console, names: tuple[str, str], policies: tuple[AnyPolicy, AnyPolicy]) -> None:
    """Two policies side by side, by the expected number of applications per image."""
    first, second = ({row.name: row for row in rows_of(policy)} for policy in policies)
    table = Table(title=plain(f"A: {names[0]}\nB: {names[1]}"), title_justify="left")
    table.add_column("transformation")
    for header in ("times an image: A", "B", "B - A"):
        table.add_column(header, justify="right")
    table.add_column("strength: A")
    table.add_column("B")
    absent = describe.Row("", 0.0, "")
    union = [*first, *(name for name in second if name not in first)]
    for name in sorted(union, key=lambda name: first.get(name, absent).share - second.get(name, absent).share):
        a, b = first.get(name, absent), second.get(name, absent)
        table.add_row(name, f"{a.share:.3f}", f"{b.share:.3f}", f"{b.share - a.share:+.3f}", a.strength, b.strength)
    console.print(table)
    one, other = policies
    if isinstance(one, Policy) and isinstance(other, Policy) and alike(one, other):
        console.print(agreement(one, other), highlight=False)


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
    found = stability([a, b])
    return (
        f"KL(A || B) = {a.kl(b).item():.4f} nats over {len(a.pi)} position{'s' * (len(a.pi) != 1)}\n"
        f"correlation of the probabilities: {correlation(found.pi)}; "
        f"without Invert and Solarize: {correlation(found.pi_rest)}\n"
        f"correlation of the magnitude bounds: {correlation(found.mu)}"
    )


def correlation(found: float | None) -> str:
    return "undefined (one of them is constant)" if found is None else f"{found:.2f}"
