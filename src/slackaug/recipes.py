"""Whole configurations, one function per preset and per variant of the paper. A variant is `replace` on a base."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from .data import Dataset
from .fit import FitConfig
from .models import MODELS
from .prepare import SMALL_IMAGE
from .schema import unknown
from .slack import SearchConfig
from .spaces import SPACES


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which data, and how it was read."""

    source: str = ""
    size: int | None = None
    margin: bool = False  # around images of that size, for random windows in training
    skip_bad: bool = False
    group_by: str | None = None  # images that stay on one side of a split
    cache: str | None = None  # where decoded images are kept; no part of what they are
    fingerprint: str = ""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All that decides a search."""

    data: DataConfig = field(default_factory=DataConfig)
    preset: str
    model: str
    weights: str | None = None  # a safetensors file that the network starts from; null: at random
    space: str
    exclude: tuple[str, ...] = ()
    flip: bool | None = None  # null: as the data source says
    balanced: bool = False  # the validation loss counts all classes alike, however many images they have
    seed: int = 0  # of the split, the networks, the batches and the draws
    n_ranks: int = 1  # models of an ensemble, each in a process of its own (torchrun)
    pretrain: FitConfig = field(default_factory=lambda: FitConfig(nesterov=False))
    search: SearchConfig = field(default_factory=SearchConfig)
    evaluate: FitConfig = field(default_factory=FitConfig)

    def __post_init__(self) -> None:
        if self.space not in SPACES:
            raise ValueError(unknown("space", self.space, list(SPACES)))
        if not self.model:
            raise ValueError(f"model: expected a name, such as {', '.join(MODELS)}")
        if self.n_ranks < 1:
            raise ValueError(f"n_ranks must be at least 1, got {self.n_ranks}")


def default_space(data: Dataset) -> str:
    if data.name.startswith("shapes"):
        return "domainnet"  # its answer is about Hue and Grayscale, which the smaller spaces do not have
    return "cifar" if max(data.image_size) <= SMALL_IMAGE else "domainnet"


def epochs_for(n_steps: int, n_images: int, batch: int) -> int:
    """The number of epochs that come to about so many steps."""
    return max(1, math.ceil(n_steps / max(1, n_images // min(batch, n_images))))


# --- presets: a function of the data ----------------------------------------------------------------------------------


def quick(data: Dataset, model: str | None = None) -> RunConfig:
    """A small network and short rounds: minutes on a laptop. Its settings are those of `benchmarks/planted.py`."""
    n_train = len(data.train.labels)
    return RunConfig(
        preset="quick",
        model=model or "small",
        space=default_space(data),
        pretrain=FitConfig(epochs=epochs_for(500, n_train // 2, 32), batch=32, nesterov=False),
        search=SearchConfig(
            n_rounds=5, n_retrain=40, n_unrolled=60, batch=32, model_lr=0.1, kl_weight=0.02, weight_decay=5e-4
        ),
        evaluate=FitConfig(epochs=epochs_for(1000, n_train, 64), batch=64),
    )


def demo(data: Dataset, model: str | None = None) -> RunConfig:
    """What `slackaug demo` does: `quick`, shorter still."""
    base = quick(data, model)
    return replace(
        base,
        preset="demo",
        pretrain=replace(base.pretrain, epochs=12),
        search=replace(base.search, n_rounds=3, n_retrain=20, n_unrolled=40),
        evaluate=replace(base.evaluate, epochs=6),
    )


def paper(data: Dataset, model: str | None = None) -> RunConfig:
    """The paper's row for this data, and its CIFAR-100 row for data that it does not have (SPEC section 3)."""
    row = paper_row(data)
    if row in CIFAR_ROWS:
        return replace(CIFAR_ROWS[row](model or "wrn-40-2"), space=default_space(data))
    config = imagenet100() if row == "imagenet100" else domainnet(row.removeprefix("domainnet-"))
    return config if model is None else replace(config, model=model)


def paper_row(data: Dataset) -> str:
    """Which row of the paper's table `paper` takes, by the name of the data."""
    scheme, _, place = data.name.rpartition(":")
    name = Path(place.partition("@")[0]).stem.lower()
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


PRESETS: dict[str, Callable[[Dataset, str | None], RunConfig]] = {"quick": quick, "paper": paper, "demo": demo}


def default_preset() -> str:
    return "paper" if torch.cuda.is_available() else "quick"


def preset(name: str, data: Dataset, model: str | None = None) -> RunConfig:
    if name not in PRESETS:
        raise ValueError(unknown("preset", name, list(PRESETS)))
    return PRESETS[name](data, model)


# --- the paper's variants of a search, each of any configuration ------------------------------------------------------


def without_kl(base: RunConfig) -> RunConfig:
    """No anchoring, at a quarter of the policy's rate (the published script has a half)."""
    changed = replace(base.search, kl_weight=0.0, policy_lr=0.25 * base.search.policy_lr, mu_divisor=10.0)
    return replace(base, search=changed)


def unrolled(base: RunConfig) -> RunConfig:
    """One round of 10,000 steps, none of them re-training; the anchor is where it starts: uniform."""
    changed = replace(base.search, n_rounds=1, n_retrain=0, n_unrolled=10_000, policy_lr=0.25, kl_weight=0.005)
    return replace(base, search=changed)


def unrolled_without_kl(base: RunConfig) -> RunConfig:
    return replace(base, search=replace(unrolled(base).search, kl_weight=0.0, mu_divisor=10.0))


def warm_start(base: RunConfig) -> RunConfig:
    """theta carries over from round to round, at twice its rate and half the policy's."""
    s = base.search
    return replace(base, search=replace(s, cold_start=False, model_lr=2 * s.model_lr, policy_lr=0.5 * s.policy_lr))


def pi_only(base: RunConfig) -> RunConfig:
    return replace(base, search=replace(base.search, learn_mu=False))


def mu_only(base: RunConfig) -> RunConfig:
    return replace(base, search=replace(base.search, learn_pi=False, policy_lr=0.025, mu_divisor=1.0))


def ensembling(base: RunConfig, n_ranks: int = 4) -> RunConfig:
    """The policy's gradient is averaged over several models; the settings are those published for 4."""
    changed = replace(base.search, policy_lr=4.0, kl_weight=0.005, mu_divisor=60.0)
    return replace(base, n_ranks=n_ranks, search=changed)


VARIANTS: dict[str, Callable[[RunConfig], RunConfig]] = {
    "without-kl": without_kl,
    "unrolled": unrolled,
    "unrolled-without-kl": unrolled_without_kl,
    "warm-start": warm_start,
    "pi-only": pi_only,
    "mu-only": mu_only,
    "ensembling": ensembling,
}
