"""All that decides a study: what is searched, what is trained, and what the paper says about it.

Axes: S searches, E evaluations of each. Every (search, evaluation) has a seed of its own, and each baseline is trained
with all of these seeds, so the differences of different searches are independent (intervals.py). Evaluations that are
added for a narrower interval have seeds far above, so that neither these nor those of more searches change.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from ...config import layers, parse
from ...config.run_config import BLANK, RunConfig
from ...data import DataError, Dataset
from ...data.options import DataConfig
from ...runs.folders import STUDY, RunError
from ...runs.progress import Reading
from .. import candidates, protocols
from ..candidates import Candidate
from ..intervals import LEAST, check_until
from ..protocols import Protocol
from . import recipes as study_recipes
from .paper_tables import FIGURES, N_IMAGES, UNIFORM_AGAIN, Figure

DECIDED = {
    "data": "the data is given by --data",
    "seed": "the searches' seeds are 0, 1, ...",
    "preset": "the preset is that of the recipe; give another recipe",
}


FIRST_ADDED, MAX_EVALUATIONS = 1_000_000, 64  # a seed; of a search, evaluations that `until` may come to


@dataclass(frozen=True, kw_only=True)
class Study:
    """The file study.yaml."""

    recipe: str = ""
    data: DataConfig = field(default_factory=DataConfig)
    data_digest: str = ""  # as in a protocol
    search: RunConfig = BLANK
    model: str = ""  # of the evaluations
    n_search: Annotated[int, "searches, each on another split"] = 4
    n_eval: Annotated[int, "evaluations of each learned policy"] = 4
    until: Annotated[
        float | None,
        "add evaluations until the verdict's interval reaches no further than this many points, such as 0.5, or more "
        "evaluations would not help",
    ] = None
    baselines: Annotated[tuple[str, ...], "instead of the recipe's: uniform, trivialaugment-wide"] = ()
    policies: Annotated[tuple[str, ...], "NAME=FILE, a published policy to evaluate beside the baselines"] = ()
    magnitudes: str = "own"  # of these, and of the baselines whose magnitudes somebody has chosen
    paper: tuple[str, ...] = ()  # data set and network, where the paper has figures for them
    row: str | None = None  # of the learned policy there
    learned: str = "auto"  # what was run to learn policies, as their row is called

    def __post_init__(self) -> None:
        if self.n_search < 0 or self.n_eval < 1:
            raise ValueError("--searches must be at least 0 and --evaluations at least 1")
        check_until(self.until)

    @property
    def n_seeds(self) -> int:
        """How many seeds each baseline is trained with."""
        return max(self.n_search, 1) * self.n_eval

    def seeds(self, s: int) -> range:
        """The seeds with which search s is evaluated, at first."""
        return range(s * self.n_eval, (s + 1) * self.n_eval)

    def more_seeds(self, s: int, n: int) -> range:
        """The seeds of its evaluations after these, if there are to be n in all."""
        first = FIRST_ADDED + s * MAX_EVALUATIONS
        return range(first, first + n - self.n_eval)

    def search_name(self, s: int) -> str:
        """What the policy of search s is called."""
        return f"{self.learned}, search {s}"

    def figures(self, name: str) -> dict[str, Figure]:
        """What the paper prints for a row of ours, by its name there; for `uniform` two tables disagree."""
        known = FIGURES.get((self.paper[0], self.paper[1]), {}) if self.paper else {}
        rows = [self.row] if name == self.learned else [name, UNIFORM_AGAIN] if name == "uniform" else [name]
        return {row: known[row] for row in rows if row in known}

    def protocol(self) -> Protocol:
        return Protocol.of(self.search, self.data, self.data_digest, self.model)

    def foreign_model(self) -> str | None:
        """The network, where it is a user's own code, which a file alone may not name."""
        return next((model for model in (self.search.model, self.model) if layers.is_foreign(model)), None)


def unlike_the_paper(config: study_recipes.Recipe, dataset: Dataset, search: RunConfig) -> str | None:
    """Why the figures of the recipe's row say nothing about this data and these trainings."""
    if config.paper is None:
        return None
    expected, n_images = N_IMAGES.get(config.paper[0]), len(dataset.train.labels)
    if expected is not None and n_images not in expected:
        return f"{n_images:,} training images, where it has {expected[0]:,}"
    epochs, own = search.evaluate.epochs, config.run_config(dataset).evaluate.epochs
    return None if epochs == own else f"trainings of {epochs} epochs, where it has {own}"


def learned_name(config: study_recipes.Recipe, own: RunConfig, search: RunConfig) -> str:
    """Algorithm 1 as the paper runs it, one of the paper's variants of it, or ours for new data."""
    if search.preset != "paper":
        return "auto"
    as_own = replace(search, data=own.data, model=own.model, evaluate=own.evaluate) == own
    return f"slack ({config.variant})" if as_own else f"slack ({config.variant}, changed)"


def configure(
    recipe: str,
    place: str | None,
    reading_options: dict[str, Any],
    options: dict[str, Any],
    given: dict[str, Any],
    assignments: Sequence[str],
    reading: Reading = protocols.SILENT,
) -> Study:
    """The recipe, changed by --set (settings of the search and the training) and by the options; `given` are counts and
    lists of the study itself."""
    config = study_recipes.study(recipe)
    where = layers.data_config(
        place or config.data, reading_options, None, DataConfig(size=config.size, margin=config.margin)
    )
    if not where.source:
        raise ValueError(f"the study {recipe} needs --data, the images to search on")
    files = [named(text) for text in given.get("policies", ())]
    protocols.load_once.cache_clear()  # files may have changed since an earlier call
    dataset = protocols.dataset(where, reading)
    where = replace(where, fingerprint=dataset.fingerprint)
    assigned, own = layers.read_assignments(assignments, DECIDED), config.run_config(dataset, options.get("model"))
    search = replace(layers.changed(own, [assigned, options]), data=where)
    layers.refuse_without_effect(search, assigned)
    is_as_in_the_paper = unlike_the_paper(config, dataset, search) is None
    chosen = Study(
        recipe=recipe,
        data=where,
        data_digest=protocols.data_digest(dataset),
        search=search,
        model=config.model or search.model,
        n_search=config.n_search,
        n_eval=config.n_eval,
        baselines=config.baselines,
        magnitudes=config.magnitudes,
        paper=(config.paper or ()) if is_as_in_the_paper else (),
        row=config.row if is_as_in_the_paper else None,
        learned=learned_name(config, own, search),
    )
    chosen.protocol().used_space()  # an unknown transformation in `exclude` is found here, not later
    # Whole paths, for a study that is taken up in another folder
    chosen = parse.update(chosen, given | {"policies": [f"{name}={os.path.abspath(path)}" for name, path in files]})
    if not (chosen.n_search or chosen.baselines or chosen.policies):
        raise ValueError("nothing to do: no searches, no baselines and no policies")
    check_verdict(chosen)
    return chosen


def check_verdict(chosen: Study) -> None:
    if chosen.until is not None and (chosen.n_search < LEAST or not (chosen.baselines or chosen.policies)):
        raise ValueError(f"--until needs --searches {LEAST} or more, and a baseline to compare with")


def left_out(study: Study) -> list[str]:
    """Published policies that its recipe asks for, and that are not part of slackaug, so the user must give them."""
    given = dict(map(named, study.policies))
    return [name for name in study_recipes.study(study.recipe).policies if name not in given]


def named(policy: str) -> tuple[str, str]:
    """The name and the file of NAME=FILE."""
    name, _, path = policy.partition("=")
    if not name or not path:
        raise ValueError(f"-p {policy}: expected NAME=FILE, such as fast-aa=fast_aa.json")
    return name, path


def fixed_candidates(study: Study) -> list[Candidate]:
    """All that is trained beside the learned policies; published ones are called as in the paper's tables."""
    files = []
    for name, path in map(named, study.policies):
        files += [found._replace(name=candidates.published(name)) for found in candidates.find_candidates([path], ())]
    baselines = candidates.find_candidates((), study.baselines) if study.baselines else []
    found = candidates.with_magnitudes([*baselines, *files], study.magnitudes)
    candidates.check_names(found)
    return found


def read_study(folder: Path) -> Study:
    if not (folder / STUDY).is_file():
        raise RunError(f"{folder}: holds no study to resume (no {STUDY})")
    return parse.update(Study(), parse.read_yaml(folder / STUDY))


def found_again(stored: Study, place: str | None, reading: Reading) -> Study:
    """The study with its images where they are now; no others may take their place."""
    where = stored.data if place is None else replace(stored.data, source=place)
    protocols.load_once.cache_clear()  # files may have changed since an earlier call
    try:
        dataset = protocols.dataset(replace(where, fingerprint=""), reading)
    except DataError as error:
        if place is not None:
            raise
        raise DataError(f"{error}; if the images have moved, --data names their new place") from None
    layers.check_data(dataset, where.source, stored.data)
    return replace(stored, data=where, search=replace(stored.search, data=where))
