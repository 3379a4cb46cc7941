"""Does a policy help? Training with each policy under one protocol, and honest intervals (SPEC section 4)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from scipy import stats

from . import models, rng
from .data import Dataset
from .elementary import TRANSFORMS
from .fit import Fit, FitConfig, Score, score
from .learn import to_device
from .policy import Policy
from .spaces import Space


class Interval(NamedTuple):
    """A mean with its 95 % confidence interval by Student's t."""

    mean: float
    half_width: float
    n: int

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.half_width:.2f} %"


def interval(values: Sequence[float]) -> Interval:
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return Interval(mean, math.inf, n)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    return Interval(mean, float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n), n)


def no_augmentation(like: Policy) -> Policy:
    """Mirror flips only, where the policy has them."""
    nothing = Space("none", (TRANSFORMS["Identity"],))
    return Policy.uniform(nothing, n_composed=1, flip=like.flip, mean=like.mean, std=like.std)


def train_and_test(data: Dataset, policy: Policy, model: str, config: FitConfig, seed: int, device: str) -> Score:
    """Train on all of the training images; the accuracy of the last epoch on the test images."""
    streams = rng.streams(seed, "evaluation")
    network = models.build(model, data.n_classes, data.image_size, rng.generator(seed, "evaluation", "model"))
    fit = Fit(network.to(device), policy, to_device(data.train, device), config, streams)
    while fit.done < fit.n_steps:
        fit.step()
    return score(fit.model, fit.normalise, to_device(data.test, device))


def verdict(name: str, baseline: str, accuracy: Sequence[float], reference: Sequence[float]) -> str:
    """One plain sentence, from the differences paired by seed."""
    difference = interval([a - b for a, b in zip(accuracy, reference, strict=True)])
    points = f"{100 * difference.mean:+.2f} ± {100 * difference.half_width:.2f} points over {difference.n} seeds"
    if abs(difference.mean) <= difference.half_width or math.isinf(difference.half_width):
        return f"{name} is not distinguishable from {baseline}: {points} (95 % interval)."
    word = "better" if difference.mean > 0 else "worse"
    return f"{name} is {word} than {baseline}: {points} (95 % interval)."
