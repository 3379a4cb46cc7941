"""`slackaug.show`: a policy as a table."""

from typing import Annotated

from rich.console import Console

from ..augment.formats import published
from ..config.options import Path, PolicySource, command
from ..messages.terminal import terminal
from ..report import policy_table


@command
def show(
    policy: PolicySource,
    other: Annotated[Path | None, "a second one, to compare it with"] = None,
    *,
    console: Console | None = None,
) -> None:
    """Print a policy as a table; two policies side by side.

    Reads slackaug's policies and the published formats of SLACK, AutoAugment, Fast AA, DADA, DeepAA and PBA.

    Examples:
        slackaug show runs/pets
        slackaug show runs/pets uniform:cifar
    """
    console = console or terminal()
    first = published.find(str(policy))
    if other is None:
        policy_table.show(console, str(policy), first)
    else:
        policy_table.compare(console, (str(policy), str(other)), (first, published.find(str(other))))
