"""A policy as a file of Python for somebody else's pipeline, with the numbers inside and no need of slackaug."""

import keyword
import os
import sys
from pathlib import Path

from .. import schema
from ..augment.formats.published import find_slack, policy_file
from ..augment.policy import Policy
from ..augment.space import Transform
from ..augment.transforms import TRANSFORMS
from ..files import check_new, write_atomically
from ..messages.answer import not_the_answer
from . import fidelity, text
from .fidelity import ALONE, FIDELITY

LEARNED = "to export it all the same, give the file of its last round, in policies/"
FACTORS = ("Contrast", "Color", "Brightness", "Sharpness")
TAKES_NEGATIVE_FACTORS = ("python", "timm")
TORCH = ("torch", "pytorch")  # what people call the target that needs it alone
LIBRARIES = {"albumentations", "kornia", "numpy", "PIL", "timm", "torch", "torchvision"}  # that exported files import


class ExportError(ValueError):
    """This policy cannot be exported, or not like this."""


def render(policy: Policy, to: str, name: str = "", title: str = "") -> str:
    """The text of the file for the target `to`; `name` says where the policy is from, `title` what it is."""
    check(policy, to)
    return text.compose(policy, to, name, title)


def check(policy: Policy, to: str) -> None:
    check_target(to)
    for transform in policy.space:
        if is_own(transform):
            raise ExportError(not_ours([transform.name]))
        lowest = 1 - max(map(abs, transform.span or (0.0,))) if transform.signed else 1 + min(transform.span or (0.0,))
        if transform.name in FACTORS and lowest < 0 and to not in TAKES_NEGATIVE_FACTORS:
            raise ExportError(
                f"{transform.name} reaches the factor {lowest:g}, and {to} takes none below 0; "
                f"use --to {' or --to '.join(TAKES_NEGATIVE_FACTORS)}"
            )


def check_target(to: str) -> None:
    if to.lower() in TORCH:
        raise ExportError(f"unknown target {to!r}; did you mean {ALONE} (torch alone)?")
    if to not in FIDELITY:
        raise ExportError(schema.unknown("target", to, list(FIDELITY)))


def is_own(transform: Transform) -> bool:
    """Whether it is a user's, also under the name of one of ours."""
    known = TRANSFORMS.get(transform.name)
    return known is None or transform.is_foreign or (transform.kernel, transform.pil) != (known.kernel, known.pil)


def not_ours(names: list[str]) -> str:
    return (
        f"{', '.join(map(repr, names))}: not among slackaug's transformations, and only those can be exported; use "
        "slackaug.SlackAugment(slackaug.Policy.load(FILE, transforms={...})), or search without (--exclude)"
    )


def find(policy: str) -> Policy:
    """A policy that can be exported: a file, the folder of a run, or `uniform:SPACE`."""
    if not policy.startswith("uniform:"):
        names = schema.read_json(policy_file(policy)).get("transformations")
        unknown = [name for name in names if name not in TRANSFORMS] if isinstance(names, list) else []
        if unknown and all(isinstance(name, str) for name in unknown):
            raise ExportError(f"{policy}: {not_ours(unknown)}")
    return find_slack(policy)


def import_line(out: str | os.PathLike[str], what: str = "SlackAugment") -> str:
    """How to come by what was written; not every file's name can be a module's."""
    name = Path(out).stem
    if name.isidentifier() and not keyword.iskeyword(name):
        return f"from {name} import {what}"
    return "to import it, give it a name of letters, digits and _, such as augment.py"


def write(policy: str, to: str, out: str | os.PathLike[str], *, overwrite: bool = False) -> str:
    """Export to a file; returns the table of fidelity."""
    path, found = new_file(out, overwrite=overwrite), find(policy)
    if found.learned.get("is_answer") is False:
        raise ExportError(f"{policy}: {not_the_answer(found.learned['use'])}; {LEARNED}")
    write_atomically(path, render(found, to, policy).encode())
    return fidelity.table(to, found)


def new_file(out: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """A place that a file of Python may be written to."""
    path = Path(out)
    if path.suffix != ".py":
        raise ExportError(f"{path}: expected a name that ends in .py")
    if path.stem in LIBRARIES | sys.stdlib_module_names:
        raise ExportError(f"{path}: would hide the module {path.stem} from all beside it; choose another -o")
    check_new(path, overwrite=overwrite)
    return path
