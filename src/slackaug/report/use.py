"""What to type to use the answer of a search."""

import json
import shlex
from pathlib import Path
from typing import NamedTuple

from ..augment.policy import Policy
from ..augment.prepare import SMALL_IMAGE
from ..config.layers import is_foreign
from ..config.run_config import RunConfig
from ..judge.answer import longer
from ..messages.answer import capital, no_augmentation
from ..messages.names import spoken
from ..runs.folders import POLICY, is_start
from .history import History

Size = tuple[int, int] | None  # height and width of the images, where they are known
Step = tuple[str, str]  # what it is for, and what to type
OWN_LINES = {"default": [], "trivialaugment-wide": ["v2.TrivialAugmentWide()"]}  # beside what both are raced with
AS_RACED = "These lines do what was raced; the normalisation follows them."
CUTOUT = " The last three are Cutout."

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
LINES_CODE = """\
from torchvision.transforms import v2

augment = v2.Compose([
{lines}
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
        side = past.config.data.size
        return without_policy(name, source, size if side is None else (side, side), past.policy)
    found = with_policy(folder)
    compare = command("evaluate", source, "-p", str(folder), "--baselines", "uniform-2,trivialaugment-wide")
    if past.race is not None:
        return found._replace(others=[*found.others, ("On your test images", compare)])
    return found._replace(steps=[("Does it help?", compare), *found.steps])


def with_policy(folder: Path) -> Use:
    """What to use is the folder's policy.json."""
    file = str(folder / POLICY)
    quoted = json.dumps(file, ensure_ascii=False)
    export = command("export", file, "--to", "torchvision", "-o", "augment.py")
    steps = [("In your training", POLICY_CODE.format(file=quoted)), ("Or as one file that needs no slackaug", export)]
    pipeline = ("In a pipeline of torchvision", TORCHVISION_CODE.format(file=quoted))
    return Use("", steps, [pipeline, ("As a table in the terminal", command("show", file))])


def without_policy(name: str, source: str, size: Size, policy: Policy) -> Use:
    """The answer is something else, such as TrivialAugment."""
    below = "" if is_start(policy.learned) else ": the policy below was learned, and is not the answer"
    note = f"{capital(spoken(name))} needs no policy file{below}."
    if size is not None and name in OWN_LINES:
        lines = "\n".join(f"    {line}," for line in lines_for(name, size, policy))
        remark = AS_RACED + CUTOUT * (max(size) <= SMALL_IMAGE)
        return Use(f"{note} {remark}", [("In your training", LINES_CODE.format(lines=lines))], [])
    train = command("evaluate", source, "--baselines", name, "--save-models", "models")
    return Use(note, [("Train with it, and keep the networks", train)], [])


def lines_for(name: str, size: tuple[int, int], policy: Policy) -> list[str]:
    """What does it in torchvision, with the crop, the colours, the flip and the Cutout that it was raced with
    (judge/baselines.py)."""
    own, flip = OWN_LINES[name], ["v2.RandomHorizontalFlip()"] * policy.flip
    if max(size) > SMALL_IMAGE:
        return [f"v2.RandomResizedCrop({size})", *own, "v2.ColorJitter(0.4, 0.4, 0.4)", *flip]
    height, width = size
    side = round(width / 2)
    half = side // 2
    share = side**2 / ((height + 2 * half) * (width + 2 * half))  # of the image with what a square may reach beyond it
    erase = f"v2.RandomErasing(p=1, scale=({share:.6f}, {share:.6f}), ratio=(1, 1), value={[*policy.fill]})"
    cutout = [f"v2.Pad({half})", erase, f"v2.CenterCrop({size})"]
    crop = f"v2.RandomCrop({size}, padding=({round(width / 8)}, {round(height / 8)}))"
    return ["v2.ToImage()", *own, crop, *flip, *cutout]


def search_longer(source: str, folder: str, config: RunConfig) -> str:
    """The same search beside it, with more time for its networks to learn."""
    model = ["--model", config.model] if is_foreign(config.model) else []
    settings = [word for one in longer(config) for word in ("--set", one)]
    return command("search", source, "-o", f"{folder}-longer", "--config", f"{folder}/config.yaml", *model, *settings)


def command(*words: str) -> str:
    return shlex.join(["slackaug", *words])
