"""How often does a race ship something worse, and how often does it find what is better? By simulation.

    PYTHONPATH=src python research/race_errors.py [--list directions --first 1] [--images 1000] [--seed-noise 0.5]

Every image has a difficulty, every candidate a taste of its own for images, every training a level of its own; an
answer is right with the probability that these make. Seed noise is the standard deviation, in points, of accuracies
over seeds on infinitely many images; on so many images single answers add to it. Points lost are to the best of all
candidates of all lists, whether it was raced or not.
"""

import argparse
import json

import numpy as np
from numpy.random import Generator, default_rng

from slackaug.config import presets
from slackaug.config.run_config import RaceConfig
from slackaug.judge.race import difference, race
from slackaug.judge.verdicts import Case, verdict

BASIC = ["none", "default", "trivialaugment-wide", "uniform-1", "uniform-2", "uniform-3", "learned"]
FEW = ["learned-x0.5", "learned-x2", "learned-1"]
NAMES = [*BASIC, *FEW, "learned-x4", "learned-mu0.75", "learned-mu1.25", "learned-2"]
LISTS = {"basic": BASIC, "few": [*BASIC, *FEW], "directions": list(presets.DIRECTIONS.candidates), "all": NAMES}
AS_MEASURED = {  # points that variants of what was learned lose to it, about as in the notebook
    "learned-x0.5": 0.3, "learned-x2": 0.7, "learned-x4": 2.0, "learned-mu0.75": 0.15, "learned-mu1.25": 0.15,
    "learned-1": 0.3, "learned-2": 0.15,
}  # fmt: skip
INCUMBENT = "uniform-2"
N_FOLDS = 2
TASTE = 0.7  # deviation of a candidate's logits between images, of a case of its own
DIFFICULTY, LEVEL = 2.5, 3.0  # deviation and mean of the logits of images: about 85 % right


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def slope() -> float:
    """Points of accuracy for one unit of logit, at these difficulties."""
    x = default_rng(0).normal(LEVEL, np.hypot(DIFFICULTY, TASTE), 200_000)
    return float(100 * (sigmoid(x + 0.05).mean() - sigmoid(x - 0.05).mean()) / 0.1)


PER_LOGIT = slope()


class World:
    """Candidates whose true accuracies lie `gains` points from that of the incumbent."""

    def __init__(self, gains: np.ndarray, n_images: int, seed_noise: float, rng: Generator) -> None:
        self.gains, self.noise, self.rng, self.n_images = gains, seed_noise / PER_LOGIT, rng, n_images
        self.parts = [self.images(), self.images()]  # for the race, and for the last word

    def images(self) -> np.ndarray:  # (C, I) logits
        common = self.rng.normal(LEVEL, DIFFICULTY, self.n_images)
        return common + self.rng.normal(0, TASTE, (len(self.gains), self.n_images)) + self.gains[:, None] / PER_LOGIT

    def train(self, candidate: int, seed: int, part: int) -> np.ndarray:
        logits = self.parts[part][candidate, seed % N_FOLDS :: N_FOLDS] + self.rng.normal(0, self.noise)
        return self.rng.random(len(logits)) < sigmoid(logits)


def run(world: World, config: RaceConfig, worth: float, n_rounds: int | None) -> tuple[int, Case, int, float]:
    """What is used, why, after how many trainings, and the half-width at the end."""
    found: dict[str, list[np.ndarray]] = {}
    n_trainings = 0
    while (runners := race(found, config, n_rounds)).wanted:
        for name, seed in runners.wanted:
            found.setdefault(name, []).append(world.train(NAMES.index(name), seed, 0))
            n_trainings += 1
    pair = runners.challengers[0], INCUMBENT
    tables = [[world.train(NAMES.index(name), seed, 1) for seed in range(config.n_last)] for name in pair]
    gain = difference(*tables, N_FOLDS)
    simpler = min(pair, key=NAMES.index)
    end = verdict(*pair, gain, worth / 100, simpler)
    return NAMES.index(end.use), end.case, n_trainings + 2 * config.n_last, 100 * gain.reach(0.05)


def scenarios(rng: Generator) -> dict[str, np.ndarray]:
    def only(best: dict[str, float] | None = None, **gains: float) -> np.ndarray:
        """`best`: variants that are better than what was learned, in place of what was measured."""
        found = gains | {name.replace("-", "_"): gains.get("learned", 0.0) - less for name, less in AS_MEASURED.items()}
        found |= {name.replace("-", "_"): gain for name, gain in (best or {}).items()}
        return np.array([found.get(name.replace("-", "_"), 0.0) for name in NAMES])

    usual = {"none": -3.0, "default": -1.0, "trivialaugment_wide": -0.5, "uniform_1": -0.3, "uniform_3": -0.3}
    return {
        "all equal": np.zeros(len(NAMES)),
        "learned 0.5 worse, others equal": only(learned=-0.5),
        "learned 1 worse, others equal": only(learned=-1.0),
        "all others 0.5 worse": np.where(np.array(NAMES) == INCUMBENT, 0.0, -0.5),
        "all others 0.3 worse": np.where(np.array(NAMES) == INCUMBENT, 0.0, -0.3),
        "usual, learned level": only(**usual),
        "usual, learned 0.25 better": only(**usual, learned=0.25),
        "usual, learned 0.5 better": only(**usual, learned=0.5),
        "usual, learned 1 better": only(**usual, learned=1.0),
        "usual, learned level, twice 0.5 better": only({"learned-x2": 0.5}, **usual),
        "usual, learned level, half 0.5 better": only({"learned-x0.5": 0.5}, **usual),
        "usual, learned level, one composed 0.5 better": only({"learned-1": 0.5}, **usual),
        "drawn anew, deviation 0.7": rng.normal(0, 0.7, len(NAMES)) * (np.array(NAMES) != INCUMBENT),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=LISTS, default="basic")
    parser.add_argument("--races", type=int, default=400)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--seed-noise", type=float, default=0.5)
    parser.add_argument("--worth", type=float, default=0.25)
    parser.add_argument("--first", type=int, default=RaceConfig().n_first)
    parser.add_argument("--last", type=int, default=RaceConfig().n_last)
    parser.add_argument("--rounds", type=int, help="after which the final comes; without, all")
    parser.add_argument("--json")
    given = parser.parse_args()
    config = RaceConfig(
        candidates=tuple(LISTS[given.list]), incumbent=INCUMBENT, n_first=given.first, n_last=given.last
    )
    rows = []
    print("| worth of candidates | ships worse by the zone | ships the best or its equal | ships learned | points lost "
          "| trainings | half-width |\n|---|---|---|---|---|---|---|")  # fmt: skip
    for name in scenarios(default_rng(0)):
        ends, worse, best, lost = [], 0, 0, []
        for i in range(given.races):
            rng = default_rng([i, len(rows)])
            gains = scenarios(rng)[name]
            end = run(World(gains, given.images, given.seed_noise, rng), config, given.worth, given.rounds)
            ends.append(end)
            worse += gains[end[0]] < -given.worth
            lost.append(gains.max() - gains[end[0]])
            best += gains[end[0]] >= gains.max() - given.worth
        rows.append({
            "scenario": name,
            "ships worse": worse / given.races,
            "ships the best or its equal": best / given.races,
            "ships learned": sum(NAMES[e[0]].startswith("learned") for e in ends) / given.races,
            "points lost": float(np.mean(lost)),
            "trainings": float(np.mean([e[2] for e in ends])),
            "half-width": float(np.nanmean([e[3] for e in ends])),
            **{case.value: sum(e[1] is case for e in ends) / given.races for case in Case},
        })  # fmt: skip
        shares = [100 * rows[-1][key] for key in ("ships worse", "ships the best or its equal", "ships learned")]
        rest = rows[-1]["points lost"], rows[-1]["trainings"], rows[-1]["half-width"]
        print(
            "| {} | {:.1f} % | {:.0f} % | {:.0f} % | {:.2f} | {:.0f} | {:.2f} |".format(name, *shares, *rest),
            flush=True,
        )
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"given": vars(given), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
