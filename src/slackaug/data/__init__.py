"""Data sources, splits and batches. `load("digits")` is where to start."""

from .batches import Batches
from .dataset import DataError, Dataset, Split, build
from .duplicates import count_duplicates
from .sources import DATASETS, load
from .splits import halves

__all__ = ["DATASETS", "Batches", "DataError", "Dataset", "Split", "build", "count_duplicates", "halves", "load"]
