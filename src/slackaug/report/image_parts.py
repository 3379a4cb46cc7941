"""What the policy does to a few of the user's own images, as pictures for the page."""

import re
from collections.abc import Sequence
from typing import Any

from PIL import Image

from .. import rng
from ..augment.policy import Policy
from . import figures
from .pieces import Picture, picture
from .samples import Samples
from .strength import bounds_text, is_constant, shares

SIDE = 96  # pixels of the longer side of an image, at most; the page enlarges small ones
SMALL = 64  # pixels of the longer side up to which an image is enlarged as squares
BETWEEN = (128, 128, 128)  # neither light nor dark
N_EACH = 5  # composites of an image
Rows = Sequence[Sequence[Image.Image]]


def parts(policy: Policy, shown: Samples) -> dict[str, Any]:
    return {
        "pictures_of": shown.class_names,
        "strips": strips(policy, shown),
        "sheets": [*([] if is_constant(policy) else extremes(policy, shown)), composites(policy, shown)],
    }


def mosaic(rows: Rows) -> Image.Image:
    """Rows of images of one size, made smaller where they are large."""
    factor = min(1.0, SIDE / max(rows[0][0].size))
    width, height = (max(1, round(side * factor)) for side in rows[0][0].size)
    gap = max(1, width // 32)
    size = (max(map(len, rows)) * (width + gap) - gap, len(rows) * (height + gap) - gap)
    canvas = Image.new("RGB", size, BETWEEN)
    for i, row in enumerate(rows):
        for j, image in enumerate(row):
            small = image if factor == 1 else image.resize((width, height), Image.Resampling.LANCZOS)
            canvas.paste(small, (j * (width + gap), i * (height + gap)))
    return canvas


def show(identity: str, title: str, rows: Rows, alt: str, note: str = "", columns: Sequence[str] = ()) -> Picture:
    return picture(identity, title, mosaic(rows), alt, note, columns, max(rows[0][0].size) <= SMALL)


def strips(policy: Policy, shown: Samples) -> list[Picture]:
    """The images as they are, then a picture for each transformation, the likeliest first."""
    images, probabilities = shown.pictures, shares(policy)
    found = [show("strip-none", "As they are", [images], f"Training images: {shown.text}")]
    for i, (name, done) in enumerate(figures.strips(policy, images)):
        n = policy.space.index(name)
        transform, mu = policy.space.transforms[n], policy.mu[n].item()
        rows = [done] if transform.span is None else [done[0::2], done[1::2]]  # an image at mu / 2, then at mu
        strength = bounds_text(transform, mu, shown.size)
        how = f"at {mu / 2:.2f} and {mu:.2f} of its range" if transform.span else "which has no magnitude"
        alt = f"The same images under {name}, {how}"
        found.append(show(f"strip-{i}", name, rows, alt, f"{probabilities[n]:.1%}, {strength}"))
    return found


def extremes(policy: Policy, shown: Samples) -> list[Picture]:
    """Each image beside the most likely and the least likely transformations of it (the paper's figure)."""
    found = [figures.examples(policy, image) for image in shown.pictures]
    pictures = []
    for identity, title, pick in (("most", "Most likely", "most"), ("least", "Least likely", "least")):
        rows = [[one.image, *(example.image for example in getattr(one, pick))] for one in found]
        columns = [f"{example.name} {example.probability:.1%}" for example in getattr(found[0], pick)]
        alt = f"Rows: {shown.text}. Columns: as it is, {', '.join(columns)}"
        note = "At the learned bound."
        pictures.append(show(identity, title, rows, alt, note, ["as it is", *map(breakable, columns)]))
    return pictures


def breakable(name: str) -> str:
    """May go on in the next line where a new word begins: RandomResize, Crop."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "\N{ZERO WIDTH SPACE}", name)


def composites(policy: Policy, shown: Samples) -> Picture:
    images = shown.pictures
    drawn = figures.grid(policy, images, rng.generator(0, "pictures"), N_EACH)
    rows = [[image, *row] for image, row in zip(images, drawn, strict=True)]
    alt = f"Rows: {shown.text}. Columns: as it is, then {N_EACH} random composites"
    note = f"What training sees, drawn at random{', with mirror flips' if policy.flip else ''}."
    return show("composites", "Random composites", rows, alt, note, ["as it is", *[""] * N_EACH])
