"""Whole configurations, one function per preset and per variant of the paper. A variant is `replace` on a base."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from ..augment.policy_file import MAX_COMPOSED
from ..augment.prepare import SMALL_IMAGE
from ..augment.transforms import SPACES
from ..data import Dataset, load
from ..data.options import Progress
from ..engine.fit import FitConfig
from ..methods.slack_config import SearchConfig
from ..models import MODELS
from ..schema import unknown

FEWEST = (1, 2, 3)  # transformations that rounds may start from: those that are tried in any case


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which data, and how it was read. The comments are the meanings in docs/reference/settings.md."""

    source: str = ""  # where the images are, as given to the command
    size: int | None = None  # pixels of the side that all images are resized to (--size); null: as the source has them
    margin: bool = False  # more is kept around images of that size, for random windows in training (--margin)
    skip_bad: bool = False  # what cannot be read is left out (--skip-bad)
    group_by: str | None = None  # column or pattern that names images which stay on one side of a split (--group-by)
    cache: str | None = None  # where decoded images are kept (--cache); null: in ~/.cache, and only large sets
    fingerprint: str = ""  # of the training images and labels, by which they are known again; found, not given

    def read(self, progress: Progress, source: str | None = None) -> Dataset:
        """The data, from where it was, or from where it is now."""
        return load(
            source or self.source,
            size=self.size,
            margin=self.margin,
            skip_bad=self.skip_bad,
            group_by=self.group_by,
            cache=self.cache,
            progress=progress,
        )

    def options(self) -> list[list[str]]:
        """Those of a command that has the images read like this, each with its value."""
        found = [] if self.size is None else [["--size", str(self.size)]]
        found += [["--margin"]] * self.margin + [["--skip-bad"]] * self.skip_bad
        return found if self.group_by is None else [*found, ["--group-by", self.group_by]]


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All that decides a search. The comments are the meanings in docs/reference/settings.md (`make settings`)."""

    data: DataConfig = field(default_factory=DataConfig)  # which images, and how they are read; by options, not --set
    preset: str  # what all other settings begin with (--preset)
    model: str  # the network (--model)
    weights: str | None = None  # safetensors file that the network starts from (--weights); null: at random
    weights_digest: str | None = None  # of that file's content, written by the search; another file is refused
    space: str  # the transformations that a policy chooses from (--ops)
    exclude: tuple[str, ...] = ()  # transformations to leave out of the space (--exclude)
    n_composed: int | None = 3  # transformations of a composite (K); null: tried before the rounds, how many do best
    fewest_composed: int = 1  # fewest transformations that rounds start from where n_composed is null: 1, 2 or 3
    flip: bool | None = None  # mirror flips are on (--flip, --no-flip); null: as the data source says
    balanced: bool = False  # the validation loss counts all classes alike, however many images they have (--balanced)
    seed: int = 0  # seed of the split, the networks, the batches and the draws (--seed)
    n_ranks: int = 1  # models of an ensemble, each in a process of its own: as many as torchrun starts
    pretrain: FitConfig = field(default_factory=lambda: FitConfig(nesterov=False))  # training before the rounds
    search: SearchConfig = field(default_factory=SearchConfig)  # the rounds, in which the policy is learned
    confirm: bool = False  # after the rounds, a whole training decides whether the policy beats the best pre-training
    evaluate: FitConfig = field(default_factory=FitConfig)  # the trainings that compare policies; no search sees them

    def __post_init__(self) -> None:
        if self.space not in SPACES:
            raise ValueError(unknown("space", self.space, list(SPACES)))
        if not self.model:
            raise ValueError(f"model: expected a name, such as {', '.join(MODELS)}")
        if self.n_ranks < 1:
            raise ValueError(f"n_ranks must be at least 1, got {self.n_ranks}")
        if self.n_composed is not None and not 1 <= self.n_composed <= MAX_COMPOSED:
            raise ValueError(f"n_composed must be from 1 to {MAX_COMPOSED}, or null, got {self.n_composed}")
        if self.fewest_composed not in FEWEST:
            raise ValueError(f"fewest_composed must be 1, 2 or 3, got {self.fewest_composed}")


BLANK = RunConfig(preset="", model="small", space="cifar")  # for a file that has all settings


def default_space(data: Dataset) -> str:
    if data.name in ("shapes:colour", "shapes:angle"):
        return "domainnet"  # their answer is about Hue and Grayscale, which the smaller spaces do not have
    return "cifar" if max(data.image_size) <= SMALL_IMAGE else "domainnet"


def epochs_for(n_steps: int, n_images: int, batch: int) -> int:
    """The number of epochs that come to about so many steps."""
    return max(1, math.ceil(n_steps / max(1, n_images // min(batch, n_images))))


# --- presets: a function of the data ----------------------------------------------------------------------------------


DISTANCE = 0.4  # nats from uniform, per position, for a policy that goes one way in every round: the paper's speed


def kl_budget(n_rounds: int, distance: float = DISTANCE) -> float:
    """Of a round. KL grows with the square of the rounds that go one way; the paper's ten come to 0.004 each."""
    return distance / n_rounds**2


PAPER_COMPOSITES = 8


def self_tuned(
    n_images: int, n_composites: int, batch: int, val_batch: int, *, n_rounds: int, retrain: range, unrolled: range
) -> SearchConfig:
    """Nothing in it is chosen for a dataset: steps by the number of images, rates by calibration and by a budget.

    A round has the steps of five of the paper's epochs to re-train, and of two to move the policy, as far as the ranges
    allow. A step has as many augmented images as the paper's, but of fewer different ones under more composites: at
    32 x 32 a round goes over the images a quarter as often. More composites and a large batch of v leave less noise in
    the policy (research/notebook.md).
    """
    per_epoch = max(1, n_images // (n_composites * batch // PAPER_COMPOSITES))
    n_retrain, n_unrolled = (
        min(max(epochs * per_epoch, allowed.start), allowed.stop) for epochs, allowed in ((5, retrain), (2, unrolled))
    )
    return SearchConfig(
        n_rounds=n_rounds,
        n_retrain=n_retrain,
        n_unrolled=n_unrolled,
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
        confirm=True,
        evaluate=FitConfig(epochs=epochs_within(5, 1_000, 5_000, n_train, 64), batch=64),
    )


def demo(data: Dataset, model: str | None = None) -> RunConfig:
    """What `slackaug demo` does: `quick`, shorter still, and without trials around the rounds, which it is to show."""
    base, n_train = rounds_alone(quick(data, model)), len(data.train.labels)
    return replace(
        base,
        preset="demo",
        pretrain=replace(base.pretrain, epochs=epochs_for(180, n_train // 2, base.pretrain.batch)),
        search=replace(base.search, n_rounds=3, n_retrain=20, n_unrolled=40, kl_budget=kl_budget(5)),
        evaluate=replace(base.evaluate, epochs=epochs_for(360, n_train, 32), batch=32),
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
        model=model or default_model(data),
        space=default_space(data),
        n_composed=None,
        fewest_composed=3,
        pretrain=replace(fit, nesterov=False),
        search=self_tuned(n_train // 2, 32, 32, 512, n_rounds=10, retrain=range(100, 1000), unrolled=range(100, 200)),
        confirm=True,
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
    )


def default_model(data: Dataset) -> str:
    return "wrn-40-2" if max(data.image_size) <= SMALL_IMAGE else "resnet18"


def epochs_within(epochs: int, least: int, most: int, n_images: int, batch: int) -> int:
    """So many epochs, but no fewer and no more than so many steps."""
    return min(max(epochs, epochs_for(least, n_images, batch)), epochs_for(most, n_images, batch))


def paper(data: Dataset, model: str | None = None) -> RunConfig:
    """The paper's row for this data, and its CIFAR-100 row for data that it does not have (App. B.4)."""
    row = paper_row(data)
    if row in CIFAR_ROWS:
        return replace(CIFAR_ROWS[row](model or "wrn-40-2"), space=default_space(data))
    config = imagenet100() if row == "imagenet100" else domainnet(row.removeprefix("domainnet-"))
    return config if model is None else replace(config, model=model)


def paper_row(data: Dataset) -> str:
    """Which row of the paper's table `paper` takes, by the name of the data."""
    scheme, _, place = data.name.partition(":")
    name = Path((place or scheme).removesuffix("@official")).stem.lower()
    if scheme == "imagenet100":
        return scheme
    if scheme == "domainnet" and name in DOMAINNET:
        return f"domainnet-{name}"
    return name if name in CIFAR_ROWS else "cifar100"


def cifar10(model: str = "wrn-40-2") -> RunConfig:
    weight_decay = 2e-4 if model == "wrn-40-2" else 5e-4
    return RunConfig(
        preset="paper",
        model=model,
        space="cifar",
        pretrain=FitConfig(nesterov=False, weight_decay=weight_decay),
        search=SearchConfig(model_lr=0.4, weight_decay=weight_decay),
        evaluate=FitConfig(weight_decay=weight_decay),
    )


def cifar100(model: str = "wrn-40-2") -> RunConfig:
    return RunConfig(preset="paper", model=model, space="cifar", search=SearchConfig(model_lr=0.1, weight_decay=5e-4))


CIFAR_ROWS = {"cifar10": cifar10, "cifar100": cifar100}


def imagenet100() -> RunConfig:
    fit = FitConfig(epochs=270, warmup_epochs=5, batch=256, weight_decay=1e-3)
    return RunConfig(
        preset="paper",
        model="resnet18",
        space="imagenet",
        pretrain=replace(fit, nesterov=False),
        search=SearchConfig(
            n_retrain=2000,
            n_unrolled=800,
            batch=256,
            model_lr=0.1,
            policy_lr=0.5,
            kl_weight=0.01,
            weight_decay=1e-3,
            clip=None,
        ),
        evaluate=fit,
    )


# n_retrain, policy_lr and kl_weight by domain
DOMAINNET = {
    "painting": (1200, 0.8, 0.0125),
    "sketch": (1200, 0.8, 0.0125),
    "clipart": (800, 1.0, 0.01),
    "infograph": (800, 0.625, 0.016),
    "quickdraw": (1000, 1.25, 0.008),
    "real": (1000, 0.8, 0.0125),
}


def domainnet(domain: str) -> RunConfig:
    if domain not in DOMAINNET:
        raise ValueError(unknown("domain", domain, list(DOMAINNET)))
    n_retrain, policy_lr, kl_weight = DOMAINNET[domain]
    fit = FitConfig(weight_decay=1e-3)
    return RunConfig(
        preset="paper",
        model="resnet18",
        space="domainnet",
        pretrain=replace(fit, nesterov=False),
        search=SearchConfig(
            n_retrain=n_retrain, model_lr=0.1, policy_lr=policy_lr, kl_weight=kl_weight, weight_decay=1e-3
        ),
        evaluate=fit,
    )


PRESETS: dict[str, Callable[[Dataset, str | None], RunConfig]] = {
    "quick": quick,
    "standard": standard,
    "fast": fast,
    "paper": paper,
    "demo": demo,
}


def default_preset() -> str:
    """With a GPU the one that was measured on several sets (research/notebook.md)."""
    return "fast" if torch.cuda.is_available() else "quick"


def preset(name: str, data: Dataset, model: str | None = None) -> RunConfig:
    if name not in PRESETS:
        raise ValueError(unknown("preset", name, list(PRESETS)))
    return PRESETS[name](data, model)


# --- the paper's variants of a search, each of any configuration ------------------------------------------------------


def without_kl(base: RunConfig) -> RunConfig:
    """No anchoring, at a quarter of the policy's rate (the published script has a half)."""
    rate = 0.25 * base.search.policy_lr
    changed = replace(base.search, kl_budget=None, kl_weight=0.0, policy_lr=rate, mu_divisor=10.0)
    return replace(base, search=changed)


def unrolled(base: RunConfig) -> RunConfig:
    """One round of 10,000 steps, none of them re-training; the anchor is where it starts: uniform."""
    one_round = replace(base.search, n_rounds=1, n_retrain=0, n_unrolled=10_000, calibrate=False)
    return replace(base, search=replace(one_round, kl_budget=None, policy_lr=0.25, kl_weight=0.005))


def unrolled_without_kl(base: RunConfig) -> RunConfig:
    return replace(base, search=replace(unrolled(base).search, kl_weight=0.0, mu_divisor=10.0))


def warm_start(base: RunConfig) -> RunConfig:
    """theta carries over from round to round, at twice its rate and half the policy's."""
    s = base.search
    warm = replace(s, cold_start=False, calibrate=False, kl_budget=None)
    return replace(base, search=replace(warm, model_lr=2 * s.model_lr, policy_lr=0.5 * s.policy_lr))


def pi_only(base: RunConfig) -> RunConfig:
    return replace(base, search=replace(base.search, learn_mu=False))


def mu_only(base: RunConfig) -> RunConfig:
    changed = replace(base.search, learn_pi=False, kl_budget=None, policy_lr=0.025, mu_divisor=1.0)
    return replace(base, search=changed)


def ensembling(base: RunConfig, n_ranks: int = 4) -> RunConfig:
    """The policy's gradient is averaged over several models; the settings are those published for 4."""
    changed = replace(base.search, kl_budget=None, policy_lr=4.0, kl_weight=0.005, mu_divisor=60.0)
    return replace(base, n_ranks=n_ranks, search=changed)


def rounds_alone(base: RunConfig) -> RunConfig:
    """Three composed transformations, and what the rounds learn is the result: no trials before and after them."""
    return replace(base, n_composed=3, confirm=False)


VARIANTS: dict[str, Callable[[RunConfig], RunConfig]] = {
    "without-kl": without_kl,
    "unrolled": unrolled,
    "unrolled-without-kl": unrolled_without_kl,
    "warm-start": warm_start,
    "pi-only": pi_only,
    "mu-only": mu_only,
    "ensembling": ensembling,
}
