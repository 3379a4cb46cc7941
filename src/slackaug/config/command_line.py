"""Options as the command line has them: their names, their kinds, their help, and the answer to unknown ones."""

import os
from collections.abc import Callable, Iterator
from inspect import Parameter
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperArgument, TyperCommand, TyperGroup

from ..messages.terminal import ENDLESS, INDENT, fitted, packed, terminal

KINDS: dict[Any, tuple[Any, str]] = {  # of values: what typer reads, and what stands for it in the help
    os.PathLike: (str, "PATH"), str: (str, "TEXT"), bool: (bool, ""), int: (int, "N"), float: (float, "X"),
}  # fmt: skip
NUMBERS = {int: "a whole number such as 56", float: "a number such as 0.5"}  # what is expected
UNKNOWN_WIDTH, WIDEST = 80, 120  # columns of what is not a terminal; of lines that are read easily
NAMES_WIDTH = 24  # columns of the names of options, at most: below longer ones their meaning has lines of its own
FIRST = "Options"  # the group of options that name none


def as_typer_has_it(one: Parameter) -> Parameter:
    from .options import bare, names_of, takes_several
    from .parse import several

    (meaning, *group), names = one.annotation.__metadata__, names_of(one)
    origins = [getattr(kind, "__origin__", kind) for kind in several(bare(one.annotation))]
    kind, placeholder = next((KINDS[kind] for kind in KINDS if kind in origins), KINDS[str])
    kind = list[str] if takes_several(one.annotation) else kind
    if kind is bool and one.default is not False:
        names = (f"{names[0]}/--no{names[0][1:]}",)
    help = f"{meaning[0].upper()}{meaning[1:]}."
    if names:
        title = group[0] if group else FIRST
        mark: Any = typer.Option(
            *names,
            help=help,
            metavar=placeholder,
            rich_help_panel=title,
            parser=reading(kind) if kind in NUMBERS else None,
        )
    else:
        mark = typer.Argument(metavar=one.name.upper(), help=help)
    default = None if one.default == () else one.default
    return one.replace(kind=one.KEYWORD_ONLY, annotation=Annotated[kind | None, mark], default=default)


def reading(kind: type) -> Callable[[str], Any]:
    """Read a number, or say what is expected."""

    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise typer.BadParameter(f"expected {NUMBERS[kind]}, got {text!r}") from None

    return read


# --- help -------------------------------------------------------------------------------------------------------------


def show_help(command: TyperCommand | TyperGroup, ctx: Any) -> None:
    """What it is for, its options in groups, and examples: all lines are of whole words."""
    console = terminal()
    width = UNKNOWN_WIDTH if console.width == ENDLESS else min(console.width, WIDEST)
    usage = " ".join(command.collect_usage_pieces(ctx)).replace("{", "").replace("}", "")
    lines = [*map(Text, fitted(f"Usage: {ctx.command_path} {usage}", width)), Text()]
    for paragraph in (command.help or "").split("\n\n"):
        lines += [*map(Text, packed(paragraph.split(), width)), Text()]
    found = dict(groups(command, ctx))
    left = max(len(names) for rows in found.values() for names, _ in rows if len(names) <= NAMES_WIDTH)
    for title, rows in found.items():
        lines += [Text(title, "bold"), *(line for row in rows for line in columns(*row, left, width)), Text()]
    if command.epilog:
        examples = [line for one in command.epilog.splitlines() for line in fitted(INDENT + one, width)]
        lines += [Text("Examples", "bold"), *map(Text, examples), Text()]
    for line in lines[:-1]:
        console.print(line, soft_wrap=True)


def groups(command: TyperCommand | TyperGroup, ctx: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Arguments, then options by group, in the order in which they are declared; of all commands, their names."""
    if isinstance(command, TyperGroup):
        names = command.list_commands(ctx)
        yield "Commands", [(name, command.commands[name].help or "") for name in names]
    found: dict[str, list[tuple[str, str]]] = {"Arguments": [], FIRST: []}
    for one in command.get_params(ctx):
        is_argument = isinstance(one, TyperArgument)
        title = "Arguments" if is_argument else getattr(one, "rich_help_panel", None) or FIRST
        found.setdefault(title, []).append(names_and_meaning(one))
    yield from ((title, rows) for title, rows in found.items() if rows)


def names_and_meaning(one: Any) -> tuple[str, str]:
    """The short name first, then what stands behind it."""
    if isinstance(one, TyperArgument):
        return one.display_name_raw + " ..." * (one.nargs != 1), one.help or ""
    note = " (required)" if one.required else ""
    if not one.is_flag and one.default not in (None, (), []):
        note = f" (default: {one.default})"
    names = ", ".join([*sorted(one.opts, key=len), *one.secondary_opts])
    return f"{names} {one.metavar or ''}".rstrip(), f"{one.help or ''}{note}"


def columns(names: str, meaning: str, left: int, width: int) -> list[Text]:
    """Names to the left, and their meaning beside them, or below where they are long."""
    indent = len(INDENT) + left + 2
    lines = packed(meaning.split(), width - indent)
    shown = Text(INDENT + names, "cyan")
    first = [shown]
    if len(names) <= left:
        first = [Text.assemble(shown, " " * (indent - len(shown)), lines.pop(0))]
    return [*first, *(Text(" " * indent + line) for line in lines)]


# --- options that are none --------------------------------------------------------------------------------------------


class Command(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        show_help(self, ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = [*args]
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            told: Any = error
            option = getattr(told, "option_name", "")
            if any(one.name == "set" for one in self.params) and (setting := setting_called(option, given)):
                told.message, told.possibilities = f"{told.message}. It is a setting: {setting}", None
            raise


def setting_called(option: str, args: list[str]) -> str:
    """How to give a setting that was taken for an option, or nothing if none has that name."""
    from .parse import to_dict
    from .run_config import BLANK

    name = option.lstrip("-").partition("=")[0].replace("-", "_")
    settings = [f"{group}.{key}" for group, found in to_dict(BLANK).items() if isinstance(found, dict) for key in found]
    named = [setting for setting in settings if setting.rpartition(".")[2] == name and not setting.startswith("data.")]
    value = next((word.partition("=")[2] for word in args if word.startswith(f"{option}=")), "")
    if option in args[:-1] and not (behind := args[args.index(option) + 1]).startswith("--"):
        value = behind
    named.sort(key=lambda setting: not setting.startswith("evaluate."))  # the training that people think of
    return " or ".join(f"--set {setting}={value or 'VALUE'}" for setting in named)
