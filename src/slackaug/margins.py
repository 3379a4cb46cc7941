"""Which way images are prepared: whole, or with a margin for random windows.

As the paper does it: pre-train with each, and keep the one with the lower validation loss.
"""

from collections.abc import Callable

from .learner import Learner

TEXTS = {False: "whole images", True: "windows of images with a margin"}


def better(learner_of: Callable[[bool], Learner], say: Callable[[str], None]) -> bool:
    """Whether a margin is better."""
    losses = {}
    for margin, text in TEXTS.items():
        say(f"pre-training on {text}, to see what is better")
        learner = learner_of(margin)
        for _ in learner.pretrain():
            pass
        losses[margin] = learner.val_loss()
    best = min(losses, key=lambda margin: losses[margin])
    found = ", ".join(f"{text} {losses[margin]:.3f}" for margin, text in TEXTS.items())
    say(f"validation loss after pre-training: {found}; going on with {TEXTS[best]}")
    return best
