"""The command line. Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 130 and 143 stopped by a signal."""

import io
import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from . import __version__
from .exits import Told, exit_code

app = typer.Typer(
    name="slackaug",
    help="Learn an image-augmentation policy for your dataset, and prove whether it helps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
# Turns that threads wait before they sleep. By default they are so many that busy cores starve (research/busy.py).
SPINS = "4000"
DATA_HELP = (
    "A folder of class folders (with or without train/ and test/), FILE.npz, FILE.csv, digits, shapes, "
    "torchvision:NAME, hf:NAME, imagenet100:ROOT, domainnet:ROOT/DOMAIN or module:callable."
)
PolicyArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="POLICY [POLICY]", help="A policy file of any known format, a run's folder, or uniform:SPACE."
    ),
]
PresetOption = Annotated[
    str | None, typer.Option(help="quick (the default without a GPU), fast (with one), standard or paper.")
]
ModelOption = Annotated[str | None, typer.Option(help="small, resnet18, wrn-40-2, timm:NAME, module:callable, ...")]
ConfigOption = Annotated[str | None, typer.Option(help="YAML file with settings, such as a run's config.yaml.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting: search.n_rounds=5; all are in docs/reference/settings.md."),
]
ExcludeOption = Annotated[str | None, typer.Option(help="Transformations to leave out: Invert,Solarize")]
BalancedOption = Annotated[
    bool | None, typer.Option("--balanced", help="The validation loss counts all classes alike.")
]
SizeOption = Annotated[int | None, typer.Option(help="Resize all images to this many pixels.")]
MarginOption = Annotated[
    bool | None,
    typer.Option("--margin/--no-margin", help="A margin around --size for random windows: Resize(256), crop 224."),
]
FlipOption = Annotated[bool | None, typer.Option("--flip/--no-flip", help="Mirror images keep their label.")]
SkipBadOption = Annotated[bool, typer.Option("--skip-bad", help="Leave out files that cannot be read.")]
GroupByOption = Annotated[
    str | None,
    typer.Option(help="Column of a csv, or regular expression on paths: such a group stays on one side of a split."),
]
WeightsOption = Annotated[
    str | None, typer.Option(help="FILE.safetensors that the network starts from, to be fine-tuned.")
]
CacheOption = Annotated[
    str | None, typer.Option(help="Folder for decoded images; large sets have one in ~/.cache/slackaug/images.")
]
DeviceOption = Annotated[str | None, typer.Option(help="cpu or cuda; the default is what is there.")]
ThreadsOption = Annotated[int | None, typer.Option(help="Of the CPU.")]
JobsOption = Annotated[int | None, typer.Option(help="How many to do at a time; on Ray: how many share a GPU.")]
BackendOption = Annotated[str, typer.Option(help="local or ray.")]
AddressOption = Annotated[str | None, typer.Option(help="HOST:PORT of a Ray cluster; else one is started here.")]


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
def check(
    data: Annotated[str, typer.Argument(help=DATA_HELP)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    cost: Annotated[bool, typer.Option("--cost/--no-cost", help="Measure what a search takes here.")] = True,
    model: ModelOption = None,
    size: SizeOption = None,
    margin: MarginOption = None,
    skip_bad: SkipBadOption = False,
    group_by: GroupByOption = None,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Look at a data set: what is in it, what must be mended, what a search would do and cost. Writes nothing.

    Exits 1 where something must be mended before a search can start.
    """
    import json

    from .auto import check

    sys.path.insert(0, "")
    findings = check.check(
        data,
        size=size,
        margin=bool(margin),
        skip_bad=skip_bad,
        group_by=group_by,
        model=model,
        cost=cost,
        device=device,
        threads=threads,
        console=Console(stderr=True),
    )
    if as_json:
        print(json.dumps(findings.as_dict(), indent=1))
    else:
        print("\n".join(check.lines(findings)))
    if findings.problems:
        raise typer.Exit(1)


@app.command()
def search(
    data: Annotated[str, typer.Argument(help=DATA_HELP)],
    out: Annotated[str, typer.Option("-o", "--out", help="Folder of the run, such as runs/pets.")],
    preset: PresetOption = None,
    model: ModelOption = None,
    ops: Annotated[str | None, typer.Option(help="Space of transformations: cifar, imagenet or domainnet.")] = None,
    exclude: ExcludeOption = None,
    time_limit: Annotated[str | None, typer.Option(help="Such as 90s, 20min or 2h; ends with the last round.")] = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    seed: Annotated[int | None, typer.Option(help="Of the split, the network and all draws.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in this folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in this folder.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the settings and the cost, and write no run.")
    ] = False,
    size: SizeOption = None,
    margin: MarginOption = None,
    flip: FlipOption = None,
    skip_bad: SkipBadOption = False,
    balanced: BalancedOption = None,
    weights: WeightsOption = None,
    group_by: GroupByOption = None,
    cache: CacheOption = None,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write scalars for TensorBoard, too.")] = False,
    engine: Annotated[str, typer.Option(help="compiled, and captured where it can be (a GPU); or plain.")] = "compiled",
) -> None:
    """Learn an augmentation policy for your images. Test images are never looked at."""
    from .commands import search as api

    if follows():
        sys.stderr = sys.__stderr__  # the line is understood: from here on the ensemble decides who says what
    sys.path.insert(0, "")  # module:callable may name a file in this folder
    api.search(
        data,
        out,
        preset=preset,
        model=model,
        ops=ops,
        exclude=comma_separated(exclude),
        time_limit=time_limit,
        config=config,
        set=settings or (),
        seed=seed,
        resume=resume,
        overwrite=overwrite,
        dry_run=dry_run,
        size=size,
        margin=margin,
        flip=flip,
        skip_bad=skip_bad,
        balanced=balanced,
        weights=weights,
        group_by=group_by,
        cache=cache,
        device=device,
        threads=threads,
        tensorboard=tensorboard,
        engine=engine,
        console=Console(width=None if sys.stdout.isatty() else 1000),
    )


@app.command()
def evaluate(
    data: Annotated[str, typer.Argument(help=DATA_HELP)],
    policies: Annotated[
        list[str] | None, typer.Option("-p", "--policy", help="A policy file, or the folder of a run; may be repeated.")
    ] = None,
    baselines: Annotated[
        str | None, typer.Option(help="Such as none,uniform (a wrong name lists all); all are compared with the first.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Trainings of each policy.")] = 4,
    out: Annotated[
        str | None, typer.Option("-o", "--out", help="Folder; results go to its eval/. Default: the policy's run.")
    ] = None,
    preset: PresetOption = None,
    model: ModelOption = None,
    ops: Annotated[str | None, typer.Option(help="Space of the uniform baselines: cifar, imagenet, domainnet.")] = None,
    magnitudes: Annotated[str, typer.Option(help="Of policies: own, uniform over their ranges, or both.")] = "own",
    randaugment_grid: Annotated[
        str | None, typer.Option(help="Choose randaugment's N and M by validation: 1,2x5,9,14")
    ] = None,
    save_models: Annotated[str | None, typer.Option(help="Folder for the trained weights (safetensors).")] = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    size: SizeOption = None,
    margin: MarginOption = None,
    flip: FlipOption = None,
    skip_bad: SkipBadOption = False,
    weights: WeightsOption = None,
    group_by: GroupByOption = None,
    cache: CacheOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the results in this folder.")] = False,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    jobs: JobsOption = None,
    backend: BackendOption = "local",
    address: AddressOption = None,
) -> None:
    """Train with policies and baselines under one protocol, and say whether a policy helps.

    Given the same command again, it goes on where it was left.
    """
    from .commands import evaluate

    sys.path.insert(0, "")
    evaluate.evaluate(
        data,
        policies or (),
        baselines=comma_separated(baselines),
        seeds=seeds,
        out=out,
        preset=preset,
        model=model,
        ops=ops,
        magnitudes=magnitudes,
        randaugment_grid=randaugment_grid,
        save_models=save_models,
        config=config,
        set=settings or (),
        size=size,
        margin=margin,
        flip=flip,
        skip_bad=skip_bad,
        weights=weights,
        group_by=group_by,
        cache=cache,
        overwrite=overwrite,
        device=device,
        threads=threads,
        jobs=jobs,
        backend=backend,
        address=address,
        console=Console(width=None if sys.stdout.isatty() else 140),
    )


@app.command()
def study(
    recipe: Annotated[str | None, typer.Argument(help="Such as quick, cifar10-wrn-40-2; --list names all.")] = None,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Folder of the study, such as runs/study.")] = None,
    data: Annotated[
        str | None,
        typer.Option(help=f"Instead of the recipe's own; with --resume, where the images are now. {DATA_HELP}"),
    ] = None,
    policies: Annotated[
        list[str] | None, typer.Option("-p", "--policy", help="NAME=FILE, a published policy that a recipe needs.")
    ] = None,
    baselines: Annotated[str | None, typer.Option(help="Instead of the recipe's: uniform,trivialaugment-wide")] = None,
    searches: Annotated[int | None, typer.Option(help="On different splits.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Of each learned policy.")] = None,
    model: ModelOption = None,
    exclude: ExcludeOption = None,
    settings: SetOption = None,
    size: SizeOption = None,
    margin: MarginOption = None,
    flip: FlipOption = None,
    skip_bad: SkipBadOption = False,
    balanced: BalancedOption = None,
    weights: WeightsOption = None,
    group_by: GroupByOption = None,
    cache: CacheOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the study in this folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the study in this folder.")] = False,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    jobs: JobsOption = None,
    backend: BackendOption = "local",
    address: AddressOption = None,
    list_all: Annotated[bool, typer.Option("--list", help="Name all recipes, and exit.")] = False,
) -> None:
    """Several searches and several evaluations of each: the paper's tables, or the same on your own data."""
    from .commands import study as studies
    from .judge.studies import recipes as study_recipes

    if list_all:
        print("\n".join(study_recipes.STUDIES))
        return
    if out is None or (recipe is None and not resume):
        raise typer.BadParameter("expected a recipe and -o FOLDER, or -o FOLDER --resume; --list names the recipes")
    sys.path.insert(0, "")
    studies.study(
        recipe,
        out,
        data=data,
        policies=policies or (),
        baselines=None if baselines is None else comma_separated(baselines),
        n_search=searches,
        n_eval=evaluations,
        model=model,
        exclude=comma_separated(exclude),
        flip=flip,
        balanced=balanced,
        weights=weights,
        set=settings or (),
        size=size,
        margin=margin,
        skip_bad=skip_bad,
        group_by=group_by,
        cache=cache,
        resume=resume,
        overwrite=overwrite,
        device=device,
        threads=threads,
        jobs=jobs,
        backend=backend,
        address=address,
        console=Console(width=None if sys.stdout.isatty() else 160),
    )


def comma_separated(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


@app.command()
def demo(
    out: Annotated[
        str, typer.Option("-o", "--out", help="Folder of the run; an earlier demo there is replaced.")
    ] = "runs/demo",
) -> None:
    """Search, evaluate and judge on the embedded handwritten digits: about two minutes on 2 cores."""
    from .commands import demo as demonstration

    demonstration.run(out, Console(width=None if sys.stdout.isatty() else 110))


@app.command()
def show(policies: PolicyArgument) -> None:
    """Print a policy as a table; two policies side by side.

    Reads slackaug's policies and the published formats of SLACK, AutoAugment, Fast AA, DADA, DeepAA and PBA.
    """
    from .augment.formats import published
    from .report import policy_table as tables

    if len(policies) > 2:
        raise typer.BadParameter(f"expected one or two policies, got {len(policies)}")
    console = Console(width=None if sys.stdout.isatty() else 110)
    found = [published.find(policy) for policy in policies]
    if len(found) == 1:
        tables.show(console, policies[0], found[0])
    else:
        tables.compare(console, (policies[0], policies[1]), (found[0], found[1]))


@app.command()
def figure(
    kind: Annotated[str, typer.Argument(metavar="pie|evolution|strips", help="What to draw.")],
    source: Annotated[
        str, typer.Argument(metavar="POLICY|RUN", help="A policy file, uniform:SPACE, or a run's folder.")
    ],
    out: Annotated[str, typer.Option("-o", "--out", help="FILE.svg, FILE.png or FILE.pdf.")],
    position: Annotated[int | None, typer.Option(help="One position, from 1; else their average.")] = None,
    image: Annotated[
        list[str] | None, typer.Option(help="For strips: an image, once or more; else of the run.")
    ] = None,
) -> None:
    """Draw a policy as the paper's pie, the course of a search, or strips of what each transformation does."""
    from .commands import figure

    print(figure.draw(kind, source, out, position=position, images=image or ()))


@app.command()
def report(
    run: Annotated[str, typer.Argument(help="Folder of a run, a study or an evaluation.")],
    out: Annotated[str | None, typer.Option("-o", "--out", help="File; the default is report.html in the run.")] = None,
    data: Annotated[str | None, typer.Option(help=f"Where the images are now, to show some. {DATA_HELP}")] = None,
    opens: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Write one HTML file about a run: the verdict, the policy, how it was learned, and what it does to your images."""
    import webbrowser

    from .report import page

    sys.path.insert(0, "")
    path = page.write(run, out, data=data)
    print(f"the report is {path}")
    if opens and not webbrowser.open(path.resolve().as_uri()):
        print("no browser was found to open it with", file=sys.stderr)


@app.command()
def export(
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="A policy file, a run's folder, or uniform:SPACE.")],
    to: Annotated[str, typer.Option(help="torchvision, timm, albumentations, kornia, or python (torch alone).")],
    out: Annotated[str, typer.Option("-o", "--out", help="File to write, such as augment.py.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Write a policy as a Python file for another library, with its numbers inside and no need of slackaug.

    Says for each transformation whether its pixels are exactly those of the search.
    """
    from .export import import_line, write

    print(write(policy, to, out, overwrite=overwrite))
    print(f"wrote {out}: {import_line(out)}")


@app.command()
def preview(
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="A policy file, a run's folder, or uniform:SPACE.")],
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Image files.")],
    out: Annotated[str, typer.Option("-o", "--out", help="File to write.")] = "preview.png",
    seed: Annotated[int, typer.Option(help="Of the random composites, directions and crops.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """A contact sheet of images: their most and least likely transformations, and random composites."""
    from .report import contact_sheet

    contact_sheet.write(policy, images, out, seed=seed, overwrite=overwrite)
    print(f"wrote {out}")


@app.command()
def doctor() -> None:
    """Say what is installed, what is broken, and the line that mends it. Exits 1 where something is broken."""
    from .commands.doctor import findings

    broken = False
    for finding in findings():
        print(f"{finding.what:12} {finding.state}")
        if finding.remedy:
            broken = True
            print(f"{'':12} to mend it: {finding.remedy}")
    if broken:
        raise typer.Exit(1)


def follows() -> bool:
    """Whether this is a process of an ensemble, but not its first (torchrun)."""
    return os.environ.get("RANK", "0") != "0"


def fail(message: str, code: int) -> None:
    print(f"slackaug: {message}", file=sys.stderr)
    sys.exit(code)


def describe(error: Exception) -> str:
    """Of a file that cannot be written, its name and why, without numbers of the system."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def main() -> None:
    """Run a command; a known error is one message on stderr, with no traceback unless --debug is given."""
    debug = "--debug" in sys.argv  # anywhere on the line
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # closed by whoever started this
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows question marks
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # torch, which reads it, is not loaded yet
    if follows():
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # rank 0 says what is wrong with the line
    try:
        app()
    except Told as error:
        sys.exit(error.code)
    except (ValueError, OSError, RuntimeError) as error:
        if debug:
            raise
        fail(describe(error), exit_code(error))
    except MemoryError as error:
        if debug:
            raise
        fail("there is not enough memory for this; a smaller --size, or a smaller batch, needs less", exit_code(error))
    except KeyboardInterrupt as error:
        fail("interrupted", exit_code(error))
