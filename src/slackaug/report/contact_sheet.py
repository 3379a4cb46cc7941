"""A contact sheet: what a policy does to images, as one PNG.

For each image two rows: the image beside its most and least likely transformations, each alone at its bound mu, and
random composites as training draws them. Large images are reduced to a tile first; small ones are shown enlarged.
"""

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageOps
from torch import Generator

from .. import rng
from ..augment import describe
from ..augment.apply import Parameters, chance, draw, on_pil
from ..augment.formats.published import find_slack
from ..augment.policy import Policy
from ..augment.space import Transform
from ..data.decode import opened, to_rgb
from ..data.options import DataError
from ..files import check_new, write_atomically
from .fonts import lettering
from .lettering import shorten
from .pictures import N_EXTREMES, apply, extremes
from .strength import shares

N_COMPOSITES = 2 * N_EXTREMES + 1  # a tile in every column
MAX_IMAGES = 50  # more would make a sheet that few programs open
MAX_LINES = 4  # of the list under a composite

TILE, MARGIN, GAP, GROUP_GAP = 168, 36, 14, 34
WIDTH = 2 * MARGIN + N_COMPOSITES * TILE + (N_COMPOSITES - 3) * GAP + 2 * GROUP_GAP  # of the sheet
INSIDE = WIDTH - 2 * MARGIN
TITLE, BODY, SMALL = 24, 14, 12  # heights of the letters
COARSE = 3  # enlarged as many times or more, pixels are shown as squares
LINE = 18  # from one line of a label to the next
HEAD = 30  # above a row of tiles: its heading and a rule
PAPER, INK, FAINT, RULE, EMPTY = "#ffffff", "#1c1c1e", "#6b6b70", "#c9c9ce", "#f1f1f4"
MOST, LEAST = "#1f7a54", "#b4532a"


class Tile(NamedTuple):
    """A picture and the lines below it."""

    picture: Image.Image
    lines: list[str]
    share: float | None = None  # of a bar below the picture


class Group(NamedTuple):
    """Tiles side by side under one heading."""

    heading: str
    colour: str
    tiles: list[Tile]


# --- what is on the sheet ---------------------------------------------------------------------------------------------


def single(policy: Policy, image: Image.Image, n: int, generator: Generator) -> Tile:
    """One transformation alone, at its bound."""
    u, _ = chance(1, 1, generator, flip=False)
    transform, mu, probabilities = policy.space.transforms[n], policy.mu[n].item(), shares(policy)
    start, end = transform.span or (0.0, 0.0)
    strength = describe.strength_text(transform, start + (end - start) * min(max(mu, 0.0), 1.0))
    lines = [transform.name, f"{probabilities[n]:.1%}", strength]
    return Tile(apply(policy, n, mu, image, u), lines, probabilities[n] / max(probabilities))


def steps(parameters: Parameters) -> list[str]:
    """A line for each transformation of a composite; what does nothing is left out."""
    (op, magnitude, _, space), u, flip = parameters
    lines = []
    for k, n in enumerate(op[0].tolist()):
        transform = space.transforms[n]
        if not transform.changes_nothing:
            strength = transform.strength(magnitude[0, k], u[0, k, 0]).item()
            lines.append(f"{transform.name} {amount(transform, strength)}".rstrip())
    lines += ["mirrored"] if flip.item() else []
    if len(lines) > MAX_LINES:
        lines[MAX_LINES - 1 :] = [f"and {len(lines) - MAX_LINES + 1} more"]
    return lines or ["unchanged"]


def amount(transform: Transform, strength: float) -> str:
    """A strength without its unit, in a few characters."""
    if transform.span is None:
        return ""
    digits = 0 if abs(strength) >= 10 or transform.unit == "bits" else 2
    return f"{strength:{'+' if transform.signed else ''}z.{digits}f}"


def rows(policy: Policy, image: Image.Image, name: str, size: str, generator: Generator) -> list[list[Group]]:
    groups = [Group("image", INK, [Tile(image, [name, size])])]
    most, least = extremes(policy)
    some = [] if most or least else [*range(min(2 * N_EXTREMES, len(policy.space)))]
    for chosen, heading, colour in (
        (most, "most likely", MOST), (some, "all are equally likely, such as", INK), (least, "least likely", LEAST),
    ):  # fmt: skip
        if chosen:
            groups.append(Group(heading, colour, [single(policy, image, n, generator) for n in chosen]))
    drawn = [draw(policy.sample(1, generator), generator, flip=policy.flip) for _ in range(N_COMPOSITES)]
    composites = [Tile(on_pil(image, parameters, policy.fill), steps(parameters)) for parameters in drawn]
    return [groups, [Group(f"random composites of {len(policy.pi)}, as in training", INK, composites)]]


# --- drawing ----------------------------------------------------------------------------------------------------------


def drawn_width(text: str, size: float) -> float:
    text, font = lettering(text, size)
    return font.getlength(text)


def write_text(
    sheet: Image.Image, place: tuple[int, int], text: str, colour: str, size: int = BODY, width: int = INSIDE
) -> None:
    """The text, or its beginning and an ellipsis, in at most `width` pixels."""
    shown, font = lettering(shorten(text, size, width, drawn_width), size)
    ImageDraw.Draw(sheet).text(place, shown, colour, font)


def on_tile(picture: Image.Image) -> Image.Image:
    """In the middle of a tile, as large as it fits: few pixels are shown as squares, many are smoothed."""
    factor, way = TILE / max(picture.size), Image.Resampling.BICUBIC
    if factor >= COARSE:
        factor, way = int(factor), Image.Resampling.NEAREST
    picture = picture.resize([max(round(side * factor), 1) for side in picture.size], way)
    tile = Image.new("RGB", (TILE, TILE), EMPTY)
    tile.paste(picture, ((TILE - picture.width) // 2, (TILE - picture.height) // 2))
    return tile


def draw_row(sheet: Image.Image, top: int, row: list[Group]) -> None:
    left = MARGIN
    for group in row:
        width = len(group.tiles) * (TILE + GAP) - GAP if len(row) > 1 else INSIDE
        write_text(sheet, (left, top), group.heading, group.colour, width=width)
        rule = group.colour if group.colour != INK else RULE
        ImageDraw.Draw(sheet).line((left, top + 21, left + width - 1, top + 21), rule)
        spread = (width - TILE) / max(len(group.tiles) - 1, 1)
        for i, tile in enumerate(group.tiles):
            draw_tile(sheet, left + round(i * spread), top + HEAD, tile, group.colour)
        left += width + GROUP_GAP


def draw_tile(sheet: Image.Image, left: int, top: int, tile: Tile, colour: str) -> None:
    sheet.paste(on_tile(tile.picture), (left, top))
    below = top + TILE
    if tile.share is not None:
        for share, shade in ((1.0, EMPTY), (tile.share, colour)):
            right = left + max(round(share * TILE), 1) - 1
            ImageDraw.Draw(sheet).rectangle((left, below + 3, right, below + 6), shade)
    for i, line in enumerate(tile.lines):
        shade, size = (INK, BODY) if i == 0 and tile.share is not None else (FAINT, SMALL)
        write_text(sheet, (left, below + 10 + i * LINE), line, shade, size, TILE)


def sheet(title: str, subtitle: str, blocks: Sequence[list[list[Group]]]) -> Image.Image:
    """Title, then block by block, a rule between them."""
    top = MARGIN + TITLE + LINE + 2 * GAP + 4
    n_lines = [[max(len(t.lines) for group in row for t in group.tiles) for row in block] for block in blocks]
    heights = [[HEAD + TILE + 10 + n * LINE + GAP for n in block] for block in n_lines]
    page = Image.new("RGB", (WIDTH, top + sum(map(sum, heights)) + MARGIN * len(blocks)), PAPER)
    write_text(page, (MARGIN, MARGIN - 6), title, INK, TITLE)
    write_text(page, (MARGIN, MARGIN + TITLE + 4), subtitle, FAINT)
    for i, block in enumerate(blocks):
        if i:
            between = top - MARGIN // 2
            ImageDraw.Draw(page).line((MARGIN, between, WIDTH - MARGIN - 1, between), RULE, 2)
        for row, height in zip(block, heights[i], strict=True):
            draw_row(page, top, row)
            top += height
        top += MARGIN
    return page


# --- files ------------------------------------------------------------------------------------------------------------


def read_image(path: Path, side: int = TILE) -> tuple[Image.Image, str]:
    """As a search would see it, reduced to a tile; and its size in words."""
    with opened(path) as file:
        image = to_rgb(ImageOps.exif_transpose(file))
    size = f"{image.width} x {image.height}"
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    return image, size


def read_images(paths: Sequence[Path]) -> list[tuple[Image.Image, str]]:
    """All, or an error that names each file that cannot be read."""
    images, bad = [], []
    for path in paths:
        try:
            if path.is_dir():
                raise DataError("is a folder, expected an image")
            images.append(read_image(path))
        except DataError as error:
            bad.append(f"{path}: {error}")
    if bad:
        raise ValueError("cannot read " + "\n  ".join(["these images:", *bad] if len(bad) > 1 else bad))
    return images


def check_output(path: Path, images: Sequence[Path], overwrite: bool) -> None:
    if path.suffix.lower() != ".png":
        raise ValueError(f"{path}: expected a name that ends in .png")
    check_new(path, overwrite=overwrite)
    if path.exists() and any(image.exists() and image.samefile(path) for image in images):
        raise ValueError(f"{path}: is one of the images; choose another -o")


def render(policy: Policy, title: str, images: Sequence[Path], seed: int = 0) -> Image.Image:
    """The sheet; the same policy, images and seed give the same pixels."""
    if not 1 <= len(images) <= MAX_IMAGES:
        raise ValueError(f"expected 1 to {MAX_IMAGES} images, got {len(images)}")
    subtitle = f"{describe.policy_text(policy.n_composed, len(policy.space), flip=policy.flip)}; seed {seed}"
    blocks = [
        rows(policy, image, path.name, size, rng.generator(seed, "preview", i))
        for i, (path, (image, size)) in enumerate(zip(images, read_images(images), strict=True))
    ]
    return sheet(title, subtitle, blocks)


def write(
    policy: str, images: Sequence[str], out: str | os.PathLike[str], *, seed: int = 0, overwrite: bool = False
) -> Policy:
    """Write the contact sheet of image files under a policy file, or `uniform:SPACE`, as a PNG; return the policy."""
    path, files = Path(out), [Path(image) for image in images]
    check_output(path, files, overwrite)
    found = find_slack(policy)
    page = render(found, policy, files, seed)
    buffer = io.BytesIO()
    page.save(buffer, "PNG", optimize=True)
    write_atomically(path, buffer.getvalue())
    return found
