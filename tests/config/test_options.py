"""Every option is declared once: a field of a configuration is found wherever an option is shown."""

import inspect
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

import slackaug
from slackaug import cli
from slackaug.commands import COMMANDS
from slackaug.config import layers
from slackaug.config.options import IMAGES, Given, command
from slackaug.data import load

ROOT = Path(__file__).parents[2]
# Another field in one of the configurations, before anything else has seen the class.
WITH_A_FIELD = """
import dataclasses, inspect, json, sys
from typing import Annotated
from importlib import import_module
place, name = sys.argv[1].rsplit(".", 1)
module = import_module(place)
hint = Annotated[int, "how many dummies there are"]
wider = dataclasses.make_dataclass(name, [("n_dummies", hint, 7)], bases=(getattr(module, name),), frozen=True,
                                   kw_only=True)
wider.__module__ = place
setattr(module, name, wider)
import slackaug
from slackaug import cli
sys.path.insert(0, "docs/reference")
import make_settings
options = [(one.opts, one.help) for one in cli.load("search").params if one.name == "n_dummies"]
signature = [str(inspect.signature(slackaug.search).parameters.get("n_dummies")),
             "    n_dummies: how many dummies there are" in slackaug.search.__doc__.splitlines()]
page = [line for line in make_settings.settings_page().splitlines() if "n_dummies" in line]
print(json.dumps([options, signature, page, "n_dummies" in make_settings.commands_page()]))
"""


def test_a_new_field_is_an_option_a_parameter_and_a_row_of_the_reference():
    words = [sys.executable, "-c", WITH_A_FIELD, "slackaug.data.options.DataConfig"]
    options, signature, rows, is_listed = json.loads(subprocess.run(words, capture_output=True, cwd=ROOT).stdout)
    assert options == [[["--n-dummies"], "How many dummies there are."]]
    assert signature == ["n_dummies: int | None = None", True]
    assert rows == ["| `data.n_dummies` | int | How many dummies there are. Option `--n-dummies`. | 7 |"]
    assert is_listed


@pytest.mark.parametrize("name", COMMANDS)
def test_python_and_the_command_line_have_the_same_names(name):
    function = getattr(__import__(f"slackaug.commands.{name}", fromlist=[name]), name)
    parameters = inspect.signature(function).parameters
    assert {one.name for one in cli.load(name).params} == {*parameters} - {"console", "watch", "estimate", "test"}
    assert all(one.help for one in cli.load(name).params)
    assert function.__doc__


def test_the_functions_are_those_of_the_package():
    assert {*COMMANDS} - {"report", "export"} <= {*slackaug.__all__}
    assert all(callable(getattr(slackaug, name)) for name in slackaug.__all__ if name != "__version__")


# --- one parameter for several options --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Config:
    source: Annotated[str, "where"] = ""
    space: Annotated[str, "which"] = "cifar"
    names: Annotated[tuple[str, ...], "who"] = ()
    size: Annotated[int | None, "how large"] = None


@dataclass(frozen=True, kw_only=True)
class Place:
    device: Annotated[str, "where"] = "cpu"


@command
def run(
    data: str,
    *,
    given: Annotated[dict[str, Any], Given(Config, IMAGES, without=("source",))],
    few: Annotated[dict[str, Any], Given(Config, IMAGES, only=("source",))],
    place: Place,
    seed: int = 3,
) -> Any:
    return data, given, few, place, seed


def test_the_signature_is_flat_and_what_is_left_out_is_not_given():
    assert [*inspect.signature(run).parameters] == ["data", "ops", "names", "size", "source", "device", "seed"]
    assert run("x") == ("x", {}, {}, Place(), 3)
    assert run("x", ops="y", names=("a", "b"), size=4, source=Path("z"), device="cuda", seed=5) == (
        "x", {"space": "y", "names": ["a", "b"], "size": 4}, {"source": "z"}, Place(device="cuda"), 5
    )  # fmt: skip


def test_what_no_option_is_called_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'sise'"):
        run("x", sise=4)


@pytest.mark.parametrize("names", ["a", Path("a"), 3])
def test_a_list_is_a_list(names):
    with pytest.raises(TypeError, match="names takes a list, such as"):
        run("x", names=names)


def test_what_is_left_out_may_be_spelled_in_any_letters():
    config = layers.configure(load("digits"), {"exclude": ["invert", "CUTOUT", "Solarize"]}, None, [])
    assert config.exclude == ("Invert", "Cutout", "Solarize")
