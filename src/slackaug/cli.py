"""The command line, built from the functions of commands/: their parameters are its arguments and options."""

import ast
import sys
from importlib import import_module
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from . import __version__, exits
from .commands import COMMANDS
from .config.command_line import Command, as_typer_has_it, show_help
from .messages.terminal import terminal

COMMA_SEPARATED = ("exclude", "baselines", "log")
LOOK: dict[str, Any] = {"pretty_exceptions_enable": False, "rich_markup_mode": None}


class Commands(TyperGroup):
    """Each command is loaded when it is called: --help and --version wait for none of them, nor for torch."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(str(name)), rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        show_help(self, ctx)

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """What is wrong with the line is an error like any other."""
        options |= {"prog_name": "slackaug", "standalone_mode": False}
        if not standalone_mode:
            return super().main(*args, **options)
        try:
            code = super().main(*args, **options)
        except typer.TyperException as error:
            if not error.format_message():  # the help was shown instead
                sys.exit(error.exit_code)
            where = getattr(getattr(error, "ctx", None), "command_path", "slackaug")
            message = error.format_message().rstrip(".")
            raise ValueError(f"{message}{'' if message.endswith('?') else '.'} See: {where} --help") from None
        sys.exit(code)


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
            given["console"] = terminal(stderr=given.get("json", False))
        if "data" in parameters:
            sys.path.insert(0, "")  # module:callable may name a file in this folder
        with exits.understood():
            code = getattr(function(**given), "exit_code", 0)
        if code:
            raise typer.Exit(code)

    call.__signature__ = Signature([as_typer_has_it(one) for one in function.options.values()])  # type: ignore[attr-defined]
    alone = typer.Typer(add_completion=False, **LOOK)
    alone.command(name, cls=Command, help=function.help, epilog="\n".join(function.examples))(call)
    return typer.main.get_command(alone)


def main() -> None:
    exits.run(app)
