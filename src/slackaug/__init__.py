"""Learn an image-augmentation policy for your dataset, and prove whether it helps."""

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .augment.formats.published import load
    from .augment.module import SlackAugment
    from .augment.policy import Policy
    from .auto.check import check
    from .commands.evaluate import evaluate
    from .commands.search import search
    from .commands.study import study
    from .schema import PolicyError

__all__ = ["Policy", "PolicyError", "SlackAugment", "__version__", "check", "evaluate", "load", "search", "study"]

# Imported at first use, so that `slackaug --help` need not wait for torch.
_WHERE = {
    "Policy": "augment.policy",
    "PolicyError": "schema",
    "SlackAugment": "augment.module",
    "check": "auto.check",
    "evaluate": "commands.evaluate",
    "load": "augment.formats.published",
    "search": "commands.search",
    "study": "commands.study",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'slackaug' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_WHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
