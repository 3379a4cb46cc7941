"""Which way images are prepared: whole, or with a margin for random windows.

As the paper does it: pre-train with each, and keep the one with the lower validation loss.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .learner import Learner

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
        finite = {margin: loss if math.isfinite(loss) else None for margin, loss in self.losses.items()}
        return {"margin": self.margin, "val_loss_of_whole_images": finite[False], "val_loss_with_margin": finite[True]}


def compare(learner_of: Callable[[bool], Learner], say: Callable[[str], None]) -> Choice:
    losses = {}
    for margin, text in TEXTS.items():
        say(f"pre-training on {text}, to see what is better")
        learner = learner_of(margin)
        for _ in learner.pretrain():
            pass
        losses[margin] = learner.val_loss()
    found = Choice(losses)
    say(found.describe())
    return found
