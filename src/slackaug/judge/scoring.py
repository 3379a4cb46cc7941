"""How good a trained model is: accuracy, top-5 and per-class accuracy, and calibration.

Axes: B test images, C classes.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

N_BINS = 15  # of the calibration error, as is customary
TOP = 5


class Score(NamedTuple):
    """All shares are in [0, 1]."""

    loss: float  # mean cross-entropy
    accuracy: float
    top5: float | None  # None where there are no more than five classes: it would be 1
    per_class: list[float | None]  # None for a class that the test set does not have
    balanced_accuracy: float  # the mean of these: every class that is tested counts alike
    imbalance: float  # not a share: images of the most frequent class for each of the rarest that is tested
    ece: float  # expected calibration error


def score(logits: Tensor, labels: Tensor) -> Score:
    """Scores logits (B, C) against labels (B,)."""
    logits = logits.double()
    correct, n_classes = logits.argmax(1) == labels, logits.shape[1]
    top5 = None
    if n_classes > TOP:
        top5 = (logits.topk(TOP, 1).indices == labels[:, None]).any(1).double().mean().item()
    counts, hits = (these.bincount(minlength=n_classes).tolist() for these in (labels, labels[correct]))
    per_class = [hit / count if count else None for hit, count in zip(hits, counts, strict=True)]
    tested = [share for share in per_class if share is not None]
    return Score(
        loss=cross_entropy(logits, labels).item(),
        accuracy=correct.double().mean().item(),
        top5=top5,
        per_class=per_class,
        balanced_accuracy=sum(tested) / len(tested),
        imbalance=max(counts) / min(filter(None, counts)),
        ece=calibration_error(logits.softmax(1).amax(1), correct),
    )


def largest_share(labels: Tensor) -> float:
    """The accuracy of naming the most frequent class each time."""
    return labels.bincount().max().item() / len(labels)


def calibration_error(confidence: Tensor, correct: Tensor) -> float:
    """Mean distance of confidence and accuracy over equal bins of confidence, weighted by their sizes (ECE)."""
    bins = (confidence * N_BINS).ceil().long().clamp(1, N_BINS) - 1  # (B,): a bin holds its upper end
    gap = torch.zeros(N_BINS, dtype=torch.float64, device=bins.device)
    gap = gap.index_add(0, bins, confidence - correct.to(confidence.dtype))
    return (gap.abs().sum() / len(bins)).item()
