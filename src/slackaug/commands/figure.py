"""`slackaug figure`: one figure of a policy or a run, as a file."""

import base64
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from PIL import Image

from ..augment.formats.published import find_slack
from ..augment.policy import Policy
from ..config.options import Path as PathLike
from ..config.options import PolicySource, command
from ..data import DataError, samples
from ..files import write_atomically
from ..messages.terminal import say, terminal
from ..report import contact_sheet, history, pictures, policy_figures, render, run_figures
from ..report.policy_table import of_the_race
from ..report.render import element, words
from ..report.scene import Scene

KINDS = ("pie", "evolution", "strips")
SUFFIXES = (".svg", ".png", ".pdf")
N_IMAGES = 3  # of a run's data


@command
def figure(
    kind: Annotated[str, "what to draw: pie, evolution or strips"],
    source: PolicySource,
    *,
    out: Annotated[PathLike, "FILE.svg, FILE.png or FILE.pdf"],
    position: Annotated[int | None, "one position of the composite, from 1; else their average"] = None,
    images: Annotated[Sequence[PathLike], "for strips: an image, once or more; else some of the run's"] = (),
) -> Path:
    """Draw a policy as the paper's pie, the course of a search, or strips of what each transformation does.

    Examples:
        slackaug figure pie runs/pets -o policy.svg
        slackaug figure evolution runs/pets -o evolution.png
        slackaug figure strips runs/pets --image cat.jpg --image dog.jpg -o strips.png
    """
    path, source = Path(out), os.fspath(source)
    if kind not in KINDS:
        raise ValueError(f"unknown figure {kind!r}; known: {', '.join(KINDS)}")
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"-o {out}: expected a name that ends in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise ValueError(f"-o {out}: there is no folder {path.parent}; make it first")
    if images and kind != "strips":
        raise ValueError(f"--image is for strips; a {kind} has no images")
    if position is not None and kind == "strips":
        raise ValueError("--position is for pie and evolution; strips show what each transformation does")
    if kind == "evolution" and not Path(source).is_dir():
        raise ValueError(f"{source}: an evolution needs a run, the folder that `slackaug search` wrote")
    drawn: Scene | Image.Image
    if kind == "pie":
        drawn = policy_figures.pie(find_policy(source), position)
    elif kind == "evolution":
        drawn = run_figures.evolution(history.read(source), position)
    else:
        policy = find_policy(source)
        shown = [read_image(image) for image in images] if images else images_of_run(source)
        drawn = pictures.strips_sheet(policy, shown)
    write_atomically(path, in_format(drawn, path.suffix.lower()[1:], kind, f"Each transformation of {source}"))
    print(path)
    return path


def in_format(drawn: Scene | Image.Image, suffix: str, identity: str, title: str) -> bytes:
    if suffix == "svg":
        text = embedded(drawn, title) if isinstance(drawn, Image.Image) else render.svg(drawn, identity)
        return f"{text}\n".encode()
    buffer = io.BytesIO()
    if isinstance(drawn, Image.Image):
        drawn.save(buffer, suffix)
    else:
        render.save(drawn, buffer, suffix)
    return buffer.getvalue()


def find_policy(source: str) -> Policy:
    """That of a run's last finished round, or that of a file, or uniform:SPACE."""
    policy = history.read(source).policy if Path(source).is_dir() else find_slack(source)
    if policy is None:
        raise ValueError(f"{source}: this run has no policy yet; it has one at the end of its first round")
    for remark in of_the_race(policy):
        say(terminal(stderr=True), remark)
    return policy


def read_image(path: PathLike) -> Image.Image:
    """As a search would see it, made as small as it is shown: of a photograph, all strips would take half a minute."""
    try:
        return contact_sheet.read_image(Path(path), pictures.CELL)[0]
    except DataError as error:
        raise ValueError(f"--image {path}: cannot be read as an image ({error})") from error


def images_of_run(source: str) -> list[Image.Image]:
    """Of as many classes, out of the data that the run was given."""
    remedy = "give --image FILE, once or more"
    if not Path(source).is_dir():
        raise ValueError(f"strips need images: {remedy}")
    return samples.find(history.read(source).config.data, None, remedy).pictures[:N_IMAGES]


def embedded(sheet: Image.Image, title: str) -> str:
    """The sheet as an SVG that holds it."""
    content = base64.b64encode(in_format(sheet, "png", "", title)).decode()
    (width, height), identity = sheet.size, "strips-title"
    head = element("title", words(title), id=identity)
    image = element("image", href=f"data:image/png;base64,{content}", width=width, height=height)
    about = {"viewBox": f"0 0 {width} {height}", "role": "img", "aria_labelledby": identity}
    return element("svg", head, image, xmlns="http://www.w3.org/2000/svg", **about)
