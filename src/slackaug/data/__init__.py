"""Data sources, splits and batches. `load("digits")` is where to start."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dataset import Dataset, build, count_duplicates
    from .dividing import halves
    from .options import DataConfig, DataError
    from .sources import DATASETS, load, read
    from .split import Batches, Split

__all__ = [
    "DATASETS",
    "Batches",
    "DataConfig",
    "DataError",
    "Dataset",
    "Split",
    "build",
    "count_duplicates",
    "halves",
    "load",
    "read",
]

# Imported at first use: the processes that decode images need no torch, and would wait for it.
_WHERE = {
    "DATASETS": "sources",
    "Batches": "split",
    "DataConfig": "options",
    "DataError": "options",
    "Dataset": "dataset",
    "Split": "split",
    "build": "dataset",
    "count_duplicates": "dataset",
    "halves": "dividing",
    "load": "sources",
    "read": "sources",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'slackaug.data' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_WHERE[name]}", __name__), name)
