"""The configuration of a search: a preset, changed by a file, then by --set, then by the options."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from .. import foreign
from ..augment.space import Space
from ..augment.transforms import get_space
from ..data import DataConfig, DataError, Dataset
from ..data.sources import located
from ..engine import weights
from ..runs.ensemble import n_processes
from . import parse, presets
from .run_config import BLANK, RunConfig, start_policy

REPLACED_BY_A_BUDGET = ("policy_lr", "kl_weight")


def read(path: Path) -> RunConfig:
    """All settings of a run, or of the searches of a study, from their file."""
    stored = parse.read_yaml(path)
    try:
        return parse.update(BLANK, stored)
    except parse.SettingError as error:
        raise parse.SettingError(f"{path}: not the settings of this slackaug's runs ({error})") from None


def data_config(
    source: str, given: dict[str, Any], config: str | os.PathLike[str] | None, before: DataConfig | None = None
) -> DataConfig:
    """How the data is read: as the options say; where they say nothing, as the file has it, and then as `before`.

    Places are whole, for a later command may be given elsewhere. An empty --group-by is none.
    """
    base = replace(BLANK, data=before or DataConfig())
    stored = {} if config is None else parse.read_yaml(config).get("data", {})
    both = merge({"data": stored}, {"data": given}) if isinstance(stored, dict) else {"data": stored}
    read = parse.update(base, both).data
    cache = None if read.cache is None else os.path.abspath(os.path.expanduser(read.cache))
    return replace(read, source=located(source), cache=cache, group_by=read.group_by or None, fingerprint="")


def configure(
    dataset: Dataset,
    given: dict[str, Any],
    config: str | os.PathLike[str] | None,
    assignments: Sequence[str],
    n_ranks: int = 1,
    before: dict[str, Any] | None = None,
) -> RunConfig:
    """The preset, changed by `before`, the file, then by --set, then by the options."""
    changes = parse.read_yaml(config) if config is not None else {}
    changes.pop("data", None)  # which data it was for; the command says which it is for now, and how that is read
    if "model" not in given and is_foreign(str(changes.get("model", ""))):
        raise parse.SettingError(f"{config}: a file may not name code to run; give --model {changes['model']} too")
    assigned = read_assignments(
        assignments,
        {"data": "the data is given by DATA and its options: --size, --margin, --skip-bad, --group-by, --cache"},
    )
    layers = [{"n_ranks": n_ranks}, before or {}, changes, assigned, given]
    together = reduce(merge, layers)
    name = together.get("preset") or presets.default_preset()
    model = parse.checked(together.get("model"), str | None, "model")
    chosen = changed(presets.preset(str(name), dataset, model), layers)
    refuse_without_effect(chosen, assigned)
    if chosen.n_ranks != n_ranks:
        raise parse.SettingError(
            f"n_ranks={chosen.n_ranks}, but this search has {n_processes(n_ranks)}; give "
            f"--set n_ranks={n_ranks}, or start it with torchrun --nproc-per-node {chosen.n_ranks} -m slackaug search"
        )
    start_policy(chosen, dataset)  # an unknown transformation in `exclude` is found here, not later
    return chosen


def refuse_others(
    stored: RunConfig, given: dict[str, Any], reading: dict[str, Any], assignments: Sequence[str]
) -> None:
    """Refuse settings of a run that is resumed, if they are not those that it has."""
    now = parse.update(stored, merge(read_assignments(assignments, {}), given))
    read = data_config("", reading, None, now.data)
    data = replace(read, source=stored.data.source, fingerprint=stored.data.fingerprint)
    exclude = tuple(spelled(name, get_space(now.space)) for name in now.exclude)
    before, after = (parse.flat(parse.to_dict(one)) for one in (stored, replace(now, data=data, exclude=exclude)))
    others = [
        f"{name} is {in_words(old)} in the run, but {in_words(after[name])} here"
        for name, old in before.items()
        if after[name] != old
    ]
    if others:
        raise parse.SettingError(
            f"--resume takes all settings from the run, and these are others ({'; '.join(others)}); leave them out, or "
            "begin another run"
        )


def in_words(value: object) -> str:
    """A setting's value, in a sentence."""
    if value is None:
        return "not set"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def read_assignments(assignments: Sequence[str], decided: dict[str, str]) -> dict[str, Any]:
    """What --set gives, all of it together; `decided` says of settings that it may not give what does."""
    found: dict[str, Any] = {}
    for text in assignments:
        assignment = parse.parse_assignment(text)
        for key in assignment.keys() & decided.keys():
            raise parse.SettingError(f"--set {text}: {decided[key]}")
        found = merge(found, assignment)
    return found


def changed(base: RunConfig, layers: Sequence[dict[str, Any]]) -> RunConfig:
    """The base, changed by each layer in turn, but checked at the end alone: settings may need one another.

    What a layer implies counts where the layer itself does not say otherwise, as a run's file does, which has all
    settings: a rate that is given is not searched for, and with other rounds alone the policy goes no further.
    """
    n_rounds, budget = base.search.n_rounds, base.search.kl_budget
    together: dict[str, Any] = {}
    for layer in layers:
        given = of_search(layer)
        wanted = given.get("n_rounds", n_rounds)
        is_number = isinstance(wanted, int) and wanted > 0  # else it is refused below
        implied: dict[str, Any] = {"calibrate": False} if "model_lr" in given else {}
        if given.keys() & {*REPLACED_BY_A_BUDGET}:
            implied["kl_budget"] = None
        elif is_number and wanted != n_rounds and isinstance(budget, float):
            implied["kl_budget"] = budget * n_rounds**2 / wanted**2
        n_rounds, budget = wanted if is_number else n_rounds, (implied | given).get("kl_budget", budget)
        if "weights" in layer:
            together["weights_digest"] = None
        together = merge(merge(together, {"search": implied} if implied else {}), layer)
    found = parse.update(base, together)
    space = get_space(found.space)
    return known_weights(replace(found, exclude=tuple(spelled(name, space) for name in found.exclude)))


def spelled(name: str, space: Space) -> str:
    """The name of a transformation that was given in any capital or small letters."""
    alike = [own for own in space.names if own.casefold() == name.casefold()]
    return alike[0] if alike else name


def known_weights(config: RunConfig) -> RunConfig:
    """The file that the network starts from, wherever the next command is given, and the same by its content."""
    if config.weights is None:
        return config
    path, digest = os.path.abspath(config.weights), weights.digest(config.weights)
    if config.weights_digest not in (None, digest):
        raise weights.WeightsError(
            f"--weights {path}: is not the file that this run began with (its content is another)"
        )
    return replace(config, weights=path, weights_digest=digest)


def refuse_without_effect(chosen: RunConfig, assigned: dict[str, Any]) -> None:
    """What a budget replaces has no effect beside one, be it the preset's, so --set must not give it. Files are left
    alone, for that of a run has all fields; and so is model_lr with calibrate, for it is where the trials begin."""
    given = of_search(assigned)
    unused = [name for name in (*REPLACED_BY_A_BUDGET, "mu_divisor") if name in given]
    if chosen.search.kl_budget is not None and unused:
        names = [name for name in ("kl_budget", *unused) if name in given]
        raise parse.SettingError(
            f"{' '.join(f'--set search.{name}={given[name]}' for name in names)}: a budget stands in place of the "
            f"policy's rates and KL weight, which have no effect beside it; give either the budget or these, with "
            "--set search.kl_budget=null"
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


def check_data(dataset: Dataset, place: str, stored: DataConfig) -> None:
    """What was read from `place` are the images of the run, wherever they lay."""
    if dataset.fingerprint != stored.fingerprint:
        if os.path.abspath(place) == stored.source:
            raise DataError(f"{place}: its images or labels have changed since this run began; begin another")
        raise DataError(f"{place}: is not the data of this run: its images or labels are not those of {stored.source}")
