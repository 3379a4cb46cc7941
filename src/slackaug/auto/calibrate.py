"""The rate of re-training, found by trial.

The paper's first criterion for its settings: "the validation loss after re-training should be similar (experimentally,
slightly lower) to the one obtained after pre-training". The higher the rate, the further theta follows the policy; the
highest that meets the criterion is taken. Rates are tried in factors of two.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .. import rng
from ..data import Split
from ..engine.passes import Normalise, drawing_from, unchanged_buffers
from ..files import finite_or_null

FILE = "calibration.json"  # of a run
FACTOR = 2.0
TOLERANCE = 0.05  # of the loss, above which it is no longer similar
FAR_LOWER = 0.5  # of the loss, below which re-training has done what pre-training should have
MAX_RATE = 0.8  # twice the paper's highest
N_LOWER = 5  # trials below the first
N_USUAL = 3  # trials, for estimates of time
NEAR = 0.05  # of the loss of guessing: as near to it, the classes are not learned; as near to none, all of them are
N_IMAGES = 4096  # at most, for a validation loss


class RateTrial(NamedTuple):
    model_lr: float
    val_loss: float  # after re-training from theta_0


class Calibration(NamedTuple):
    before: float  # the validation loss after pre-training
    trials: tuple[RateTrial, ...]
    remark: str | None = None  # what a user must know of it

    @property
    def file(self) -> str:
        return FILE

    def with_trial(self, model_lr: float, val_loss: float) -> "Calibration":
        return self._replace(trials=(*self.trials, RateTrial(model_lr, val_loss)))

    def is_similar(self, trial: RateTrial) -> bool:
        """False, too, for a loss that is not a number."""
        return trial.val_loss <= self.before * (1 + TOLERANCE)

    def next_rate(self, first: float) -> float | None:
        """What to try next: upwards until the loss rises, or downwards until it does not; none when it is settled."""
        if not self.trials:
            return first
        last = self.trials[-1]
        rises = [not self.is_similar(trial) for trial in self.trials]
        if rises[0]:
            return last.model_lr / FACTOR if rises[-1] and len(self.trials) <= N_LOWER else None
        return last.model_lr * FACTOR if not rises[-1] and last.model_lr * FACTOR <= MAX_RATE else None

    @property
    def model_lr(self) -> float:
        """The highest with a similar loss; where none has, the one with the lowest."""
        similar = [trial.model_lr for trial in self.trials if self.is_similar(trial)]
        if similar:
            return max(similar)
        finite = [trial for trial in self.trials if math.isfinite(trial.val_loss)]
        return min(finite, key=lambda trial: trial.val_loss).model_lr if finite else self.trials[-1].model_lr

    @property
    def val_loss(self) -> float:
        """After re-training at the rate that is taken."""
        return next(trial.val_loss for trial in self.trials if trial.model_lr == self.model_lr)

    @property
    def is_far_lower(self) -> bool:
        return self.val_loss < FAR_LOWER * self.before

    def describe(self) -> str:
        tried = ", ".join(f"{trial.model_lr:g}: {trial.val_loss:.3f}" for trial in self.trials)
        found = f"re-training at rate {self.model_lr:g}"
        where = f"where pre-training left it, {self.before:.3f} ({tried})"
        if self.is_far_lower:
            return f"{found}: the highest tried that does not raise the validation loss; it is far lower than {where}"
        if any(map(self.is_similar, self.trials)):
            return f"{found}: the highest tried that leaves the validation loss about {where}"
        return f"{found}, which comes nearest: none tried leaves the validation loss about {where}"

    def to_json(self) -> dict[str, Any]:
        """For a file that people read; a loss that is not a number is null."""
        trials = [(rate, finite_or_null(loss)) for rate, loss in self.trials]
        return {
            "model_lr": self.model_lr,
            "val_loss_after_pretraining": finite_or_null(self.before),
            "trials": [{"model_lr": rate, "val_loss_after_retraining": loss} for rate, loss in trials],
        } | ({} if self.remark is None else {"remark": self.remark})

    def to_dict(self) -> dict[str, Any]:
        return self._asdict() | {"trials": [list(trial) for trial in self.trials]}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "Calibration":
        return cls(**saved | {"trials": tuple(RateTrial(*trial) for trial in saved["trials"])})


def guessing_loss(labels: Tensor) -> float:
    """Of a network that knows how frequent the classes of these labels are, and nothing else."""
    return float(torch.special.entr(labels.bincount() / len(labels)).sum())


def remark(before: float, labels: Tensor, epochs: int, n_composed: int) -> str | None:
    """What a user must know where pre-training left the validation loss of guessing, or hardly any loss.

    A loss above that of guessing is confidence.
    """
    guessing = guessing_loss(labels)
    left = (
        f"pre-training for {n_epochs(epochs)}, {n_composed} composed, left a validation loss of {before:.3f}, and "
        f"guessing has {guessing:.3f}"
    )
    if abs(before - guessing) < NEAR * guessing:
        return (
            f"{left}: the network has hardly learned these classes, so that the policy would be chance; try "
            f"--set pretrain.epochs={4 * epochs}, another --preset or another --model"
        )
    if before < NEAR * guessing:
        return (
            f"{left}: nearly every image is right already, so that augmentation has little to gain here and the policy "
            "may be chance; slackaug evaluate with --baselines none,uniform says whether it is worth anything"
        )
    return None


def too_short(found: Calibration, epochs: int) -> str | None:
    """What a user must know where re-training has gone on with what pre-training had not finished."""
    if not found.is_far_lower:
        return None
    return (
        f"re-training lowered the validation loss from {found.before:.3f} to {found.val_loss:.3f}, so pre-training for "
        f"{n_epochs(epochs)} was short; try --set pretrain.epochs={4 * epochs}"
    )


def n_epochs(epochs: int) -> str:
    return f"{epochs} epoch{'s' * (epochs != 1)}"


@torch.no_grad()
def val_loss(model: nn.Module, normalise: Normalise, val: Split, batch: int, seed: int) -> Tensor:
    """Of val images as they are, in train mode, as the search sees it; leaves no trace."""
    model.train()
    total, n = torch.zeros((), device=val.labels.device), 0
    with unchanged_buffers(model), drawing_from(rng.generator(seed, "validation loss")):
        for index in mixed_batches(len(val.labels), batch, seed):
            images, labels = val.take(index.to(val.labels.device))
            logits = model(normalise(images))
            total += cross_entropy(logits.float(), labels, reduction="sum")
            n += len(labels)
    return total / n


def mixed(n: int, seed: int) -> Tensor:
    """Indices below n in random order, as many as count."""
    return torch.randperm(n, generator=rng.generator(seed, "validation batches"))[:N_IMAGES]


def mixed_batches(n: int, batch: int, seed: int) -> tuple[Tensor, ...]:
    """Indices below n, as many as count; of equal size and in random order, since each batch has its own batch-norm
    statistics: folders come class by class, and a batch of one class would be nothing that the model has seen."""
    order = mixed(n, seed)
    batch = min(batch, len(order))
    batches: tuple[Tensor, ...] = order[: len(order) - len(order) % batch].split(batch)
    return batches
