"""`slackaug demo`: the whole story on the embedded digits, in about three minutes on a laptop."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import api, evaluate, show
from .data import load
from .fit import FitConfig
from .policy import Policy

SEEDS = 4


def run(out: str, console: Console) -> None:
    """Search, then train with three policies and several seeds each, then judge."""
    console.print("[bold]1. Learn a policy[/bold]")
    result = api.search("digits", out, preset="demo", overwrite=is_demo(Path(out)), console=console)
    assert result is not None
    policy = result.policy
    config = api.read_config(result.run).evaluate
    show.show(console, "the learned policy", policy)
    console.print(
        f"\n[bold]2. Does it help?[/bold] {SEEDS} seeds each, {config.epochs} epochs, accuracy on the test images"
    )
    candidates = {
        "none": evaluate.no_augmentation(policy),
        "uniform": Policy.uniform(policy.space, flip=policy.flip, mean=policy.mean, std=policy.std),
        "learned": policy,
    }
    accuracies = train_all(candidates, config, console)
    console.print(results_table(accuracies))
    for baseline in ("none", "uniform"):
        sentence = evaluate.verdict("the learned policy", baseline, accuracies["learned"], accuracies[baseline])
        console.print(sentence, highlight=False)
    console.print(
        f"{config.epochs} epochs on easy digits say little about your images: slackaug search FOLDER -o runs/mine",
        highlight=False,
    )
    console.print(f"\nall files are in {out}; the policy is {Path(out) / 'policy.json'}", highlight=False)


def is_demo(folder: Path) -> bool:
    """Whether a folder holds an earlier demo, which may be replaced; any other run may not."""
    return (folder / "config.yaml").is_file() and api.read_config(folder).preset == "demo"


def train_all(candidates: dict[str, Policy], config: FitConfig, console: Console) -> dict[str, list[float]]:
    data = load("digits")
    accuracies: dict[str, list[float]] = {name: [] for name in candidates}
    for seed in range(SEEDS):
        for name, policy in candidates.items():
            score = evaluate.train_and_test(data, policy, "small", config, seed, "cpu")
            accuracies[name].append(score.accuracy)
            console.print(f"seed {seed}, {name}: {100 * score.accuracy:.2f} %", highlight=False)
    return accuracies


def results_table(accuracies: dict[str, list[float]]) -> Table:
    table = Table()
    for header in ("policy", "accuracy, 95 % interval", "seeds"):
        table.add_column(header)
    for name, values in accuracies.items():
        table.add_row(name, str(evaluate.interval(values)), str(len(values)))
    return table
