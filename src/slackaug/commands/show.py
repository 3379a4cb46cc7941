"""`slackaug.show`: a policy as a table."""

from typing import Annotated

from rich.console import Console

from ..augment.formats import published
from ..config.options import Path, PolicySource, command
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
    """
    console = console or Console()
    first = published.load(str(policy))
    if other is None:
        policy_table.show(console, str(policy), first)
    else:
        policy_table.compare(console, (str(policy), str(other)), (first, published.load(str(other))))
