"""Data sources, splits and batches."""

from .batches import Batches
from .splits import halves

__all__ = ["Batches", "halves"]
