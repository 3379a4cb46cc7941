"""Whole studies, one for every row of the paper's tables: what to search, what to train, what to compare with."""

from dataclasses import dataclass, replace

from ...config import paper, presets
from ...config.paper import DOMAINNET, VARIANTS
from ...config.run_config import RunConfig
from ...data import Dataset
from ...data.layouts import WITH_MARGIN
from ...schema import unknown
from ..baselines import FAST_AA_START
from ..candidates import published, with_uniform
from .paper_tables import CIFAR, TRANSFER, UNIFORM_AGAIN, Column


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """n_search searches, each evaluated n_eval times; baselines are trained with the seeds of all these evaluations."""

    data: str = ""  # the source of the images; empty where the user must name it with --data
    size: int | None = None  # to which they are resized
    margin: bool = False  # around that, for random windows in training
    search: RunConfig | str  # or a preset's name, where the settings depend on the data
    model: str | None = None  # the network of the evaluations; null: the one of the search
    n_search: int = 4  # 0: nothing is searched, baselines and published policies are trained n_eval times
    n_eval: int = 4
    baselines: tuple[str, ...] = ("uniform", "trivialaugment-wide")  # the verdict compares with the first
    policies: tuple[str, ...] = ()  # published policies, for which the user has files; without, they are left out
    magnitudes: str = "own"  # how those that somebody has chosen are drawn: so, uniform, or both
    paper: Column | None = None  # the data set and network under which the paper has figures
    row: str | None = None  # what the learned policy is called in tables and figures there
    variant: str = "paper"  # how a search of the preset `paper` differs from Algorithm 1 as published

    def run_config(self, data: Dataset, model: str | None = None) -> RunConfig:
        """The settings of its searches on this data; `model` replaces the network that a preset has for the search."""
        return presets.preset(self.search, data, model) if isinstance(self.search, str) else self.search

    def results(self) -> dict[str, str | None]:
        """The rows of the paper that it makes, and what they are called in its results; null: the learned policy."""
        fixed = [*self.baselines, *map(published, self.policies)]
        fixed += [with_uniform(name) for name in fixed if self.magnitudes == "both"]
        again = {UNIFORM_AGAIN: "uniform"} if "uniform" in fixed else {}
        learned = {self.row: None} if self.row else {}
        return {name: name for name in fixed} | again | learned


# --- the main tables --------------------------------------------------------------------------------------------------

CIFAR_SOURCES = {"cifar10": "torchvision:CIFAR10", "cifar100": "torchvision:CIFAR100"}
LARGE = 224  # pixels
TRIVIALAUGMENT_IMAGENET = ("trivialaugment-wide-imagenet", "trivialaugment-ra-imagenet")
TRIVIALAUGMENT_CIFAR = ("trivialaugment-wide-cifar", "trivialaugment-ra-cifar")
RIVALS = ("uniformaugment", "randaugment", "autoaugment")


def cifar(dataset: str, model: str) -> Recipe:
    return Recipe(data=CIFAR_SOURCES[dataset], search=paper.row(dataset, model), paper=(dataset, model), row="slack")


def large(name: str, *more: str, margin: bool) -> Recipe:
    search, baselines = paper.row(name), ("uniform", *TRIVIALAUGMENT_IMAGENET, *more)
    return Recipe(size=LARGE, margin=margin, search=search, baselines=baselines, paper=(name, "resnet18"), row="slack")


def cifar_baselines(dataset: str, model: str) -> Recipe:
    """The methods of the first table that need no search, 8 trainings each; the main study has Uniform and TA."""
    return replace(cifar(dataset, model), row=None, n_search=0, n_eval=8, baselines=RIVALS)


# --- the ablations ----------------------------------------------------------------------------------------------------


def variant(name: str, dataset: str, model: str) -> Recipe:
    """A variant of the search, evaluated as ever. TrivialAugment is left to the main study: it would be the same."""
    base = cifar(dataset, model)
    assert isinstance(base.search, RunConfig)
    return replace(base, search=VARIANTS[name](base.search), baselines=("uniform",), row=name, variant=name)


def transfer(dataset: str, model: str, searched: str) -> Recipe:
    """Search with one network as ever, then evaluate with another, by the other's settings."""
    search = replace(paper.row(dataset, searched), evaluate=paper.row(dataset, model).evaluate)
    base, name = replace(cifar(dataset, model), baselines=("uniform",)), f"from {searched}"
    return replace(base, search=search, model=model, row=TRANSFER, variant=name)


def published_magnitudes(dataset: str, model: str) -> Recipe:
    """Earlier methods' policies with the magnitudes they learned and with uniform ones, and where two of them start:
    evaluations only."""
    policies, base = ("fast-aa", "dada", "deepaa"), replace(cifar(dataset, model), row=None, n_search=0)
    return replace(base, baselines=("uniform", FAST_AA_START), policies=policies, magnitudes="both")


STUDIES: dict[str, Recipe] = {
    **{name: Recipe(search=name) for name in ("quick", "standard", "fast", "paper")},  # for your own data
    # For trying a study out: minutes on a laptop, and too few searches to tell much
    "digits": Recipe(data="digits", search="quick", n_search=2, n_eval=2),
    **{f"{data}-{model}": cifar(data, model) for data, model in CIFAR},
    "imagenet100": large("imagenet100", margin=True),
    **{
        name: large(name, *TRIVIALAUGMENT_CIFAR, "domainbed", margin=domain in WITH_MARGIN)
        for domain in DOMAINNET
        for name in [f"domainnet-{domain}"]
    },
    **{f"{data}-{model}-baselines": cifar_baselines(data, model) for data, model in CIFAR},
    **{f"{data}-{model}-{name}": variant(name, data, model) for data, model in CIFAR for name in VARIANTS},
    **{f"{data}-wrn-28-10-from-wrn-40-2": transfer(data, "wrn-28-10", "wrn-40-2") for data in CIFAR_SOURCES},
    **{f"{data}-{model}-magnitudes": published_magnitudes(data, model) for data, model in CIFAR},
}


def made(column: Column, row: str) -> tuple[str, str | None] | None:
    """The study that makes a row of the paper, the first of those that do, and what its results call it."""
    return next(
        (
            (name, found[row])
            for name, one in STUDIES.items()
            if one.paper == column and row in (found := one.results())
        ),
        None,
    )


def study(name: str) -> Recipe:
    if name not in STUDIES:
        raise ValueError(unknown("study", name, list(STUDIES)))
    return STUDIES[name]
