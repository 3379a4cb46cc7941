"""What a search is between two steps, and what a step reports.

Axes: A composites, P parameters of the network, K positions, N transformations.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

from torch import Tensor

from ..augment.apply import Composites
from ..augment.policy import Policy


class State(NamedTuple):
    """All that a search is between two steps, but for the network's buffers and the streams of chance."""

    round: int  # from 0
    step: int  # of the round: steps done
    theta: Tensor  # (P,); the network's parameters are views of it, so it changes in place
    phi: Policy
    anchor: Policy
    theta_momentum: Tensor  # (P,), changes in place
    pi_momentum: Tensor  # (K, N)
    mu_momentum: Tensor  # (N,)

    def tensors(self) -> list[Tensor]:
        """All that steps change, but theta, which is kept with the network."""
        _, _, _, phi, anchor, *momenta = self
        return [phi.pi, phi.mu, anchor.pi, anchor.mu, *momenta]

    def with_tensors(self, values: Sequence[Tensor]) -> Self:
        pi, mu, anchor_pi, anchor_mu, *momenta = values
        phi, anchor = replace(self.phi, pi=pi, mu=mu), replace(self.anchor, pi=anchor_pi, mu=anchor_mu)
        return type(self)(self.round, self.step, self.theta, phi, anchor, *momenta)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain tensors and numbers, to be kept in a file; later steps do not reach into it."""
        values = [value.clone() for value in self.tensors()]
        return {"round": self.round, "step": self.step} | dict(zip(NAMES, values, strict=True))

    @classmethod
    def from_dict(cls, saved: dict[str, Any], phi: Policy, theta: Tensor) -> Self:
        """What `to_dict` described; `phi` supplies the space and all that a search does not change."""
        blank = cls(saved["round"], saved["step"], theta, phi, phi, theta, phi.pi, phi.mu)
        return blank.with_tensors([saved[name].to(theta.device, copy=True) for name in NAMES])  # one changes in place


# Of `State.tensors`, in a file:
NAMES = ("pi", "mu", "anchor_pi", "anchor_mu", "theta_momentum", "pi_momentum", "mu_momentum")


class Report(NamedTuple):
    """What a step saw."""

    train_loss: Tensor  # mean over the composites
    val_loss: Tensor | None  # in unrolled steps
    weight: Tensor | None  # (A,), w_a, in unrolled steps
    tau: Composites  # a captured step overwrites it


Step = Callable[..., tuple[State, Report]]  # of a state, what was drawn, passes and the configuration
