"""The page of a table or figure of the paper: ours beside what it prints, and what the searches learned."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from .. import __version__
from ..judge.studies.assembly import Needed, TableColumn, TableResults, read
from ..judge.studies.paper_tables import TABLES
from ..messages import studying
from . import history
from .accuracies import Mark
from .page import REFRESH_SECONDS, fill
from .run_page import Chart, evolution, pie

HEADERS = ["row", "ours", "n", "the paper", "gap", "ours, over searches", "total, hard-coded"]


def render(label: str, found: TableResults, folder: Path, parts: Sequence[Needed], is_running: bool) -> str:
    """`folder` holds the studies."""
    figure, done = TABLES[label].figure, [part.name for part in parts if (folder / part.name / "report.html").is_file()]
    context = {
        "title": found.name,
        "version": __version__,
        "written": time.strftime("%Y-%m-%d %H:%M"),
        "is_running": is_running,
        "refresh_seconds": REFRESH_SECONDS,
        "state": studying.TABLE_RUNS if is_running else "",
        "answer": found.answer,
        "about": found.title,
        "studies": done,
        "charts": [chart for i, name in enumerate(done) for chart in drawn(folder / name, i)] if figure else [],
        "columns": [] if figure else [(one, cells(one), marks(one), notes(one)) for one in found.columns],
        "headers": HEADERS,
    }
    return fill("table.html", context)


def cells(column: TableColumn) -> list[list[str]]:
    rows = []
    for row in column.rows:
        ours, n, searches = "-", "", ""
        if row.evaluations is not None:
            ours, n = str(row.evaluations), str(row.evaluations.n)
        if row.searches is not None and row.searches.unit == "search":
            searches = f"{row.searches}, {row.searches.counted()}"
        gap = "" if row.gap is None else f"{row.gap:+.2f}"
        counts = "-" if row.counts is None else f"{row.counts.total}, {row.counts.hard_coded}"
        rows.append([row.name, ours, n, str(row.paper or "-"), gap, searches, counts])
    return rows


def marks(column: TableColumn) -> list[Mark]:
    """Ours, and the paper's below it."""
    found = []
    for row in column.rows:
        if row.evaluations is not None:
            found.append(Mark(row.name, row.evaluations, digits=2))
            if row.paper is not None:
                found.append(Mark(row.name, row.paper.share, kind="out", note="the paper", digits=2))
    return found


def notes(column: TableColumn) -> list[str]:
    by_text: dict[str, list[str]] = {}
    for row in column.rows:
        if row.note:
            by_text.setdefault(row.note, []).append(row.name)
    return [f"{', '.join(names)}: {text}." for text, names in by_text.items()]


def drawn(study: Path, number: int) -> list[Chart]:
    """The policy of the best search, as far as accuracies tell, and how it came about; `number`, of the study."""
    summary = read(study)
    learned = summary and summary.row(None)
    if not learned:
        return []
    means = [fmean(one) for one in learned.accuracies]
    best = means.index(max(means))
    name, past = f"{study.name}, search {best}, the best", history.read(study / "searches" / str(best))
    return [pie(past.policies[-1], f"pie-{number}", name), evolution(past, f"course-{number}", f"over {name}")]
