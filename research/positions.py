"""Where do policies of one search on different splits differ from? Their positions tell.

    PYTHONPATH=src python research/positions.py FOLDER

FOLDER has policies NAME_s0.json, NAME_s1.json, ... of searches on different splits. The positions of a composite have
distributions of their own, but each theta and each validation batch rewards all of them. So if splits or networks were
what makes policies differ, two positions of one policy would be alike; if it is chance in the drawing of composites,
they are as unlike as positions of policies from different splits. Correlations are over transformations, means over
pairs. "By chance alone" is the correlation of the positions' means that independent noise of the single positions'
size would give (Spearman and Brown).
"""

import argparse
import itertools
from pathlib import Path

import numpy as np

from slackaug.augment.formats import published
from slackaug.augment.policy import Policy


def load(path: Path) -> Policy:
    policy = published.load(path)
    assert isinstance(policy, Policy)
    return policy


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def row(name: str, pi: np.ndarray) -> str:
    """Of pi (S splits, K positions, N transformations)."""
    n_splits, k, _ = pi.shape
    splits, positions = list(itertools.combinations(range(n_splits), 2)), range(k)
    within = [correlation(one[i], one[j]) for one in pi for i, j in itertools.combinations(positions, 2)]
    same = [correlation(pi[s, i], pi[t, i]) for s, t in splits for i in positions]
    across = [correlation(pi[s, i], pi[t, j]) for s, t in splits for i in positions for j in positions]
    means = [correlation(pi[s].mean(0), pi[t].mean(0)) for s, t in splits]
    r = np.mean(across)
    cells = [*map(np.mean, (within, same, across, means)), k * r / (1 + (k - 1) * r)]
    return f"| {name} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    found: dict[str, list[np.ndarray]] = {}
    for path in sorted(parser.parse_args().folder.glob("*_s*.json")):
        found.setdefault(path.stem.rsplit("_s", 1)[0], []).append(load(path).probabilities.numpy())
    print("| policies | positions of one policy | the same position, two splits | any two positions, two splits "
          "| means over positions, two splits | by chance alone |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for name, policies in found.items():
        if len(policies) > 1:
            print(row(name, np.stack(policies)))


if __name__ == "__main__":
    main()
