"""Whether the learned policy is kept: the last word is that of a whole training.

Line 10 of Algorithm 1 asks what one step of the network does to the validation loss. What makes a network learn fast in
one step need not make it good in the end: policies may come out weaker than is right for whole trainings. So when the
rounds are over, the network is trained once more as in pre-training, from the same start and with the same draws, but
with the learned policy. It is kept if that does better on validation images than the best pre-training did, with a
uniform policy of any number of transformations (`composing`) or with images as they are. Else what that pre-training
had is the result.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from ..augment.policy import MU_MAX, MU_MIN, Policy
from ..augment.policy_file import MU_START
from ..files import finite_or_null

FILE = "confirmation.json"  # of a run
MARGIN = 0.02  # of the loss, by which it must be lower: of the size of what trainings differ by for their seed alone


class Confirmation(NamedTuple):
    before: float  # the validation loss, at the best temperature, after the best pre-training
    after: float  # and after training with the learned policy
    n_composed: int  # transformations of a composite in that pre-training; 0: images were as they are

    @property
    def file(self) -> str:
        return FILE

    @property
    def is_kept(self) -> bool:
        """False, too, for a loss that is not a number."""
        return self.after < self.before * (1 - MARGIN)

    def describe(self) -> str:
        start = f"the uniform policy of {self.n_composed}" if self.n_composed else "images as they are"
        found = (
            f"validation loss after whole trainings: {self.before:.3f} with {start}, {self.after:.3f} with the learned "
            "policy"
        )
        if self.is_kept:
            return f"{found}; the learned policy is the result"
        result = f"use {start}" if self.n_composed else "leave images as they are"
        return f"{found}, which is not better by {MARGIN:.0%}; {result}"

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


def at_strength(phi: Policy, strength: float = 1.0) -> Policy:
    """The policy, taken a share of its way from uniform, or further: the logits times the strength, and mu likewise."""
    mu = (MU_START + strength * (phi.mu - MU_START)).clamp(MU_MIN, MU_MAX)
    return replace(phi, pi=strength * phi.pi.log_softmax(-1), mu=mu)
