"""The configuration of a search: a preset, changed by a file, then by --set, then by the options."""

import os
from collections.abc import Sequence
from typing import Any

from . import foreign, recipes, settings
from .data import Dataset
from .ensemble import n_processes
from .learner import start_policy
from .recipes import RunConfig


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
    given = changes.get("search")
    given = given if isinstance(given, dict) else {}
    off: dict[str, Any] = {"calibrate": False} if "model_lr" in given else {}
    off |= {"kl_budget": None} if given.keys() & {"policy_lr", "kl_weight"} else {}
    return merge({"search": off}, changes) if off else changes


def merge(first: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """Nested dictionaries; the second wins."""
    both = {key: merge(first[key], then[key]) for key in first.keys() & then.keys()
            if isinstance(first[key], dict) and isinstance(then[key], dict)}  # fmt: skip
    return first | then | both


def is_foreign(model: str) -> bool:
    """Whether a name stands for a user's own code: module:callable."""
    return foreign.is_reference(model) and model.partition(":")[0] not in ("timm", "torchvision")
