"""`slackaug demo`: the whole story on 200 of the embedded digits, in about two minutes on 2 cores."""

from pathlib import Path

from rich.console import Console

from ..auto import resume
from ..judge import intervals
from ..report import page, policy_table
from . import evaluate
from . import search as api

DATA = "digits:few"
SEEDS = 4
BASELINES = ("none", "uniform")


def run(out: str, console: Console) -> None:
    """Search, then train with three policies and several seeds each, then judge."""
    console.print("[bold]1. Learn a policy[/bold]")
    result = api.search(DATA, out, preset="demo", overwrite=is_demo(Path(out)), console=console)
    assert result is not None
    policy_table.show(console, "the learned policy", result.policy)
    console.print(f"\n[bold]2. Does it help?[/bold] {SEEDS} trainings with each policy")
    found = evaluate.evaluate(DATA, [out], baselines=BASELINES, seeds=SEEDS, console=console)
    learned, uniform = found.rows[-1].accuracies, found.rows[1].accuracies
    difference = intervals.paired(learned, uniform)
    console.print(intervals.verdict(found.rows[-1].name, "uniform", difference), highlight=False)
    console.print("\n[bold]3. Look at it[/bold]")
    console.print(f"the report is {page.write(Path(out))}", highlight=False, markup=False, soft_wrap=True)
    console.print(
        "200 digits and trainings of seconds say little about your images: slackaug search FOLDER -o runs/mine",
        highlight=False,
    )


def is_demo(folder: Path) -> bool:
    """Whether a folder holds an earlier demo, which may be replaced; any other run may not."""
    return (folder / "config.yaml").is_file() and resume.read_config(folder).preset == "demo"
