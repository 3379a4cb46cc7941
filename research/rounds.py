"""Do the rounds of searches on different splits move the policy the same way?

    PYTHONPATH=src python research/rounds.py STUDY [STUDY ...] [--out FILE.json]

STUDY is a folder that `slackaug study` left. What a round changes in log pi is compared, by correlation over the
transformations, with what other rounds of the same search change, and with the rounds of other searches. Rounds of one
search share its split and theta_0, not the draws: where they agree as much as those of different searches do, what is
left is chance in the draws; where they agree more, a search has a direction of its own.
"""

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from positions import correlation
from sets import courses


def log_pi(study: Path) -> np.ndarray:
    """(S searches, R + 1 rounds with the start, N transformations), positions averaged."""
    return np.array([[phi.probabilities.mean(0).log().numpy() for phi in course] for course in courses(study)])


def compare(name: str, found: np.ndarray) -> dict[str, Any]:
    """Mean correlations of what rounds change, from log pi (S, R + 1, N)."""
    change = np.diff(found, axis=1)
    n_searches, n_rounds, _ = change.shape
    searches, rounds = list(itertools.combinations(range(n_searches), 2)), range(n_rounds)
    within = [correlation(one[i], one[j]) for one in change for i, j in itertools.combinations(rounds, 2)]
    across = [correlation(change[s, i], change[t, j]) for s, t in searches for i in rounds for j in rounds]
    by_round = [np.mean([correlation(change[s, i], change[t, i]) for s, t in searches]) for i in rounds]
    last = [correlation(found[s, -1], found[t, -1]) for s, t in searches]
    return {
        "study": name,
        "rounds of one search": float(np.mean(within)),
        "of two searches": float(np.mean(across)),
        "the same round of two searches": [float(value) for value in by_round],
        "log pi at the end": float(np.mean(last)),
        "log pi": found.round(6).tolist(),
    }


def row(one: dict[str, Any]) -> str:
    each = ", ".join(f"{value:.2f}" for value in one["the same round of two searches"])
    within, across, last = (one[key] for key in ("rounds of one search", "of two searches", "log pi at the end"))
    return f"| {one['study']} | {within:.2f} | {across:.2f} | {each} | {last:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, help="the numbers as JSON, and the log pi that they are of")
    arguments = parser.parse_args()
    found = [compare(study.name, log_pi(study)) for study in arguments.studies]
    print("| study | rounds of one search | of two searches | the same round of two searches, from the first on "
          "| log pi at the end |")  # fmt: skip
    print("|---|---|---|---|---|")
    for one in found:
        print(row(one))
    if arguments.out is not None:
        lines = ",\n ".join(json.dumps(one) for one in found)
        arguments.out.write_text(f"[\n {lines}\n]\n")


if __name__ == "__main__":
    main()
