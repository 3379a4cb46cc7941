"""Adding evaluations of the searches of a study until its verdict's interval is narrow."""

import io
import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from slackaug.config.run_config import RunConfig
from slackaug.judge import queue
from slackaug.judge.candidates import from_name
from slackaug.judge.intervals import nested_difference
from slackaug.judge.queue import Comparison
from slackaug.judge.studies import evaluations
from slackaug.judge.studies.plan import MAX_EVALUATIONS, Study, check_verdict
from slackaug.judge.studies.results import differences_to

FIXED = [from_name(name) for name in ("uniform", "none")]
N_SEARCH = 6


@pytest.fixture
def studied(monkeypatch):
    """A function that has searches and evaluations differ by some points; it gives all that was done and said."""

    def run(until, *, between, within, n_eval=4):
        turns = []
        study = Study(search=RunConfig(preset="", model="small", space="cifar"), n_search=N_SEARCH, n_eval=n_eval,
                      until=until, baselines=("uniform", "none"), learned="auto")  # fmt: skip

        def conduct(work, trainings, on_result, *, is_announced):
            assert is_announced == bool(turns)
            turns.append([(one.name, one.seed) for one in trainings])
            found = {}
            for one in trainings:
                s = [study.search_name(s) for s in range(N_SEARCH)].index(one.name) if "search" in one.name else None
                own = 0.0 if s is None else np.random.default_rng([7, s]).normal(0, between)
                noise = np.random.default_rng([s or 0, len(one.name), one.seed]).normal(0, within)
                value = 0.8 + (own + noise) / 100
                found.setdefault(one.name, []).append({"seed": one.seed, "accuracy": value, "seconds": 2.0})
            on_result(found, len(trainings))
            return found

        monkeypatch.setattr(queue, "conduct", conduct)
        monkeypatch.setattr(evaluations, "result_of", lambda folder: from_name("default"))
        work = Comparison(None, None, None, "cpu", None, SimpleNamespace(), Console(file=io.StringIO(), width=300))
        searched = [SimpleNamespace(folder=Path(str(s))) for s in range(N_SEARCH)]
        verdicts = []
        found = evaluations.evaluate_all(work, study, FIXED, searched, lambda found, text: verdicts.append(text))
        assert verdicts[-1] == f"There is no answer yet: {len(turns[-1])} of {len(turns[-1])} trainings are done."
        return study, found, turns, work.console.file.getvalue()

    return run


def half_width(study, found):
    return 100 * nested_difference(differences_to("uniform", study, found)).half_width


def test_evaluations_of_all_searches_are_added_until_the_interval_is_narrow(studied):
    study, found, turns, said = studied(0.7, between=0.0, within=1.0)
    assert len(turns) > 1
    assert half_width(study, found) <= 0.7
    n_of_each = {len(found[study.search_name(s)]) for s in range(N_SEARCH)}
    (n,) = n_of_each
    assert n > 4
    assert len(found["uniform"]) == N_SEARCH * n  # each beside the baseline with the same seed
    assert len(found["none"]) == N_SEARCH * 4  # which the verdict does not need
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(turns))
    assert said.count("more evaluation") == len(turns) - 1
    assert "For 0.7 points" in said
    assert all(len(set(row)) == len(row) for row in turns)


def test_added_evaluations_are_trained_in_turn_with_seeds_of_their_own(studied):
    study, found, turns, _ = studied(0.7, between=0.0, within=1.0)
    added = turns[-1][len(turns[0]) :][: 2 * N_SEARCH]
    assert [name for name, _ in added] == [name for s in range(N_SEARCH) for name in (study.search_name(s), "uniform")]
    seeds = [{one["seed"] for one in found[study.search_name(s)]} for s in range(N_SEARCH)]
    assert sum(map(len, seeds)) == len(set.union(*seeds))  # no two searches share one


def test_where_searches_differ_more_evaluations_are_not_bought_and_it_says_what_is_needed(studied):
    _, _, turns, said = studied(0.5, between=3.0, within=0.5)
    assert len(turns) == 1
    assert "more evaluations alone cannot reach 0.5 points" in said
    assert int(said.partition("--resume --searches ")[2].split()[0]) > N_SEARCH
    assert "more than 1,000 searches are needed" in studied(0.001, between=3.0, within=0.5)[-1]


def test_what_is_narrow_already_gets_no_more(studied):
    study, found, turns, said = studied(50, between=1.0, within=1.0)
    assert (len(turns), said) == (1, "")
    assert len(found["uniform"]) == study.n_seeds


def test_without_until_there_is_one_turn(studied):
    _, _, turns, said = studied(None, between=1.0, within=1.0, n_eval=1)
    assert (len(turns), said) == (1, "")
    assert len(turns[0]) == 3 * N_SEARCH


def test_of_one_evaluation_each_there_is_a_second_before_anything_is_known_of_them(studied):
    study, found, turns, _ = studied(50, between=0.0, within=1.0, n_eval=1)
    assert len(turns) == 1
    assert len(found[study.search_name(0)]) == 2


def test_it_ends_before_there_are_too_many(studied):
    study, found, turns, said = studied(0.01, between=0.0, within=1.0)
    assert len(turns) == 1 or len(found[study.search_name(0)]) <= MAX_EVALUATIONS
    assert "cannot reach 0.01 points" in said


@pytest.mark.parametrize(
    "wrong", [{"n_search": 3}, {"n_search": 0}, {"baselines": (), "policies": ()}], ids=["few", "none", "no baseline"]
)
def test_until_needs_searches_and_a_baseline(wrong):
    good = {"n_search": 4, "baselines": ("uniform",), "until": 0.5}
    check_verdict(Study(**good))
    check_verdict(Study(**good | wrong | {"until": None}))
    with pytest.raises(ValueError, match="--until needs --searches 4 or more, and a baseline"):
        check_verdict(Study(**good | wrong))


@pytest.mark.parametrize("points", [0, -1, float("inf"), float("nan")])
def test_until_needs_points_above_zero(points):
    with pytest.raises(ValueError, match="expected points of accuracy above 0"):
        Study(until=points)
