"""Which way images are prepared: whole, or with a margin for random windows.

As the paper does it: pre-train with each, composing three transformations, and keep the one with the lower validation
loss.
"""

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..config import parse
from ..config.presets import RunConfig
from ..engine import weights
from ..files import finite_or_null, read_note, write_atomically
from .stages import Learner

TRIALS = "preparation-trials.json"

TEXTS = {False: "whole images", True: "windows of images with a margin"}


class Choice(NamedTuple):
    losses: dict[bool, float]  # on validation images after pre-training, without and with a margin

    @property
    def margin(self) -> bool:
        """Whether it is better; a loss that is not a number never is."""
        return min(TEXTS, key=lambda margin: (math.isnan(self.losses[margin]), self.losses[margin]))  # whole if alike

    def describe(self) -> str:
        found = ", ".join(f"{text} {self.losses[margin]:.3f}" for margin, text in TEXTS.items())
        return f"validation loss after pre-training: {found}; going on with {TEXTS[self.margin]}"

    def to_json(self) -> dict[str, Any]:
        finite = {margin: finite_or_null(loss) for margin, loss in self.losses.items()}
        return {"margin": self.margin, "val_loss_of_whole_images": finite[False], "val_loss_with_margin": finite[True]}


class Trials(NamedTuple):
    """The losses of finished trials in the folder of the run to be, so that who is interrupted does not lose them."""

    folder: Path
    key: str  # of the configuration that they are of

    def read(self) -> dict[bool, float]:
        match read_note(self.folder / TRIALS):
            case {"key": self.key, "val_losses": {**losses}}:
                known = {margin: losses[text] for margin, text in TEXTS.items() if text in losses}
                return {
                    margin: math.nan if loss is None else loss
                    for margin, loss in known.items()
                    if isinstance(loss, float | None)
                }
        return {}

    def write(self, losses: dict[bool, float]) -> None:
        finite = {TEXTS[margin]: finite_or_null(loss) for margin, loss in losses.items()}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / TRIALS, json.dumps({"key": self.key, "val_losses": finite}).encode())


def key(config: RunConfig) -> str:
    """Of all that decides the losses; where the data and the weights lie has no part in it."""
    document = parse.to_dict(config)
    for where in ("source", "cache"):
        del document["data"][where]
    if config.weights is not None:
        document["weights"] = weights.digest(config.weights)
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def compare(
    learner_of: Callable[[bool], Learner],
    say: Callable[[str], None],
    done: dict[bool, float],
    keep: Callable[[dict[bool, float]], None],
) -> Choice:
    """Trials that are `done` are not done again; `keep` is told the losses after each of the others."""
    losses = dict(done)
    for margin, text in TEXTS.items():
        if margin in losses:
            say(f"pre-training on {text} was finished before: validation loss {losses[margin]:.3f}")
            continue
        say(f"pre-training on {text}, to see what is better")
        learner = learner_of(margin)
        for _ in learner.pretrain():
            pass
        losses[margin] = learner.val_loss()
        keep(losses)
    found = Choice(losses)
    say(found.describe())
    return found
