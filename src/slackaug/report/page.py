"""The report of a run or a study: one HTML file that needs nothing beside itself, not even a network.

Every text that comes from a file is escaped by the template (autoescape), and the page's own Content-Security-Policy
lets nothing but its one script run and nothing be fetched.
"""

import base64
import hashlib
import os
import re
import time
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .. import __version__
from ..data.samples import Samples
from ..files import read_note, write_atomically
from ..messages import counted
from ..runs import folders
from ..runs.folders import RunError
from ..schema import PolicyError, describe
from . import outcome, run_page, study_page
from .accuracies import axis
from .render import palette

NAME = "report.html"
REFRESH_SECONDS = 10
SUFFIXES = (".html", ".htm")
SETTINGS = ("config.yaml", "study.yaml")
DIRECTORIES = re.compile(r"""(?<![\w/.~<)\]}%-])/(?=[\w.])(?:[^\s/'"<>]+/)*""")  # of an absolute path, in a text
PLACE = "PATH/TO"  # stands for them in what is to be typed


def write(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    data: str | None = None,
    samples: Samples | None = None,
    is_running: bool | None = None,
) -> Path:
    """Write the report on the run or study in `folder`, as report.html there or to `out`; returns where it is.

    The images are those given, or come from `data`, or from where the run had them. Its lock shows whether a run is
    running, unless `is_running` does.
    """
    folder = Path(folder)
    path = folder / NAME if out is None else Path(out)
    running = folders.is_held(folder) if is_running is None else is_running
    if path.is_dir():
        raise RunError(f"{path}: is a folder, expected a file for the report, such as {path / NAME}")
    if path.suffix.lower() not in SUFFIXES:  # it is replaced unasked: a slip must not cost config.yaml
        raise RunError(f"{path}: expected a name that ends in {' or '.join(SUFFIXES)}")
    text = render(folder, data=data, samples=samples, is_running=running)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise RunError(f"{path}: {path.parent} is not a folder; choose another -o") from None
    write_atomically(path, text.encode())
    return path


def render(folder: Path, *, data: str | None = None, samples: Samples | None = None, is_running: bool = False) -> str:
    """The page as text."""
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder; expected that of a run or a study, such as runs/demo")
    shown = shown_folder(folder)
    try:
        found, problem = outcome.read(folder), ""
        found = found and outcome.with_own_names(found, folder)
    except PolicyError as error:  # such a file may be half of another program's
        found, problem = None, f"The file with the results of the evaluation is broken. The reason: {error}"
    settings = {name: path for name in SETTINGS if (path := folder / name).is_file()}
    context = {
        "title": folder.resolve().name or str(folder),
        "version": __version__,
        "written": time.strftime("%Y-%m-%d %H:%M"),
        "is_running": is_running,
        "refresh_seconds": REFRESH_SECONDS,
        "outcome": found,
        "problems": [problem] if problem else [],
        "files": {name: path.read_text(encoding="utf-8", errors="replace") for name, path in settings.items()},
        "environment": read_environment(folder),
    }
    if found is not None:
        context |= {"marks": outcome.marks(found), "result_table": outcome.table(found)}
        context |= {"meanings": outcome.meanings(found)}
    if "study.yaml" in settings:
        return fill("study.html", context | study_page.parts(folder, shown, is_running))
    if "config.yaml" in settings:
        return fill("run.html", context | run_page.parts(folder, shown, data, samples, is_running))
    if found is None:
        raise RunError(
            f"{folder}: holds nothing to report on: no run (config.yaml), no study (study.yaml), no eval/results.json"
        )
    return fill("evaluation.html", context)


def shown_folder(folder: Path) -> Path:
    """From where the command was given, if it lies below: a page is sent to others."""
    resolved = folder.resolve()
    return resolved.relative_to(Path.cwd()) if resolved.is_relative_to(Path.cwd()) else Path(PLACE, resolved.name)


def read_environment(folder: Path) -> list[tuple[str, str]]:
    """Of the search; of a study, that of its summary."""
    summaries = (read_note(folder / name).get("environment") for name in ("study.json", "eval/results.json"))
    found = next((note for note in (read_note(folder / "env.json"), *summaries) if note and isinstance(note, dict)), {})
    return [(str(key), plain(value)) for key, value in found.items() if value is not None]


def without_disk(value: object, instead: str = "") -> object:
    """Nobody else needs to know where on a disk a file lies: only its name is left, after `instead`."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return DIRECTORIES.sub(instead, value.replace(f"{Path.cwd()}/", ""))


# --- the template -----------------------------------------------------------------------------------------------------


def plain(value: object) -> str:
    """A cell of a table."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value) if isinstance(value, str | int) else describe(value)


@lru_cache(maxsize=1)
def templates() -> tuple[Environment, dict[str, str]]:
    """They, and what they share: the style, the script, and the Content-Security-Policy, which allows that one script,
    images and styles that are part of the page, and nothing else."""
    loader = PackageLoader("slackaug.report")
    found = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=without_disk,
    )  # fmt: skip
    found.filters |= {"plain": plain, "counted": counted, "percent": run_page.percent, "axis": axis}
    found.filters["typed"] = partial(without_disk, instead=f"{PLACE}/")
    found.filters["lead"] = lambda sentence: sentence.partition(". ")[0].removesuffix(".")
    style, script = (loader.get_source(found, name)[0] for name in ("style.css", "script.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    allowed += f"script-src 'sha256-{digest}'; base-uri 'none'"
    return found, {"style": Markup(f"{palette()}\n{style}"), "script": Markup(script), "allowed": allowed}


def fill(name: str, context: dict[str, Any]) -> str:
    environment, shared = templates()
    return environment.get_template(name).render(context | shared)
