"""The checkpoints of a folder: states as files, of which the newest whole one is found again.

A checkpoint is a small file, NNNNNN.pt, and a part for each thing as large as the model: theta, momentum and theta_0.
The small file has the checksums of its parts and its own. It is written last: before it is there, there is no
checkpoint. A part is named after its content, so what an earlier checkpoint refers to is never replaced by something
else, and what does not change, such as theta_0 during a search, is written once.
"""

import hashlib
import io
import math
import zipfile
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..files import temporary_name, write_atomically

DIGEST = 32  # bytes of the checksum at the head of a small file
NAMED_BY = 16  # hexadecimal digits of a part's checksum that are in its name
KEPT = 2  # checkpoints
Where = tuple[str | int, ...]  # the keys that lead to a place in a state
PARTS: dict[Where, str] = {  # where a state has what is as large as the model; the states of ranks are such states, too
    ("theta_0",): "theta_0",
    ("engine", "model"): "theta",
    ("search", "theta_momentum"): "momentum",
    ("fit", "model"): "theta",
    ("fit", "momentum"): "momentum",
    ("first",): "theta",  # what whole trainings start from
}
SMALL_FILES = f"{'[0-9]' * 6}.pt"  # not a copy that somebody keeps under a longer name
PART_FILES = tuple(f"{name}-{'[0-9a-f]' * NAMED_BY}.pt" for name in sorted(set(PARTS.values())))


class Damaged(ValueError):
    """A file of a checkpoint is missing, or is not what was once written."""


class Checkpoints:
    """Those of one folder, which belongs to one process at a time."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.n_saved = 0  # up to the newest whole one

    def paths(self) -> list[Path]:
        """List them from the oldest to the newest."""
        return sorted(path for path in self.folder.glob(SMALL_FILES) if path.is_file())

    def save(self, state: dict[str, Any]) -> None:
        self.folder.mkdir(exist_ok=True)  # not those above it: a folder that has vanished is to be noticed
        self.sweep()  # first, too: what a killed process has left takes up room
        parts: dict[Where, Any] = {}
        small = take_out(state, parts)
        small["parts"] = [[list(where), *self.save_part(where, value)] for where, value in parts.items()]
        content = to_bytes(small)
        write_atomically(self.folder / f"{self.n_saved:06d}.pt", hashlib.sha256(content).digest() + content)
        self.n_saved += 1
        self.sweep()

    def save_part(self, where: Where, value: Any) -> tuple[str, str]:
        """The name of its file, and its checksum."""
        content = to_bytes(to_vectors(value))
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / f"{part_name(where)}-{digest[:NAMED_BY]}.pt"
        if not path.is_file() or path.read_bytes() != content:
            write_atomically(path, content)
        return path.name, digest

    def sweep(self) -> None:
        """Leave the last ones saved and what they refer to: no part else, nor what was to become one."""
        kept = set()
        for path in self.paths():
            if not self.n_saved - KEPT <= int(path.stem) < self.n_saved:
                path.unlink()
                continue
            with suppress(Damaged):  # nobody could say which its parts were
                kept |= {name for _, name, _ in read_small(path)["parts"]}
        for pattern in (*PART_FILES, *map(temporary_name, PART_FILES)):
            for path in self.folder.glob(pattern):
                if path.name not in kept:
                    path.unlink()

    def load(self) -> tuple[dict[str, Any] | None, list[Damaged]]:
        """The newest checkpoint that is whole, if there is one, and what is wrong with those after it."""
        wrong = []
        for path in reversed(self.paths()):
            try:
                state = read(path)
            except Damaged as error:
                wrong.append(error)
                continue
            self.n_saved = int(path.stem) + 1
            return state, wrong
        return None, wrong


def read(path: Path) -> dict[str, Any]:
    """The state of a checkpoint, its parts included."""
    state = read_small(path)
    for (*way, last), name, digest in state.pop("parts"):
        try:
            place: Any = reduce(getitem, way, state)
            place[last] = from_vectors(read_part(path.with_name(name), digest))
        except Damaged:
            raise
        except Exception:  # whole, but somebody else's
            raise Damaged(f"{path}: damaged") from None
    return state


def read_small(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    state: dict[str, Any] = checked(path, content[DIGEST:], content[:DIGEST].hex())
    match state:
        case {"config": _, "parts": [*parts]} if all(map(is_part, parts)):
            return state
    raise Damaged(f"{path}: damaged")


def is_part(entry: Any) -> bool:
    """Where it belongs, the name of a file beside the checkpoint, and its checksum."""
    match entry:
        case [[_, *_], str(name), str()]:
            return any(fnmatchcase(name, pattern) for pattern in PART_FILES)
    return False


def read_part(path: Path, digest: str) -> Any:
    if not path.is_file():
        raise Damaged(f"{path}: missing")
    return checked(path, path.read_bytes(), digest)


def checked(path: Path, content: bytes, digest: str) -> Any:
    """What the content of a file says, if it is what was once written."""
    if hashlib.sha256(content).hexdigest() == digest:
        with suppress(Exception):  # torch raises nearly anything on a file that is not its own
            return from_bytes(content)
    raise Damaged(f"{path}: damaged")


# --- states and their parts -------------------------------------------------------------------------------------------


def part_name(where: Where) -> str | None:
    """Compare how the path ends: in front there may be a rank."""
    return next((name for way, name in PARTS.items() if where[-len(way) :] == way), None)


def take_out(state: Any, parts: dict[Where, Any], where: Where = ()) -> Any:
    """The state without its parts, which come into `parts`; the given one stays as it is."""
    if isinstance(state, list):
        return [take_out(value, parts, (*where, n)) for n, value in enumerate(state)]
    if not isinstance(state, dict):
        return state
    parts |= {(*where, key): value for key, value in state.items() if part_name((*where, key))}
    return {key: take_out(value, parts, (*where, key)) for key, value in state.items() if (*where, key) not in parts}


def to_vectors(part: Tensor | dict[str, Tensor]) -> Any:
    """Copy to the CPU, a model's tensors of one type as one vector: hundreds of copies from a GPU would be slow."""
    if isinstance(part, Tensor):
        return part.cpu()
    of_type: dict[torch.dtype, dict[str, Tensor]] = {}
    for name, tensor in part.items():
        of_type.setdefault(tensor.dtype, {})[name] = tensor
    return [
        {
            "shapes": {name: list(tensor.shape) for name, tensor in tensors.items()},
            "vector": torch.cat([tensor.reshape(-1) for tensor in tensors.values()]).cpu(),
        }
        for tensors in of_type.values()
    ]


def from_vectors(saved: Any) -> Any:
    if isinstance(saved, Tensor):
        return saved
    part: dict[str, Tensor] = {}
    for group in saved:
        shapes = group["shapes"]
        tensors = group["vector"].split([math.prod(shape) for shape in shapes.values()])
        part |= {name: tensor.view(shape) for (name, shape), tensor in zip(shapes.items(), tensors, strict=True)}
    return part


def to_bytes(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def from_bytes(content: bytes) -> Any:
    """Tensors and plain values only: a file cannot run code. Nor does it become larger than it is: torch packs nothing,
    and reads what somebody else has packed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(member.file_size for member in archive.infolist()) > len(content):
            raise ValueError("unpacks to more than it is")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
