"""Reading a policy in any published format: ours, SLACK's authors', sub-policy lists, DeepAA tables, PBA schedules."""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ... import schema
from ...schema import PolicyError, check_keys, unknown
from ..policy import Policy
from ..policy_file import placed
from ..space import Space, Transform
from ..transforms import SPACES
from . import forms
from .forms import DEEPAA_CROP, DEEPAA_NAMES, PBA, DeepAA, Levels, PBASchedule, SubPolicies, deepaa_transform
from .official import SLACK_FORMAT, read_slack

AnyPolicy = Policy | SubPolicies | DeepAA | PBASchedule
Document = Mapping[str, Any]

SUBPOLICY_KINDS = {
    "subpolicies (op,prob,level 0-9)": forms.AUTOAUGMENT,
    "subpolicies (op,prob,magnitude bin 0-9 or null)": forms.AUTOAUGMENT_TORCHVISION,
    "subpolicies (op,prob,level in [0,1] of op range)": forms.FAST_AA,
    "subpolicies (op,prob,level in [0,1])": forms.DADA,
}
DEEPAA_KIND = "layers x (op,level) probabilities"
PBA_KIND = "PBT updates [target,clone,target_epochs,clone_epochs,old(60 ints),new(60 ints)]"


def load(policy: str | os.PathLike[str], transforms: Mapping[str, Any] | None = None) -> AnyPolicy:
    """The policy in a file of any known format, that of a run, by its folder, or `uniform:SPACE`.

    `transforms` supplies a user's own transformations by name.
    """
    kind, _, space = os.fspath(policy).partition(":")
    if kind != "uniform":
        return read_file(policy_file(policy), transforms)
    if space not in SPACES:
        raise PolicyError(f"{policy}: expected one of {', '.join(f'uniform:{name}' for name in SPACES)}")
    return Policy.uniform(space)


def read_file(path: Path, transforms: Mapping[str, Any] | None = None) -> AnyPolicy:
    document = schema.read_json(path)
    with placed(path):
        return from_document(document, path.stem, transforms)


def policy_file(policy: str | os.PathLike[str]) -> Path:
    """That of a run, where its folder is given."""
    path = Path(policy)
    if not path.is_dir():
        return path
    if not (path / "policy.json").is_file():
        if (path / "config.yaml").is_file():
            raise PolicyError(
                f"{path}: this search has not finished its first round, so it has no policy yet. If it was stopped, "
                f"continue it with slackaug search DATA -o {shlex.quote(str(path))} --resume"
            )
        raise PolicyError(f"{path}: a folder without policy.json; a run has one at the end of its first round")
    return path / "policy.json"


def find_slack(policy: str) -> Policy:
    """One that has pi and mu."""
    found = load(policy)
    if not isinstance(found, Policy):
        raise PolicyError(
            f"{policy}: a {type(found).__name__} of another method, which has no pi and mu; expected a policy of "
            "slackaug, a published one of SLACK, or uniform:SPACE (`slackaug show` prints the others, too)"
        )
    return found


def from_document(document: Document, name: str = "", transforms: Mapping[str, Any] | None = None) -> AnyPolicy:
    """The policy that a file's JSON object describes; `name` is what to call it."""
    if "schema_version" in document:
        return Policy.from_dict(document, transforms)
    if "format" in document:
        found = schema.string(document["format"], "format")
        if found != SLACK_FORMAT:
            raise PolicyError(f"format: {unknown('format', found, [SLACK_FORMAT])}")
        return read_slack(document)
    if "kind" not in document:
        raise PolicyError("expected one of the keys schema_version, format or kind, so it is not a policy")
    kind = schema.string(document["kind"], "kind")
    readers: dict[str, Callable[[Document, str], AnyPolicy]] = {DEEPAA_KIND: read_deepaa, PBA_KIND: read_pba}
    readers = dict.fromkeys(SUBPOLICY_KINDS, read_subpolicies) | readers
    if kind not in readers:
        raise PolicyError(f"kind: {unknown('kind', kind, list(readers))}")
    return readers[kind](document, name)


def read_origin(document: Document) -> dict[str, str]:
    return {key: schema.string(document[key], key) for key in ("source", "licence") if key in document}


probability = partial(schema.number, low=0, high=1)


# --- sub-policies -----------------------------------------------------------------------------------------------------


Entry = tuple[int, float, float]  # one transformation of a sub-policy, its probability and its magnitude


def read_subpolicies(document: Document, name: str) -> SubPolicies:
    check_keys(document, ["kind", "source", "subpolicies"], ["licence"])
    origin = read_origin(document)
    levels = SUBPOLICY_KINDS[document["kind"]]
    if levels is forms.AUTOAUGMENT and "kakaobrain" in origin["source"]:
        levels = forms.AUTOAUGMENT_KAKAOBRAIN
    entry = partial(read_entry, levels=levels)
    subpolicy = partial(schema.sequence, item=entry, low=1, high=16)
    entries: list[list[Entry]] = schema.sequence(document["subpolicies"], "subpolicies", subpolicy, 1, 10_000)
    longest = max(map(len, entries))
    padded = [row + [(0, 0.0, 0.0)] * (longest - len(row)) for row in entries]
    op, probabilities, magnitude = torch.tensor(padded, dtype=torch.float64).unbind(-1)  # (S, L, 3) -> 3 x (S, L)
    return SubPolicies(
        name=name, space=levels.space, op=op.long(), probability=probabilities, magnitude=magnitude, **origin
    )


def read_entry(value: object, where: str, levels: Levels) -> Entry:
    name, chance, level = schema.sequence(value, where, lambda item, _: item, 3, 3)
    name = schema.string(name, f"{where}[0]")
    with placed(f"{where}[0]"):
        op = levels.space.index(name)
    transform, chance = levels.space[name], probability(chance, f"{where}[1]")
    if level is None and transform.span is None:
        return op, chance, 0.0
    number = schema.integer if levels.integral else schema.number
    return op, chance, levels.magnitude(transform, number(level, f"{where}[2]", 0, levels.highest))


# --- DeepAA -----------------------------------------------------------------------------------------------------------

DEEPAA_OP = re.compile(r"(\w+):\((-?\d+(?:\.\d*)?),,(-?\d+(?:\.\d*)?)\)", re.ASCII)  # e.g. Rotate:(-30.0,,30.0)


def read_deepaa(document: Document, name: str) -> DeepAA:
    check_keys(document, ["kind", "policy_probs", "ops", "mags", "l_mags", "op_names"], ["source", "licence"])
    space = read_deepaa_space(document["op_names"])
    top = schema.integer(document["l_mags"], "l_mags", 2, 1000) - 1
    ops = schema.sequence(document["ops"], "ops", partial(schema.integer, low=0, high=len(space) - 1), 1, 10_000)
    level = partial(schema.integer, low=0, high=top)
    levels = schema.sequence(document["mags"], "mags", level, len(ops), len(ops))
    row = partial(schema.sequence, item=probability, low=len(ops), high=len(ops))
    rows: list[list[float]] = schema.sequence(document["policy_probs"], "policy_probs", row, 1, 16)
    for i, layer in enumerate(rows):
        if abs(fsum(layer) - 1) > 1e-5:
            raise PolicyError(f"policy_probs[{i}]: the probabilities sum to {fsum(layer):.6f}, expected 1")
    probabilities = torch.tensor(rows, dtype=torch.float64)
    magnitude = [deepaa_magnitude(space.transforms[op], k / top) for op, k in zip(ops, levels, strict=True)]
    return DeepAA(
        name=name,
        space=space,
        probability=probabilities / probabilities.sum(-1, keepdim=True),  # rounded in the file
        op=torch.tensor(ops),
        magnitude=torch.tensor(magnitude, dtype=torch.float64),
        **read_origin(document),
    )


def read_deepaa_space(value: object) -> Space:
    texts = schema.sequence(value, "op_names", schema.string, 1, 100)
    size = 224 if any(text.startswith(DEEPAA_CROP) for text in texts) else 32
    candidates = []
    for i, text in enumerate(texts):
        where = f"op_names[{i}]"
        match = DEEPAA_OP.fullmatch(text)
        if match is None:
            raise PolicyError(f"{where}: expected a name and its range such as Rotate:(-30.0,,30.0), got {text!r}")
        name, low, high = match.groups()
        if name not in DEEPAA_NAMES:
            raise PolicyError(f"{where}: {unknown('transformation', name, DEEPAA_NAMES)}")
        with placed(where):
            candidates.append(deepaa_transform(name, (float(low), float(high)), size))
    with placed("op_names"):
        return Space("deepaa", tuple(candidates))


def deepaa_magnitude(transform: Transform, level: float) -> tuple[float, float]:
    """Between which magnitudes a choice lies: at its level, but for the crop, whose area is drawn anew."""
    if transform.name == DEEPAA_CROP:
        return 0.0, 1.0
    if transform.name == "Posterize" and transform.span is not None and transform.span[0] != transform.span[1]:
        start, end = transform.span
        level = (int(start + (end - start) * level) - start) / (end - start)  # their code cuts the bits
    return level, level


# --- PBA --------------------------------------------------------------------------------------------------------------


class Update(NamedTuple):
    """The trial `target` became a copy of `clone`, which had run for `epoch` epochs, and went on with other entries."""

    target: str
    clone: str
    epoch: int
    old: list[int]
    new: list[int]


def read_pba(document: Document, name: str) -> PBASchedule:
    """The schedule of the last trial: what its ancestors ran with, each until the next was copied from it."""
    check_keys(document, ["kind", "updates"], ["source", "licence", "epochs"])
    default = next((n for data, n in forms.PBA_EPOCHS.items() if data in name), forms.PBA_DEFAULT_EPOCHS)
    n_epochs = schema.integer(document.get("epochs", default), "epochs", 1, 100_000)
    update = partial(read_update, n_epochs=n_epochs)
    updates: list[Update] = schema.sequence(document["updates"], "updates", update, 1, 10_000)
    breaks = [i for i, (a, b) in enumerate(pairwise(updates), 1) if a.target != b.clone]
    first = breaks[-1] if breaks else 0  # the log may begin with lines of other lines of descent
    lineage = updates[first:]
    for i, (a, b) in enumerate(pairwise(lineage), first + 1):
        if b.epoch < a.epoch:
            raise PolicyError(f"updates[{i}][3]: the schedule goes back from epoch {a.epoch} to {b.epoch}")
    phases = torch.tensor([lineage[0].old, *(u.new for u in lineage)])  # (P, 2 E)
    chance, level = phases.view(len(phases), -1, 2).unbind(-1)  # 2 x (P, E)
    magnitude = [
        [PBA.magnitude(t, k) for t, k in zip(PBA.space.transforms * forms.PBA_COPIES, row, strict=True)]
        for row in level.tolist()
    ]
    return PBASchedule(
        name=name,
        n_epochs=n_epochs,
        first_epoch=torch.tensor([0, *(u.epoch for u in lineage)]),
        probability=chance.double() / 10,
        magnitude=torch.tensor(magnitude, dtype=torch.float64),
        **read_origin(document),
    )


def read_update(value: object, where: str, n_epochs: int) -> Update:
    target, clone, ran, epoch, old, new = schema.sequence(value, where, lambda item, _: item, 6, 6)
    schema.integer(ran, f"{where}[2]", 0, n_epochs)  # of the trial that was given up: checked, and of no use
    return Update(
        schema.string(target, f"{where}[0]"),
        schema.string(clone, f"{where}[1]"),
        schema.integer(epoch, f"{where}[3]", 0, n_epochs),
        read_settings(old, f"{where}[4]"),
        read_settings(new, f"{where}[5]"),
    )


def read_settings(value: object, where: str) -> list[int]:
    """Pairs of a probability in tenths and a level, for each transformation, twice."""
    n = 2 * forms.PBA_COPIES * len(PBA.space)
    settings = schema.sequence(value, where, lambda item, _: item, n, n)
    return [schema.integer(x, f"{where}[{i}]", 0, PBA.highest if i % 2 else 10) for i, x in enumerate(settings)]
