"""`slackaug figure`: one figure of a policy or a run, as a file."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageOps

from ..augment.formats.published import find_slack
from ..augment.policy import Policy
from ..data import DataError, decode, samples
from ..files import write_atomically
from ..report import history, pictures, policy_figures, render, run_figures
from ..report.render import element, words
from ..report.scene import Scene

KINDS = ("pie", "evolution", "strips")
SUFFIXES = (".svg", ".png", ".pdf")
N_IMAGES = 3  # of a run's data


def draw(kind: str, source: str, out: str, *, position: int | None = None, images: Sequence[str] = ()) -> Path:
    """Write the figure and return its path."""
    path = Path(out)
    if kind not in KINDS:
        raise ValueError(f"unknown figure {kind!r}; known: {', '.join(KINDS)}")
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"-o {out}: expected a name that ends in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise ValueError(f"-o {out}: there is no folder {path.parent}; make it first")
    if images and kind != "strips":
        raise ValueError(f"--image is for strips; a {kind} has no images")
    if kind == "strips":
        if position is not None:
            raise ValueError("--position is for pie and evolution; strips show what each transformation does")
        save_strips(source, path, images)
    else:
        save(pie_of(source, position) if kind == "pie" else evolution_of(source, position), path, kind)
    return path


def pie_of(source: str, position: int | None) -> Scene:
    return policy_figures.pie(find_policy(source), position)


def evolution_of(source: str, position: int | None) -> Scene:
    if not Path(source).is_dir():
        raise ValueError(f"{source}: an evolution needs a run, the folder that `slackaug search` wrote")
    return run_figures.evolution(history.read(source), position)


def find_policy(source: str) -> Policy:
    """That of a run's last finished round, or that of a file, or uniform:SPACE."""
    if Path(source).is_dir():
        policy = history.read(source).policy
        if policy is None:
            raise ValueError(f"{source}: this run has no policy yet; it has one at the end of its first round")
        return policy
    return find_slack(source)


def save(scene: Scene, path: Path, identity: str) -> None:
    buffer = io.BytesIO()
    if path.suffix.lower() == ".svg":
        buffer.write((render.svg(scene, identity) + "\n").encode())
    else:
        render.save(scene, buffer, path.suffix.lower().removeprefix("."))
    write_atomically(path, buffer.getvalue())


# --- strips -----------------------------------------------------------------------------------------------------------


def save_strips(source: str, path: Path, images: Sequence[str]) -> None:
    policy = find_policy(source)
    chosen = [read_image(image) for image in images] if images else images_of_run(source)
    sheet = pictures.strips_sheet(policy, chosen, in_pixels=not images)
    buffer = io.BytesIO()
    if path.suffix.lower() == ".svg":
        buffer.write((embedded(sheet, f"Each transformation of {source}") + "\n").encode())
    else:
        sheet.save(buffer, path.suffix.removeprefix("."))
    write_atomically(path, buffer.getvalue())


def read_image(path: str) -> Image.Image:
    """As a search would see it, made as small as it is shown: of a photograph, all strips would take half a minute."""
    try:
        with decode.opened(Path(path)) as file:
            image = decode.to_rgb(ImageOps.exif_transpose(file))
    except DataError as error:
        raise ValueError(f"--image {path}: cannot be read as an image ({error})") from error
    image.thumbnail((pictures.CELL, pictures.CELL), Image.Resampling.LANCZOS)
    return image


def images_of_run(source: str) -> list[Image.Image]:
    """Of as many classes, out of the data that the run was given."""
    remedy = "give --image FILE, once or more"
    if not Path(source).is_dir():
        raise ValueError(f"strips need images: {remedy}")
    return samples.find(history.read(source).config.data, None, remedy).pictures[:N_IMAGES]


def embedded(sheet: Image.Image, title: str) -> str:
    """The sheet as an SVG that holds it."""
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    width, height = sheet.size
    address = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    return element(
        "svg",
        element("title", words(title), id="strips-title"),
        element("image", href=address, width=width, height=height),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_labelledby="strips-title",
    )
