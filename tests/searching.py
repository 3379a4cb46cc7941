"""Searches of tiny settings, step by step in this process."""

from collections.abc import Iterator
from typing import Any

import pytest

import tiny
from slackaug.auto.problem import Problem
from slackaug.auto.stages import Search
from slackaug.config import parse, presets
from slackaug.config.run_config import RunConfig
from slackaug.data import Dataset
from slackaug.engine.fit import Fit
from slackaug.runs.progress import Standing


def config_of(data: Dataset, **changes: Any) -> RunConfig:
    config = presets.quick(data)
    for text in tiny.assignments(**changes):
        config = parse.update(config, parse.parse_assignment(text))
    return config


def search_of(data: Dataset, saved: dict[str, Any] | None = None, **changes: Any) -> Search:
    return Search(Problem(config_of(data, **changes), data), saved)


def steps(search: Search) -> Iterator[Standing]:
    """Of all stages, as `learn` goes through them."""
    for stage in search.stages():
        yield from map(search.counted, stage.run())


def finish(search: Search) -> Search:
    for _ in steps(search):
        pass
    return search


def let_losses_be(monkeypatch: pytest.MonkeyPatch, uniform: dict[int, float], learned: float = 1.0) -> None:
    """Of whole trainings: with a uniform policy, by how many transformations it composes, and with the learned one."""

    def loss(_: Problem, fit: Fit) -> float:
        number = fit.policy.n_composed
        is_learned = number > 0 and bool((fit.policy.pi != 0).any())
        return learned if is_learned else uniform[number]

    monkeypatch.setattr(Problem, "tempered_loss", loss)
