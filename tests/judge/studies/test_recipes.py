"""Every row of the paper's tables that can be run here has a study, and every study is one that can be run."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml

from slackaug import data, models
from slackaug.augment.transforms import SPACES
from slackaug.config import paper, parse, presets
from slackaug.config.run_config import RunConfig
from slackaug.engine.fit import FitConfig
from slackaug.judge.baselines import BASELINES
from slackaug.judge.studies import paper_tables
from slackaug.judge.studies.paper_tables import AVERAGE, FIGURES, QUOTED, TABLES, TRANSFER, UNIFORM_AGAIN, Figure
from slackaug.judge.studies.plan import learned_name, unlike_the_paper
from slackaug.judge.studies.recipes import STUDIES, Recipe, made, study
from slackaug.methods.budget import SearchConfig

DIGITS = data.load("digits")
every = pytest.mark.parametrize("name", STUDIES)


def figures(config: Recipe) -> dict[str, Figure]:
    """What the paper prints for this study, by row."""
    printed = FIGURES.get(config.paper, {}) if config.paper else {}
    return {row: printed[row] for row in config.results() if row in printed}


@pytest.mark.parametrize("label", TABLES)
def test_every_row_of_the_paper_has_a_study_or_a_reason(label):
    table = TABLES[label]
    for column in table.columns:
        for row in table.rows:
            found = made(column, row)
            assert (found is None) == (row in QUOTED or column == AVERAGE), row
            if found is not None:
                name, ours = found
                assert study(name).paper == column
                assert (ours is None) == (row == study(name).row)


def test_a_row_that_many_studies_have_is_the_main_ones():
    column = ("cifar10", "wrn-40-2")
    assert made(column, "slack") == ("cifar10-wrn-40-2", None)
    assert made(column, "uniform") == made(column, UNIFORM_AGAIN) == ("cifar10-wrn-40-2", "uniform")
    assert made(column, "autoaugment") == ("cifar10-wrn-40-2-baselines", "autoaugment")
    started = "fast-aa-start, uniform magnitudes"
    assert made(column, started) == ("cifar10-wrn-40-2-magnitudes", started)
    assert made(("cifar10", "wrn-28-10"), TRANSFER) == ("cifar10-wrn-28-10-from-wrn-40-2", None)


def test_no_row_is_quoted_that_is_not_there():
    assert QUOTED.keys() <= {row for rows in FIGURES.values() for row in rows}


def test_every_learned_row_has_one_study():
    learned = [(s.paper, s.row) for s in STUDIES.values() if s.row]
    assert len(learned) == len(set(learned))


@every
def test_names_what_exists(name):
    config = study(name)
    run = config.run_config(DIGITS)
    assert set(config.baselines) <= BASELINES.keys()
    assert config.baselines[0] == "uniform" or not config.n_search
    assert (run.preset in presets.PRESETS, run.space in SPACES) == (True, True)
    assert {run.model, config.model or run.model} <= models.MODELS.keys()
    assert not config.data or data.sources.find(config.data)
    assert config.paper is None or config.paper in FIGURES
    assert config.row is None or config.n_search > 0
    assert parse.update(config, yaml.safe_load(parse.dump(config))) == config
    assert parse.update(config, {"n_search": 1, "baselines": ["none"]}).baselines == ("none",)


def test_counts_are_the_papers():
    others = {"digits": (2, 2), "-baselines": (0, 8), "-magnitudes": (0, 4)}
    for name, config in STUDIES.items():
        expected = next((counts for end, counts in others.items() if name.endswith(end)), (4, 4))
        assert (config.n_search, config.n_eval) == expected, name


@pytest.mark.parametrize(("dataset", "model"), paper_tables.CIFAR)
def test_variants_differ_from_their_base_in_the_search_alone(dataset, model):
    base = study(f"{dataset}-{model}")
    assert base.search == paper.row(dataset, model)
    for name, change in paper.VARIANTS.items():
        found = study(f"{dataset}-{model}-{name}")
        expected = replace(base, search=change(base.search), baselines=("uniform",), row=name, variant=name)
        assert found == expected


def test_transfer_searches_with_one_network_and_evaluates_with_another():
    """Each by its own settings: on CIFAR-10 the weight decays differ."""
    config = study("cifar10-wrn-28-10-from-wrn-40-2")
    assert isinstance(config.search, RunConfig)
    assert (config.search.model, config.model) == ("wrn-40-2", "wrn-28-10")
    own, other = paper.row("cifar10", "wrn-40-2"), paper.row("cifar10", "wrn-28-10")
    assert config.search == replace(own, evaluate=other.evaluate)
    assert config.search.evaluate.weight_decay != own.evaluate.weight_decay
    assert figures(config)[paper_tables.TRANSFER].accuracy == 97.43
    assert config.variant == "from wrn-40-2"


@pytest.mark.parametrize(("n_images", "reason"), [(50_000, None), (50_025, None), (49_999, "49,999 training images")])
def test_quickdraw_has_50_000_images_or_those_of_the_authors_list(n_images, reason):
    recipe = study("domainnet-quickdraw")
    images = SimpleNamespace(train=SimpleNamespace(labels=range(n_images)))
    assert isinstance(recipe.search, RunConfig)
    said = unlike_the_paper(recipe, images, recipe.search)
    assert said is reason or said.startswith(reason)


def test_figures():
    assert {row: str(figure) for row, figure in figures(study("cifar10-wrn-40-2")).items()} == {
        "slack": "96.29 ± 0.08 %", "uniform": "96.12 ± 0.08 %", "uniform (ablation table)": "96.22 ± 0.10 %",
        "trivialaugment-wide": "96.32 ± 0.05 %",
    }  # fmt: skip
    assert figures(study("digits")) == {}
    config = study("cifar100-wrn-40-2-magnitudes")
    assert (config.policies, config.magnitudes) == (("fast-aa", "dada", "deepaa"), "both")
    assert figures(config)["published deepaa, uniform magnitudes"].accuracy == 78.89


@pytest.mark.parametrize(
    ("recipe", "changes", "name"),
    [
        ("digits", {}, "auto"), ("fast", {}, "auto"), ("standard", {"seed": 3}, "auto"),
        ("paper", {}, "slack (paper)"), ("cifar10-wrn-40-2", {}, "slack (paper)"),
        ("cifar10-wrn-40-2", {"evaluate": FitConfig(epochs=3), "model": "small"}, "slack (paper)"),
        ("cifar10-wrn-40-2", {"n_composed": None}, "slack (paper, changed)"),
        ("paper", {"search": SearchConfig(n_rounds=2)}, "slack (paper, changed)"),
        ("cifar100-wrn-40-2-without-kl", {}, "slack (without-kl)"),
        ("cifar10-wrn-28-10-from-wrn-40-2", {}, "slack (from wrn-40-2)"),
    ],
)  # fmt: skip
def test_a_row_is_named_after_what_was_run(recipe, changes, name):
    config = study(recipe)
    own = config.run_config(DIGITS)
    assert learned_name(config, own, replace(own, **changes)) == name


def test_a_preset_is_chosen_for_the_data():
    assert study("digits").run_config(DIGITS) == presets.quick(DIGITS)
    assert study("paper").run_config(DIGITS, "wrn-16-1").model == "wrn-16-1"


def test_an_unknown_study_is_refused():
    with pytest.raises(ValueError, match="unknown study 'cifar10-wrn-40'; did you mean 'cifar10-wrn-40-2'"):
        study("cifar10-wrn-40")
