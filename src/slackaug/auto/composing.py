"""How many transformations a composite has (K), found by trial.

The paper composes three for every dataset. How much augmentation is right depends on the data, the network and the
length of the training. So the network is pre-trained with several numbers, each from the same start and with a uniform
policy, and compared on validation images: that is how the paper chooses the preparation of images. None at all is a
number, too: in short trainings images as they are may be best.

Rounds start from the best number, or from a given one where that is more: what large networks learn best is what to
have less of, and with one or two there is little to take from (research/notebook.md). What rounds learn has to do
better than the best number does (`confirm`).
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..config.run_config import N_COMPOSED
from ..files import finite_or_null

FILE = "composing.json"  # of a run
LADDER = (0, 1, 2, 3, 5, 8)  # numbers that are tried: the paper's first, then downwards, and upwards if that is worse
N_USUAL = 4  # trials at most, for estimates of time
N_HALVINGS = 40
SCALES = (-5.0, 5.0)  # logarithms between which the best scale of logits is looked for


class Composing(NamedTuple):
    losses: dict[int, float]  # by K: of validation images after pre-training, at the best temperature
    least: int = 0  # that can be tried: 1 where none is no choice
    fewest: int = 1  # that rounds can start from

    @property
    def file(self) -> str:
        return FILE

    def next_number(self) -> int | None:
        """What to try next: one step away from the best, down and then up; none when both of its sides are worse."""
        if not self.losses:
            return N_COMPOSED
        at = LADDER.index(self.best)
        sides = [LADDER[i] for i in (at - 1, at + 1) if 0 <= i < len(LADDER)]
        return next((number for number in sides if number >= self.least and number not in self.losses), None)

    @property
    def best(self) -> int:
        """The lowest loss; of equals the smaller number. A loss that is not a number is the highest."""
        return min(sorted(self.losses), key=lambda k: math.inf if math.isnan(self.losses[k]) else self.losses[k])

    @property
    def n_positions(self) -> int:
        """What rounds start from; where a training with that many has diverged, the best of the others."""
        start = max(self.best, self.fewest)
        return start if math.isfinite(self.losses[start]) else max(self.best, 1)

    def describe(self) -> str:
        found = ", ".join(f"{self.losses[number]:.3f} with {number or 'none'}" for number in sorted(self.losses))
        best = f"{self.best or 'none'} {'do' if self.best > 1 else 'does'}"
        text = f"transformations in a composite: {best} best (validation loss after pre-training: {found})"
        return text if self.n_positions == self.best else f"{text}; rounds start from {self.n_positions}"

    def to_json(self) -> dict[str, Any]:
        """For people."""
        trials = [
            {"n_composed": number, "val_loss_after_pretraining": finite_or_null(loss)}
            for number, loss in sorted(self.losses.items())
        ]
        return {"n_composed": self.best, "n_positions": self.n_positions, "trials": trials}


def tempered_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of logits (B, C) at the scale that suits these labels (B,) best.

    How sure a network is goes with how much augmentation it had. That changes the loss, but no answer, so that the
    plain loss would choose by it.
    """
    logits = logits.double()
    right = logits.gather(1, labels[:, None]).squeeze(1)
    low, high = logits.new_tensor(SCALES)
    for _ in range(N_HALVINGS):  # the loss is convex in the scale
        middle = (low + high) / 2
        probabilities = (middle.exp() * logits).softmax(1)
        is_above = ((probabilities * logits).sum(1) - right).mean() > 0  # the derivative by the scale
        low, high = torch.where(is_above, low, middle), torch.where(is_above, middle, high)
    return cross_entropy(low.exp() * logits, labels)
