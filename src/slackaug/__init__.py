"""Learn an image-augmentation policy for your dataset, and prove whether it helps."""

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .api import search
    from .checking import check
    from .evaluation.comparison import evaluate
    from .methods.published import load
    from .policy import Policy
    from .schema import PolicyError
    from .slackaugment import SlackAugment
    from .studies.study import study

__all__ = ["Policy", "PolicyError", "SlackAugment", "__version__", "check", "evaluate", "load", "search", "study"]

# Imported at first use, so that `slackaug --help` need not wait for torch.
_WHERE = {
    "Policy": "policy",
    "PolicyError": "schema",
    "SlackAugment": "slackaugment",
    "check": "checking",
    "evaluate": "evaluation.comparison",
    "load": "methods.published",
    "search": "api",
    "study": "studies.study",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'slackaug' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_WHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
