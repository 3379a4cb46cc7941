"""Images that a Python program holds, made into one file that every process of a search can read, and --resume too.

What is made of files becomes a list of them, images-DIGEST.csv; all else images-DIGEST.npz. The name is that of the
content, so the same images find their file again. torchvision, datasets and pandas are never imported here: if they
are not loaded, the object is not one of theirs.
"""

import csv
import hashlib
import io
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch import Tensor

from ..files import temporary_name, write_atomically
from .arrays import kinds_of
from .decode import Array
from .items import Arrays, classes_of, item, levels, stacked
from .options import DataConfig, DataError, Progress, is_path, silent
from .packages import Pairs, find_columns

FILES = ("images-*.npz", "images-*.csv")
N_TWICE = 16  # items that are read twice: a random transform shows in nearly all of them
KINDS = (
    "a torchvision ImageFolder", "a pandas frame with the columns path and label", "a Hugging Face Dataset",
    "(X, y) as arrays or tensors", "a data set of pairs (image, label)",
)  # fmt: skip
Listed = list[dict[str, str]]  # the rows of a csv: path, label and perhaps more


def for_a_look(data: Any) -> AbstractContextManager[str]:
    """A folder for the file of images that are only looked at; no path needs one."""
    return nullcontext("") if is_path(data) else TemporaryDirectory(prefix="slackaug-")


def file_of(
    data: Any, test: Any, folder: str | Path, options: DataConfig, progress: Progress = silent, *, is_new: bool = True
) -> str:
    """A path or a name as it is; for all else the file of its images in `folder`, which is written if `is_new`.

    The items of a data set are stored at the size of the options.
    """
    if is_path(data):
        if test is not None:
            raise DataError("test= goes with images in memory; in a folder, test images are in test/")
        return os.fspath(data)
    if is_path(test):
        raise DataError("test= is a path, and data is not; give the same kind twice")
    given = {"train": data} if test is None else {"train": data, "test": test}
    found = {part: read_held(one, f"{part} images", options, progress) for part, one in given.items()}
    stacks = {part: one for part, one in found.items() if isinstance(one, Arrays)}
    lists = {part: one for part, one in found.items() if not isinstance(one, Arrays)}
    if stacks and lists:
        raise DataError("one of data and test is a list of files, the other holds images; give the same kind twice")
    content = as_npz(stacks) if stacks else as_csv(lists)
    path = Path(folder) / f"images-{digest(content)}.{'npz' if stacks else 'csv'}"
    if not path.is_file():
        if not is_new:
            raise DataError(f"{folder}: these are not the images of this run; give those that it began with")
        write(path, content)
    return str(path)


def read_held(data: Any, where: str, options: DataConfig, progress: Progress) -> Arrays | Listed:
    if is_of(data, "torchvision.datasets", "ImageFolder"):  # its files, which are read without its transform
        return [{"path": os.path.abspath(path), "label": data.classes[label]} for path, label in data.samples]
    if is_of(data, "pandas", "DataFrame"):
        return frame(data, where)
    if type(data) in (tuple, list) and len(data) == 2 and getattr(data[0], "ndim", 0) > 2:
        labels = data[1].detach().cpu().numpy() if isinstance(data[1], Tensor) else np.asarray(data[1])
        images, labels = levels(data[0], where), labels.astype(str) if labels.dtype.kind == "O" else labels
        return Arrays(images, labels, kinds_of([images], where))
    if is_of(data, "datasets", "Dataset"):
        data = Pairs(data, *find_columns(where, data.features, ""))
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, Mapping):
        return of_pairs(data, where, options, progress)
    more = "; give its .dataset" if hasattr(data, "dataset") else ""
    more = "; give one part, such as data['train'], and another as test=" if isinstance(data, Mapping) else more
    raise DataError(f"{where}: expected a path, {', '.join(KINDS)}; got {type(data).__name__}{more}")


def is_of(data: Any, module: str, name: str) -> bool:
    """Whether it is of a class of a package that may not be installed."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(data, kind)


def frame(data: Any, where: str) -> Listed:
    """Its rows; a value that is missing becomes empty, and is found with the others of the csv."""
    if missing := [column for column in ("path", "label") if column not in data.columns]:
        raise DataError(f"{where}: expected a frame with the columns path and label; missing {', '.join(missing)}")
    rows = [
        {str(key): "" if value is None or value != value else str(value) for key, value in row.items()}
        for row in data.to_dict("records")
    ]
    return [row | {"path": row["path"] and os.path.abspath(row["path"])} for row in rows]


def of_pairs(data: Any, where: str, options: DataConfig, progress: Progress) -> Arrays:
    for i in range(min(len(data), N_TWICE)):
        first, again = (item(data, i, where, options)[0] for _ in range(2))
        if not np.array_equal(first, again):
            raise DataError(f"{where}: item {i} is another image each time; give the data set without its transform")
    return stacked(data, classes_of(data), where, options, progress)


# --- files ------------------------------------------------------------------------------------------------------------


def as_npz(parts: Mapping[str, Arrays]) -> dict[str, Array]:
    """The arrays of the file by their keys."""
    found = {f"{part}_{what}": getattr(one, what) for part, one in parts.items() for what in ("images", "labels")}
    names, *others = (one.class_names for one in parts.values())
    if others not in ([], [None], [names]):
        raise DataError(f"data and test have different classes: {names} and {others[0]}")
    return found if names is None else found | {"class_names": np.array(names)}


def as_csv(parts: Mapping[str, Listed]) -> bytes:
    if len(parts) > 1:
        if any("split" in row for rows in parts.values() for row in rows):
            raise DataError("the column split says which images are for testing; give either it or test=")
        parts = {part: [row | {"split": part} for row in rows] for part, rows in parts.items()}
    rows, text = [row for some in parts.values() for row in some], io.StringIO()
    columns = dict.fromkeys(["path", "label", *(key for row in rows for key in row)])
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def digest(content: bytes | dict[str, Array]) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()[:8]
    found = hashlib.sha256()
    for key, array in content.items():
        found.update(f"{key} {array.shape} {array.dtype}".encode())
        found.update(np.ascontiguousarray(array).view(np.uint8).data)
    return found.hexdigest()[:8]


def write(path: Path, content: bytes | dict[str, Array]) -> None:
    """Whole or not at all; arrays may be too large to be copied in memory first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        write_atomically(path, content)
        return
    temporary = path.with_name(temporary_name(path.name))
    try:
        with temporary.open("wb") as file:
            np.savez(file, **content)  # type: ignore[arg-type]
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
