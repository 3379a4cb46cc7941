"""The presets: whole configurations, each a function of the data."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from ..augment.prepare import SMALL_IMAGE
from ..data import Dataset
from ..engine.fit import FitConfig
from ..methods.budget import SearchConfig
from ..schema import unknown
from .paper import default_space, paper, rounds_alone
from .run_config import RaceConfig, RunConfig


def epochs_for(n_steps: int, n_images: int, batch: int) -> int:
    """The number of epochs that come to about so many steps."""
    return max(1, math.ceil(n_steps / max(1, n_images // min(batch, n_images))))


DISTANCE = 0.4  # nats from uniform, per position, for a policy that goes one way in every round: the paper's speed


def kl_budget(n_rounds: int, distance: float = DISTANCE) -> float:
    """Return a round's budget. KL grows with the square of the rounds that go one way; the paper's come to 0.004."""
    return distance / n_rounds**2


PAPER_COMPOSITES = 8
RACE = RaceConfig(
    candidates=("none", "default", "trivialaugment-wide", "uniform-1", "uniform-2", "uniform-3", "learned")
)
# What was learned may be right in its direction and wrong in its length. Six variants of it, and so one training each
# in the first round, cost a race six trainings more. It ships something worse in 4 % of simulated cases at most, as it
# does without them. Where one of them is half a point better, it ships that or another one that was learned in 16 to
# 31 % of cases instead of 4 to 7, with 4,000 training images, and in 83 to 86 % instead of 21, with 20,000 and half the
# noise. Where the learned policy is best as it is, 0.02 to 0.12 points more are lost: the first round knows less. Four
# times as far was worse wherever it was measured. For `quick`, which has minutes, six are many (research/notebook.md).
DIRECTIONS = RaceConfig(
    candidates=(
        *RACE.candidates[:-1],
        "learned-1", "learned-2", "learned-x0.5", "learned-mu0.75", "learned", "learned-mu1.25", "learned-x2",
    ),
    n_first=1,
)  # fmt: skip


def self_tuned(
    n_images: int, n_composites: int, batch: int, val_batch: int, *, n_rounds: int, retrain: range, unrolled: range
) -> SearchConfig:
    """Nothing in it is chosen for a dataset: steps by the number of images, rates by calibration and by a budget.

    A round has the steps of five of the paper's epochs to re-train, and of two to move the policy, as far as the ranges
    allow. A step of 32 x 32 has as many augmented images as the paper's, but of fewer different ones under more
    composites, and a round goes over the images a quarter as often. More composites and a large batch of v leave less
    noise in the policy (research/notebook.md).
    """
    per_epoch = max(1, n_images // (n_composites * batch // PAPER_COMPOSITES))
    return SearchConfig(
        n_rounds=n_rounds,
        n_retrain=min(max(5 * per_epoch, retrain.start), retrain.stop),
        n_unrolled=min(max(2 * per_epoch, unrolled.start), unrolled.stop),
        n_composites=n_composites,
        batch=batch,
        val_batch=val_batch,
        model_lr=0.1,
        calibrate=True,
        kl_budget=kl_budget(n_rounds),
        weight_decay=5e-4,
    )


def quick(data: Dataset, model: str | None = None) -> RunConfig:
    """A small network and short rounds: minutes on a laptop."""
    n_train = len(data.train.labels)
    search = self_tuned(n_train // 2, 16, 16, 128, n_rounds=5, retrain=range(40, 80), unrolled=range(60, 60))
    return RunConfig(
        preset="quick",
        model=model or "small",
        space=default_space(data),
        n_composed=None,
        pretrain=FitConfig(epochs=epochs_within(28, 500, 5_000, n_train // 2, 32), batch=32, nesterov=False),
        search=search,
        race=RACE,
        evaluate=FitConfig(epochs=epochs_within(12, 500, 5_000, n_train, 32), batch=32),
    )


def demo(data: Dataset, model: str | None = None) -> RunConfig:
    """What `slackaug demo` does: `quick`, shorter still, and without trials around the rounds, which it is to show."""
    base, n_train = rounds_alone(quick(data, model)), len(data.train.labels)
    return replace(
        base,
        preset="demo",
        pretrain=replace(base.pretrain, epochs=epochs_for(180, n_train // 2, base.pretrain.batch)),
        search=replace(base.search, n_rounds=3, n_retrain=20, n_unrolled=40, kl_budget=kl_budget(5)),
        evaluate=replace(base.evaluate, epochs=epochs_for(360, n_train, 32)),
        race=RaceConfig(candidates=("none", "trivialaugment-wide", "uniform-1", "uniform-2", "learned")),
    )


def standard(data: Dataset, model: str | None = None) -> RunConfig:
    """For long trainings: the paper's rounds, with what its authors tuned for each dataset found by the search.

    Its rounds start from three transformations at least: from fewer, networks like these learned next to nothing that
    a whole training confirms (research/notebook.md).
    """
    n_train = len(data.train.labels)
    fit = FitConfig(epochs=epochs_within(200, 2_000, 40_000, n_train // 2, 128))
    return RunConfig(
        preset="standard",
        model=model or ("wrn-40-2" if max(data.image_size) <= SMALL_IMAGE else "resnet18"),
        space=default_space(data),
        n_composed=None,
        fewest_composed=3,
        pretrain=replace(fit, nesterov=False),
        search=self_tuned(n_train // 2, 32, 32, 512, n_rounds=10, retrain=range(100, 1000), unrolled=range(100, 200)),
        race=DIRECTIONS,
        evaluate=FitConfig(epochs=epochs_within(200, 2_000, 80_000, n_train, 128)),
    )


def fast(data: Dataset, model: str | None = None) -> RunConfig:
    """For a GPU and any data: `standard` in fewer and shorter rounds, and trainings of 1,000 to 8,000 steps."""
    base, n_train = standard(data, model), len(data.train.labels)
    return replace(
        base,
        preset="fast",
        pretrain=replace(base.pretrain, epochs=epochs_within(60, 1_000, 12_000, n_train // 2, 128)),
        search=self_tuned(n_train // 2, 32, 32, 512, n_rounds=5, retrain=range(60, 300), unrolled=range(60, 150)),
        evaluate=replace(base.evaluate, epochs=epochs_within(60, 1_000, 8_000, n_train, 128)),
        race=replace(DIRECTIONS, n_last=16),
    )


def epochs_within(epochs: int, least: int, most: int, n_images: int, batch: int) -> int:
    """So many epochs, but no fewer and no more than so many steps."""
    return min(max(epochs, epochs_for(least, n_images, batch)), epochs_for(most, n_images, batch))


PRESETS: dict[str, Callable[[Dataset, str | None], RunConfig]] = {
    function.__name__: function for function in (quick, standard, fast, paper, demo)
}


def default_preset() -> str:
    """With a GPU the one that was measured on several sets (research/notebook.md)."""
    return "fast" if torch.cuda.is_available() else "quick"


def preset(name: str, data: Dataset, model: str | None = None) -> RunConfig:
    if name not in PRESETS:
        raise ValueError(unknown("preset", name, list(PRESETS)))
    return PRESETS[name](data, model)
