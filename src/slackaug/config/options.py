"""Options of the commands, each declared once: as a field with its help, or as a parameter with its help.

Where a parameter stands for the fields of a dataclass, `command` gives the function a keyword for each of them, which
Python and the command line show alike.
"""

import inspect
import os
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from functools import wraps
from inspect import cleandoc
from textwrap import fill
from typing import Annotated, Any, NamedTuple, TypeVar

from ..data.options import DataConfig
from ..machine import machine
from .parse import several

R = TypeVar("R")
WIDTH = 100  # of the lines that say what parameters are
# All others are --name. Files are repeated, one at a time, for their names may hold commas: hence in the singular.
ON_THE_LINE = {"out": ("-o", "--out"), "policies": ("-p", "--policy"), "images": ("--image",)}
ALWAYS_OPTIONS = ("out", "policies")  # all else that Python takes by position is an argument
MAY_BE_EMPTY = {"group_by"}  # without groups, where the run has some
OTHER_NAMES = {"space": "ops", "n_search": "searches", "n_eval": "evaluations"}  # of fields, as options


# Groups of options in a command's help: what an annotation names after the help; without, it is of the first.
FIRST, IMAGES, TRAINING = "Options", "How images are read", "How to train"
MACHINE, SETTING, SHOWN = "Where it runs", "Other settings", "What is shown"


class Given(NamedTuple):
    """Marks a parameter that takes those settings of a configuration that were given, by the names of its fields."""

    config: type
    group: str
    without: Sequence[str] = ()  # fields that are no options here
    only: Sequence[str] = ()  # where there are some, no others are


Path = str | os.PathLike[str]
Images = Path | Any  # in Python also what holds images in memory: see data/held.py
Source = Annotated[
    Images,
    "a folder of class folders (with or without train/ and test/), FILE.npz, FILE.csv, digits, shapes, "
    "torchvision:NAME, hf:NAME, imagenet100:ROOT, domainnet:ROOT/DOMAIN or module:callable",
]
PolicySource = Annotated[Path, "a policy file of any known format, a run's folder, or uniform:SPACE"]
ReadAs = Annotated[dict[str, Any], Given(DataConfig, IMAGES, without=("source", "fingerprint"))]
ConfigFile = Annotated[Path | None, "YAML file with settings, such as a run's config.yaml", SETTING]
Settings = Annotated[Sequence[str], "one setting, such as search.n_rounds=5; may be repeated", SETTING]
Json = Annotated[bool, "print one JSON document, and all else on stderr", SHOWN]
Verbose = Annotated[bool, "show the numbers behind the sentences, too: losses, entropy, rates", SHOWN]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where a command does its work."""

    device: Annotated[str | None, "where to compute: cpu or cuda; without, cuda if it is there", MACHINE] = None
    threads: Annotated[int | None, "threads of the CPU", MACHINE] = None


@dataclass(frozen=True, kw_only=True)
class Workers(Machine):
    """Where a command does work that can be done side by side, or elsewhere."""

    jobs: Annotated[int | None, "how many to do at a time; on Ray: how many share a GPU", MACHINE] = None
    backend: Annotated[str, "where trainings and searches run: local or ray", MACHINE] = "local"
    address: Annotated[str | None, "HOST:PORT of a Ray cluster; else one is started here", MACHINE] = None

    def ready(self) -> tuple[str, int | None]:
        """The device and the threads; a device elsewhere cannot be tried."""
        return machine(self.device, self.threads, is_here=self.address is None)


def bare(hint: Any) -> Any:
    """The type alone, without the help."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def takes_several(hint: Any) -> bool:
    return any(typing.get_origin(kind) in (tuple, Sequence) for kind in several(bare(hint)))


def options_of(one: inspect.Parameter) -> dict[str, inspect.Parameter]:
    """The options that a parameter stands for, by the name of the field that each of them sets."""
    mark = next((note for note in getattr(one.annotation, "__metadata__", ()) if isinstance(note, Given)), None)
    if mark is None and not is_dataclass(one.annotation):
        return {}
    hints = typing.get_type_hints(one.annotation if mark is None else mark.config, include_extras=True)
    if mark is not None:
        names = mark.only or [name for name in hints if name not in mark.without]
        hints = {name: Annotated[bare(hints[name]) | None, hints[name].__metadata__[0], mark.group] for name in names}
    return {
        name: inspect.Parameter(
            OTHER_NAMES.get(name, name),
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(one.annotation, name) if mark is None else None,
            annotation=hint,
        )
        for name, hint in hints.items()
    }


def plain(value: Any) -> Any:
    """Convert to what a file would hold: paths are texts, and what holds several is a list."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def names_of(one: inspect.Parameter) -> tuple[str, ...]:
    """Return how it is called as an option; an argument has no such name."""
    if one.kind is not one.KEYWORD_ONLY and one.name not in ALWAYS_OPTIONS:
        return ()
    return ON_THE_LINE.get(one.name, (f"--{one.name.replace('_', '-')}",))


def empty(one: inspect.Parameter) -> ValueError:
    """Say what was expected instead of nothing, which an unset variable of a shell leaves."""
    name = next(iter(names_of(one)), one.name)
    return ValueError(f"{name}: got an empty text; expected {one.annotation.__metadata__[0]}")


def command(function: Callable[..., R]) -> Callable[..., R]:
    """The function with one keyword for each option, as the command line has them.

    Its signature has the types alone, and its docstring the help. `options` are the parameters with both, `help` what
    the function itself says, `examples` the command lines that stand below.
    """
    signature = inspect.signature(function, eval_str=True)
    groups = {name: options for name, one in signature.parameters.items() if (options := options_of(one))}
    flat = [option for name, one in signature.parameters.items() for option in groups.get(name, {"": one}).values()]
    explained = {one.name: one for one in flat if hasattr(one.annotation, "__metadata__")}
    shown = signature.replace(parameters=[one.replace(annotation=bare(one.annotation)) for one in flat])

    @wraps(function)
    def call(*positional: Any, **keywords: Any) -> R:
        bound = shown.bind(*positional, **keywords).arguments
        for name, value in bound.items():
            if isinstance(value, str) and not value and name in explained.keys() - MAY_BE_EMPTY:
                raise empty(explained[name])
            is_list = isinstance(value, Sequence | None) and not isinstance(value, str)
            if takes_several(shown.parameters[name].annotation) and not is_list:
                raise TypeError(f"{name} takes a list, such as [{value!r}]")
        for name, options in groups.items():
            own = {of: bound.pop(option.name) for of, option in options.items() if option.name in bound}
            given = {of: plain(value) for of, value in own.items() if value is not None}
            kind: Any = signature.parameters[name].annotation
            bound[name] = given if typing.get_origin(kind) is Annotated else kind(**given)
        return function(**bound)

    help, _, examples = (inspect.getdoc(function) or "").partition("\n\nExamples:\n")
    lines = [fill(f"{name}: {one.annotation.__metadata__[0]}", WIDTH, initial_indent="    ", subsequent_indent=" " * 8,
                  break_on_hyphens=False) for name, one in explained.items()]  # fmt: skip
    vars(call).update(__signature__=shown, options=explained, help=help, examples=cleandoc(examples).splitlines())
    call.__doc__ = "\n".join([help, "", "Parameters:", *lines]) if lines else help
    return call
