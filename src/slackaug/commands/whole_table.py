"""`slackaug study paper/TABLE`: the studies that make a table of the paper, one after another, and its page."""

import json as documents
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any

from rich.console import Console

from .. import messages
from ..config.options import Images, Path, Workers
from ..files import read_note, write_atomically
from ..judge import results
from ..judge.studies import assembly
from ..judge.studies.assembly import Needed, TableResults
from ..judge.studies.plan import named
from ..messages import studying
from ..messages.terminal import say
from ..report import table_page
from ..runs import folders
from ..runs.folders import RunError

GIVEN = "paper.json"  # in the folder: what all of its studies are given
NOTHING: dict[str, Any] = {"plan": {}, "chosen": {}, "set": [], "reading": {}}
ITS_OWN = ("model", "baselines")  # of a table


def make(
    run: Callable[..., object],
    name: str,
    out: Path | None,
    data: Images | None,
    given: dict[str, Any],
    *,
    where: Workers,
    console: Console,
    json: bool,
    resume: bool,
    overwrite: bool,
) -> TableResults:
    """`run` conducts one study. What is done of those in the folder is kept, whichever table they were begun for."""
    label = assembly.label_of(name)
    if out is None:
        raise ValueError(f"expected -o FOLDER, or --list to read what {name} needs")
    folder = FilePath(out)
    if resume:
        root, given = stored(folder, given)
    else:
        root, given = None, checked(label, given)
        folders.refuse(folder, overwrite=overwrite, what="table", config=GIVEN)
    root = root if data is None else os.path.abspath(data)
    parts = assembly.parts(label, None if root is None else FilePath(root))
    if not any(part.source for part in parts):
        raise ValueError(f"{name}: {'; '.join(dict.fromkeys(part.lack for part in parts))}")
    shared = {"where": where, "console": console, "json": False, "overwrite": overwrite, "go_on_with": (name, folder)}
    for part in parts:
        if part.lack:
            say(console, studying.part_left_out(part.name, part.lack))
    with folders.held(folder):
        write_atomically(folder / GIVEN, documents.dumps({"data": root} | given, indent=1).encode())
        write(folder, label, parts, is_running=True)
        for one, text in studies(folder, parts, given, has_moved=resume and data is not None, overwrite=overwrite):
            say(console, text)
            run(**one, **shared)
            write(folder, label, parts, is_running=True)
        final = write(folder, label, parts)
    for column in final.columns:
        console.print(assembly.table_of(column))
    say(console, messages.report(str(folder / f"{label}.html")))
    if json:
        print((folder / f"{label}.json").read_text(encoding="utf-8"))
    say(console, final.answer)
    return final


def studies(
    folder: FilePath, parts: Sequence[Needed], given: dict[str, Any], *, has_moved: bool, overwrite: bool
) -> Iterator[tuple[dict[str, Any], str]]:
    """What each of those whose images are there is run with, to begin or to resume, and the line before it."""
    wanted = [part for part in parts if part.source]
    for i, part in enumerate(wanted, 1):
        own, text = folder / part.name, studying.part_of_table(part.name, i, len(wanted))
        if not overwrite and (own / folders.STUDY).is_file():
            moved = part.source if has_moved and part.source != part.recipe.data else None
            yield {"recipe": None, "out": own, "data": moved, "resume": True} | NOTHING, text
        else:
            yield {"recipe": part.name, "out": own, "data": part.source, "resume": False} | of_part(part, given), text


def stored(folder: FilePath, given: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Where the images are, and what the studies of a folder were given."""
    if any(given.values()):
        raise RunError(
            "--resume takes all settings from the folder; give only the table, -o, where to run, and --data if the "
            "images have moved"
        )
    found = read_note(folder / GIVEN)
    if {*found} != {"data", *NOTHING}:
        raise RunError(f"{folder}: holds no table of the paper to go on with (no {GIVEN})")
    return found.pop("data"), found


def checked(label: str, given: dict[str, Any]) -> dict[str, Any]:
    """The settings for its studies; files by their whole paths, for a resume from another folder."""
    if wrong := next((one for one in ITS_OWN if one in given["plan"] | given["chosen"]), None):
        raise ValueError(f"--{wrong}: a table has its own; to change it, run one of its studies (see --list)")
    files = [named(text) for text in given["plan"].get("policies", ())]
    known = {policy for part in assembly.parts(label, None) for policy in part.recipe.policies}
    if unknown := next((name for name, _ in files if name not in known), None):
        raise ValueError(f"-p {unknown}: this table has no such row; known: {', '.join(sorted(known)) or 'none'}")
    policies = {"policies": [f"{name}={os.path.abspath(path)}" for name, path in files]} if files else {}
    return given | {"plan": given["plan"] | policies}


def of_part(part: Needed, given: dict[str, Any]) -> dict[str, Any]:
    """A study gets the published policies that it has rows for."""
    own = [text for text in given["plan"].get("policies", ()) if named(text)[0] in part.recipe.policies]
    return given | {"plan": given["plan"] | {"policies": own}}


def write(folder: FilePath, label: str, parts: Sequence[Needed], *, is_running: bool = False) -> TableResults:
    """TABLE.json and TABLE.html, of what is there by now."""
    found = assembly.summarise(label, folder, parts)
    write_atomically(folder / f"{label}.json", results.to_json(**found._asdict()).encode())
    write_atomically(folder / f"{label}.html", table_page.render(label, found, folder, parts, is_running).encode())
    return found
