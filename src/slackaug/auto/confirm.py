"""Whether the learned policy is kept: the last word is that of a whole training.

Line 10 of Algorithm 1 asks what one step of the network does to the validation loss. What makes a network learn fast in
one step need not make it good in the end: policies may come out weaker than is right for whole trainings. So when the
rounds are over, the network is trained once more as in pre-training, from the same start and with the same draws, but
with the learned policy. It is kept if that does better on validation images than the best pre-training did, with a
uniform policy of any number of transformations (`pretrain`) or with images as they are. Else what that pre-training
had is the result.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from ..augment.policy import MU_MAX, MU_MIN, Policy
from ..augment.policy_file import MU_START
from ..files import finite_or_null
from ..messages import search as messages
from ..runs.progress import Standing
from .problem import Found, Notice, Problem, train

FILE = "confirmation.json"  # of a run
MARGIN = 0.02  # of the loss, by which it must be lower: of the size of what trainings differ by for their seed alone


class Confirmation(NamedTuple):
    before: float  # the validation loss, at the best temperature, after the best pre-training
    after: float  # and after training with the learned policy
    n_composed: int  # transformations of a composite in that pre-training; 0: images were as they are

    @property
    def is_kept(self) -> bool:
        """False, too, for a loss that is not a number."""
        return self.after < self.before * (1 - MARGIN)

    def describe(self) -> str:
        losses = self.before, self.after
        return messages.confirmation(*losses, self.n_composed, is_kept=self.is_kept, margin=MARGIN)

    def to_json(self) -> dict[str, Any]:
        return {
            "is_kept": self.is_kept,
            "n_composed_before": self.n_composed,
            "val_loss_before": finite_or_null(self.before),
            "val_loss": finite_or_null(self.after),
            "remark": self.describe(),
        }

    def kept(self, phi: Policy) -> Policy:
        """What is left of a policy."""
        return at_strength(phi) if self.is_kept else phi.with_composed(self.n_composed)


class Confirm:
    """A whole training with the learned policy, from the start of pre-training and with its draws."""

    name = "confirmation"

    def __init__(self, problem: Problem, given: Found):
        self.problem, self.given, self.learned = problem, given, at_strength(given.phi)
        self.fit = problem.make_fit(self.learned, given.first)
        self.confirmation = Confirmation(given.loss, math.nan, given.n_composed)

    def run(self) -> Iterator[Standing]:
        yield from train(self.name, self.fit, self.learned)
        self.confirmation = self.confirmation._replace(after=self.problem.tempered_loss(self.fit))

    @property
    def found(self) -> Found:
        kept = self.confirmation.kept(self.given.phi)
        return self.given._replace(phi=replace(kept, learned={"is_kept": self.confirmation.is_kept}))

    def notice(self) -> Notice:
        return Notice(FILE, self.confirmation.to_json(), [self.confirmation.describe()])

    def state(self) -> dict[str, Any]:
        return {"fit": self.fit.get_state()}

    def set_state(self, saved: dict[str, Any]) -> None:
        self.fit.set_state(saved["fit"])


def at_strength(phi: Policy, strength: float = 1.0) -> Policy:
    """The policy, taken a share of its way from uniform, or further: the logits times the strength, and mu likewise."""
    mu = (MU_START + strength * (phi.mu - MU_START)).clamp(MU_MIN, MU_MAX)
    return replace(phi, pi=strength * phi.pi.log_softmax(-1), mu=mu)
