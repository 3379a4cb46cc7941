"""Learn an image-augmentation policy for your dataset, and prove whether it helps."""

from typing import TYPE_CHECKING, Any

from ._version import __version__
from .commands import COMMANDS as _ALL

if TYPE_CHECKING:
    from .augment.formats.published import load
    from .augment.module import SlackAugment
    from .augment.policy import Policy
    from .commands.check import check as check
    from .commands.demo import demo as demo
    from .commands.doctor import doctor as doctor
    from .commands.evaluate import evaluate as evaluate
    from .commands.figure import figure as figure
    from .commands.preview import preview as preview
    from .commands.search import search as search
    from .commands.show import show as show
    from .commands.study import study as study
    from .schema import PolicyError

_COMMANDS = [name for name in _ALL if name not in ("export", "report")]  # which are names of folders, too
# Imported at first use, so that `slackaug --help` need not wait for torch.
_WHERE = {
    "Policy": "augment.policy",
    "PolicyError": "schema",
    "SlackAugment": "augment.module",
    "load": "augment.formats.published",
    **{name: f"commands.{name}" for name in _COMMANDS},
}
__all__ = ["Policy", "PolicyError", "SlackAugment", "__version__", "load", *_COMMANDS]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'slackaug' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_WHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
