"""The configuration of a search: a preset, changed by a file, then by --set, then by the options."""

import os
from collections.abc import Sequence
from typing import Any

from . import foreign, recipes, settings
from .data import Dataset
from .ensemble import n_processes
from .learner import start_policy
from .recipes import RunConfig

REPLACED_BY_A_BUDGET = ("policy_lr", "kl_weight")


def configure(
    dataset: Dataset,
    given: dict[str, Any],
    config: str | os.PathLike[str] | None,
    assignments: Sequence[str],
    n_ranks: int = 1,
) -> RunConfig:
    """The preset, changed by the file, then by --set, then by the options."""
    changes = settings.read_yaml(config) if config is not None else {}
    changes.pop("data", None)  # a stored configuration says which data it was for; the command says which it is for now
    if "model" not in given and is_foreign(str(changes.get("model", ""))):
        raise settings.SettingError(f"{config}: a file may not name code to run; give --model {changes['model']} too")
    assigned: dict[str, Any] = {}
    for text in assignments:
        assignment = settings.parse_assignment(text)
        if "data" in assignment:
            raise settings.SettingError(f"--set {text}: the data is given by DATA, --size and --skip-bad")
        assigned = merge(assigned, assignment)
    refuse_without_effect(assigned)
    for later in (assigned, given):
        changes = merge(with_rates(changes), with_rates(later))
    changes = merge({"n_ranks": n_ranks}, changes)
    name = changes.get("preset") or recipes.default_preset()
    model = settings.checked(changes.get("model"), str | None, "model")
    chosen = settings.update(
        recipes.preset(str(name), dataset, model), changes
    )  # at once: settings may need one another
    if chosen.n_ranks != n_ranks:
        raise settings.SettingError(
            f"n_ranks={chosen.n_ranks}, but this search has {n_processes(n_ranks)}; give "
            f"--set n_ranks={n_ranks}, or start it with torchrun --nproc-per-node {chosen.n_ranks} -m slackaug search"
        )
    start_policy(chosen, dataset)  # an unknown transformation in `exclude` is found here, not later
    return chosen


def with_rates(changes: dict[str, Any]) -> dict[str, Any]:
    """Who gives a rate of the search does not want it to be found, unless the same file or command asks for that, too:
    a run's file has both, and what is given after it counts."""
    given = of_search(changes)
    off: dict[str, Any] = {"calibrate": False} if "model_lr" in given else {}
    off |= {"kl_budget": None} if given.keys() & {*REPLACED_BY_A_BUDGET} else {}
    return merge({"search": off}, changes) if off else changes


def refuse_without_effect(assigned: dict[str, Any]) -> None:
    """Of --set: who gives a budget and what it stands in place of expects both to count. Files are left alone, for that
    of a run has all fields; and so is model_lr with calibrate, for it is where the trials begin."""
    given = of_search(assigned)
    unused = [name for name in REPLACED_BY_A_BUDGET if name in given]
    if given.get("kl_budget") is not None and unused:
        both = " ".join(f"--set search.{name}={given[name]}" for name in ("kl_budget", *unused))
        raise settings.SettingError(
            f"{both}: a budget stands in place of the policy's rate and KL weight, which have no effect beside it; "
            "give either the budget or these"
        )


def of_search(changes: dict[str, Any]) -> dict[str, Any]:
    found = changes.get("search")
    return found if isinstance(found, dict) else {}


def merge(first: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """Nested dictionaries; the second wins."""
    both = {key: merge(first[key], then[key]) for key in first.keys() & then.keys()
            if isinstance(first[key], dict) and isinstance(then[key], dict)}  # fmt: skip
    return first | then | both


def is_foreign(model: str) -> bool:
    """Whether a name stands for a user's own code: module:callable."""
    return foreign.is_reference(model) and model.partition(":")[0] not in ("timm", "torchvision")
