"""Pre-training, and how many transformations a composite has (K), found by trial.

The paper composes three for every dataset. How much augmentation is right depends on the data, the network and the
length of the training. So the network is pre-trained with several numbers, each from the same start and with a uniform
policy, and compared on validation images: that is how the paper chooses the preparation of images. None at all is a
number, too: in short trainings images as they are may be best.

Rounds start from the best number, or from a given one if it is larger: what large networks learn best is what to
have less of, and with one or two there is little to take from (research/notebook.md).
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..config.run_config import N_COMPOSED
from ..engine import ways
from ..engine.fit import Diverged, Fit, Fits
from ..files import finite_or_null
from ..messages import search as messages
from ..runs.progress import Standing
from .problem import Found, Notice, Problem, Weights, train, weights_of

FILE = "composing.json"  # of a run
N_AT_ONCE = 4  # trainings on a GPU: those that are asked for most often
LADDER = (0, 1, 2, 3, 5, 8)  # numbers that are tried: the paper's first, then downwards, and upwards if that is worse


class Composing(NamedTuple):
    """The numbers that were tried."""

    losses: dict[int, float]  # by K: `Problem.tempered_loss` after pre-training
    ladder: tuple[int, ...] = LADDER  # what can be tried: a given number alone, or without none if it is no choice
    fewest: int = 1  # that rounds can start from

    def next_number(self) -> int | None:
        """What to try next: one step away from the best, down and then up; none when both of its sides are worse."""
        if not self.losses:
            return N_COMPOSED if N_COMPOSED in self.ladder else self.ladder[0]
        at = self.ladder.index(self.best)
        sides = [self.ladder[i] for i in (at - 1, at + 1) if 0 <= i < len(self.ladder)]
        return next((number for number in sides if number not in self.losses), None)

    def next_numbers(self, n: int) -> list[int]:
        """The next, and the likeliest after it, nearest first: n in all."""
        if (first := self.next_number()) is None:
            return []
        at = self.ladder.index(first)
        left = [number for number in self.ladder if number not in self.losses]
        return sorted(left, key=lambda number: abs(self.ladder.index(number) - at))[:n]

    @property
    def best(self) -> int:
        """The lowest loss; of equals the smaller number. A loss that is not a number is the highest."""
        return min(sorted(self.losses), key=lambda k: math.inf if math.isnan(self.losses[k]) else self.losses[k])

    @property
    def n_positions(self) -> int:
        """What rounds start from; where a training with that many has diverged, the best of the others."""
        start = max(self.best, self.fewest)
        return start if math.isfinite(self.losses[start]) else max(self.best, 1)

    def to_json(self) -> dict[str, Any]:
        trials = [
            {"n_composed": number, "val_loss_after_pretraining": finite_or_null(loss)}
            for number, loss in sorted(self.losses.items())
        ]
        return {"n_composed": self.best, "n_positions": self.n_positions, "trials": trials}


def n_at_once(problem: Problem) -> int:
    """Trainings: side by side they take less time on a GPU, and as much elsewhere."""
    is_alone = not (problem.train.labels.is_cuda and problem.compares_trainings) or problem.config.n_ranks > 1
    return 1 if is_alone else N_AT_ONCE


class Pretrain:
    """Lines 1 and 2: phi is uniform, and theta_0 is trained with it, once for each number of transformations tried."""

    name = "pre-training"

    def __init__(self, problem: Problem, given: Found):
        self.problem, self.given = problem, given
        self.composing = Composing({}, (given.n_composed,))
        if problem.config.n_composed is None:
            ladder = LADDER if given.phi.can_compose_none else LADDER[1:]
            self.composing = Composing({}, ladder, problem.config.fewest_composed)
        self.theta_0: Weights = {}  # after the training that rounds would start from so far
        self.n_at_once = n_at_once(problem)
        self.begin(self.composing.next_numbers(self.n_at_once))

    def begin(self, numbers: Sequence[int]) -> None:
        """Trainings with so many: from the same start as all others, and with the same draws."""
        mu = self.problem.config.mu_start
        phis = [self.given.phi.with_composed(number, mu) for number in numbers]  # 1
        self.numbers, self.fits = numbers, self.problem.make_fits(phis, self.given.first)
        self.team = Fits(self.fits)

    def run(self) -> Iterator[Standing]:
        numbers = self.numbers
        while numbers:
            for members, team in ways.side_by_side("pretrain", self.fits):
                self.team = team
                for i, fit in zip(members, team.fits, strict=True):
                    self.fits[i] = fit
                yield from train(self.name, team)  # 2
            self.compare(dict(zip(numbers, self.fits, strict=True)))
            if numbers := self.composing.next_numbers(self.n_at_once):
                self.begin(numbers)
        if len(self.composing.ladder) > 1 and not math.isfinite(self.composing.losses[self.composing.n_positions]):
            raise Diverged(
                "the model is no longer a number after pre-training, however many transformations are composed; try a "
                f"lower rate, from the start: --overwrite --set pretrain.lr={self.problem.config.pretrain.lr / 4:g}"
            )

    def compare(self, trained: dict[int, Fit]) -> None:
        """Number after number, as if each had been trained only when it was asked for."""
        while (number := self.composing.next_number()) in trained:
            fit = trained[number]
            loss = self.problem.tempered_loss(fit)
            self.composing = self.composing._replace(losses=self.composing.losses | {number: loss})
            if self.composing.n_positions == number:
                self.theta_0 = weights_of(fit.model)

    @property
    def found(self) -> Found:
        best, mu = self.composing.best, self.problem.config.mu_start
        phi = self.given.phi.with_composed(self.composing.n_positions, mu)
        return self.given._replace(phi=phi, theta_0=self.theta_0, loss=self.composing.losses[best], n_composed=best)

    def notice(self) -> Notice:
        found, config = self.composing, self.problem.config
        is_left_to_calibration = config.search.calibrate  # whose file keeps the remark
        remark = "" if is_left_to_calibration else self.problem.chance_remark(found.losses[found.best])
        said = [remark] if remark else []
        if config.n_composed is not None:
            return Notice(None, {}, said, [])
        said = [*messages.best_number([*found.losses], found.best, config.pretrain.epochs), *said]
        return Notice(FILE, found.to_json(), said, [messages.composing(found.losses, found.n_positions)])

    def state(self) -> dict[str, Any]:
        self.team.settle()
        losses = [list(item) for item in self.composing.losses.items()]
        fits = [fit.get_state() for fit in self.fits]
        return {"losses": losses, "numbers": self.numbers, "fits": fits} | (
            {"theta_0": self.theta_0} if self.theta_0 else {}
        )

    def set_state(self, saved: dict[str, Any]) -> None:
        self.composing = self.composing._replace(losses=dict(saved["losses"]))
        self.theta_0 = saved.get("theta_0", {})
        self.begin(saved["numbers"])
        for fit, state in zip(self.fits, saved["fits"], strict=True):
            fit.set_state(state)
