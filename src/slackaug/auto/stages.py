"""The stages of a search, one after the other; each is given what the one before it found.

`paper` has two, lines 1 and 2 and lines 3 to 14 of Algorithm 1: `Pretrain` and `Rounds`. What a new dataset needs
beyond that stands around them: pre-training with several numbers of transformations, and `Calibrate` before the rounds.
Whether it helps is not for a search to say: when the stages are over, a race decides (race.py).
"""

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from ..config.run_config import RunConfig
from ..runs.progress import Standing
from .calibrate import Calibrate
from .pretrain import Pretrain
from .problem import Found, Notice, Problem
from .rounds import Rounds

N_NUMBERS, N_RATES = 4, 3  # trials as a rule, of how many to compose and of a rate
Amounts = dict[str, float]  # by `Standing.stage`


class SearchStage(Protocol):
    given: Found

    def __init__(self, problem: Problem, given: Found): ...

    def run(self) -> Iterator[Standing]:
        """Work from where it is to its end; it can be left after any step."""

    @property
    def found(self) -> Found:
        """What it hands on when it is over."""

    def notice(self) -> Notice | None:
        """What there is to tell when it is over."""

    def state(self) -> dict[str, Any]:
        """Return all that decides, beside what it was given, how it continues."""

    def set_state(self, saved: dict[str, Any]) -> None: ...


def plan(config: RunConfig, n_training: int) -> list[tuple[type[SearchStage], Amounts]]:
    """List the stages of a search, and the steps of each with the usual number of trials; a training has n_training.
    To replace a stage, change this list."""
    search, n_trainings = config.search, N_NUMBERS if config.n_composed is None else 1
    n_retrain, n_unrolled = search.n_rounds * search.n_retrain, search.n_rounds * search.n_unrolled
    stages: list[tuple[type[SearchStage], bool, Amounts]] = [
        (Pretrain, True, {"pre-training": n_trainings * n_training}),
        (Calibrate, search.calibrate, {"calibration": N_RATES * search.n_retrain}),
        (Rounds, True, {"re-training": n_retrain, "policy": n_unrolled}),
    ]
    return [(kind, steps) for kind, is_wanted, steps in stages if is_wanted]


def of_each(training: float, retraining: float, policy: float) -> Amounts:
    """What belongs to a step of a training, and to the two kinds of steps in a round."""
    return {"pre-training": training, "calibration": retraining, "re-training": retraining, "policy": policy}


def cost(steps: Amounts, each: Amounts) -> float:
    return sum(n * each[stage] for stage, n in steps.items())


def images(config: RunConfig, n_train: int) -> Amounts:
    """That pass through the model in a step."""
    composites = config.search.n_composites * min(config.search.batch, n_train)
    return of_each(min(config.pretrain.batch, n_train), composites, composites)


class Search:
    """The stage that is at work, how many are over, and how many images it has seen."""

    def __init__(self, problem: Problem, saved: dict[str, Any] | None = None):
        """Begin at the start, or at a saved state."""
        self.problem, config, n_train = problem, problem.config, len(problem.train.labels)
        self.each = images(config, n_train)
        n_training = config.pretrain.epochs * (n_train // min(config.pretrain.batch, n_train))
        self.kinds, steps = zip(*plan(config, n_training), strict=True)
        self.costs = [cost(one, self.each) for one in steps]
        start, self.n_over, self.n_images = problem.start(), 0, 0.0
        if saved is not None:
            start, self.n_over = start.with_saved(saved["given"]), saved["n_over"]
            self.n_images = saved["n_images"] if saved["stage"] else 0.0  # a stage without a state begins anew
        self.stage: SearchStage = self.kinds[self.n_over](problem, start)
        if saved is not None:
            self.stage.set_state(saved["stage"])

    def stages(self) -> Iterator[SearchStage]:
        """Yield them from the one at work to the last; each is to be run before the next is asked for."""
        yield self.stage
        for kind in self.kinds[self.n_over + 1 :]:
            self.stage = kind(self.problem, self.stage.found)
            self.n_over, self.n_images = self.n_over + 1, 0.0
            yield self.stage

    def counted(self, standing: Standing) -> Standing:
        """A step of the stage at work, with the share of the whole search that is done after it."""
        self.n_images += self.each[standing.stage]
        return standing._replace(done=self.share_done())

    def share_done(self) -> float:
        """Count images that pass through the network. A stage that is over counts as what it usually takes."""
        over, own = self.costs[: self.n_over], self.costs[self.n_over]
        return (sum(over) + min(self.n_images, own)) / sum(self.costs)

    @property
    def theta(self) -> Tensor:
        return torch.cat([p.detach().flatten() for p in self.problem.model.parameters()])

    def state(self) -> dict[str, Any]:
        at = {"n_over": self.n_over, "n_images": self.n_images}
        return at | {"given": self.stage.given.to_dict(), "stage": self.stage.state()}
