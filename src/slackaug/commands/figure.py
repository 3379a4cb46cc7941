"""`slackaug figure`: one figure of a policy or a run, as a file."""

import base64
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from PIL import Image

from ..augment.formats.published import find_slack
from ..augment.policy import Policy
from ..config.options import Path as PathLike
from ..config.options import command
from ..data import DataError, samples
from ..files import write_atomically
from ..judge.candidates import label
from ..judge.studies.plan import read_study
from ..messages.terminal import say, terminal
from ..report import contact_sheet, history, outcome, panels, pictures, policy_figures, render, run_figures
from ..report.history import History
from ..report.panels import Panel
from ..report.policy_table import of_the_race
from ..report.render import element, words
from ..report.scene import Scene
from ..runs.folders import POLICY, STUDY

KINDS = ("pie", "evolution", "strips")
SUFFIXES = (".svg", ".png", ".pdf")
N_IMAGES = 3  # of a run's data


@command
def figure(
    kind: Annotated[str, "what to draw: pie, evolution or strips"],
    source: Annotated[PathLike, "a policy file, a run's or a study's folder, or uniform:SPACE; NAME=SOURCE names it"],
    others: Annotated[Sequence[PathLike], "more of them, beside it in one picture"] = (),
    *,
    out: Annotated[PathLike, "FILE.svg, FILE.png or FILE.pdf"],
    position: Annotated[int | None, "one position of the composite, from 1; else their average"] = None,
    each: Annotated[bool, "every position of the composite, and their average, in one picture"] = False,
    images: Annotated[Sequence[PathLike], "for strips: an image, once or more; else some of the run's"] = (),
) -> Path:
    """Draw a policy as the paper's pie, the course of a search, or strips of what each transformation does.

    Several stand in one picture, with their names; so do the searches of a study, the best of them in a frame.

    Examples:
        slackaug figure pie runs/pets -o policy.svg
        slackaug figure pie clipart=runs/a real=runs/b sketch=runs/c -o domains.svg
        slackaug figure evolution runs/pets --each -o evolution.png
        slackaug figure strips runs/pets --image cat.jpg --image dog.jpg -o strips.png
    """
    path, sources = Path(out), [os.fspath(one) for one in (source, *others)]
    if kind not in KINDS:
        raise ValueError(f"unknown figure {kind!r}; known: {', '.join(KINDS)}")
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"-o {out}: expected a name that ends in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise ValueError(f"-o {out}: there is no folder {path.parent}; make it first")
    if images and kind != "strips":
        raise ValueError(f"--image is for strips; a {kind} has no images")
    if (position is not None or each) and kind == "strips":
        raise ValueError("--position and --each are for pie and evolution; strips show what each transformation does")
    drawn = strips(sources, images) if kind == "strips" else charts(kind, entries(sources), position, each=each)
    write_atomically(path, in_format(drawn, path.suffix.lower()[1:], kind, f"Each transformation of {sources[0]}"))
    print(path)
    return path


class Entry(NamedTuple):
    """What has a panel of its own, if there are several."""

    name: str
    source: str
    is_best: bool = False


def entries(sources: list[str]) -> list[Entry]:
    """With the names that are given, or else short ones, where these differ; for a study, its searches."""
    given = [split(source) for source in sources]
    labels = [name or label(Path(source)) for name, source in given]
    short = [name or Path(source).name.removesuffix(".json") for (name, _), source in zip(given, labels, strict=True)]
    names = short if len({*short}) == len(short) else labels
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice} is given more than once; NAME=SOURCE gives each a name of its own")
    found: list[Entry] = []
    for name, (_, source) in zip(names, given, strict=True):
        is_study = (Path(source) / STUDY).is_file()
        ahead = f"{name}, " if len(sources) > 1 else ""
        found += searches(Path(source), ahead) if is_study else [Entry(name, source)]
    return found


def split(source: str) -> tuple[str, str]:
    """NAME=SOURCE, or a source, whose name may hold that sign, too."""
    name, sign, place = source.partition("=")
    return (name, place) if sign and name and not Path(source).exists() else ("", source)


def searches(folder: Path, ahead: str) -> list[Entry]:
    """Those that have a policy; what their names begin with."""
    study = read_study(folder)
    best, accuracy = outcome.best_search(folder, study) or (None, 0.0)
    runs = {s: folder / "searches" / str(s) for s in range(study.n_search)}
    found = []
    for s, run in runs.items():
        if (run / POLICY).is_file():
            mark = f", best: {100 * accuracy:.2f} %" if s == best else ""
            found.append(Entry(f"{ahead}search {s}{mark}", str(run), s == best))
    if not found:
        raise ValueError(f"{folder}: no search of this study has a policy yet; each has one after its first round")
    return found


def charts(kind: str, shown: list[Entry], position: int | None, *, each: bool) -> Scene:
    """One figure, or several in one picture."""
    if len(shown) > 1 and (position is not None or each):
        raise ValueError(f"--position and --each are for one policy, not for {len(shown)}; draw one after the other")
    if position is not None and each:
        raise ValueError("--each draws every position; leave out --position")
    if kind == "pie":
        policies = [Panel(one.name, find_policy(one.source), None, one.is_best) for one in shown]
        policy = policies[0].shown
        if each:
            return panels.pies(panels.each_position(policy, len(policy.pi)))
        return panels.pies(policies) if len(policies) > 1 else policy_figures.pie(policy, position)
    runs = [Panel(one.name, find_run(one.source), None, one.is_best) for one in shown]
    past = runs[0].shown
    if each:
        return panels.evolutions(panels.each_position(past, len(past.start.pi)))
    return panels.evolutions(runs) if len(runs) > 1 else run_figures.evolution(past, position)


def strips(sources: list[str], images: Sequence[PathLike]) -> Image.Image:
    if len(sources) > 1:
        raise ValueError(f"strips are of one policy, not of {len(sources)}; draw one after the other")
    policy = find_policy(sources[0])
    shown = [read_image(image) for image in images] if images else images_of_run(sources[0])
    return pictures.strips_sheet(policy, shown)


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


def find_run(source: str) -> History:
    if not Path(source).is_dir():
        raise ValueError(f"{source}: an evolution needs a run, the folder that `slackaug search` wrote")
    return history.read(source)


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
