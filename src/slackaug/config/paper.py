"""The paper's rows (App. B.4) and its variants of a search, each variant of any configuration: `replace` on a base."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..augment.prepare import SMALL_IMAGE
from ..data import Dataset
from ..engine.fit import FitConfig
from ..methods.budget import SearchConfig
from ..schema import unknown
from .run_config import RunConfig


def default_space(data: Dataset) -> str:
    if data.name in ("shapes:colour", "shapes:angle"):
        return "domainnet"  # their answer is about Hue and Grayscale, which the smaller spaces do not have
    return "cifar" if max(data.image_size) <= SMALL_IMAGE else "domainnet"


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


# --- variants of a search, each of any configuration ------------------------------------------------------------------

WITHOUT_KL: dict[str, Any] = {"kl_weight": 0.0, "mu_divisor": 10.0}
WITHOUT_CALIBRATION: dict[str, Any] = {"calibrate": False, "kl_budget": None}
ONE_LONG_ROUND = WITHOUT_CALIBRATION | {"n_rounds": 1, "n_retrain": 0, "n_unrolled": 10_000, "policy_lr": 0.25}

# What each changes of the settings of the search.
CHANGES: dict[str, Callable[[SearchConfig], dict[str, Any]]] = {
    # No anchoring, at a quarter of the policy's rate (the published script has a half).
    "without-kl": lambda base: {
        "kl_budget": None,
        "kl_weight": 0.0,
        "policy_lr": base.policy_lr / 4,
        "mu_divisor": 10.0,
    },
    # One round of 10,000 steps, none of them re-training; the anchor is where it starts: uniform.
    "unrolled": lambda _: ONE_LONG_ROUND | {"kl_weight": 0.005},
    "unrolled-without-kl": lambda _: ONE_LONG_ROUND | WITHOUT_KL,
    # theta carries over from round to round, at twice its rate and half the policy's.
    "warm-start": lambda base: (
        WITHOUT_CALIBRATION | {"cold_start": False, "model_lr": 2 * base.model_lr, "policy_lr": base.policy_lr / 2}
    ),
    "pi-only": lambda _: {"learn_mu": False},
    "mu-only": lambda _: {"learn_pi": False, "kl_budget": None, "policy_lr": 0.025, "mu_divisor": 1.0},
    # The policy's gradient is averaged over several models; the settings are those published for 4.
    "ensembling": lambda _: {"kl_budget": None, "policy_lr": 4.0, "kl_weight": 0.005, "mu_divisor": 60.0},
}
N_RANKS = {"ensembling": 4}


def variant(name: str, base: RunConfig) -> RunConfig:
    return replace(
        base, n_ranks=N_RANKS.get(name, base.n_ranks), search=replace(base.search, **CHANGES[name](base.search))
    )


VARIANTS: dict[str, Callable[[RunConfig], RunConfig]] = {name: partial(variant, name) for name in CHANGES}


def rounds_alone(base: RunConfig) -> RunConfig:
    """Three composed transformations, and what the rounds learn is the result: no trials before and after them."""
    return replace(base, n_composed=3, confirm=False)
