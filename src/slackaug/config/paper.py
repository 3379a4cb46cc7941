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
from .run_config import RaceConfig, RunConfig

# n_retrain, policy_lr and kl_weight by domain; of any other, what the released script has
ANY_DOMAIN = (1000, 1.0, 0.01)
DOMAINNET = {
    "painting": (1200, 0.8, 0.0125),
    "sketch": (1200, 0.8, 0.0125),
    "clipart": (800, 1.0, 0.01),
    "infograph": (800, 0.625, 0.016),
    "quickdraw": (1000, 1.25, 0.008),
    "real": (1000, 0.8, 0.0125),
}
# Network and space of each row, and what its search and its trainings have instead of the defaults.
ROWS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "cifar10": ("wrn-40-2", "cifar", {}, {"weight_decay": 2e-4}),
    "cifar100": ("wrn-40-2", "cifar", {"model_lr": 0.1}, {}),
    "imagenet100": (
        "resnet18",
        "imagenet",
        {"n_retrain": 2000, "n_unrolled": 800, "model_lr": 0.1, "policy_lr": 0.5, "kl_weight": 0.01, "clip": None},
        {"epochs": 270, "warmup_epochs": 5, "batch": 256, "weight_decay": 1e-3},
    ),
    **{
        name: (
            "resnet18",
            "domainnet",
            {"n_retrain": n_retrain, "model_lr": 0.1, "policy_lr": policy_lr, "kl_weight": kl_weight},
            {"weight_decay": 1e-3},
        )
        for name, (n_retrain, policy_lr, kl_weight) in {
            "domainnet": ANY_DOMAIN,
            **{f"domainnet-{domain}": settings for domain, settings in DOMAINNET.items()},
        }.items()
    },
}


def default_space(data: Dataset) -> str:
    if data.name in ("shapes:colour", "shapes:angle"):
        return "domainnet"  # their answer is about Hue and Grayscale, which the smaller spaces do not have
    return "cifar" if max(data.image_size) <= SMALL_IMAGE else "domainnet"


def paper(data: Dataset, model: str | None = None) -> RunConfig:
    """The paper's row for this data (App. B.4)."""
    config = row(paper_row(data), model)
    return replace(config, space=default_space(data)) if config.space == "cifar" else config


def paper_row(data: Dataset) -> str:
    """Which row of the paper's table `paper` takes: by the name of the data, or by size where it is none of theirs."""
    by_size = "cifar100" if max(data.image_size) <= SMALL_IMAGE else "domainnet"
    return known(data.name) or by_size


def known(source: str) -> str | None:
    """The row of a data set that the paper has, by its name."""
    scheme, _, place = source.partition(":")
    name = Path(place or scheme).stem.lower()
    if scheme == "imagenet100":
        return scheme
    if scheme == "domainnet" and name in DOMAINNET:
        return f"domainnet-{name}"
    return name if name in ("cifar10", "cifar100") else None


def row(name: str, model: str | None = None) -> RunConfig:
    own_model, space, search, training = ROWS[name]
    if name == "cifar10" and model not in (None, own_model):
        training = {}  # the weight decay of the larger network, as for CIFAR-100
    fit = FitConfig(**training)
    return RunConfig(
        preset="paper",
        model=model or own_model,
        space=space,
        pretrain=replace(fit, nesterov=False),
        search=SearchConfig(batch=fit.batch, weight_decay=fit.weight_decay, **search),
        evaluate=fit,
    )


# --- variants of a search, each of any configuration ------------------------------------------------------------------

WITHOUT_CALIBRATION: dict[str, Any] = {"calibrate": False, "kl_budget": None}
ONE_LONG_ROUND = WITHOUT_CALIBRATION | {"n_rounds": 1, "n_retrain": 0, "n_unrolled": 10_000}
WITHOUT_KL = {"kl_weight": 0.0, "mu_divisor": 10.0}

# What each changes of the settings of the search.
CHANGES: dict[str, Callable[[SearchConfig], dict[str, Any]]] = {
    # No anchoring, at a quarter of the policy's rate; and at the half that the published script has.
    "without-kl": lambda base: WITHOUT_KL | {"kl_budget": None, "policy_lr": base.policy_lr / 4},
    "without-kl-0.5": lambda base: WITHOUT_KL | {"kl_budget": None, "policy_lr": base.policy_lr / 2},
    # One round of 10,000 steps, none of them re-training; the anchor is where it starts: uniform.
    "unrolled": lambda _: ONE_LONG_ROUND | {"policy_lr": 0.25, "kl_weight": 0.005},
    # At a quarter of that rate, as released; and at that rate, with mu's as where no round has an anchor.
    "unrolled-without-kl": lambda _: ONE_LONG_ROUND | {"policy_lr": 0.0625, "kl_weight": 0.0},
    "unrolled-without-kl-0.25": lambda _: ONE_LONG_ROUND | WITHOUT_KL | {"policy_lr": 0.25},
    # theta carries over from round to round, at twice its rate and half the policy's.
    "warm-start": lambda base: (
        WITHOUT_CALIBRATION | {"cold_start": False, "model_lr": 2 * base.model_lr, "policy_lr": base.policy_lr / 2}
    ),
    "pi-only": lambda _: {"learn_mu": False},
    "mu-only": lambda _: {"learn_pi": False, "kl_budget": None, "policy_lr": 0.025, "mu_divisor": 1.0},
    # The policy's gradient is averaged over several models; the settings are those published for 4.
    "ensembling": lambda _: {"kl_budget": None, "policy_lr": 4.0, "kl_weight": 0.005, "mu_divisor": 60.0},
}


def variant(name: str, base: RunConfig) -> RunConfig:
    n_ranks = 4 if name == "ensembling" else base.n_ranks
    return replace(base, n_ranks=n_ranks, search=replace(base.search, **CHANGES[name](base.search)))


VARIANTS: dict[str, Callable[[RunConfig], RunConfig]] = {name: partial(variant, name) for name in CHANGES}


def rounds_alone(base: RunConfig) -> RunConfig:
    """Three composed transformations, and what the rounds learn is the result: no trials before, no race after them."""
    return replace(base, n_composed=3, race=RaceConfig())
