"""How often does the interval at which `evaluate --until` and `study --until` stop hold the truth? By simulation.

    PYTHONPATH=src python research/until_coverage.py [--trials 4000] [--until 0.5]

Differences by seed are normal; their mean is zero, their deviation and `--until` are in points. Stopping where an
interval is narrow favours those that are narrow by chance, the more the fewer seeds it starts from. The second table
is of studies that begin with 4 evaluations, whose differences deviate by 0.7 points within a search.
"""

import argparse
import random

from slackaug.judge import intervals
from slackaug.judge.studies.plan import MAX_EVALUATIONS

WITHIN = 0.7  # deviation of a difference between evaluations of one search, in points


def stopped(deviation: float, until: float, first: int, chance: random.Random) -> tuple[bool, int]:
    """Whether the interval holds zero where `queue.conduct_until` would stop, and after how many seeds."""
    values = [chance.gauss(0, deviation) for _ in range(first)]
    while True:
        found = intervals.interval(values)
        assert found.half_width is not None
        if found.half_width <= until:
            return abs(found.mean) <= found.half_width, found.n
        n = min(max(intervals.n_for(found, until, 10_000), found.n + 1), 2 * found.n)
        values += [chance.gauss(0, deviation) for _ in range(n - found.n)]


def studied(n_search: int, between: float, until: float, chance: random.Random) -> tuple[bool, bool, int]:
    """Whether it holds zero where `studies.evaluations` would stop, whether it is as narrow, and after how many."""
    own = [chance.gauss(0, between) for _ in range(n_search)]
    rows: list[list[float]] = [[] for _ in own]
    n = 4
    while True:
        for mean, row in zip(own, rows, strict=True):
            row += [chance.gauss(mean, WITHIN) for _ in range(n - len(row))]
        found = intervals.nested_difference(rows)
        assert found.half_width is not None
        is_narrow = found.half_width <= until
        needed = None if is_narrow else intervals.n_evaluations_for(rows, until, MAX_EVALUATIONS)
        if needed is None:
            return abs(found.mean) <= found.half_width, is_narrow, n
        n = min(max(needed, n + 1), 2 * n)


def of_studies(trials: int, until: float) -> None:
    print("\n| searches | between / within | holds the truth | is narrow | then holds | evaluations |")
    print("|---|---|---|---|---|---|")
    for n_search in (4, 8):
        for ratio in (0, 0.2, 0.5, 1):
            chance = random.Random(f"{n_search} {ratio}")
            ends = [studied(n_search, ratio * WITHIN, until, chance) for _ in range(trials)]
            narrow = [holds for holds, is_narrow, _ in ends if is_narrow]
            shares = sum(end[0] for end in ends) / trials, len(narrow) / trials, sum(narrow) / len(narrow)
            cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
            print(f"| {n_search} | {ratio:g} | {cells} | {sum(end[2] for end in ends) / trials:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--until", type=float, default=0.5)
    given = parser.parse_args()
    print("| deviation | first seeds | holds the truth | seeds |\n|---|---|---|---|")
    for deviation in (0.3, 0.5, 0.7, 1.0, 1.5):
        for first in (4, 6, 8, 12):
            chance = random.Random(f"{deviation} {first}")
            ends = [stopped(deviation, given.until, first, chance) for _ in range(given.trials)]
            holds, n = (sum(values) / given.trials for values in zip(*ends, strict=True))
            print(f"| {deviation:g} | {first} | {100 * holds:.1f} % | {n:.1f} |")
    of_studies(given.trials, given.until)


if __name__ == "__main__":
    main()
