"""Whether what was learned is kept: the last word is that of a whole training.

Line 10 of Algorithm 1 asks what one step of the network does to the validation loss. What lets a network learn fast in
one step need not make it good in the end: policies may come out weaker than is right for whole trainings. So when the
rounds are over, the network is trained once more as in pre-training, from the same start and with the same draws, but
with the learned policy. If it does better on validation images than the best pre-training did, with a uniform policy or
with images as they are, the policy is kept; otherwise half of the way to it is tried, and then what that pre-training
had is the result.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from .composing import untouched
from .files import finite_or_null
from .policy import MU_MAX, MU_MIN, MU_START, Policy

FILE = "confirmation.json"  # of a run
STRENGTHS = (1.0, 0.5)  # shares of the way from uniform that are tried, in this order
MARGIN = 0.02  # of the loss, by which it must be lower: of the size of what trainings differ by for their seed alone
WORDS = {1.0: "the learned policy", 0.5: "half of the way to it"}


class Confirmation(NamedTuple):
    before: float  # the validation loss, at the best temperature, after the best pre-training
    losses: dict[float, float]  # and after training with the learned policy, by the share of the way to it
    as_they_are: bool = False  # that pre-training had images as they are, and no uniform policy

    def is_better(self, strength: float) -> bool:
        """False, too, for a loss that is not a number."""
        return self.losses[strength] < self.before * (1 - MARGIN)

    def next_strength(self) -> float | None:
        """What to try next; none when it is settled."""
        if any(map(self.is_better, self.losses)):
            return None
        return next((strength for strength in STRENGTHS if strength not in self.losses), None)

    @property
    def strength(self) -> float:
        """The share of the way that is kept: all, a part or nothing of it."""
        return next(filter(self.is_better, self.losses), 0.0)

    def describe(self) -> str:
        tried = ", ".join(f"{loss:.3f} with {WORDS[strength]}" for strength, loss in self.losses.items())
        start = "images as they are" if self.as_they_are else "the uniform policy"
        found = f"validation loss after whole trainings: {self.before:.3f} with {start}, {tried}"
        if self.strength:
            return f"{found}; {WORDS[self.strength]} is the result"
        result = "to leave images as they are" if self.as_they_are else start
        return f"{found}; what was learned is not better by {MARGIN:.0%}, so that {result} is the result"

    def to_json(self) -> dict[str, Any]:
        """For people."""
        return {
            "kept": self.strength,
            "images_as_they_are": self.as_they_are,
            "val_loss_before": finite_or_null(self.before),
            "trials": [{"share": share, "val_loss": finite_or_null(loss)} for share, loss in self.losses.items()],
            "remark": self.describe(),
        }

    def kept(self, phi: Policy) -> Policy:
        """What is left of a policy."""
        return untouched(phi) if self.as_they_are and not self.strength else at_strength(phi, self.strength)


def at_strength(phi: Policy, strength: float) -> Policy:
    """The policy, taken a share of its way from uniform, or further: the logits times the strength, and mu likewise."""
    mu = (MU_START + strength * (phi.mu - MU_START)).clamp(MU_MIN, MU_MAX)
    return replace(phi, pi=strength * phi.pi.log_softmax(-1), mu=mu)
