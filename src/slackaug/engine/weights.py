"""theta's start from a file: a network that was trained before, to be fine-tuned. Safetensors only: no code is in it.

Names and shapes must be the network's own. The one exception is its last layer: with another number of classes it is
made anew, which is shown.
"""

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from .. import messages
from ..data.options import listing

N_SHOWN = 5


class WeightsError(ValueError):
    """A file of weights does not fit the network; the message says where."""


def read(path: str | Path) -> dict[str, Tensor]:
    path = Path(path)
    if not path.is_file():
        raise WeightsError(f"--weights {path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dictionary
    except (SafetensorError, OSError) as error:
        raise WeightsError(
            f"--weights {path}: not a safetensors file, damaged or cut off ({error}); of a PyTorch checkpoint, save "
            "the state_dict with safetensors.torch.save_file"
        ) from error


def load(model: nn.Module, path: str | Path) -> str:
    """Give the model the file's values; the line that says so."""
    found, own, head = read(path), model.state_dict(), head_of(model)
    counters = {name for name in own if name.endswith("num_batches_tracked")}  # not in all files, and of no use
    missing = shown([name for name in own if name not in found and name not in counters and name not in head])
    strange = shown([name for name in found if name not in own])
    if missing or strange:
        texts = [f"it lacks {missing}"] * bool(missing) + [f"the network has no {strange}"] * bool(strange)
        raise WeightsError(f"--weights {path}: does not fit {type(model).__name__}: {'; '.join(texts)}")
    fits = {name: found[name].shape == own[name].shape for name in own if name in found}
    shapes = [
        f"{name} {tuple(found[name].shape)}, expected {tuple(own[name].shape)}"
        for name in fits
        if not fits[name] and name not in head
    ]
    if shapes:
        raise WeightsError(f"--weights {path}: shapes that do not fit: {shown(shapes, '; ')}")
    is_new = not all(fits.get(name) for name in head)
    kept = [name for name in found if not (is_new and name in head)]
    kinds = [
        f"{name} ({found[name].dtype})"
        for name in kept
        if name not in counters and found[name].is_floating_point() != own[name].is_floating_point()
    ]
    if kinds:
        raise WeightsError(f"--weights {path}: values of another kind than the network's: {shown(kinds)}")
    values = {name: found[name].to(own[name].dtype) for name in kept}  # which may be too small for them
    bad = [name for name, value in values.items() if not torch.isfinite(value).all()]
    if bad:
        raise WeightsError(f"--weights {path}: values that are no numbers in {shown(bad)}")
    model.load_state_dict(values, strict=False)
    old = [found[name].shape[0] for name in head if name in found and found[name].ndim]
    return messages.starts_from(str(path), own[head[0]].shape[0] if is_new else None, old[0] if old else None)


def digest(path: str | Path) -> str:
    """Return the digest of a file's content, by which it is known again."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        raise WeightsError(f"--weights {path}: cannot be read ({error.strerror or error})") from error


def head_of(model: nn.Module) -> list[str]:
    """Names of the last linear layer's tensors: the layer that has a row for each class."""
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return [f"{linear[-1]}.{name}" for name, _ in model.get_submodule(linear[-1]).named_parameters()] if linear else []


def shown(names: list[str], separator: str = ", ") -> str:
    return listing(names[:N_SHOWN], separator) + (f" and {len(names) - N_SHOWN} more" if len(names) > N_SHOWN else "")
