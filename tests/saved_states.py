"""States of a search, in short, and the files of their checkpoints."""

import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def model(value: float) -> dict[str, Tensor]:
    """As a state_dict: several types and shapes, and a number."""
    return {
        "weight": torch.full((2, 3), value),
        "n_batches": torch.tensor(int(value)),
        "bias": torch.arange(3.0) + value,
        "nothing": torch.empty(0),
    }


def state(n: int, theta_0: float = 0.5) -> dict[str, Any]:
    """That of a search in its rounds, in short: theta_0 is as a rule the same."""
    rounds = {
        "search": {"pi": torch.full((2, 2), n), "theta_momentum": torch.full((7,), -1.0 * n)},
        "engine": {"model": model(n), "streams": {"model": torch.arange(n)}},
    }
    return {"config": "x", "n": n, "stages": [{"is_done": True, "theta_0": model(theta_0)}, rounds]}


def equal(a: object, b: object) -> bool:
    """Bit for bit, in types and shapes, too."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(equal, a, b))
    return a == b or (a != a and b != b)  # a loss that is not known yet is NaN


def parts(path: Path) -> dict[str, Path]:
    """The files that a checkpoint refers to, by their kind."""
    content = torch.load(io.BytesIO(path.read_bytes()[32:]), weights_only=True)
    return {name.partition("-")[0]: path.with_name(name) for _, name, _ in content["parts"]}
