"""A direct check of any search: what is each transformation worth, measured by whole trainings without a search?

    PYTHONPATH=src python research/halves.py write cifar --out FOLDER [--pairs 32] [--seed 0]
    slackaug evaluate DATA -o OUT $(printf ' -p %s' FOLDER/*.json) --baselines uniform --seeds 1
    PYTHONPATH=src python research/halves.py table FOLDER OUT/eval/results.csv POLICY [POLICY ...] [--out FILE.json]

`write` makes policies that are uniform over one half of the transformations, drawn at random, and the same over the
other half. The differences of trainings with the two are regressed on those of the probabilities, so that every pair
says something about each transformation. `table` has what it is worth to take part, with 95 % intervals, and its
correlation with log pi of learned policies: a search that knew the truth about whole trainings would prefer what is
worth most.
"""

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from positions import load
from slackaug.augment.policy import Policy
from slackaug.augment.stability import DISCARDED
from slackaug.augment.transforms import get_space
from slackaug.judge.candidates import label

Array = np.ndarray[Any, np.dtype[np.float64]]


class Effects(NamedTuple):
    """What it is worth that a transformation is among the half, less the mean of all, in the unit of the outcome."""

    value: Array  # (N,), more is better
    error: Array  # (N,), standard errors
    degrees: int  # of freedom

    @property
    def reliability(self) -> float:
        """The share of the spread between transformations that is not error."""
        return float(1 - (self.error**2).sum() / (len(self.error) - 1) / self.value.var(ddof=1))


def write(space_name: str, n_pairs: int, seed: int, out: Path) -> None:
    """Halves, and after each what it leaves, so that every transformation takes part in every second training."""
    if any(out.glob("half_*.json")):
        raise SystemExit(f"{out}: has halves already; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    space, rng = get_space(space_name), np.random.default_rng(seed)
    width = len(str(2 * n_pairs - 1))  # of their numbers, so that pairs are side by side in the order of names
    for pair in range(n_pairs):
        order = rng.permutation(len(space))
        for side, half in enumerate((order[: len(space) // 2], order[len(space) // 2 :])):
            left_out = [name for i, name in enumerate(space.names) if i not in half]
            Policy.uniform(space.exclude(*left_out)).save(out / f"half_{2 * pair + side:0{width}d}.json")


def effects(pi: Array, outcome: Array) -> Effects:
    """By least squares on the differences in each pair, pi (n, 2, N) and outcome (n, 2): constant + difference @ value.

    What two transformations do together is much the same in a half and in what it leaves, and goes out. The values sum
    to zero, since probabilities sum to one.
    """
    n, _, n_transforms = pi.shape
    if n < n_transforms + 1:
        raise SystemExit(
            f"{n} pairs of halves are too few for {n_transforms} transformations: {n_transforms + 1} or more"
        )
    contrasts = np.linalg.svd(np.eye(n_transforms) - 1 / n_transforms)[0][:, :-1]  # (N, N - 1), each sums to zero
    design = np.column_stack([np.ones(n), (pi[:, 0] - pi[:, 1]) @ contrasts])
    difference = outcome[:, 0] - outcome[:, 1]
    inverse = np.linalg.inv(design.T @ design)
    found = inverse @ design.T @ difference
    degrees = n - n_transforms
    variance = float(((difference - design @ found) ** 2).sum() / degrees)
    covariance = variance * contrasts @ inverse[1:, 1:] @ contrasts.T
    share = 2 / n_transforms  # that it has in a half
    return Effects(share * contrasts @ found[1:], share * np.sqrt(covariance.diagonal()), degrees)


def read(folder: Path, results: Path, names: Sequence[str]) -> tuple[Array, dict[str, Array]]:
    """Of each pair (n, 2): the probabilities (n, 2, N); accuracy in points, and loss with its sign turned."""
    outcomes: dict[str, list[tuple[float, float]]] = {}
    with results.open(newline="") as file:
        for row in csv.DictReader(file):
            outcome = 100 * float(row["accuracy"]), -float(row["loss"])
            outcomes.setdefault(Path(row["policy"]).name, []).append(outcome)
    halves = sorted(folder.glob("half_*.json"))
    pairs = [
        pair for pair in zip(halves[::2], halves[1::2], strict=True) if all(half.name in outcomes for half in pair)
    ]
    if len(pairs) < len(halves) // 2:
        print(f"{len(pairs)} of {len(halves) // 2} pairs have results")
    pi = np.array([[shares(half, names) for half in pair] for pair in pairs]).reshape(len(pairs), 2, len(names))
    means = [[np.mean(outcomes[half.name], axis=0) for half in pair] for pair in pairs]  # over seeds
    accuracy, loss = np.moveaxis(np.array(means).reshape(len(pairs), 2, 2), 2, 0)
    return pi, {"accuracy": accuracy, "loss": loss}


def shares(path: Path, names: Sequence[str]) -> list[float]:
    policy = load(path)
    found = dict(zip(policy.space.names, policy.probabilities.mean(0).tolist(), strict=True))
    if not found.keys() <= {*names}:
        raise SystemExit(f"{path}: is a half of another space than that of the learned policies")
    return [found.get(name, 0.0) for name in names]


def log_pi(policy: Policy) -> Array:
    found: Array = policy.probabilities.detach().mean(0).log().double().numpy()
    return found


def correlations(found: Effects, learned: Array, rest: Any) -> list[float]:
    """With log pi of a policy: over all transformations, and without those that every search discards."""
    return [float(np.corrcoef(found.value[chosen], learned[chosen])[0, 1]) for chosen in (slice(None), rest)]


def table(folder: Path, results: Path, policies: Sequence[Path], out: Path | None) -> None:
    learned = {label(path): load(path) for path in policies}
    names = next(iter(learned.values())).space.names
    if any(policy.space.names != names for policy in learned.values()):
        raise SystemExit("the learned policies are of different spaces")
    pi, outcomes = read(folder, results, names)
    found = {name: effects(pi, outcome) for name, outcome in outcomes.items()}
    rest = np.array([name not in DISCARDED for name in names])
    mean = np.mean([log_pi(policy) for policy in learned.values()], axis=0)

    print(
        f"{len(pi)} pairs; reliability: accuracy {found['accuracy'].reliability:.2f}, "
        f"loss {found['loss'].reliability:.2f}"
    )
    print("| transformation | accuracy, points | less loss | pi times uniform, geometric mean |\n|---|---|---|---|")
    quantile = stats.t.ppf(0.975, found["accuracy"].degrees)
    for i in found["accuracy"].value.argsort()[::-1]:
        cells = [
            f"{of.value[i]:+.{digits}f} ± {quantile * of.error[i]:.{digits}f}"
            for of, digits in ((found["accuracy"], 2), (found["loss"], 3))
        ]
        print(f"| {names[i]} | {cells[0]} | {cells[1]} | {len(names) * np.exp(mean[i]):.2f} |")
    print("\n| log pi of | accuracy | without Invert and Solarize | loss | without |\n|---|---|---|---|---|")
    rows = {name: log_pi(policy) for name, policy in learned.items()} | {"mean of all": mean}
    for name, values in rows.items():
        cells = [f"{r:.2f}" for of in found.values() for r in correlations(of, values, rest)]
        print(f"| {name} | " + " | ".join(cells) + " |")
    if out is not None:
        document = {
            "transformations": list(names),
            "pairs": [
                [
                    {"half": [n for n, share in zip(names, row, strict=True) if share], "accuracy": a, "loss": -less}
                    for row, a, less in zip(*pair, strict=True)
                ]
                for pair in zip(pi, outcomes["accuracy"], outcomes["loss"], strict=True)
            ],
            "effects": {
                n: {"value": of.value.tolist(), "standard_error": of.error.tolist()} for n, of in found.items()
            },
            "log_pi": {name: values.tolist() for name, values in rows.items()},
        }
        out.write_text(json.dumps(document, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    writer = commands.add_parser("write")
    writer.add_argument("space")
    writer.add_argument("--out", type=Path, required=True)
    writer.add_argument("--pairs", type=int, default=32)
    writer.add_argument("--seed", type=int, default=0)
    reader = commands.add_parser("table")
    reader.add_argument("folder", type=Path)
    reader.add_argument("results", type=Path)
    reader.add_argument("policies", type=Path, nargs="+")
    reader.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.command == "write":
        write(given.space, given.pairs, given.seed, given.out)
    else:
        table(given.folder, given.results, given.policies, given.out)


if __name__ == "__main__":
    main()
