"""What whole trainings on several splits say of each transformation: to one another, and together.

    PYTHONPATH=src python benchmarks/effects.py CONTRASTS.json

The file is one that `benchmarks/contrasts.py DATA --rounds 1 --whole --seeds 0 1 ...` left. Each search has pairs of
trainings, with one half of the transformations and with the other. What tells the losses of a pair apart is taken to be
what the transformations of each half cost, and how many there are, by least squares. Another search has another split
and other halves: how well the costs of one predict the pairs of the other is a test of both. Then the costs of all
searches together, as the worth of drawing a transformation twice as often as uniform does, in thousandths of a nat.

Axes: n pairs, N transformations.
"""

import argparse
import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from contrasts import Array, design

LEVEL = 0.95


class Pairs(NamedTuple):
    """Of how many more of the draws each transformation has in the first half, and the sizes of halves; of losses."""

    apart: Array  # (n, N + 1)
    losses: Array  # (n,)


class Fit(NamedTuple):
    costs: Array  # (N + 1,)
    rest: Array  # (n,), what they leave over
    rank: int

    @property
    def freedom(self) -> int:
        return len(self.rest) - self.rank

    @property
    def variance(self) -> float:
        return float((self.rest**2).sum() / self.freedom)


def pairs(search: dict[str, Any]) -> Pairs:
    """The halves are drawn again from the seed, as the search has drawn them for its first round."""
    n_transforms, (first, second) = len(search["names"]), np.array(search["rounds"][0]["losses"]).T
    signs = design(n_transforms, n_transforms, np.random.default_rng((search["seed"], 1)))
    if len(signs) != len(first):
        raise SystemExit(f"search {search['seed']} has {len(first)} pairs instead of {len(signs)}; it had --mu?")
    halves = [(signs == sign) / (signs == sign).sum(1, keepdims=True) for sign in (1, -1)]
    return Pairs(np.hstack([halves[0] - halves[1], signs.sum(1, keepdims=True)]), first - second)


def fit(found: Pairs) -> Fit:
    costs, _, rank, _ = np.linalg.lstsq(found.apart, found.losses, rcond=1e-10)
    return Fit(costs, found.losses - found.apart @ costs, int(rank))


def together(found: list[Pairs]) -> Pairs:
    return Pairs(*map(np.concatenate, zip(*found, strict=True)))


def explained(found: Pairs, costs: Array) -> float:
    """The share of the squared differences; below 0 where it would be better to say nothing."""
    return float(1 - ((found.losses - found.apart @ costs) ** 2).sum() / (found.losses**2).sum())


def sizes(found: Pairs) -> Pairs:
    """Alone, as if all transformations cost the same."""
    return found._replace(apart=found.apart[:, -1:])


def worth(found: Pairs) -> tuple[Array, Array]:
    """In thousandths of a nat (N,), with half of the width of each interval (N,); the mean over all is nothing."""
    fitted, n = fit(found), found.apart.shape[1] - 1
    contrast = -1000 / (n - 1) * (np.eye(n) - 1 / n)  # one more share of 1 / n for one, less for all others
    covariance = fitted.variance * np.linalg.pinv(found.apart.T @ found.apart, rcond=1e-10)[:n, :n]
    deviation = np.sqrt(np.diag(contrast @ covariance @ contrast.T))
    return contrast @ fitted.costs[:n], stats.t.ppf((1 + LEVEL) / 2, fitted.freedom) * deviation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    searches = json.loads(parser.parse_args().file.read_text())["searches"]
    names, found = searches[0]["names"], [pairs(search) for search in searches]
    if any(search["names"] != names for search in searches):
        parser.error("the searches are over different spaces")
    for search, one in zip(searches, found, strict=True):
        fitted, rms = fit(one), np.sqrt((one.losses**2).mean())
        print(f"search {search['seed']}: {len(one.losses)} pairs, {rms:.3f} nats apart (root mean square); explained "
              f"{explained(one, fitted.costs):.2f} with {fitted.freedom} degrees of freedom left")  # fmt: skip
    for first, second in itertools.permutations(range(len(found)), 2):
        said = explained(found[second], fit(found[first]).costs)
        by_size = explained(sizes(found[second]), fit(sizes(found[first])).costs)
        correlation = np.corrcoef(worth(found[first])[0], worth(found[second])[0])[0, 1]
        print(f"search {searches[first]['seed']} explains {said:.2f} of the pairs of search "
              f"{searches[second]['seed']} (by the sizes of halves alone {by_size:.2f}); worth correlates by "
              f"{correlation:.2f}")  # fmt: skip
    pooled = together(found)
    fitted = fit(pooled)
    ratio = ((pooled.losses**2).sum() - (fitted.rest**2).sum()) / fitted.rank / fitted.variance
    print(f"together: explained {explained(pooled, fitted.costs):.2f}, F = {ratio:.1f}, "
          f"p = {stats.f.sf(ratio, fitted.rank, fitted.freedom):.0e}; one transformation more in a half, and one less "
          f"in the other: {2 * fitted.costs[-1]:.4f} nats")  # fmt: skip
    mean, width = worth(pooled)
    for k in np.argsort(-mean):
        print(f"{names[k]:14} {mean[k]:6.1f} ± {width[k]:.1f}")


if __name__ == "__main__":
    main()
