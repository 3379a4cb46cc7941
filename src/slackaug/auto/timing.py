"""How long a search and its race take, measured over a few steps of each kind."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from ..config.run_config import RunConfig
from ..data import Dataset
from ..engine import ways
from ..engine.ways import timed
from ..judge.race import N_FOLDS
from ..methods import slack
from . import pretrain
from .problem import Problem
from .stages import Search, cost, of_each, plan


class StepSeconds(NamedTuple):
    """What one step of each kind takes."""

    n_train: int  # images
    n_pretraining: int  # steps
    pretraining: float
    retraining: float
    policy: float
    racing: float  # as many images of a race, whose trainings go side by side, as a step of pre-training has


class Seconds(NamedTuple):
    """What a search takes."""

    learning: float
    race: float  # 0: there is none


def search_seconds(config: RunConfig, data: Dataset, device: str, engine: str = "compiled") -> Seconds:
    """The cost of a whole search, measured over a few steps of each kind on a copy of everything."""
    return whole_seconds(step_seconds(config, data, device, engine), config)


def whole_seconds(each: StepSeconds, config: RunConfig) -> Seconds:
    """Add up all stages, and the race, whose trainings see as many images as some number of pre-trainings."""
    amounts = of_each(each.pretraining, each.retraining, each.policy)
    learning = sum(cost(steps, amounts) for _, steps in plan(config, each.n_pretraining))
    if not has_race(config):
        return Seconds(learning, 0.0)
    n_pretrainings = race_images(config, each.n_train) / (config.pretrain.epochs * (each.n_train // 2))
    return Seconds(learning, n_pretrainings * each.n_pretraining * each.racing)


def has_race(config: RunConfig) -> bool:
    """An ensemble has none."""
    return bool(config.race.candidates) and config.n_ranks == 1


def race_images(config: RunConfig, n_train: int) -> float:
    """That pass through the networks of a race."""
    return config.race.n_trainings * config.evaluate.epochs * n_train * (1 - 0.5 / N_FOLDS)


def share_of_learning(search: Search, n_train: int, n_jobs: int) -> float:
    """Of a whole search, by images: the rest is its race, whose trainings go side by side."""
    config = search.problem.config
    race = race_images(config, n_train) / n_jobs if has_race(config) else 0.0
    return sum(search.costs) / (sum(search.costs) + race)


def step_seconds(config: RunConfig, data: Dataset, device: str, engine: str = "compiled") -> StepSeconds:
    problem, search = Problem(config, data, device, engine=engine), config.search
    found = problem.start()._replace(theta_0=problem.weights())
    fits = problem.make_fits([found.phi] * pretrain.n_at_once(problem), found.first)
    fit_seconds = racing_seconds = ways.step_seconds("pretrain", fits)
    if has_race(config) and not device.startswith("cuda") and torch.get_num_threads() > 1:
        with one_thread() as n_jobs:
            racing_seconds = ways.step_seconds("pretrain", fits) / n_jobs
    chance, passes = problem.make_search(found)
    state = slack.start(found.phi, passes.theta)

    def seconds_from(step: int) -> float:
        return timed(lambda: next(slack.rounds(state._replace(step=step), chance, passes, search)))

    rounds = seconds_from(1), seconds_from(search.n_retrain)  # 0: a round begins
    return StepSeconds(len(data.train.labels), fits[0].n_steps, fit_seconds, *rounds, racing_seconds)


@contextmanager
def one_thread() -> Iterator[int]:
    """As in each of the trainings that go side by side on a processor; how many these are."""
    n = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield n
    finally:
        torch.set_num_threads(n)
