"""Policies in published formats, made up; and where the published files themselves lie, if they are there."""

from pathlib import Path
from typing import Any

from slackaug.augment.formats.published import DEEPAA_KIND, PBA_KIND, SUBPOLICY_KINDS
from slackaug.augment.policy import Policy

REFERENCE = Path(__file__).parents[2] / "shared" / "reference"
FILES = [path for path in sorted(REFERENCE.glob("*/*.json")) if path.name != "index.json"]
AUTOAUGMENT_KIND, TORCHVISION_KIND, FAST_AA_KIND, DADA_KIND = SUBPOLICY_KINDS


def subpolicies(kind: str = AUTOAUGMENT_KIND, source: str = "made up", **changes: Any) -> dict[str, Any]:
    level = 0.25 if "[0,1]" in kind else 5
    entries = [[["Rotate", 0.5, level], ["Invert", 1.0, level]], [["Solarize", 0.25, level]]]
    return {"kind": kind, "source": source, "licence": "ours", "subpolicies": entries} | changes


def deepaa(**changes: Any) -> dict[str, Any]:
    return {
        "kind": DEEPAA_KIND,
        "policy_probs": [[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0]],
        "ops": [0, 1, 2, 3],
        "mags": [6, 12, 4, 6],
        "l_mags": 13,
        "op_names": ["Identity:(0.0,,1.0)", "Color:(0.1,,1.9)", "Posterize:(4.0,,8.0)", "RandCutout:(0.0,,1.0)"],
    } | changes


def pba(*updates: list[Any], **changes: Any) -> dict[str, Any]:
    default = [["1", "0", 9, 10, [0] * 60, [5, 9] * 30], ["2", "1", 52, 50, [5, 9] * 30, [10, 0] * 30]]
    return {"kind": PBA_KIND, "updates": list(updates) or default} | changes


def slack(**changes: Any) -> dict[str, Any]:
    names = "Rotate Solarize Posterize Invert RandomResizeCrop".split()  # noqa: SIM905
    ranges = dict(zip(names, ([0, 90], [0, 255], [0, 6], None, [0, 0.95]), strict=True))
    return {
        "format": "slack-official-policy/1",
        "source": "made up",
        "dataset": "domainnet-made-up",
        "split": 3,
        "search_hyperparameters": {"rounds": 10},
        "num_ops": 2,
        "transformations": names,
        "magnitude_ranges": ranges,
        "magnitude_free": ["Invert"],
        "sigma": 0.1,
        "logits": [[0.0, 1.0, -1.0, 0.5, 0.0], [0.0] * 5],
        "mu": [0.5, 1.0, 0.75, 0.9, 0.1],
    } | changes


DOCUMENTS = {
    **{kind: subpolicies(kind) for kind in SUBPOLICY_KINDS},
    "deepaa": deepaa(),
    "pba": pba(),
    "slack": slack(),
    "ours": Policy.uniform("cifar").to_dict(),
}
