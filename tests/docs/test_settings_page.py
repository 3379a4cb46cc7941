"""The pages of docs/reference are what the code says: commands, Python, and all settings with the presets' values."""

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import pytest
import torch

import small_search
import tiny
from slackaug.config import paper, parse, presets
from slackaug.config.run_config import RunConfig
from slackaug.data.options import DataConfig
from slackaug.engine.fit import FitConfig, descend
from slackaug.methods.budget import SearchConfig

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "reference"))
import make_pages
import make_settings

RENEW = "docs/reference is not what the code says now: `make reference` renews it"


def rows() -> dict[str, list[str]]:
    """The cells of each setting on the page, after its name."""
    page = (make_pages.FOLDER / "settings.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in page.splitlines()]
    return {name.strip("`"): rest for name, *rest in cells if name.startswith("`") and len(rest) > 2}


@pytest.mark.parametrize("name", make_pages.PAGES)
def test_a_page_is_what_the_script_writes(name):
    assert (make_pages.FOLDER / name).read_text(encoding="utf-8") == make_pages.PAGES[name](), RENEW


def test_the_page_lists_every_setting():
    found = rows()
    assert {*found} == parse.flat(parse.to_dict(paper.row("cifar10"))).keys(), RENEW
    assert all(len(cells) in (3, 2 + len(make_settings.PRESETS)) for cells in found.values())


@dataclass
class Unexplained:
    said: Annotated[int, "what it is"] = 0
    unsaid: str = ""  # a comment is no help


def test_a_field_without_a_meaning_is_named():
    with pytest.raises(ValueError, match=r"Unexplained: nothing says what it is: unsaid$"):
        make_settings.meanings(Unexplained)


# --- values -----------------------------------------------------------------------------------------------------------


def agrees(cell: str, value: object) -> bool:
    text = cell.removeprefix(make_settings.FROM_THE_DATA)
    if " to " in text:
        low, high = map(float, text.split(" to "))
        return isinstance(value, int | float) and low <= value <= high
    known = re.split(", | or ", text) if text != cell else [text]
    return value in [parse.parse_assignment(f"x={one}")["x"] for one in known]


@pytest.mark.parametrize("preset", make_settings.PRESETS)
@pytest.mark.parametrize("name", ["own", "shapes:colour", "torchvision:CIFAR10", "imagenet100:x", "domainnet:x/real"])
@pytest.mark.parametrize(("n", "size"), [(40, 8), (1500, 8), (10, 100)])
def test_the_values_are_those_of_the_presets(preset, name, n, size):
    given = parse.flat(parse.to_dict(presets.preset(preset, tiny.dataset(name, n, size))))
    for setting, (_, _, *cells) in rows().items():
        cell = cells[make_settings.PRESETS.index(preset)] if len(cells) > 1 else cells[0]
        assert agrees(cell, given[setting]), f"{setting}: {preset} gives {given[setting]}, and not {cell}; {RENEW}"


CELLS = {
    "5.0": [5.0, 5.0], "null": [None], "true": [True], "[]": [()], "small": ["small"], '""': [""],
    "from the data: 1 or 3": [3, 1, 3], "from the data: 1 to 3": [3, 1, 2], "from the data: 5.0 or null": [None, 5.0],
    "from the data: a, b or c": ["c", "b", "a"],
}  # fmt: skip


def test_cells():
    assert [make_settings.cell(values) for values in CELLS.values()] == [*CELLS]


# --- settings without effect ------------------------------------------------------------------------------------------

# What the page says of rates and rounds: tests/auto/test_calibrate.py.
BUDGET = {"kl_budget": 0.01}
NO_EFFECT = [
    ("policy_lr", 5.0, BUDGET),
    ("kl_weight", 5.0, BUDGET),
    ("kl_weight", 5.0, {"learn_pi": False}),
    ("mu_divisor", 1.0, BUDGET),
    ("mu_divisor", 1.0, {"learn_mu": False}),
    ("cold_start", False, {"n_rounds": 1}),
]


def claims(record: type) -> set[str]:
    return {name for name, comment in make_settings.meanings(record).items() if "no effect" in comment}


def test_every_claim_is_tested_below():
    assert claims(SearchConfig) == {name for name, *_ in NO_EFFECT}
    assert claims(FitConfig) == {"nesterov"}
    assert not claims(RunConfig) | claims(DataConfig)


@pytest.mark.parametrize(("name", "value", "where"), NO_EFFECT)
def test_a_setting_without_effect_has_none_there_and_has_one_elsewhere(name, value, where):
    def has_effect(config: SearchConfig) -> bool:
        before, after = (small_search.run(one)[-1].phi for one in (config, replace(config, **{name: value})))
        return not all(torch.allclose(getattr(before, part), getattr(after, part), rtol=1e-5) for part in ("pi", "mu"))

    assert has_effect(small_search.CONFIG)
    assert not has_effect(replace(small_search.CONFIG, **where))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_nesterov_has_no_effect_without_momentum(momentum):
    found = [torch.ones(3), torch.ones(3)]
    for theta, nesterov in zip(found, (False, True), strict=True):
        config = FitConfig(momentum=momentum, nesterov=nesterov)
        descend(theta, torch.full((3,), 0.5), torch.arange(3.0), torch.zeros(3), torch.tensor(0.1), config)
    assert torch.equal(*found) == (momentum == 0)
