"""SLACK: Algorithm 1 of the paper, and nothing else. The numbers in the comments are its lines.

Chance first, then the move: `draw` settles all that is random about a step, and `take_step` is a function of the state
and of that; theta, its momentum and the network's buffers alone change in place. Lines 1 and 2, phi's start and
pre-training, are in `auto/pretrain.py` (`Pretrain`).
Axes: A augmentations (composites), B images of a batch, P parameters of the network, K positions, N transformations.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Protocol

import torch
from torch import Tensor

from ..augment.apply import Composites
from ..augment.policy import MU_MAX, MU_MIN, Policy
from ..engine.chance import Chance, Drawn
from ..engine.passes import Average, Passes, clip, clip_each
from ..engine.state import Report, State
from ..schema import check_bounds


class Rule(Protocol):
    """How phi moves: lines 10 and 11."""

    def move(self, state: State, tau: Composites, weight: Tensor, drawn: Drawn, average: Average) -> State:
        """The state with another phi, by the weights w_a (A,); `average` is over the models of an ensemble."""


@dataclass(frozen=True, kw_only=True)
class SlackConfig:
    """The settings of Algorithm 1; the defaults are the paper's row for CIFAR-10."""

    n_rounds: Annotated[int, "rounds; the policy of the last one is the result"] = 10
    n_retrain: Annotated[int, "steps of a round in which only the network (theta) moves"] = 1000
    n_unrolled: Annotated[int, "steps of a round in which the policy (phi) moves too"] = 400
    n_composites: Annotated[int, "composites drawn in a step (A), each applied to the same images"] = 8
    batch: Annotated[int, "training images that each of them is applied to (B)"] = 128
    val_batch: Annotated[int | None, "validation images of a step in which the policy moves; null: as batch"] = None
    model_lr: Annotated[
        float, "rate of the network (eta), cosine to zero over a round; with calibrate, the first tried"
    ] = 0.4
    policy_lr: Annotated[float, "rate of the policy (alpha); no effect with kl_budget"] = 1.0
    kl_weight: Annotated[
        float, "pull to a round's first policy (lambda); no effect with kl_budget or without learn_pi"
    ] = 0.02
    weight_decay: Annotated[float, "weight decay, of all parameters of the network"] = 2e-4
    momentum: Annotated[float, "momentum of the network and, without kl_budget, of the policy"] = 0.9
    clip: Annotated[float | None, "highest norm of each composite's gradient (g_a); null: any"] = 5.0
    val_clip: Annotated[float | None, "highest norm of each tensor of the validation gradient (v); null: any"] = 5.0
    mu_divisor: Annotated[float, "divisor of mu's gradient; no effect with kl_budget or without learn_mu"] = 40.0
    cold_start: Annotated[bool, "rounds start from the pre-trained network (theta_0); no effect with one round"] = True
    learn_pi: Annotated[bool, "the probabilities of the transformations (pi) are learned"] = True
    learn_mu: Annotated[bool, "the bounds of their magnitudes (mu) are learned"] = True

    def __post_init__(self) -> None:
        check_bounds(
            self,
            "search.",
            at_least_1=("n_rounds", "n_unrolled", "n_composites", "batch", "val_batch"),
            not_negative=("n_retrain", "policy_lr", "kl_weight", "weight_decay", "momentum"),
            positive=("model_lr", "mu_divisor", "clip", "val_clip"),
        )
        if not (self.learn_pi or self.learn_mu):
            raise ValueError("search.learn_pi and search.learn_mu are both false: there is nothing to learn")
        if self.cold_start and self.n_retrain == 0 and self.n_rounds > 1:
            raise ValueError(
                "search.n_retrain = 0 with a cold start and more than one round: theta would never be re-trained with "
                "the policy; set search.n_retrain, or search.cold_start=false, or search.n_rounds=1"
            )

    @property
    def n_val(self) -> int:
        """Images of v."""
        return self.val_batch or self.batch

    @property
    def n_steps(self) -> int:
        """Steps of one round."""
        return self.n_retrain + self.n_unrolled

    @property
    def divisors(self) -> tuple[float, float]:
        """Of the gradients of pi and of mu; infinite for what is not learned."""
        return 1.0 if self.learn_pi else math.inf, self.mu_divisor if self.learn_mu else math.inf

    @property
    def rule(self) -> Rule:
        return Rate(self.policy_lr, self.kl_weight, self.momentum, self.divisors)


def start(phi: Policy, theta: Tensor, round_number: int = 0) -> State:
    """The state before the first step of a round: phi is its own anchor, nothing has momentum."""
    phi, zeros = phi.to(theta.device), torch.zeros_like
    return State(round_number, 0, theta, phi, phi, zeros(theta), zeros(phi.pi), zeros(phi.mu))


def rounds(state: State, chance: Chance, passes: Passes, config: SlackConfig) -> Iterator[tuple[State, Report]]:
    """Yield the state after every step, from any state on; the phi of the last one is the result."""
    step = passes.as_captured(take_step)
    while state.round < config.n_rounds:  # 3
        if state.step == 0:
            if config.cold_start:
                passes.cold_start()  # 4
            state = start(state.phi, passes.theta, state.round)  # 5: and new optimisers
        drawn = draw(state, chance, config)
        state, report = step(state, passes.send(drawn), passes, config)  # 6
        if state.step == config.n_steps:
            state = state._replace(round=state.round + 1, step=0)
        yield state, report


def draw(state: State, chance: Chance, config: SlackConfig) -> Drawn:
    """All that chance and the schedule decide about the next step, on the CPU."""
    drawn = chance.draw(config.n_composites, len(state.phi.pi), model_lr(state.step, config))
    if state.step < config.n_retrain:
        return drawn
    return chance.draw_val(drawn, eta=config.model_lr, done=(state.step + 1 - config.n_retrain) / config.n_unrolled)


def model_lr(step: int, config: SlackConfig) -> float:
    """eta falls to zero over a round by a cosine."""
    return config.model_lr * 0.5 * (1 + math.cos(math.pi * step / config.n_steps))


def take_step(state: State, drawn: Drawn, passes: Passes, config: SlackConfig) -> tuple[State, Report]:
    """One step of a round (7 to 11); in the last n_unrolled, for which val images were drawn, phi moves, too."""
    tau = state.phi.transport(drawn.uniform, drawn.normal)  # 7: tau_1 .. tau_A ~ p_phi
    grad_train, losses = passes.train_gradients(tau, drawn)  # (A, P), (A,)
    grad_train = clip(grad_train, config.clip)
    state.theta_momentum.mul_(config.momentum).add_(grad_train.mean(0))  # 8: SGD, with weight decay on all of theta
    state.theta_momentum.add_(state.theta, alpha=config.weight_decay)
    state.theta.sub_(drawn.lr * state.theta_momentum)
    state = state._replace(step=state.step + 1)
    if drawn.val_batch is None:  # 9: j <= n_retrain (see `draw`)
        return state, Report(losses.mean(), None, None, tau)
    grad_val, val_loss = passes.val_gradient(drawn)  # 10: at the new theta
    weight = grad_train @ clip_each(grad_val, passes.sizes, config.val_clip)  # w_a = <v, g_a>: (A, P) @ (P,) -> (A,)
    return config.rule.move(state, tau, weight, drawn, passes.average), Report(losses.mean(), val_loss, weight, tau)


def phi_gradient(
    state: State, tau: Composites, weight: Tensor, drawn: Drawn, divisors: tuple[float, float], kl_weight: float = 0.0
) -> tuple[Tensor, Tensor]:
    """For pi and mu, G_phi (10; Sec. 3.3) and lambda times the gradient of the KL divergence from the anchor (11)."""
    assert drawn.eta is not None
    phi = state.phi.differentiable()
    log_prob = phi.log_prob(tau)  # (A,)
    objective = -drawn.eta * (1 / len(weight) * weight.to(log_prob) * log_prob).sum() + kl_weight * phi.kl(state.anchor)
    grad_pi, grad_mu = torch.autograd.grad(objective, (phi.pi, phi.mu))
    return grad_pi / divisors[0], grad_mu / divisors[1]


@dataclass(frozen=True)
class Rate:
    """The published rule: SGD with momentum on G_phi and on the gradient of a KL divergence from the anchor."""

    lr: float  # alpha
    kl_weight: float  # lambda
    momentum: float
    divisors: tuple[float, float]

    def move(self, state: State, tau: Composites, weight: Tensor, drawn: Drawn, average: Average) -> State:
        grad_pi, grad_mu = phi_gradient(state, tau, weight, drawn, self.divisors, self.kl_weight)
        pi_momentum = self.momentum * state.pi_momentum + average(grad_pi)  # 11
        mu_momentum = self.momentum * state.mu_momentum + average(grad_mu)
        pi = state.phi.pi - self.lr * pi_momentum
        mu = (state.phi.mu - self.lr * mu_momentum).clamp(MU_MIN, MU_MAX)
        return state._replace(phi=replace(state.phi, pi=pi, mu=mu), pi_momentum=pi_momentum, mu_momentum=mu_momentum)
