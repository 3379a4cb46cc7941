"""Reading the policies that the authors of SLACK published, in the text form `slack-official-policy/1`."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ... import schema
from ...schema import PolicyError, expect, unknown
from ..policy import CIFAR, IMAGENET, Policy
from ..policy_file import MAX_COMPOSED, SIGMA_MAX, SIGMA_MIN, placed, read_mu, read_span
from ..space import Space, Transform
from ..transforms import SPACES, TRANSFORMS

SLACK_FORMAT = "slack-official-policy/1"
# Where the file has the distance from no change, and we the strength itself.
SLACK_NO_CHANGE = {"Solarize": 255, "Posterize": 8, "RandomResizeCrop": 1}
SLACK_REQUIRED = ["format", "dataset", "num_ops", "transformations", "magnitude_ranges", "sigma", "logits", "mu"]
SLACK_HISTORY = [
    "source", "licence", "architecture", "split", "split_rule", "search_steps", "search_seconds",
    "search_hyperparameters",
]  # fmt: skip


def read_slack(document: Mapping[str, Any]) -> Policy:
    """A policy of the authors, out of its logits: its probabilities are rounded."""
    schema.check_keys(document, SLACK_REQUIRED, (*SLACK_HISTORY, "official_names", "magnitude_free", "pi"))
    space = read_slack_space(document)
    n_composed = schema.integer(document["num_ops"], "num_ops", 1, MAX_COMPOSED)
    dataset = schema.string(document["dataset"], "dataset")
    mean, std = CIFAR if dataset.startswith("cifar") else IMAGENET
    pi = read_matrix(document["logits"], "logits", n_composed, len(space), low=-100, high=100)
    if "pi" in document:
        rounded = read_matrix(document["pi"], "pi", n_composed, len(space), low=0, high=1)
        if (pi.softmax(1) - rounded).abs().max() > 1e-5:
            raise PolicyError("pi: is not the softmax of logits; one of the two was changed")
    return Policy(
        space=space,
        pi=pi,
        mu=read_mu(document["mu"], space, null_without=False),  # chance moved those without a magnitude
        sigma=schema.number(document["sigma"], "sigma", SIGMA_MIN, SIGMA_MAX),
        fill=tuple(round(255 * channel) for channel in mean),
        mean=mean,
        std=std,
        learned={key: document[key] for key in ("dataset", *SLACK_HISTORY) if key in document},
    )


def read_slack_space(document: Mapping[str, Any]) -> Space:
    """One of our spaces where the names and ranges are the same."""
    names = schema.sequence(document["transformations"], "transformations", read_name)
    ranges = document["magnitude_ranges"]
    expect(isinstance(ranges, dict), "magnitude_ranges", "an object", ranges)
    if ranges.keys() != set(names):
        raise PolicyError("magnitude_ranges: expected one entry per transformation")
    free = [name for name in names if TRANSFORMS[name].span is None]
    if "magnitude_free" in document and document["magnitude_free"] != free:
        raise PolicyError(f"magnitude_free: expected {', '.join(free) or 'none'}")
    transforms = tuple(read_slack_transform(name, ranges[name]) for name in names)
    with placed("transformations"):
        return next((space for space in SPACES.values() if space.transforms == transforms), Space("custom", transforms))


def read_name(value: object, where: str) -> str:
    name = schema.string(value, where)
    if name not in TRANSFORMS:
        raise PolicyError(f"{where}: {unknown('transformation', name, list(TRANSFORMS))}")
    return name


def read_slack_transform(name: str, value: object) -> Transform:
    transform, where = TRANSFORMS[name], f"magnitude_ranges[{name!r}]"
    span = read_span(value, where, transform)
    if span is not None and name in SLACK_NO_CHANGE:
        span = (round(SLACK_NO_CHANGE[name] - span[0], 12), round(SLACK_NO_CHANGE[name] - span[1], 12))
    with placed(where):
        return replace(transform, span=span)


def read_matrix(value: object, where: str, n_rows: int, n_columns: int, low: float, high: float) -> Tensor:
    entry = partial(schema.number, low=low, high=high)
    row = partial(schema.sequence, item=entry, low=n_columns, high=n_columns)
    return torch.tensor(schema.sequence(value, where, row, n_rows, n_rows), dtype=torch.float64)
