"""`slackaug demo`: the whole story on 200 of the embedded digits, in about two minutes on 2 cores."""

import os
from pathlib import Path
from typing import Annotated

from rich.console import Console

from .. import messages
from ..auto import resume
from ..config import options
from ..config.options import command
from ..judge import intervals
from ..report import page, policy_table
from .evaluate import evaluate
from .search import search

DATA = "digits:few"
SEEDS = 4
BASELINES = ("none", "uniform")


@command
def demo(
    *,
    out: Annotated[options.Path, "folder of the run; an earlier demo there is replaced"] = "runs/demo",
    console: Console | None = None,
) -> None:
    """Search, evaluate and judge on the embedded handwritten digits: about two minutes on 2 cores."""
    console, out = console or Console(stderr=True), os.fspath(out)
    console.print(messages.LEARN, style="bold")
    result = search(DATA, out, preset="demo", overwrite=is_demo(Path(out)), console=console)
    assert result is not None
    policy_table.show(console, "the learned policy", result.policy)
    console.print(f"\n{messages.HELPS}", style="bold")
    found = evaluate(DATA, [out], baselines=BASELINES, seeds=SEEDS, console=console)
    learned, uniform = found.rows[-1].accuracies, found.rows[1].accuracies
    difference = intervals.paired(learned, uniform)
    console.print(intervals.verdict(found.rows[-1].name, "uniform", difference), highlight=False)
    console.print(f"\n{messages.LOOK}", style="bold")
    console.print(messages.report(str(page.write(Path(out)))), highlight=False, markup=False, soft_wrap=True)
    console.print(messages.DEMO_ENDS, highlight=False)


def is_demo(folder: Path) -> bool:
    """Whether a folder holds an earlier demo, which may be replaced; any other run may not."""
    return (folder / "config.yaml").is_file() and resume.read_config(folder).preset == "demo"
