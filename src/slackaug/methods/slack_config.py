"""What can be set about a search with SLACK; the defaults are the paper's row for CIFAR-10."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from .budget import Budget
from .rules import Rate, Rule


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    n_rounds: Annotated[int, "rounds; the policy of the last one is the result"] = 10
    n_retrain: Annotated[int, "steps of a round in which only the network (theta) moves"] = 1000
    n_unrolled: Annotated[int, "steps of a round in which the policy (phi) moves too"] = 400
    n_composites: Annotated[int, "composites drawn in a step (A), each applied to the same images"] = 8
    batch: Annotated[int, "training images that each of them is applied to (B)"] = 128
    val_batch: Annotated[
        int | None, "validation images of a step in which the policy moves; null: as many as search.batch"
    ] = None
    model_lr: Annotated[
        float, "rate of the network (eta), cosine to zero over a round; with calibrate, the first tried"
    ] = 0.4
    policy_lr: Annotated[float, "rate of the policy (alpha); no effect with kl_budget"] = 1.0
    kl_weight: Annotated[
        float, "pull to a round's first policy (lambda); no effect with kl_budget or without learn_pi"
    ] = 0.02
    kl_budget: Annotated[
        float | None, "nats, per position, that a round moves the policy by; null: it moves at policy_lr"
    ] = None
    calibrate: Annotated[bool, "the rate of the network is found by trials after pre-training, from model_lr on"] = (
        False
    )
    weight_decay: Annotated[float, "weight decay, of all parameters of the network"] = 2e-4
    momentum: Annotated[float, "momentum of the network and, without kl_budget, of the policy"] = 0.9
    clip: Annotated[float | None, "highest norm of each composite's gradient (g_a); null: any"] = 5.0
    val_clip: Annotated[float | None, "highest norm of each tensor of the validation gradient (v); null: any"] = 5.0
    mu_divisor: Annotated[float, "divisor of mu's gradient; no effect with kl_budget or without learn_mu"] = 40.0
    cold_start: Annotated[
        bool, "each round starts from the pre-trained network (theta_0); no effect with one round"
    ] = True
    learn_pi: Annotated[bool, "the probabilities of the transformations (pi) are learned"] = True
    learn_mu: Annotated[bool, "the bounds of their magnitudes (mu) are learned"] = True

    def __post_init__(self) -> None:
        for name in ("n_rounds", "n_unrolled", "n_composites", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"search.{name} must be at least 1, got {getattr(self, name)}")
        if self.val_batch is not None and self.val_batch < 1:
            raise ValueError(f"search.val_batch must be at least 1, or null for search.batch, got {self.val_batch}")
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
        """Steps of one round."""
        return self.n_retrain + self.n_unrolled

    @cached_property
    def rule(self) -> Rule:
        """How phi moves: as published, or by a budget."""
        if self.kl_budget is not None:
            return Budget(
                nats=self.kl_budget, mu_divisor=self.mu_divisor, learn_pi=self.learn_pi, learn_mu=self.learn_mu
            )
        return Rate(
            lr=self.policy_lr,
            kl_weight=self.kl_weight,
            mu_divisor=self.mu_divisor,
            momentum=self.momentum,
            learn_pi=self.learn_pi,
            learn_mu=self.learn_mu,
        )
