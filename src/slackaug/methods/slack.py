"""SLACK: Algorithm 1 of the paper, and nothing else. The numbers in the comments are its lines.

Chance first, then the move: `draw` settles all that is random about a step, and `take_step` is a function of the state
and of that; only theta and its momentum change in place. Lines 1 and 2, phi's start and pre-training, are in
`auto/stages.py` (`Pretrain`); lines 10 and 11, how phi moves, in `rules.py`.
Axes: A composites, B images of a batch, P parameters of the network, K positions, N transformations.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ..augment.policy import Policy
from ..engine.chance import Chance, Drawn
from ..engine.passes import Passes, clip, clip_each
from ..engine.state import Report, State
from .slack_config import SearchConfig


def start(phi: Policy, theta: Tensor, round_number: int = 0) -> State:
    """The state before the first step of a round: phi is its own anchor, nothing has momentum."""
    phi, zeros = phi.to(theta.device), torch.zeros_like
    return State(round_number, 0, theta, phi, phi, zeros(theta), zeros(phi.pi), zeros(phi.mu))


def rounds(state: State, chance: Chance, passes: Passes, config: SearchConfig) -> Iterator[tuple[State, Report]]:
    """From any state on: yields the state after every step; the phi of the last one is the result."""
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


def draw(state: State, chance: Chance, config: SearchConfig) -> Drawn:
    """All that chance and the schedule decide about the next step, on the CPU."""
    drawn = chance.draw(config.n_composites, len(state.phi.pi), model_lr(state.step, config))
    if state.step < config.n_retrain:
        return drawn
    gone = (state.step + 1 - config.n_retrain) / config.n_unrolled  # share of the way, which grows evenly
    return chance.draw_val(drawn, eta=config.model_lr, spent=gone**2)


def model_lr(step: int, config: SearchConfig) -> float:
    """eta falls to zero over a round by a cosine."""
    return config.model_lr * 0.5 * (1 + math.cos(math.pi * step / config.n_steps))


def take_step(state: State, drawn: Drawn, passes: Passes, config: SearchConfig) -> tuple[State, Report]:
    """One step of a round (7 to 11); phi moves in the last n_unrolled, for which alone chance has drawn val images."""
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
