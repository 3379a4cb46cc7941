"""What a training leaves: its result, its weights, and how they are found again."""

import base64
import json
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import save as to_safetensors
from torch import Tensor

from .. import __version__
from ..data import Dataset
from ..engine.fit import Fit
from ..files import read_note, write_atomically
from ..runs import provenance
from .protocols import Training
from .scoring import Score

NUMBERS = ("seed", "accuracy", "balanced_accuracy", "imbalance", "seconds", "images_per_second")  # of every result


def keep(training: Training, fit: Fit, data: Dataset, score: Score, seconds: float, more: dict[str, Any]) -> None:
    """The weights first: a result says that all is there."""
    if training.model_file is not None:
        training.model_file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(training.model_file, weights(training, fit, data, score))
    n_images = fit.n_steps * fit.feed.batches.batch
    result = {
        "key": training.key,
        "name": training.name,
        "seed": training.seed,
        **score._asdict(),
        "seconds": round(seconds, 3),
        "images_per_second": round(n_images / max(seconds, 1e-9), 1),
        **more,
        "commit": provenance.commit(),
    }
    write_atomically(training.result_file, json.dumps(result).encode())
    shutil.rmtree(training.checkpoint_folder, ignore_errors=True)


def pack(answers: Tensor) -> list[int | str]:
    """Whether each image was answered right: their number, and a bit for each."""
    bits = np.packbits(answers.cpu().numpy()).tobytes()
    return [len(answers), base64.b64encode(bits).decode()]


def unpack(packed: tuple[int, str]) -> NDArray[np.bool_]:
    n, bits = packed
    return np.unpackbits(np.frombuffer(base64.b64decode(bits), np.uint8), count=n).astype(bool)


def weights(training: Training, fit: Fit, data: Dataset, score: Score) -> bytes:
    """The file of a model, and in its metadata all that is needed to use it: texts, as the format has it."""
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in fit.model.state_dict().items()}
    about = {
        "slackaug": __version__,
        "model": training.protocol.model,
        "classes": json.dumps(data.class_names),
        "size": json.dumps(data.image_size),  # height and width
        "mean": json.dumps(data.mean),
        "std": json.dumps(data.std),
        "policy": training.name,
        "seed": str(training.seed),
        "accuracy": str(score.accuracy),
    }
    return to_safetensors(tensors, about)


def read(trainings: Sequence[Training]) -> list[dict[str, Any] | None]:
    """What earlier processes found of trainings in one folder, if they did these very ones, whatever names they had.

    Nothing of one that was done, but whose weights were not kept.
    """
    folders = {one.result_file.parent for one in trainings}
    notes = [read_note(path) for folder in folders for path in sorted(folder.glob("*.json"))]
    by_key = {note["key"]: note for note in notes if is_result(note)}
    found = [by_key.get(one.key) if one.model_file is None or one.model_file.is_file() else None for one in trainings]
    return [result and result | {"name": one.name} for one, result in zip(trainings, found, strict=True)]


def is_result(document: dict[str, Any]) -> bool:
    numbers = [document.get(name) for name in NUMBERS]
    return isinstance(document.get("key"), str) and all(
        isinstance(number, int | float) and abs(number) < 1e300 for number in numbers
    )
