"""SLACK: Algorithm 1 of the paper. The numbers in the comments are its lines.

Axes: A composites, B images of a batch, P parameters of the model, K positions, N transformations.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ..augment.apply import Composites
from ..augment.policy import MU_MAX, MU_MIN, Policy
from ..engine import hypergrad
from . import budget


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """The comments are the meanings in docs/reference/settings.md (`make settings`)."""

    n_rounds: int = 10  # rounds; the policy of the last one is the result
    n_retrain: int = 1000  # steps of a round in which only the network (theta) moves
    n_unrolled: int = 400  # steps of a round in which the policy (phi) moves too
    n_composites: int = 8  # composites drawn in a step (A), each applied to the same images
    batch: int = 128  # training images that each of them is applied to (B)
    train_batch: int | None = None  # images to learn from, each under its own composite; null: those under composites
    val_batch: int | None = None  # validation images of a step in which the policy moves; null: as many as search.batch
    model_lr: float = 0.4  # rate of the network (eta), cosine to zero over a round; with calibrate, the first tried
    policy_lr: float = 1.0  # rate of the policy (alpha); no effect with kl_budget
    kl_weight: float = 0.02  # pull to a round's first policy (lambda); no effect with kl_budget or without learn_pi
    kl_budget: float | None = None  # nats, per position, that a round moves the policy by; null: it moves at policy_lr
    calibrate: bool = False  # the rate of the network is found by trials after pre-training, from model_lr on
    weight_decay: float = 2e-4  # weight decay, of all parameters of the network
    momentum: float = 0.9  # momentum of the network and, without kl_budget, of the policy
    clip: float | None = 5.0  # highest norm of each composite's gradient (g_a), and of train_batch's; null: any
    val_clip: float | None = 5.0  # highest norm of each tensor of the validation gradient (v); null: any
    mu_divisor: float = 40.0  # divisor of mu's gradient; no effect with kl_budget or without learn_mu
    cold_start: bool = True  # each round starts from the pre-trained network (theta_0); no effect with one round
    baseline: bool = False  # each reward (w_a) is taken less the mean of the others; no effect with one composite
    tied: bool = False  # all positions of a composite have one pi; no effect without learn_pi
    learn_pi: bool = True  # the probabilities of the transformations (pi) are learned
    learn_mu: bool = True  # the bounds of their magnitudes (mu) are learned

    def __post_init__(self) -> None:
        for name in ("n_rounds", "n_unrolled", "n_composites", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"search.{name} must be at least 1, got {getattr(self, name)}")
        for name, null in (("val_batch", "search.batch"), ("train_batch", "the images under composites")):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"search.{name} must be at least 1, or null for {null}, got {getattr(self, name)}")
        for name in ("n_retrain", "policy_lr", "kl_weight", "weight_decay", "momentum"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"search.{name} must not be negative, got {getattr(self, name)}")
        for name in ("model_lr", "mu_divisor"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"search.{name} must be positive, got {getattr(self, name)}")
        for name in ("clip", "val_clip"):
            if getattr(self, name) is not None and not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"search.{name} must be positive, or null for none, got {getattr(self, name)}")
        if self.kl_budget is not None and not 0 < self.kl_budget < 1:
            raise ValueError(f"search.kl_budget must be between 0 and 1, or null for none, got {self.kl_budget}")
        if not (self.learn_pi or self.learn_mu):
            raise ValueError("search.learn_pi and search.learn_mu are both false: there is nothing to learn")
        if self.calibrate and self.n_retrain == 0:
            raise ValueError(
                "search.n_retrain = 0: no rate of re-training can be found by trial; give one, such as "
                f"search.model_lr={self.model_lr:g}"
            )
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
        """Of one round."""
        return self.n_retrain + self.n_unrolled


class Engine(Protocol):
    """How passes through the model are executed; it owns the model, the data and their random streams."""

    theta: Tensor  # (P,), the model's parameters
    sizes: list[int]  # of the model's tensors in theta

    def train_gradients(self, tau: Composites) -> tuple[Tensor, Tensor]:
        """The next batch of train images under each composite: g (A, P) and losses (A,)."""
        ...

    def train_gradient(self, tau: Composites) -> tuple[Tensor, Tensor]:
        """The next batch of search.train_batch images, each under its own composite of tau: g (P,) and the loss."""
        ...

    def val_gradient(self) -> tuple[Tensor, Tensor]:
        """The next batch of val images as they are: v (P,) and the loss, leaving the batch-norm statistics alone."""
        ...

    def draw(self, phi: Policy, n: int) -> Composites: ...

    def draw_each(self, phi: Policy) -> Composites:
        """One for each image of the next `train_gradient`."""
        ...

    def average(self, gradient: Tensor) -> Tensor:
        """A gradient of phi, averaged over the models of an ensemble; as it is where there is one model."""
        ...

    def cold_start(self) -> None:
        """theta <- theta_0, batch-norm statistics too."""
        ...

    def scheduled(self, name: str, value: float) -> float | Tensor:
        """A number that changes from step to step, or is found by trial, as what can be calculated with."""
        ...

    def execute(self, step: "Step", state: "State", config: SearchConfig) -> "tuple[State, Report]":
        """Take a step with this engine."""
        ...


class State(NamedTuple):
    """All that a search is between two steps, but for the engine's own state."""

    round: int  # from 0
    step: int  # of the round: steps done
    phi: Policy
    anchor: Policy
    theta_momentum: Tensor  # (P,)
    pi_momentum: Tensor  # (K, N); with a budget, the sum of the round's gradients
    mu_momentum: Tensor  # (N,)


class Report(NamedTuple):
    """What a step saw."""

    train_loss: Tensor  # mean over what theta learns from
    val_loss: Tensor | None  # in unrolled steps
    weight: Tensor | None  # (A,), w_a, in unrolled steps
    tau: Composites  # a fast engine keeps it until its next step


Step = Callable[[State, Engine, SearchConfig], tuple[State, Report]]


def start(phi: Policy, engine: Engine) -> State:
    """The state before the first step of a round: phi is its own anchor, nothing has momentum."""
    zeros = torch.zeros_like
    return State(0, 0, phi, phi, zeros(engine.theta), zeros(phi.pi), zeros(phi.mu))


def search(state: State, engine: Engine, config: SearchConfig) -> Iterator[tuple[State, Report]]:
    """Yield the state after every step, from any state on; the last one's phi is the result."""
    while state.round < config.n_rounds:  # 3
        if state.step == 0:
            if config.cold_start:
                engine.cold_start()  # 4
            state = start(state.phi, engine)._replace(round=state.round)  # 5: the anchor is phi; new optimisers
        state, report = engine.execute(take_step, state, config)  # 6
        if state.step == config.n_steps:
            state = state._replace(round=state.round + 1, step=0)
        yield state, report


def take_step(state: State, engine: Engine, config: SearchConfig) -> tuple[State, Report]:
    learns_apart, is_unrolled = config.train_batch is not None, state.step >= config.n_retrain
    if learns_apart:  # from a batch like those of pre-training and evaluation; the composites of 10 are for it alone
        tau = engine.draw_each(state.phi)
        g, loss = engine.train_gradient(tau)  # (P,)
        g = hypergrad.clip(g, config.clip)
    if is_unrolled or not learns_apart:
        tau = engine.draw(state.phi, config.n_composites)
        grad_train, losses = engine.train_gradients(tau)  # (A, P), (A,)
        grad_train = hypergrad.clip(grad_train, config.clip)
    if not learns_apart:
        g, loss = grad_train.mean(0), losses.mean()  # 7
    update_theta(state, engine, config, g)  # 8
    report = Report(loss, None, None, tau)
    state = state._replace(step=state.step + 1)
    if is_unrolled:  # 9
        grad_val, val_loss = engine.val_gradient()
        weight = hypergrad.alignment(hypergrad.clip_each(grad_val, engine.sizes, config.val_clip), grad_train)
        seen = hypergrad.less_the_others(weight) if config.baseline else weight
        eta = engine.scheduled("eta", config.model_lr)
        grad_pi, grad_mu = policy_gradient(state, config, tau, seen, eta)  # 10
        grads = engine.average(grad_pi), engine.average(grad_mu)
        if config.kl_budget is None:
            state = update_phi(state, config, *grads)  # 11
        else:
            state = spend_budget(state, engine.scheduled("kl", kl_allowed(state.step, config)), *grads)
        report = report._replace(val_loss=val_loss, weight=weight)
    return state, report


def model_lr(step: int, config: SearchConfig) -> float:
    """eta falls to zero over a round by a cosine."""
    return config.model_lr * 0.5 * (1 + math.cos(math.pi * step / config.n_steps))


def update_theta(state: State, engine: Engine, config: SearchConfig, g: Tensor) -> None:
    """8: SGD with momentum and weight decay on all parameters, in place."""
    lr = engine.scheduled("lr", model_lr(state.step, config))
    state.theta_momentum.mul_(config.momentum).add_(g).add_(engine.theta, alpha=config.weight_decay)
    engine.theta.sub_(lr * state.theta_momentum)


def policy_gradient(
    state: State, config: SearchConfig, tau: Composites, weight: Tensor, eta: float | Tensor
) -> tuple[Tensor, Tensor]:
    """10: G_phi plus the gradient of the KL term, for pi (K, N) and mu (N,)."""
    phi = replace(state.phi, pi=state.phi.pi.detach().requires_grad_(), mu=state.phi.mu.detach().requires_grad_())
    objective = hypergrad.score_objective(phi.log_prob(tau), weight.to(phi.pi), eta, 1 / config.n_composites)
    if config.kl_budget is None:
        objective = objective + config.kl_weight * phi.kl(state.anchor)
    grad_pi, grad_mu = torch.autograd.grad(objective, (phi.pi, phi.mu))
    if config.tied:
        grad_pi = grad_pi.mean(0).expand_as(grad_pi)
    return grad_pi * config.learn_pi, grad_mu * config.learn_mu / config.mu_divisor


def update_phi(state: State, config: SearchConfig, grad_pi: Tensor, grad_mu: Tensor) -> State:
    """11: SGD with momentum; mu stays in its range."""
    pi_momentum = config.momentum * state.pi_momentum + grad_pi
    mu_momentum = config.momentum * state.mu_momentum + grad_mu
    pi = state.phi.pi - config.policy_lr * pi_momentum
    mu = (state.phi.mu - config.policy_lr * mu_momentum).clamp(MU_MIN, MU_MAX)
    return state._replace(phi=replace(state.phi, pi=pi, mu=mu), pi_momentum=pi_momentum, mu_momentum=mu_momentum)


def kl_allowed(step: int, config: SearchConfig) -> float:
    assert config.kl_budget is not None
    return budget.allowed(config.kl_budget, step - config.n_retrain, config.n_unrolled)


def spend_budget(state: State, kl: float | Tensor, grad_pi: Tensor, grad_mu: Tensor) -> State:
    """11, without a rate: along the sum of the round's gradients."""
    pi_sum, mu_sum = state.pi_momentum + grad_pi, state.mu_momentum + grad_mu
    phi = budget.move(state.anchor, pi_sum, mu_sum, kl)
    return state._replace(phi=phi, pi_momentum=pi_sum, mu_momentum=mu_sum)


def to_tensors(state: State) -> dict[str, Any]:
    """The state as plain tensors and numbers, to be kept in a file."""
    phi, anchor = state.phi, state.anchor
    return {
        "round": state.round,
        "step": state.step,
        "pi": phi.pi,
        "mu": phi.mu,
        "anchor_pi": anchor.pi,
        "anchor_mu": anchor.mu,
        "theta_momentum": state.theta_momentum.clone(),  # the next step changes it in place
        "pi_momentum": state.pi_momentum,
        "mu_momentum": state.mu_momentum,
    }


def from_tensors(saved: dict[str, Any], phi: Policy) -> State:
    """The state that `to_tensors` described; `phi` supplies the space and all that a search does not change."""
    return State(
        saved["round"],
        saved["step"],
        replace(phi, pi=saved["pi"], mu=saved["mu"]),
        replace(phi, pi=saved["anchor_pi"], mu=saved["anchor_mu"]),
        saved["theta_momentum"].clone(),
        saved["pi_momentum"],
        saved["mu_momentum"],
    )
