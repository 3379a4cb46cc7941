"""The command line, built from the functions of commands/: their parameters are its arguments and options."""

import ast
import sys
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from . import __version__, exits
from .commands import COMMANDS

# All others are --name. Files are repeated, one at a time, for their names may hold commas: hence in the singular.
ON_THE_LINE = {"out": ("-o", "--out"), "policies": ("-p", "--policy"), "images": ("--image",)}
ALWAYS_OPTIONS = ("out", "policies")  # all else that Python takes by position is an argument
COMMA_SEPARATED = ("exclude", "baselines", "log")
WIDTHS = {"search": 1000, "study": 160, "evaluate": 140}  # of what is not written to a terminal; else 110
LOOK: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": "rich"}


class Commands(TyperGroup):
    """Each command is loaded when it is called: --help and --version wait for none of them, nor for torch."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(str(name)), rest


app = typer.Typer(name="slackaug", cls=Commands, no_args_is_help=True, **LOOK)


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"slackaug {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version, and exit.")
    ] = False,
) -> None:
    """Learn an image-augmentation policy for your dataset, and prove whether it helps."""


for command_name in COMMANDS:
    tree = ast.parse(Path(__file__).with_name("commands").joinpath(f"{command_name}.py").read_text(encoding="utf-8"))
    (defined,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == command_name)
    app.command(command_name, help=(ast.get_docstring(defined) or "").partition("\n")[0])(lambda: None)


def load(name: str) -> Any:
    """The command as click has it. Parameters of its function that have no help are for Python alone."""
    function = getattr(import_module(f".commands.{name}", __package__), name)
    parameters = signature(function).parameters

    def call(**words: Any) -> None:
        given = {key: value for key, value in words.items() if value not in (None, [])}
        for key in given.keys() & {*COMMA_SEPARATED}:
            given[key] = [entry.strip() for text in given[key] if text for entry in text.split(",")]
        if "console" in parameters:
            given["console"] = Console(width=None if sys.stdout.isatty() else WIDTHS.get(name, 110))
        if "data" in parameters:
            sys.path.insert(0, "")  # module:callable may name a file in this folder
        exits.is_understood()
        if code := getattr(function(**given), "exit_code", 0):
            raise typer.Exit(code)

    call.__signature__ = Signature([as_typer_has_it(one) for one in function.options.values()])  # type: ignore[attr-defined]
    alone = typer.Typer(**LOOK)
    alone.command(name, help=function.help)(call)
    return typer.main.get_command(alone)


def as_typer_has_it(one: Parameter) -> Parameter:
    from .config.options import bare, takes_several
    from .config.parse import several

    meaning, name = one.annotation.__metadata__[0], f"--{one.name.replace('_', '-')}"
    kind: Any = next((kind for kind in (str, bool, int, float) if kind in several(bare(one.annotation))), str)
    kind = list[str] if takes_several(one.annotation) else kind
    if kind is bool and one.default is not False:
        name = f"{name}/--no{name[1:]}"
    help = f"{meaning[0].upper()}{meaning[1:]}."
    if one.kind is one.KEYWORD_ONLY or one.name in ALWAYS_OPTIONS:
        mark: Any = typer.Option(*ON_THE_LINE.get(one.name, (name,)), help=help)
    else:
        mark = typer.Argument(metavar=one.name.upper(), help=help)
    default = None if one.default == () else one.default
    return one.replace(kind=one.KEYWORD_ONLY, annotation=Annotated[kind | None, mark], default=default)


def main() -> None:
    exits.run(app)
