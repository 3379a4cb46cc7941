"""Does the policy collapse without the KL term, or without the cold start? The paper's central ablation.

    PYTHONPATH=src python research/entropy.py DATA --runs FOLDER [--set KEY=VALUE ...] [--only NAME ...]

Four searches by `--preset paper`: as published; without KL, at the released rate; with a warm start; with both changes.
Each has a run of its own below FOLDER, and one that was stopped is taken up again. Prints, as Markdown, the entropy of
pi after each round as a share of uniform's, and the least probability of any transformation at the end.
"""

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

import slackaug
from slackaug.augment.policy import Policy
from slackaug.config.layers import configure, data_config
from slackaug.config.paper import CHANGES
from slackaug.data import read
from slackaug.methods.budget import SearchConfig
from slackaug.report.strength import entropy_share
from slackaug.runs import folders

WITHOUT_KL = "without-kl-0.5"  # the rate of the released script; the paper's text has half of it
VARIANTS = {
    "as published": [],
    "without KL": [WITHOUT_KL],
    "warm start": ["warm-start"],
    "without KL, warm start": [WITHOUT_KL, "warm-start"],
}


def changes(base: SearchConfig, names: list[str]) -> list[str]:
    """As assignments for a search."""
    found = base
    for name in names:
        found = replace(found, **CHANGES[name](found))
    before, after = asdict(base), asdict(found)
    return [f"search.{key}={json.dumps(after[key])}" for key in after if after[key] != before[key]]


def search(data: str, run: Path, assignments: list[str]) -> None:
    if (run / folders.FINISHED).is_file():
        return
    if (run / "config.yaml").is_file():
        slackaug.search(data, run, resume=True)
    else:
        slackaug.search(data, run, preset="paper", set=assignments, estimate=False)


def entropies(run: Path) -> list[float]:
    return [entropy_share(Policy.load(path)) for path in folders.round_files(run)]


def table(found: dict[str, list[float]], least: dict[str, float]) -> str:
    n_rounds = max(map(len, found.values()))
    lines = [["entropy, % of uniform", *(f"round {i + 1}" for i in range(n_rounds)), "least probability, %"]]
    lines.append(["---"] * len(lines[0]))
    for name, values in found.items():
        cells = [f"{100 * one:.1f}" for one in values]
        lines.append([name, *cells, *[""] * (n_rounds - len(cells)), f"{100 * least[name]:.2f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME")
    given = parser.parse_args()
    base = configure(read(data_config(given.data, {}, None)), {"preset": "paper"}, None, given.set).search
    runs = {name: given.runs / name.replace(", ", "-").replace(" ", "-") for name in VARIANTS}
    for name in given.only:
        search(given.data, runs[name], [*given.set, *changes(base, VARIANTS[name])])
    found = {name: entropies(run) for name, run in runs.items() if run.is_dir()}
    least = {name: Policy.load(runs[name] / folders.POLICY).probabilities.min().item() for name in found}
    print(table(found, least))


if __name__ == "__main__":
    main()
