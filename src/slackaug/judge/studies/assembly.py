"""A whole table or figure of the paper: which studies make it, what they need and cost, and what came out.

The studies lie in one folder, each below its own name, so tables in that folder share what they have in common.
"""

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.table import Table

from ... import schema
from ...augment.transforms import get_space
from ...config.run_config import RunConfig
from ...data.sources import PUBLISHED
from ...messages import studying
from .. import baselines, intervals
from ..baselines import FAST_AA_START, Counts
from ..candidates import from_name
from ..intervals import Accuracy
from ..results import make_table
from . import recipes
from .paper_tables import AVERAGE, DOMAINNET, FIGURES, N_IMAGES, QUOTED, TABLES, Column, Figure, Printed
from .plan import read_study
from .recipes import Recipe
from .results import StudyRow

PREFIX = "paper/"
NAMES = {f"{PREFIX}{label.lower()}": label for label in TABLES}
SMALL = 32  # pixels, where a recipe has no size
# About how many images a second an H200 trains on, measured (docs/science/performance.md); a search has about as many.
RATES = {"wrn-40-2": 37_000, "wrn-28-10": 10_000, "resnet18": 10_700}
N_TRAIN = {name: numbers[0] for name, numbers in N_IMAGES.items()} | {  # about
    "imagenet100": 126_700, "domainnet-infograph": 42_600, "domainnet-sketch": 56_300, "domainnet-painting": 60_600,
    "domainnet-clipart": 39_100,
}  # fmt: skip
# Quoted methods whose own policies would be of the same form as their start.
OF_THE_FORM = dict.fromkeys(("fast-aa", "dada"), FAST_AA_START)


def label_of(name: str) -> str:
    if name not in NAMES:
        raise ValueError(schema.unknown("table", name, [*NAMES]))
    return NAMES[name]


# --- what it needs ----------------------------------------------------------------------------------------------------


class Needed(NamedTuple):
    """A study that a table needs."""

    name: str
    recipe: Recipe
    source: str  # where its images are; empty: nowhere
    lack: str  # what is missing of them; empty: nothing

    @property
    def gpu_hours(self) -> float:
        """On one H200, of the images that pass through its networks."""
        recipe, config = self.recipe, self.recipe.search
        assert recipe.paper is not None
        assert isinstance(config, RunConfig)
        search, n = config.search, N_TRAIN[recipe.paper[0]]
        steps = search.n_composites * (search.n_retrain + search.n_unrolled) + search.n_unrolled
        learning = config.n_ranks * (config.pretrain.epochs * n / 2 + search.n_rounds * steps * search.batch)
        n_fixed = (len(recipe.baselines) + len(recipe.policies)) * (2 if recipe.magnitudes == "both" else 1)
        n_trainings = recipe.n_eval * (recipe.n_search + n_fixed * max(recipe.n_search, 1))
        training = config.evaluate.epochs * n / RATES[recipe.model or config.model]
        return (recipe.n_search * learning / RATES[config.model] + n_trainings * training) / 3600


def parts(label: str, root: Path | None) -> list[Needed]:
    """The studies that make its rows, with their images below `root`."""
    table = TABLES[label]
    found = [made[0] for column in table.columns for row in table.rows if (made := recipes.made(column, row))]
    return [part_of(name, root) for name in dict.fromkeys(found)]


def part_of(name: str, root: Path | None) -> Needed:
    """Below the root lie cifar10 and cifar100, as folders or npz files, imagenet100, and domainnet with its domains;
    without CIFAR there, torchvision has it."""
    recipe = recipes.study(name)
    assert recipe.paper is not None
    data = recipe.paper[0]
    scheme, _, domain = data.partition("-")
    is_published = scheme in PUBLISHED
    places = [f"{scheme}/{domain}".rstrip("/")] if is_published else [data, f"{data}.npz"]
    if place := next((root / one for one in places if has_files(root / one)), None) if root else None:
        return Needed(name, recipe, f"{scheme}:{place}" if is_published else str(place), "")
    if recipe.data and find_spec("torchvision"):
        return Needed(name, recipe, recipe.data, "")
    return Needed(name, recipe, "", studying.no_images(data, places, str(root) if root else None, bool(recipe.data)))


def has_files(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def counts(row: str, column: Column) -> Counts | None:
    """How many transformations the method of a row composes; None where it is not defined in slackaug."""
    made = recipes.made(column, row)
    if made is None and row not in OF_THE_FORM:
        return None
    name = OF_THE_FORM[row] if made is None else made[1] or "uniform"  # as many as where a search starts
    if name.startswith("published"):
        return None
    chosen = from_name(name.partition(",")[0]).on(column[0]).augmentation
    assert isinstance(chosen, str)
    size = SMALL if column[0].startswith("cifar") else recipes.LARGE
    return baselines.define(chosen).counts((size, size), get_space("domainnet"))


# --- what came out ----------------------------------------------------------------------------------------------------


class TableRow(NamedTuple):
    """What we found for a row in a column, and what the paper prints there."""

    name: str
    counts: Counts | None
    evaluations: Accuracy | None  # ours over all evaluations, as the paper counts
    searches: Accuracy | None  # ours over the searches, as answers count
    paper: Figure | None
    note: str = ""  # why there is nothing of ours

    @property
    def gap(self) -> float | None:
        """Points from the paper's figure to ours."""
        return None if self.evaluations is None or self.paper is None else 100 * self.evaluations.mean - self.paper[0]

    @property
    def agrees(self) -> bool | None:
        """Whether the gap is within both intervals together; None where one of them is missing."""
        if self.gap is None or self.evaluations is None or self.paper is None:
            return None
        if self.evaluations.low is None or self.paper.half_width is None:
            return None
        low, high = self.evaluations.ends
        return abs(self.gap) <= math.hypot(50 * (high - low), self.paper.half_width)


class TableColumn(NamedTuple):
    data: str
    model: str
    rows: Sequence[TableRow]
    is_comparable: bool  # the images and the trainings are the paper's, as far as can be seen


class TableResults(NamedTuple):
    name: str
    title: str
    answer: str
    columns: Sequence[TableColumn]


class Finished(NamedTuple):
    """What a study.json says."""

    rows: Sequence[StudyRow]
    learned: str | None = None

    def row(self, name: str | None) -> StudyRow | None:
        """Of a baseline, or of the learned policy."""
        return next((row for row in self.rows if row.name == (name or self.learned)), None)


def summarise(label: str, folder: Path, needed: Sequence[Needed]) -> TableResults:
    """Everything that the studies in a folder have found for a table."""
    table, found = TABLES[label], {part.name: part for part in needed}
    summaries = {name: read(folder / name) for name in found}
    of_data = [column for column in table.columns if column != AVERAGE]
    columns = [column_of(table, column, folder, found, summaries) for column in of_data]
    if AVERAGE in table.columns:
        columns.append(average_column(table, summaries, columns))
    answer = studying.answer_of_table(*agreement(columns)) if table.figure is None else studying.FIGURE
    return TableResults(f"{PREFIX}{label.lower()}", table.title, answer, columns)


def read(folder: Path) -> Finished | None:
    path = folder / "study.json"
    return schema.record(schema.read_json(path), "", Finished) if path.is_file() else None


def column_of(
    table: Printed, column: Column, folder: Path, found: dict[str, Needed], summaries: dict[str, Finished | None]
) -> TableColumn:
    rows = []
    for name in table.rows:
        printed, n = FIGURES.get(column, {}).get(name), counts(name, column)
        made = recipes.made(column, name)
        if made is None:
            rows.append(TableRow(name, n, None, None, printed, QUOTED[name]))
            continue
        part, summary = found[made[0]], summaries[made[0]]
        ours = summary and summary.row(made[1])
        if ours:
            rows.append(TableRow(name, n, ours.over_evaluations, ours.accuracy, printed))
        else:
            note = studying.not_there(part.name, part.lack, is_done=summary is not None)
            rows.append(TableRow(name, n, None, None, printed, note))
    done = [folder / name for name, part in found.items() if part.recipe.paper == column and summaries[name]]
    return TableColumn(*column, rows, all(read_study(one).paper for one in done))


def average_column(
    table: Printed, summaries: dict[str, Finished | None], columns: Sequence[TableColumn]
) -> TableColumn:
    """Over the six domains, where all of them are there; its interval is that of `intervals.average`."""
    rows = []
    for name in table.rows:
        made = [recipes.made(column, name) for column in DOMAINNET]
        domains = [one and (summary := summaries[one[0]]) and summary.row(one[1]) for one in made]
        of_each = [row.accuracies for row in domains if row]
        printed, n = FIGURES[AVERAGE].get(name), counts(name, DOMAINNET[0])
        if len(of_each) < len(domains):
            rows.append(TableRow(name, n, None, None, printed, studying.domains_missing(len(of_each), len(domains))))
            continue
        everything = [[value for one in matrix for value in one] for matrix in of_each]
        means = [intervals.search_means(matrix) if len(matrix) > 1 else matrix[0] for matrix in of_each]
        unit = "search" if len(of_each[0]) > 1 else "seed"
        both = intervals.average(everything, "evaluation"), intervals.average(means, unit)
        rows.append(TableRow(name, n, *both, printed))
    return TableColumn(*AVERAGE, rows, all(column.is_comparable for column in columns))


def agreement(columns: Sequence[TableColumn]) -> tuple[int, int, int]:
    """How many accuracies there are of ours, how many of them can be compared with the paper's, and how many agree."""
    n_ours = sum(row.evaluations is not None for column in columns for row in column.rows)
    judged = [row.agrees for column in columns if column.is_comparable for row in column.rows]
    return n_ours, sum(one is not None for one in judged), sum(one is True for one in judged)


# --- the terminal -----------------------------------------------------------------------------------------------------


def listing(root: Path | None) -> list[str]:
    """Every table and figure, with what it needs and costs."""
    lines = [studying.LIST_HEAD]
    for name, label in NAMES.items():
        needed = parts(label, root)
        lacking = {part.recipe.paper[0].partition("-")[0] for part in needed if part.lack and part.recipe.paper}
        hours = sum(part.gpu_hours for part in needed)
        lines.append(studying.listed_table(name, TABLES[label].title, len(needed), hours, sorted(lacking)))
    return [*lines, studying.HOURS, studying.WHERE_IMAGES_ARE]


def details(label: str, root: Path | None) -> list[str]:
    """One table: its studies, what each needs and costs, and the figures that ours will stand beside."""
    table, needed = TABLES[label], parts(label, root)
    cells = [["study", "H200 hours", "images"]]
    cells += [[part.name, f"{part.gpu_hours:.1f}", part.lack or part.source] for part in needed]
    rows = [["row", "total", "hard-coded", *(" ".join(column) for column in table.columns)]]
    for row in table.rows:
        n = counts(row, table.columns[0])
        printed = [FIGURES.get(column, {}).get(row) for column in table.columns]
        rows.append([row, *(("-", "-") if n is None else map(str, n)), *(str(one or "-") for one in printed)])
    notes = [f"{row}: {QUOTED[row]}." for row in table.rows if row in QUOTED]
    return [
        f"{PREFIX}{label.lower()}: {table.title}.",
        "",
        *aligned(cells),
        studying.HOURS,
        "",
        studying.PRINTED,
        *aligned(rows),
        *notes,
    ]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows]


def table_of(column: TableColumn) -> Table:
    """Ours beside the paper's; fits a terminal of 80 columns."""
    headers = ["ours, over all\nevaluations", "n", "the paper", "gap"]
    rows = [
        [
            row.name,
            "-" if row.evaluations is None else str(row.evaluations).replace(" (", "\n("),
            "" if row.evaluations is None else str(row.evaluations.n),
            str(row.paper or "-"),
            "" if row.gap is None else f"{row.gap:+.2f}",
        ]
        for row in column.rows
    ]
    look = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "title": f"{column.data}, {column.model}"}
    return make_table(headers, rows, **look)
