"""What a policy and the results of commands offer to notebooks and programs.

The room `report` draws it, which knows all of them: it is loaded by its name, and only when it is asked.
"""

from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T", bound=type)


def notebook() -> Any:
    return import_module("slackaug.report.notebook")


def _repr_html_(self: Any) -> str:
    """How a notebook shows it."""
    return str(notebook().html(self))


def to_frame(self: Any) -> Any:
    """Its table as a pandas frame. Needs pandas."""
    return notebook().frame(self)


def plot(self: Any) -> Any:
    """Its picture as a matplotlib figure, to be shown or saved. Needs matplotlib."""
    return notebook().plot(self)


def in_words(policy: Any) -> str:
    """What it does, in a few words."""
    flips = "with flips" if policy.flip else "without flips"
    return f"{policy.n_composed} of {len(policy.space)} transformations of {policy.space.name!r}, {flips}"


def policy_in_words(policy: Any) -> str:
    return f"Policy({in_words(policy)})"


def displayed(kind: T) -> T:
    """Gives a class these three methods: a NamedTuple cannot inherit them."""
    for method in (_repr_html_, to_frame, plot):
        setattr(kind, method.__name__, method)
    return kind
