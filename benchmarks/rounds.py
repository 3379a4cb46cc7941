"""Do the rounds of searches on different splits move the policy the same way?

    PYTHONPATH=src python benchmarks/rounds.py STUDY [STUDY ...]

STUDY is a folder that `slackaug study` left. What a round changes in log pi is compared, by correlation over the
transformations, with what other rounds of the same search change, and with the rounds of other searches. Rounds of one
search share its split and theta_0, not the draws: where they agree as much as those of different searches do, what is
left is chance in the draws; where they agree more, a search has a direction of its own.
"""

import argparse
import itertools
from pathlib import Path

import numpy as np

from positions import correlation
from sets import courses


def log_pi(study: Path) -> np.ndarray:
    """(S searches, R + 1 rounds with the start, N transformations), positions averaged."""
    return np.array([[phi.probabilities.mean(0).log().numpy() for phi in course] for course in courses(study)])


def row(name: str, found: np.ndarray) -> str:
    change = np.diff(found, axis=1)
    n_searches, n_rounds, _ = change.shape
    searches, rounds = list(itertools.combinations(range(n_searches), 2)), range(n_rounds)
    within = [correlation(one[i], one[j]) for one in change for i, j in itertools.combinations(rounds, 2)]
    across = [correlation(change[s, i], change[t, j]) for s, t in searches for i in rounds for j in rounds]
    by_round = [np.mean([correlation(change[s, i], change[t, i]) for s, t in searches]) for i in rounds]
    last = [correlation(found[s, -1], found[t, -1]) for s, t in searches]
    each = ", ".join(f"{value:.2f}" for value in by_round)
    return f"| {name} | {np.mean(within):.2f} | {np.mean(across):.2f} | {each} | {np.mean(last):.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", type=Path, nargs="+")
    print("| study | rounds of one search | of two searches | the same round of two searches, from the first on "
          "| log pi at the end |")  # fmt: skip
    print("|---|---|---|---|---|")
    for study in parser.parse_args().studies:
        print(row(study.name, log_pi(study)))


if __name__ == "__main__":
    main()
