"""The rate of re-training, found by trial.

The paper's first criterion for its settings: "the validation loss after re-training should be similar (experimentally,
slightly lower) to the one obtained after pre-training". The higher the rate, the further theta follows the policy; the
highest that meets the criterion is taken. Rates are tried in factors of two.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from torch import Tensor

from ..files import finite_or_null
from ..messages import search as messages
from ..methods import slack
from ..runs.progress import Standing
from .problem import NEAR, Found, Notice, Problem, guessing_loss

FILE = "calibration.json"  # of a run
FACTOR = 2.0
TOLERANCE = 0.05  # of the loss, above which it is no longer similar
FAR_LOWER = 0.5  # of the loss, below which re-training has done what pre-training should have
MAX_RATE = 0.8  # twice the paper's highest
N_LOWER = 5  # trials below the first


class Calibration(NamedTuple):
    before: float  # the validation loss after pre-training
    losses: dict[float, float]  # by rate, in the order of trials: the validation loss after re-training from theta_0

    def is_similar(self, loss: float) -> bool:
        """False, too, for a loss that is not a number."""
        return loss <= self.before * (1 + TOLERANCE)

    def next_rate(self, first: float) -> float | None:
        """What to try next: upwards until the loss rises, or downwards until it does not; none when it is settled."""
        if not self.losses:
            return first
        last, rises = [*self.losses][-1], [not self.is_similar(loss) for loss in self.losses.values()]
        if rises[0]:
            return last / FACTOR if rises[-1] and len(rises) <= N_LOWER else None
        return last * FACTOR if not rises[-1] and last * FACTOR <= MAX_RATE else None

    @property
    def model_lr(self) -> float:
        """The highest with a similar loss; where none has, the one with the lowest."""
        similar = [rate for rate, loss in self.losses.items() if self.is_similar(loss)]
        finite = [rate for rate, loss in self.losses.items() if math.isfinite(loss)]
        return max(similar) if similar else min(finite, key=lambda r: self.losses[r], default=[*self.losses][-1])

    @property
    def val_loss(self) -> float:
        """After re-training at the rate that is taken."""
        return self.losses[self.model_lr]

    @property
    def is_far_lower(self) -> bool:
        return self.val_loss < FAR_LOWER * self.before

    def describe(self) -> str:
        losses = self.before, self.losses
        return messages.rate(self.model_lr, *losses, fits=self.is_similar(self.val_loss), is_far=self.is_far_lower)

    def to_json(self) -> dict[str, Any]:
        trials = [{"model_lr": rate, "val_loss_after_retraining": finite_or_null(loss)}
                  for rate, loss in self.losses.items()]  # fmt: skip
        before = finite_or_null(self.before)
        return {"model_lr": self.model_lr, "val_loss_after_pretraining": before, "trials": trials}


class Calibrate:
    """Re-training from theta_0 at one rate after the other. One that was left begins anew."""

    name = "calibration"

    def __init__(self, problem: Problem, given: Found):
        self.problem, self.given = problem, given
        self.calibration = Calibration(math.nan, {})

    def run(self) -> Iterator[Standing]:
        phi, search = self.given.phi, self.problem.config.search
        chance, passes = self.problem.make_search(self.given)
        fresh, found = chance.get_state(), Calibration(self.problem.val_loss(passes), {})
        while (rate := found.next_rate(search.model_lr)) is not None:
            rounds = slack.rounds(slack.start(phi, passes.theta), chance, passes, replace(search, model_lr=rate))
            for step, (_, report) in enumerate(islice(rounds, search.n_retrain), 1):
                yield Standing(self.name, 0, step, search.n_retrain, report.train_loss, None, phi)
            found = found._replace(losses=found.losses | {rate: self.problem.val_loss(passes)})
            passes.cold_start()
            chance.set_state(fresh)
        self.calibration = found

    @property
    def found(self) -> Found:
        return self.given._replace(model_lr=self.calibration.model_lr)

    def notice(self) -> Notice:
        found, config = self.calibration, self.problem.config
        said = self.problem.chance_remark(self.given.loss)
        said = said or remark(found, self.problem.val.labels, config.pretrain.epochs, balanced=config.balanced)
        content = found.to_json() | ({"remark": said} if said else {})
        return Notice(FILE, content, [said] * bool(said), [found.describe()])

    def state(self) -> dict[str, Any]:
        return {}

    def set_state(self, saved: dict[str, Any]) -> None:
        """Nothing is kept of one that was left."""


def remark(found: Calibration, labels: Tensor, epochs: int, *, balanced: bool) -> str:
    """What a user must know where pre-training left hardly any validation loss, or too much."""
    if not balanced and found.before < NEAR * guessing_loss(labels):  # else it had other frequencies than validation
        return messages.nearly_right(epochs)
    return messages.too_short(epochs) if found.is_far_lower else ""
