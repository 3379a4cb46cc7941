"""`slackaug.show`: a policy as a table."""

from json import dumps
from typing import Annotated

from rich.console import Console

from ..augment.formats import published
from ..config.options import Json, Path, PolicySource, Verbose, command
from ..messages.terminal import terminal
from ..report import policy_table


@command
def show(
    policy: PolicySource,
    other: Annotated[Path | None, "a second one, to compare it with"] = None,
    *,
    json: Json = False,
    verbose: Verbose = False,
    console: Console | None = None,
) -> None:
    """Print a policy as a table; two policies side by side.

    Reads slackaug's policies and the published formats of SLACK, AutoAugment, Fast AA, DADA, DeepAA and PBA.

    Examples:
        slackaug show runs/pets
        slackaug show runs/pets uniform:cifar
    """
    console = console or terminal()
    names = [str(source) for source in (policy, other) if source is not None]
    policies = [published.load(name) for name in names]
    if json:
        shown = [policy_table.as_dict(*one) for one in zip(names, policies, strict=True)]
        print(dumps({"policies": shown}, indent=1))
    elif other is None:
        policy_table.show(console, names[0], policies[0], is_verbose=verbose)
    else:
        policy_table.compare(console, names, policies, is_verbose=verbose)
