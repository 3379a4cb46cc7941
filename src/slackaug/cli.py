"""The command line. Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 130 interrupted."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from . import __version__

app = typer.Typer(
    name="slackaug",
    help="Learn an image-augmentation policy for your dataset, and prove whether it helps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
PolicyArgument = Annotated[
    list[str], typer.Argument(metavar="POLICY [POLICY]", help="A policy file of any known format, or uniform:SPACE.")
]


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"slackaug {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="And exit.")
    ] = False,
) -> None:
    pass


@app.command()
def show(policies: PolicyArgument) -> None:
    """Print a policy as a table; two policies side by side.

    Reads slackaug's policies and the published formats of SLACK, AutoAugment, Fast AA, DADA, DeepAA and PBA.
    """
    from . import show as tables

    if len(policies) > 2:
        raise typer.BadParameter(f"expected one or two policies, got {len(policies)}")
    console = Console(width=None if sys.stdout.isatty() else 110)
    found = [tables.find(policy) for policy in policies]
    if len(found) == 1:
        tables.show(console, policies[0], found[0])
    else:
        tables.compare(console, (policies[0], policies[1]), (found[0], found[1]))


@app.command()
def doctor() -> None:
    """Say what is installed, what is broken, and the line that mends it. Exits 1 where something is broken."""
    from .doctor import findings

    broken = False
    for finding in findings():
        print(f"{finding.what:12} {finding.state}")
        if finding.remedy:
            broken = True
            print(f"{'':12} to mend it: {finding.remedy}")
    if broken:
        raise typer.Exit(1)


def main() -> None:
    """Run a command; a known error is one message on stderr, with no traceback unless --debug is given."""
    debug = "--debug" in sys.argv
    try:
        app(standalone_mode=True)
    except (ValueError, OSError) as error:
        if debug:
            raise
        print(f"slackaug: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
