"""Data sources, splits and batches. `load("digits")` is where to start."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dataset import Dataset, build, count_duplicates
    from .dividing import halves
    from .options import DataConfig, DataError
    from .sources import DATASETS, load, read
    from .split import Batches, Split

__all__ = ["DATASETS", "Batches", "DataConfig", "DataError", "Dataset", "Split", "build", "count_duplicates", "halves",
           "load", "read"]  # fmt: skip
# Imported at first use: the processes that decode images need no torch, and would wait for it.
_WHERE = {"dataset": ("Dataset", "build", "count_duplicates"), "dividing": ("halves",),
          "options": ("DataConfig", "DataError"), "sources": ("DATASETS", "load", "read"),
          "split": ("Batches", "Split")}  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _WHERE.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module 'slackaug.data' has no attribute {name!r}")
