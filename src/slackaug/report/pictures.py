"""What a policy does to images: each transformation alone, the most and the least likely, and random composites.

All are drawn with the kernels of search and training, and from one seed: a page that is written again stays the same.
"""

import base64
import io
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from markupsafe import Markup
from PIL import Image, ImageDraw
from torch import Generator, Tensor

from .. import rng
from ..augment.apply import Composites, Parameters, draw, on_pil
from ..augment.policy import Policy
from ..augment.space import Transform
from ..data.samples import Samples
from ..messages import on_grey
from .fonts import lettering
from .lettering import clean
from .strength import EQUAL, bounds_text, idle, shares

N_EXTREMES = 3
N_EACH = 5  # composites of an image
SIDE = 96  # pixels of the longer side of an image on a page, at most; the page enlarges small ones
SMALL = 64  # pixels of the longer side up to which an image is enlarged as squares
BETWEEN = (128, 128, 128)  # neither light nor dark
CELL, PAD, CAPTION = 96, 6, 20  # pixels of a sheet
EDGE = "#c9c9ce"  # around an image: many are white, and so is the sheet
Images = Sequence[Image.Image]


def seeded() -> Generator:
    return rng.generator(0, "pictures")


def apply(policy: Policy, n: int, magnitude: float, image: Image.Image, u: Tensor) -> Image.Image:
    """One transformation at one magnitude; `u` (1, 1, 4) decides direction and window."""
    one = torch.ones(1, 1, dtype=torch.bool)
    bound = torch.tensor([[magnitude]], dtype=torch.float64)
    composites = Composites(torch.tensor([[n]]), bound, one, policy.space)
    return on_pil(image, Parameters(composites, u, torch.tensor([False])), policy.fill)


def ranked(policy: Policy) -> list[int]:
    """The likeliest first."""
    probabilities = shares(policy)
    return sorted(range(len(probabilities)), key=lambda n: -probabilities[n])


def extremes(policy: Policy) -> tuple[list[int], list[int]]:
    """The likeliest transformations, and the least likely; the most extreme first, and none twice.

    One that is as likely as one that is left out is neither.
    """
    order, probabilities = ranked(policy), shares(policy)
    n_most = min(N_EXTREMES, (len(order) + 1) // 2)
    n_least = min(N_EXTREMES, len(order) - n_most)
    above, below = (probabilities[n] for n in (order[-n_least - 1], order[min(n_most, len(order) - 1)]))
    most = [n for n in order[:n_most] if probabilities[n] > below + EQUAL]
    return most, [n for n in order[: -n_least - 1 : -1] if probabilities[n] < above - EQUAL]


class Strip(NamedTuple):
    """What one transformation does."""

    transform: Transform
    share: float
    mu: float
    images: list[Image.Image]  # each at mu / 2 and at mu, or once if there is no magnitude

    @property
    def strength(self) -> str:
        return bounds_text(self.transform, self.mu)


def strips(policy: Policy, images: Images) -> list[Strip]:
    """The likeliest first. An image keeps its direction and window from one strength to the other."""
    generator, probabilities, found = seeded(), shares(policy), []
    for n in ranked(policy):
        transform, mu, done = policy.space.transforms[n], policy.mu[n].item(), []
        for image in images:
            u = rng.uniform((1, 1, 4), generator)
            done += [apply(policy, n, magnitude, image, u) for magnitude in ([mu / 2, mu] if transform.span else [mu])]
        found.append(Strip(transform, probabilities[n], mu, done))
    return found


def at_bounds(policy: Policy, image: Image.Image, chosen: Sequence[int]) -> list[Image.Image]:
    """An image under some transformations, each alone and at its bound mu."""
    generator = seeded()
    return [apply(policy, n, policy.mu[n].item(), image, rng.uniform((1, 1, 4), generator)) for n in chosen]


def composites(policy: Policy, images: Images) -> list[list[Image.Image]]:
    """A row for each image: composites as training draws them, with flips if the policy has them."""
    generator = seeded()

    def one(image: Image.Image) -> Image.Image:
        return on_pil(image, draw(policy.sample(1, generator), generator, flip=policy.flip), policy.fill)

    return [[one(image) for _ in range(N_EACH)] for image in images]


# --- on a page --------------------------------------------------------------------------------------------------------


class Picture(NamedTuple):
    id: str
    title: str
    uri: Markup  # which is not to be searched for paths
    alt: str
    width: int
    height: int
    note: str
    columns: Sequence[str]  # what stands above each
    is_small: bool  # its pixels are to be seen as such


def parts(policy: Policy, shown: Samples) -> dict[str, Any]:
    """What the page's section on images needs."""
    return {
        "pictures_of": shown.class_names,
        "on_grey": on_grey(idle(policy)),
        "strips": strip_pictures(policy, shown),
        "sheets": [*extreme_pictures(policy, shown), composite_picture(policy, shown)],
    }


def picture(
    identity: str, title: str, rows: Sequence[Images], alt: str, note: str = "", columns: Sequence[str] = ()
) -> Picture:
    """Rows of images of one size, made smaller if they are large."""
    longest = max(rows[0][0].size)
    width, height = (max(1, round(side * min(1.0, SIDE / longest))) for side in rows[0][0].size)
    gap = max(1, width // 32)
    size = (max(map(len, rows)) * (width + gap) - gap, len(rows) * (height + gap) - gap)
    canvas = Image.new("RGB", size, BETWEEN)
    for i, row in enumerate(rows):
        for j, image in enumerate(row):
            small = image if longest <= SIDE else image.resize((width, height), Image.Resampling.LANCZOS)
            canvas.paste(small, (j * (width + gap), i * (height + gap)))
    return Picture(identity, title, data_uri(canvas), alt, *size, note, columns, longest <= SMALL)


def data_uri(image: Image.Image) -> Markup:
    """As PNG, which is exact, or as JPEG if that is smaller, as for photographs."""
    found = []
    for kind in ("png", "jpeg"):
        buffer = io.BytesIO()
        image.save(buffer, kind, quality=85)  # of the JPEG; a PNG has none
        found.append(f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}")
    return Markup(min(found, key=len))


def strip_pictures(policy: Policy, shown: Samples) -> list[Picture]:
    """The images as they are, then a picture for each transformation."""
    found = [picture("strip-none", "As they are", [shown.pictures], f"Training images: {shown.text}")]
    for i, strip in enumerate(strips(policy, shown.pictures)):
        name, mu, rows, how = strip.transform.name, strip.mu, [strip.images], "which has no magnitude"
        if strip.transform.span:  # an image at mu / 2, then at mu
            rows, how = [strip.images[0::2], strip.images[1::2]], f"at {mu / 2:.2f} and {mu:.2f} of its range"
        note = f"{strip.share:.1%}, {strip.strength}"
        found.append(picture(f"strip-{i}", name, rows, f"The same images under {name}, {how}", note))
    return found


def extreme_pictures(policy: Policy, shown: Samples) -> list[Picture]:
    """Each image beside the most likely and the least likely transformations of it (the paper's figure)."""
    probabilities, (most, least) = shares(policy), extremes(policy)
    done = [at_bounds(policy, image, most + least) for image in shown.pictures]
    found = []
    for identity, chosen, part in (("most", most, slice(len(most))), ("least", least, slice(len(most), None))):
        if not chosen:
            continue
        columns = [f"{policy.space.names[n]} {probabilities[n]:.1%}" for n in chosen]
        alt = f"Rows: {shown.text}. Columns: as it is, {', '.join(columns)}"
        rows = [[image, *row[part]] for image, row in zip(shown.pictures, done, strict=True)]
        headers = ["as it is", *map(breakable, columns)]
        found.append(picture(identity, f"{identity.title()} likely", rows, alt, "At the learned bound.", headers))
    return found


def breakable(name: str) -> str:
    """May go on in the next line where a new word begins: RandomResize, Crop."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "\N{ZERO WIDTH SPACE}", name)


def composite_picture(policy: Policy, shown: Samples) -> Picture:
    rows = [[image, *row] for image, row in zip(shown.pictures, composites(policy, shown.pictures), strict=True)]
    alt = f"Rows: {shown.text}. Columns: as it is, then {N_EACH} random composites"
    note = f"What training sees, drawn at random{', with mirror flips' if policy.flip else ''}."
    return picture("composites", "Random composites", rows, alt, note, ["as it is", *[""] * N_EACH])


# --- as a file --------------------------------------------------------------------------------------------------------


def thumbnail(image: Image.Image) -> Image.Image:
    """As large as fits a cell; small images are enlarged by whole pixels."""
    longest = max(image.size)
    if longest > CELL:
        return image.resize([max(1, round(s * CELL / longest)) for s in image.size], Image.Resampling.LANCZOS)
    return image.resize([s * (CELL // longest) for s in image.size], Image.Resampling.NEAREST)


def strips_sheet(policy: Policy, images: Images) -> Image.Image:
    """The images as they are, then a strip for each transformation, each under its caption."""
    rows: list[tuple[str, Images]] = [("as they are; below, each at mu / 2 and at mu", images)]
    for s in strips(policy, images):
        rows += [(f"{s.transform.name}  {100 * s.share:.1f} %  {s.strength}", s.images)]
    width = PAD + max(len(images) for _, images in rows) * (CELL + PAD)
    canvas = Image.new("RGB", (max(width, 320), len(rows) * (CAPTION + CELL + PAD) + PAD), "white")
    pen = ImageDraw.Draw(canvas)
    for i, (caption, row) in enumerate(rows):
        y = PAD + i * (CAPTION + CELL + PAD)
        shown, font = lettering(clean(caption)[:120], 13)
        pen.text((PAD, y + 1), shown, "black", font)
        for j, small in enumerate(map(thumbnail, row)):
            left = PAD + j * (CELL + PAD) + (CELL - small.width) // 2
            top = y + CAPTION + (CELL - small.height) // 2
            pen.rectangle((left - 1, top - 1, left + small.width, top + small.height), outline=EDGE)
            canvas.paste(small, (left, top))
    return canvas
