"""`slackaug demo`: a whole search on 200 of the embedded digits, in about two minutes on 2 cores."""

import os
from pathlib import Path
from typing import Annotated

from rich.console import Console

from ..auto import resume
from ..auto.conduct import SearchResult
from ..config import options
from ..config.options import command
from ..messages.terminal import terminal
from .search import search

DATA = "digits:few"


@command
def demo(
    *,
    out: Annotated[options.Path, "folder of the run; an earlier demo there is replaced"] = "runs/demo",
    verbose: options.Verbose = False,
    console: Console | None = None,
) -> SearchResult:
    """Learn a policy for the embedded handwritten digits, race it, and answer: about two minutes on 2 cores.

    Examples:
        slackaug demo
        slackaug demo -o runs/first
    """
    console, out = console or terminal(stderr=True), os.fspath(out)
    result = search(DATA, out, preset="demo", overwrite=is_demo(Path(out)), verbose=verbose, console=console)
    assert result is not None
    return result


def is_demo(folder: Path) -> bool:
    """Whether a folder holds an earlier demo, which may be replaced; any other run may not."""
    return (folder / "config.yaml").is_file() and resume.read_config(folder).preset == "demo"
