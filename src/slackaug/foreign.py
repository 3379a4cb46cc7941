"""Code that a user names on the command line: optional packages, and `module:callable`. Never named by a file."""

import importlib
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
T = TypeVar("T")


class ForeignError(ValueError):
    """Something outside this package is missing or failed."""


def is_reference(text: str) -> bool:
    return REFERENCE.fullmatch(text) is not None


def missing(package: str) -> str:
    """What to do without an optional package: the line is the same in a clone and for a wheel."""
    return f"{package} is not installed; pip install {package}"


def extra(module: str) -> ModuleType:
    """Import an optional package."""
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == package:
            raise ForeignError(missing(package)) from None
        raise ForeignError(f"{package} is installed but cannot be imported ({error})") from error
    except Exception as error:  # torchvision beside another build of torch raises a RuntimeError, for one
        raise ForeignError(
            f"{package} is installed but cannot be imported ({error}); does it fit this torch?"
        ) from error


def resolve(reference: str) -> Callable[..., Any]:
    """The callable that `module:callable` names."""
    if not is_reference(reference):
        raise ForeignError(f"expected module:callable, as in my_package.my_module:my_function, got {reference!r}")
    name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise ForeignError(f"{reference}: {name} needs a module that is missing: {error.name}") from error
        raise ForeignError(f"{reference}: there is no module {name!r}; is its folder on PYTHONPATH?") from None
    except Exception as error:  # whatever the user's module does
        raise ForeignError(f"{reference}: importing {name} failed: {type(error).__name__}: {error}") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        what = "is not callable" if hasattr(module, attribute) else "does not exist"
        raise ForeignError(f"{reference}: {attribute} {what} in {getattr(module, '__file__', name)}")
    return function  # type: ignore[no-any-return]


def call(what: str, function: Callable[[], T]) -> T:
    """Call code that is not ours; whatever it raises becomes one message."""
    try:
        return function()
    except Exception as error:
        raise ForeignError(f"{what}: failed with {type(error).__name__}: {error}") from error
