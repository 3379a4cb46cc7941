"""Every figure, as SVG text, and beside it the table of its numbers.

`NAME(...)` returns SVG, `NAME_scene(...)` what is drawn, and `NAME_table(...)` the numbers. Positions count from 1.
"""

from .bars import (
    correlations,
    correlations_scene,
    correlations_table,
    mu_bars,
    mu_bars_scene,
    mu_bars_table,
    side_by_side,
    side_by_side_scene,
    side_by_side_table,
)
from .course import (
    entropy,
    entropy_scene,
    entropy_table,
    evolution,
    evolution_scene,
    evolution_table,
    kl,
    kl_scene,
    kl_table,
    losses,
    losses_scene,
    losses_table,
)
from .pictures import Example, Examples, Strip, examples, extremes, grid, sheet, strips, strips_sheet
from .pies import pie, pie_scene, pie_table
from .scene import Table

__all__ = [
    "Example",
    "Examples",
    "Strip",
    "Table",
    "correlations",
    "correlations_scene",
    "correlations_table",
    "entropy",
    "entropy_scene",
    "entropy_table",
    "evolution",
    "evolution_scene",
    "evolution_table",
    "examples",
    "extremes",
    "grid",
    "kl",
    "kl_scene",
    "kl_table",
    "losses",
    "losses_scene",
    "losses_table",
    "mu_bars",
    "mu_bars_scene",
    "mu_bars_table",
    "pie",
    "pie_scene",
    "pie_table",
    "sheet",
    "side_by_side",
    "side_by_side_scene",
    "side_by_side_table",
    "strips",
    "strips_sheet",
]
