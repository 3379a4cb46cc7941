"""A baseline as a file for another library: what a search says to use need not be a policy.

It is the same or left out. Up to 64 pixels the defaults are transformations of ours, each at one strength and so a
policy; above, torchvision has them as classes of its own. TrivialAugment is torchvision's, too.
"""

from dataclasses import replace
from typing import NamedTuple

import torch

from .. import export
from ..augment.policy import Policy
from ..augment.prepare import Size
from ..augment.samplers import All
from ..augment.space import Space
from ..augment.transforms import TRANSFORMS
from ..export.fidelity import FIDELITY, table
from ..messages.answer import capital
from ..messages.names import spoken
from .baselines import define, is_small

TORCHVISION = "torchvision"
BESIDE = {"default": [], "trivialaugment-wide": ["v2.TrivialAugmentWide()"]}  # the usual crops, as torchvision has it
PIXELS = {  # of those classes
    "default": "the same transformations and strengths, by torchvision's own classes",
    "trivialaugment-wide": "TrivialAugment by torchvision's own class: the same 31 strengths, a shift within 1 pixel",
}
LARGE = '''"""{title}

For PIL images and for uint8 tensors, one at a time; then v2.ToImage(), v2.ToDtype(torch.float32, scale=True), and
v2.Normalize({mean}, {std}).
"""

from torchvision.transforms import v2

transform = {steps}
'''


class File(NamedTuple):
    text: str
    table: str  # how near its pixels come to those of the race
    name: str  # of what to import


def targets(name: str, size: Size) -> list[str]:
    """The libraries that have exactly this baseline for images of that size."""
    if name not in BESIDE:
        return []
    return [*FIDELITY] if is_small(size) and not BESIDE[name] else [TORCHVISION]


def file(name: str, to: str, size: Size, learned: Policy, source: str) -> File:
    """For one of its targets; flips, colours and statistics are those of what was `learned` on the same data."""
    title = f"{capital(spoken(name))}, {'with' if learned.flip else 'without'} mirror flips."
    if BESIDE[name]:
        title += " `transform` is all of it."
    if not is_small(size):
        crop, jitter = f"v2.RandomResizedCrop({size})", "v2.ColorJitter(0.4, 0.4, 0.4)"
        steps = [crop, *BESIDE[name], jitter, *["v2.RandomHorizontalFlip()"] * learned.flip]
        mean, std = ([round(channel, 5) for channel in values] for values in (learned.mean, learned.std))
        text = LARGE.format(title=title, mean=mean, std=std, steps=composed(steps))
        return File(text, PIXELS[name], "transform")
    (defaults,) = define(name).defaults(size).parts
    assert isinstance(defaults, All)
    policy = replace(as_policy(defaults, learned), learned={"use": name})
    text, pixels = export.render(policy, to, source, title), table(to, policy)
    if not BESIDE[name]:
        return File(text, pixels, "SlackAugment")
    return File(
        f"{text}\n\ntransform = {composed([*BESIDE[name], 'SlackAugment()'])}\n",
        f"{pixels}\n{PIXELS[name]}",
        "transform",
    )


def composed(steps: list[str]) -> str:
    return "\n".join(["v2.Compose([", *(f"    {step}," for step in steps), "])"])


def as_policy(part: All, like: Policy) -> Policy:
    """Transformations that all act, in this order, at one strength each: every position has its own."""
    assert not part.shuffled
    assert all(transform.span and transform.span[0] == transform.span[1] for transform in part.space)
    known = [replace(TRANSFORMS[t.name.partition(" (")[0]], span=t.span) for t in part.space]
    pi = torch.full((len(known), len(known)), -torch.inf, dtype=torch.float64).fill_diagonal_(0)
    return replace(like, space=Space(part.space.name, tuple(known)), pi=pi, mu=pi.new_ones(len(known)))
