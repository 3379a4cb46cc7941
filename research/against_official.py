"""Learned policies beside the published ones of SLACK: do they find what those found?

    PYTHONPATH=src python research/against_official.py FOLDER NAME POLICY [POLICY ...]

FOLDER has the published policies NAME_s0.json, NAME_s1.json, ... of searches on different splits, POLICY is one that
`slackaug search` left. Each is correlated with the mean of the published ones, pi averaged over positions; each
published one with the mean of the others, which is what a search that does the same can be expected to reach.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from positions import load
from slackaug.augment.policy import Policy
from slackaug.augment.stability import DISCARDED, mean_correlation, without


def pi(policies: Sequence[Policy]) -> Tensor:
    """(P, N), times uniform."""
    return torch.stack([len(policy.space) * policy.probabilities.detach().mean(0) for policy in policies])


def mu(policies: Sequence[Policy]) -> Tensor:
    return torch.stack([policy.mu.detach() for policy in policies])


def agreement(one: Policy, others: Sequence[Policy]) -> list[str]:
    """Correlations with the mean of others: of pi, of pi without what every search discards, of mu."""
    rest, every = without(one.space.names, DISCARDED), torch.ones(len(one.space), dtype=torch.bool)
    found = [(pi, every), (pi, rest), (mu, one.space.has_magnitude)]
    values = [mean_correlation([of([one])[0], of(others).mean(0)], chosen) for of, chosen in found]
    return ["" if value is None else f"{value:.2f}" for value in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("policies", type=Path, nargs="+")
    given = parser.parse_args()
    official = {path.stem: load(path) for path in sorted(given.folder.glob(f"{given.name}_s*.json"))}
    learned = {str(path): load(path) for path in given.policies}
    names = next(iter(official.values())).space.names
    assert all(policy.space.names == names for policy in (*official.values(), *learned.values()))

    print("| policy | pi | without Invert and Solarize | mu |\n|---|---|---|---|")
    for name, policy in official.items():
        others = [other for key, other in official.items() if key != name]
        print(f"| published, {name}, with the others | " + " | ".join(agreement(policy, others)) + " |")
    for name, policy in learned.items():
        print(f"| {name} | " + " | ".join(agreement(policy, list(official.values()))) + " |")

    print("\n| transformation | pi times uniform: published, mean (least to most) | learned | mu | learned |")
    print("|---|---|---|---|---|")
    has_magnitude = next(iter(official.values())).space.has_magnitude.tolist()
    theirs, ours = ((pi(list(found.values())), mu(list(found.values()))) for found in (official, learned))
    for i in theirs[0].mean(0).argsort(descending=True).tolist():
        cells = [spread(theirs[0][:, i]), listed(ours[0][:, i])]
        cells += [spread(theirs[1][:, i]), listed(ours[1][:, i])] if has_magnitude[i] else ["", ""]
        print(f"| {names[i]} | " + " | ".join(cells) + " |")


def spread(values: Tensor) -> str:
    return f"{values.mean():.2f} ({values.min():.2f} to {values.max():.2f})"


def listed(values: Tensor) -> str:
    return ", ".join(f"{value:.2f}" for value in values.tolist())


if __name__ == "__main__":
    main()
