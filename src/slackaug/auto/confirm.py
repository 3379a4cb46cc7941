"""Whether what was learned is kept: the last word is that of a whole training.

Line 10 of Algorithm 1 asks what one step of the network does to the validation loss. What lets a network learn fast in
one step need not make it good in the end: policies may come out weaker than is right for whole trainings. So when the
rounds are over, the network is trained once more as in pre-training, from the same start and with the same draws, but
with the learned policy. If it does better on validation images than the best pre-training did, with a uniform policy of
any number of transformations (`composing`) or with images as they are, the policy is kept. If not, and rounds started
from that best one, half of the way from there is tried. Else what that pre-training had is the result.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from ..augment.policy import MU_MAX, MU_MIN, Policy
from ..augment.policy_file import MU_START
from ..files import finite_or_null

FILE = "confirmation.json"  # of a run
STRENGTHS = (1.0, 0.5)  # shares of the way from uniform that are tried, in this order
MARGIN = 0.02  # of the loss, by which it must be lower: of the size of what trainings differ by for their seed alone
WORDS = {1.0: "the learned policy", 0.5: "half of the way to it"}


class Confirmation(NamedTuple):
    before: float  # the validation loss, at the best temperature, after the best pre-training
    losses: dict[float, float]  # and after training with the learned policy, by the share of the way to it
    n_composed: int  # transformations of a composite in that pre-training; 0: images were as they are
    n_positions: int  # transformations of a composite that rounds have started from

    def is_better(self, strength: float) -> bool:
        """False, too, for a loss that is not a number."""
        return self.losses[strength] < self.before * (1 - MARGIN)

    def next_strength(self) -> float | None:
        """What to try next; none when it is settled."""
        if any(map(self.is_better, self.losses)):
            return None
        leads_back = self.n_composed == self.n_positions  # to what did best, and not to what is known to be worse
        strengths = STRENGTHS if leads_back else STRENGTHS[:1]
        return next((strength for strength in strengths if strength not in self.losses), None)

    @property
    def strength(self) -> float:
        """The share of the way that is kept: all, a part or nothing of it."""
        return next(filter(self.is_better, self.losses), 0.0)

    def describe(self) -> str:
        tried = ", ".join(f"{loss:.3f} with {WORDS[strength]}" for strength, loss in self.losses.items())
        start = f"the uniform policy of {self.n_composed}" if self.n_composed else "images as they are"
        found = f"validation loss after whole trainings: {self.before:.3f} with {start}, {tried}"
        if self.strength:
            return f"{found}; {WORDS[self.strength]} is the result"
        result = start if self.n_composed else "to leave images as they are"
        return f"{found}; what was learned is not better by {MARGIN:.0%}, so that {result} is the result"

    def to_json(self) -> dict[str, Any]:
        """For people."""
        return {
            "kept": self.strength,
            "n_composed_before": self.n_composed,
            "val_loss_before": finite_or_null(self.before),
            "trials": [{"share": share, "val_loss": finite_or_null(loss)} for share, loss in self.losses.items()],
            "remark": self.describe(),
        }

    def to_dict(self) -> dict[str, Any]:
        return self._asdict() | {"losses": [list(item) for item in self.losses.items()]}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "Confirmation":
        return cls(**saved | {"losses": dict(saved["losses"])})

    def kept(self, phi: Policy) -> Policy:
        """What is left of a policy."""
        return at_strength(phi, self.strength) if self.strength else phi.with_composed(self.n_composed)


def at_strength(phi: Policy, strength: float) -> Policy:
    """The policy, taken a share of its way from uniform, or further: the logits times the strength, and mu likewise."""
    mu = (MU_START + strength * (phi.mu - MU_START)).clamp(MU_MIN, MU_MAX)
    return replace(phi, pi=strength * phi.pi.log_softmax(-1), mu=mu)
