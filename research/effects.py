"""What whole trainings on several splits say of each transformation: to one another, and together.

    PYTHONPATH=src python research/effects.py CONTRASTS.json

The file is one that `research/contrasts.py DATA --rounds 1 --whole --seeds 0 1 ...` left. Each search has pairs of
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

from contrasts import Array, signs_of

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
    n_transforms, losses = len(search["names"]), np.array(search["rounds"][0]["losses"])
    signs = signs_of(search["seed"], 1, n_transforms, n_transforms)
    if losses.shape != (len(signs), 2) or not np.isfinite(losses).all():
        raise SystemExit(f"search {search['seed']}: expected {len(signs)} pairs of losses, as without --mu")
    halves = [(signs == sign) / (signs == sign).sum(1, keepdims=True) for sign in (1, -1)]
    return Pairs(np.hstack([halves[0] - halves[1], signs.sum(1, keepdims=True)]), losses[:, 0] - losses[:, 1])


def fit(found: Pairs) -> Fit:
    costs, _, rank, _ = np.linalg.lstsq(found.apart, found.losses, rcond=1e-10)
    return Fit(costs, found.losses - found.apart @ costs, int(rank))


def together(found: list[Pairs]) -> Pairs:
    return Pairs(*map(np.concatenate, zip(*found, strict=True)))


def explained(found: Pairs, costs: Array) -> float:
    """The share of the squared differences; below 0 where it would be better to say nothing."""
    return float(1 - ((found.losses - found.apart @ costs) ** 2).sum() / (found.losses**2).sum())


def f_test(found: Pairs) -> tuple[float, float]:
    """F, and how likely one as large is where halves do not differ."""
    fitted = fit(found)
    ratio = ((found.losses**2).sum() - (fitted.rest**2).sum()) / fitted.rank / fitted.variance
    return float(ratio), float(stats.f.sf(ratio, fitted.rank, fitted.freedom))


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
    file = parser.parse_args().file
    try:
        document = json.loads(file.read_text())
        settings, searches = document["settings"], document["searches"]
        names = searches[0]["names"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        parser.error(f"{file}: not what contrasts.py leaves ({type(error).__name__}: {error})")
    if any(search["names"] != names for search in searches):
        parser.error("the searches are over different spaces")
    if len({search["seed"] for search in searches}) < len(searches):
        parser.error("a search is there twice")
    if not settings["whole"] or settings["rounds"] != 1:
        parser.error("the searches are not of one round of whole trainings (--whole --rounds 1)")
    found = [pairs(search) for search in searches]
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
    ratio, p = f_test(pooled)
    print(f"together: explained {explained(pooled, fitted.costs):.2f}, F = {ratio:.1f}, p = {p:.0e}; one "
          f"transformation more in a half, and one less in the other: {2 * fitted.costs[-1]:.4f} nats")  # fmt: skip
    mean, width = worth(pooled)
    for k in np.argsort(-mean):
        print(f"{names[k]:14} {mean[k]:6.1f} ± {width[k]:.1f}")


if __name__ == "__main__":
    main()
