"""What to type to use the answer of a search."""

import json
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from ..config.layers import is_foreign
from ..config.run_config import RunConfig
from ..export.fidelity import ALONE, FIDELITY, is_here
from ..judge.ready_made import TORCHVISION, targets
from ..judge.verdicts import longer
from ..messages.answer import capital, no_augmentation
from ..messages.names import spoken
from ..runs.folders import POLICY, is_start
from .history import History

Size = tuple[int, int] | None  # height and width of the images, where they are known
Step = tuple[str, str]  # what it is for, and what to type

POLICY_CODE = """\
import slackaug

augment = slackaug.SlackAugment({file})
images = augment(images)  # PIL, or (B, C, H, W)"""
TORCHVISION_CODE = """\
import torch
from torchvision.transforms import v2
from slackaug.torchvision import SlackAugment

augment = SlackAugment({file})
pipeline = v2.Compose([
    augment,
    v2.ToImage(),
    v2.ToDtype(torch.float32, scale=True),
    v2.Normalize(augment.policy.mean, augment.policy.std),
])"""


class Use(NamedTuple):
    """The steps stand at the top of the page; the others are one click away."""

    note: str
    steps: list[Step]
    others: list[Step]
    heading: str = "Use it"


def of_run(past: History, folder: Path, size: Size) -> Use | None:
    """None where there is nothing to use yet, or policy.json is broken."""
    if past.policy is None or past.is_stand_in:
        return None
    name, source = past.policy.learned.get("use"), past.config.data.source
    if past.race is not None and past.race.use is None:
        again = search_longer(source, str(folder), past.config)
        return Use("", [("Search with longer trainings", again)], [], "What to do")
    if name == "none":
        return Use(f"{capital(no_augmentation(flip=past.policy.flip))}.", [], [])
    if past.policy.learned.get("is_answer") is False and isinstance(name, str):
        return without_policy(name, folder, source, size, has_learned=not is_start(past.policy.learned))
    found = with_policy(folder)
    compare = command("evaluate", source, "-p", str(folder), "--baselines", "uniform-2,trivialaugment-wide")
    if past.race is not None:
        return found._replace(others=[*found.others, ("On your test images", compare)])
    return found._replace(steps=[("Does it help?", compare), *found.steps])


def with_policy(folder: Path) -> Use:
    """What to use is the folder's policy.json."""
    file = str(folder / POLICY)
    quoted = json.dumps(file, ensure_ascii=False)
    steps = [
        ("In your training", POLICY_CODE.format(file=quoted)),
        ("Or as one file that needs no slackaug", export(file)),
    ]
    pipeline = ("In a pipeline of torchvision", TORCHVISION_CODE.format(file=quoted))
    return Use("", steps, [pipeline, ("As a table in the terminal", command("show", file))])


def without_policy(name: str, folder: Path, source: str, size: Size, *, has_learned: bool) -> Use:
    """The answer is something else, such as TrivialAugment."""
    below = ": the policy below was learned, and is not the answer" if has_learned else ""
    note = f"{capital(spoken(name))} needs no policy file{below}."
    if size is not None and (known := targets(name, size)):
        beside = " The file has the usual crops, too, which it had in the race." if name != "default" else ""
        return Use(note + beside, [("As one file that needs no slackaug", export(str(folder), known))], [])
    return Use(note, [("Train with it, and keep the networks", train_command(source, name))], [])


def export(source: str, known: Collection[str] = FIDELITY) -> str:
    """For torchvision, or torch alone if it is not installed; `known` are the libraries that have the answer."""
    to = ALONE if ALONE in known and not is_here(TORCHVISION) else TORCHVISION
    return command("export", source, "--to", to, "-o", "augment.py")


def train_command(source: str, name: str) -> str:
    return command("evaluate", source, "--baselines", name, "--save-models", "models", "-o", "runs/trained")


def search_longer(source: str, folder: str, config: RunConfig) -> str:
    """The same search beside it, with more time for its networks to learn."""
    model = ["--model", config.model] if is_foreign(config.model) else []
    again = *model, *longer(config)
    return command("search", source, "-o", f"{folder}-longer", "--config", f"{folder}/config.yaml", *again)


def command(*words: str) -> str:
    return shlex.join(["slackaug", *words])
