"""How long a search and its race take, measured over a few steps of each kind."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import torch

from .. import models, rng
from ..config.run_config import RunConfig
from ..data import Dataset
from ..engine import ways
from ..engine.ways import timed
from ..judge.race import N_FOLDS
from ..methods import slack
from . import pretrain
from .problem import Problem
from .stages import Search, cost, of_each, plan

STEP_FLOPS = 60e9  # of a measured step on a CPU: about a second
PASSES = 3  # forward and backward, in forward passes
LEAST_IMAGES = 40  # of all training images, for a race: with fewer, a fold is a handful
START_SECONDS = 0.5  # of a process for one training of a race, which reads the images anew


class StepSeconds(NamedTuple):
    """What one step of each kind takes."""

    n_train: int  # images
    n_pretraining: int  # steps
    pretraining: float
    retraining: float
    policy: float
    racing: float  # as many images of a race, whose trainings go side by side, as a step of pre-training has
    start: float = 0.0  # of a training of a race, before its first step


class Seconds(NamedTuple):
    """What a search takes."""

    learning: float
    race: float  # 0: there is none
    first_round: float  # of learning, to the end of its first round: before that there is no policy


def search_seconds(config: RunConfig, data: Dataset, device: str, engine: str = "compiled") -> Seconds:
    """The cost of a whole search, measured over a few steps of each kind on a copy of everything.

    On a CPU, where a step may take minutes, with fewer images: there, time goes with images.
    """
    if device.startswith("cuda"):
        return whole_seconds(step_seconds(config, data, device, engine), config)
    few, share = with_few_images(config, data)
    each = step_seconds(few, data, device, engine)
    return whole_seconds(each._replace(retraining=share * each.retraining, policy=share * each.policy), config)


def with_few_images(config: RunConfig, data: Dataset) -> tuple[RunConfig, float]:
    """Steps of a second or less, and how many of them a step of the rounds is."""
    model = models.build(config.model, data.n_classes, data.image_size, rng.generator(0, "cost"))
    per_image = PASSES * config.search.n_composites * models.flops(model, data.image_size)  # of search.batch
    n_half = len(data.train.labels) // 2
    whole = min(config.search.batch, n_half)
    batch = min(whole, max(2, int(STEP_FLOPS / per_image)))
    share = whole / batch
    val_batch = max(2, round(min(config.search.n_val, n_half) / share))
    search = replace(config.search, batch=batch, val_batch=val_batch)
    few = replace(config.pretrain, batch=min(config.pretrain.batch, batch * 2))
    return replace(config, pretrain=few, search=search), share


def whole_seconds(each: StepSeconds, config: RunConfig) -> Seconds:
    """Add up all stages, and the race, whose trainings see as many images as some number of pre-trainings."""
    amounts = of_each(each.pretraining, each.retraining, each.policy)
    one_round = replace(config, search=replace(config.search, n_rounds=1))
    learning, first_round = (
        sum(cost(steps, amounts) for _, steps in plan(one, each.n_pretraining)) for one in (config, one_round)
    )
    if not has_race(config, each.n_train):
        return Seconds(learning, 0.0, first_round)
    n_pretrainings = race_images(config, each.n_train) / (config.pretrain.epochs * (each.n_train // 2))
    starts = config.race.n_trainings * each.start
    return Seconds(learning, n_pretrainings * each.n_pretraining * each.racing + starts, first_round)


def has_race(config: RunConfig, n_train: int) -> bool:
    """An ensemble has none, nor has a search with a handful of images."""
    return bool(config.race.candidates) and config.n_ranks == 1 and n_train >= LEAST_IMAGES


def race_images(config: RunConfig, n_train: int) -> float:
    """That pass through the networks of a race."""
    return config.race.n_trainings * config.evaluate.epochs * n_train * (1 - 0.5 / N_FOLDS)


def share_of_learning(search: Search, n_train: int, n_jobs: int, takes: Seconds | None = None) -> float:
    """Of a whole search: the rest is its race. Where its time was not measured, by images; there the trainings of the
    race go side by side."""
    if takes is not None and takes.learning:
        return takes.learning / (takes.learning + takes.race)
    config = search.problem.config
    race = race_images(config, n_train) / n_jobs if has_race(config, n_train) else 0.0
    return sum(search.costs) / (sum(search.costs) + race)


def step_seconds(config: RunConfig, data: Dataset, device: str, engine: str = "compiled") -> StepSeconds:
    problem, search = Problem(config, data, device, engine=engine), config.search
    found = problem.start()._replace(theta_0=problem.weights())
    fits = problem.make_fits([found.phi] * pretrain.n_at_once(problem), found.first)
    n_train, start_seconds = len(data.train.labels), 0.0
    fit_seconds = racing_seconds = ways.step_seconds("pretrain", fits)
    if has_race(config, n_train) and not device.startswith("cuda") and torch.get_num_threads() > 1:
        with one_thread() as n_jobs:
            racing_seconds, start_seconds = ways.step_seconds("pretrain", fits) / n_jobs, START_SECONDS / n_jobs
    chance, passes = problem.make_search(found)
    state = slack.start(found.phi, passes.theta)

    def seconds_from(step: int) -> float:
        return timed(lambda: next(slack.rounds(state._replace(step=step), chance, passes, search)))

    rounds = seconds_from(1), seconds_from(search.n_retrain)  # 0: a round begins
    return StepSeconds(n_train, fits[0].n_steps, fit_seconds, *rounds, racing_seconds, start_seconds)


@contextmanager
def one_thread() -> Iterator[int]:
    """As in each of the trainings that go side by side on a processor; how many these are."""
    n = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield n
    finally:
        torch.set_num_threads(n)
