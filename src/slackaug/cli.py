"""The command line. Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 130 and 143 stopped by a signal."""

import io
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
DATA_HELP = (
    "A folder of class folders (with or without train/ and test/), FILE.npz, FILE.csv, digits, shapes, "
    "torchvision:NAME, hf:NAME or module:callable."
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
def search(
    data: Annotated[str, typer.Argument(help=DATA_HELP)],
    out: Annotated[str, typer.Option("-o", "--out", help="Folder of the run, such as runs/pets.")],
    preset: Annotated[str | None, typer.Option(help="quick (the default without a GPU) or paper.")] = None,
    model: Annotated[
        str | None, typer.Option(help="small, resnet18, wrn-40-2, timm:NAME, module:callable, ...")
    ] = None,
    ops: Annotated[str | None, typer.Option(help="Space of transformations: cifar, imagenet or domainnet.")] = None,
    exclude: Annotated[str | None, typer.Option(help="Transformations to leave out: Invert,Solarize")] = None,
    time_limit: Annotated[str | None, typer.Option(help="Such as 90s, 20min or 2h; ends with the last round.")] = None,
    config: Annotated[str | None, typer.Option(help="YAML file with settings, such as a run's config.yaml.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="One setting: search.n_rounds=5")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the split, the network and all draws.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in this folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in this folder.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the settings and the cost; write nothing.")] = False,
    size: Annotated[int | None, typer.Option(help="Resize all images to this many pixels.")] = None,
    flip: Annotated[bool | None, typer.Option("--flip/--no-flip", help="Mirror images keep their label.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out files that cannot be read.")] = False,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; the default is what is there.")] = None,
    threads: Annotated[int | None, typer.Option(help="Of the CPU.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write scalars for TensorBoard, too.")] = False,
) -> None:
    """Learn an augmentation policy for your images. Test images are never looked at."""
    from . import api

    sys.path.insert(0, "")  # module:callable may name a file in this folder
    api.search(
        data,
        out,
        preset=preset,
        model=model,
        ops=ops,
        exclude=[name.strip() for name in exclude.split(",")] if exclude else (),
        time_limit=time_limit,
        config=config,
        set=settings or (),
        seed=seed,
        resume=resume,
        overwrite=overwrite,
        dry_run=dry_run,
        size=size,
        flip=flip,
        skip_bad=skip_bad,
        device=device,
        threads=threads,
        tensorboard=tensorboard,
        console=Console(width=None if sys.stdout.isatty() else 1000),
    )


@app.command()
def demo(
    out: Annotated[
        str, typer.Option("-o", "--out", help="Folder of the run; an earlier demo there is replaced.")
    ] = "runs/demo",
) -> None:
    """Search, evaluate and judge on the embedded handwritten digits: about three minutes on a laptop."""
    from . import demo as demonstration

    demonstration.run(out, Console(width=None if sys.stdout.isatty() else 110))


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


def fail(message: str, code: int) -> None:
    print(f"slackaug: {message}", file=sys.stderr)
    sys.exit(code)


def main() -> None:
    """Run a command; a known error is one message on stderr, with no traceback unless --debug is given."""
    debug = "--debug" in sys.argv  # anywhere on the line
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows question marks
    if debug:
        app()
    try:
        app()
    except (ValueError, OSError) as error:  # wrong input
        fail(str(error), 2)
    except RuntimeError as error:  # the run failed, or was asked to stop
        fail(str(error), 128 + error.signal_number if hasattr(error, "signal_number") else 1)
    except KeyboardInterrupt:
        fail("interrupted", 130)
