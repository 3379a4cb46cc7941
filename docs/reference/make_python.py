"""The page of the Python interface, docs/reference/python.md, from signatures and docstrings: see make_pages.py."""

import inspect
from collections.abc import Callable
from functools import cached_property
from textwrap import fill
from typing import Any

import slackaug
from slackaug import export
from slackaug.auto.check import Findings
from slackaug.auto.conduct import SearchResult
from slackaug.commands import COMMANDS
from slackaug.judge.results import Results
from slackaug.judge.studies.results import StudyResults
from slackaug.report import page, panels, policy_figures, render, run_figures

WIDTH = 96  # of a signature
INDENT = {"initial_indent": "    ", "subsequent_indent": "    "}
RESULTS = {"check": Findings, "search": SearchResult, "evaluate": Results, "study": StudyResults}
DRAWING: dict[str, tuple[Callable[..., Any], ...]] = {
    "slackaug.report.page": (page.write,),
    "slackaug.report.policy_figures": (
        policy_figures.pie,
        policy_figures.side_by_side,
        policy_figures.correlations,
    ),
    "slackaug.report.panels": (panels.each_position, panels.pies, panels.evolutions),
    "slackaug.report.run_figures": (run_figures.evolution, run_figures.entropy, run_figures.kl, run_figures.losses),
    "slackaug.report.render": (render.svg, render.save),
    "slackaug.export": (export.write,),
}

TOP = """<!-- Written by docs/reference/make_pages.py from signatures and docstrings: make reference. -->
# Python

Everything that `import slackaug` gives you. [From Python](../guide/python.md) shows it in use. The parameters of a
command mean the same as its options: the [commands page](commands.md) explains them.
"""


def parameters(function: Callable[..., Any]) -> str:
    """The parameters with their defaults, on one line or one line each; types are in the docstrings."""
    found, has_star = [], False
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and not has_star:
            found, has_star = [*found, "*"], True
        if one.name not in ("self", "cls"):
            default = "" if one.default is one.empty else f"={one.default!r}"
            found.append(one.name + default.replace("<factory>", "{}"))
    line = f"({', '.join(found)})"
    return line if len(line) <= WIDTH else f"(\n{fill(', '.join(found), WIDTH, **INDENT)},\n)"


def said(documented: Any) -> str:
    """What it says of itself, without the list of parameters."""
    return (inspect.getdoc(documented) or "").partition("\n\nParameters:")[0]


def heading(name: str, documented: Any, whole: str) -> str:
    return f"## {name}\n\n```python\n{whole}{parameters(documented)}\n```\n\n{said(documented)}\n"


def methods(kind: type) -> str:
    """A line for each public method and property that says what it is."""
    lines = []
    for name, member in vars(kind).items():
        is_value = isinstance(member, property | cached_property)
        text = said(member).partition("\n\n")[0].replace("\n", " ") if member.__doc__ else ""  # not an inherited one
        if text and not name.startswith("_") and (is_value or callable(getattr(kind, name))):
            called = "" if is_value else parameters(getattr(kind, name))
            lines.append(f"- `.{name}{called}`: {text}\n")
    return "".join(lines)


def returned(kind: Any) -> str:
    """The fields of what a command returns."""
    names = [f"`{name}`" for name in (*kind._fields, *(n for n, m in vars(kind).items() if isinstance(m, property)))]
    return f"\nReturns a `{kind.__name__}` with {', '.join(names)}.\n"


def python_page() -> str:
    """All of docs/reference/python.md."""
    parts = [TOP]
    for name in sorted(slackaug.__all__, key=lambda name: ([*COMMANDS, name].index(name), name)):
        documented = getattr(slackaug, name)
        if name == "__version__":
            continue
        if isinstance(documented, type) and issubclass(documented, Exception):
            parts.append(f"## {name}\n\n{said(documented)} A `ValueError`.\n")
        elif isinstance(documented, type):
            parts.append(f"{heading(name, documented, f'slackaug.{name}')}\n{methods(documented)}")
        else:
            result = returned(RESULTS[name]) if name in RESULTS else ""
            parts.append(heading(name, documented, f"slackaug.{name}") + result)
    parts.append("## Reports, figures and exports\n")
    for module, functions in DRAWING.items():
        lines = [f"- `{one.__name__}{parameters(one)}`: {said(one).replace(chr(10), ' ')}\n" for one in functions]
        parts.append(f"### {module}\n\n{''.join(lines)}")
    return "\n".join(parts)
