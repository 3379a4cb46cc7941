"""How often does the interval at which `evaluate --until` stops hold the truth? By simulation.

    PYTHONPATH=src python research/until_coverage.py [--trials 4000] [--until 0.5]

Differences by seed are normal; their mean is zero, their deviation and `--until` are in points. Stopping where an
interval is narrow favours those that are narrow by chance, the more the fewer seeds it starts from.
"""

import argparse
import random

from slackaug.judge import intervals


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


if __name__ == "__main__":
    main()
