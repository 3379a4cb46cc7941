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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from torch import Tensor

from ..files import temporary_name, write_atomically
from . import decode
from .arrays import channels_last
from .decode import Array, to_8_bits
from .files import check_memory, one_size
from .options import DataConfig, DataError, Progress, is_path, silent
from .packages import find_columns

FILES = ("images-*.npz", "images-*.csv")
N_TWICE = 16  # items that are read twice: a random transform shows in nearly all of them
NEAR_A_LEVEL = 1 / 8  # of 8 bits: what half precision loses


class Arrays(NamedTuple):
    images: Array  # (B, H, W[, C]) or (B, C, H, W), of 8 or 16 bits
    labels: Array  # (B,)
    class_names: list[str] | None = None


Listed = list[dict[str, str]]  # the rows of a csv: path, label and perhaps more
Reader = Callable[[Any, str, DataConfig, Progress], Arrays | Listed]


@contextmanager
def for_a_look(data: Any) -> Iterator[Path]:
    """A folder for the file of images that are only looked at; no path needs one."""
    if is_path(data):
        yield Path()
        return
    with TemporaryDirectory(prefix="slackaug-") as folder:
        yield Path(folder)


def file_of(
    data: Any, test: Any, folder: Path, options: DataConfig, progress: Progress = silent, *, is_new: bool = True
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
    path = folder / f"images-{digest(content)}.{'npz' if stacks else 'csv'}"
    if not path.is_file():
        if not is_new:
            raise DataError(f"{folder}: these are not the images of this run; give those that it began with")
        write(path, content)
    return str(path)


def read_held(data: Any, where: str, options: DataConfig, progress: Progress) -> Arrays | Listed:
    for is_of, read in KINDS.values():
        if is_of(data):
            return read(data, where, options, progress)
    more = "; give its .dataset" if hasattr(data, "dataset") else ""
    more = "; give one part, such as data['train'], and another as test=" if isinstance(data, Mapping) else more
    raise DataError(f"{where}: expected a path, {', '.join(KINDS)}; got {type(data).__name__}{more}")


# --- kinds of data ----------------------------------------------------------------------------------------------------


def instance_of(module: str, name: str) -> Callable[[Any], bool]:
    """Whether an object is of a package that may not be installed."""

    def is_one(data: Any) -> bool:
        kind = getattr(sys.modules.get(module), name, None)
        return isinstance(kind, type) and isinstance(data, kind)

    return is_one


def is_pair(data: Any) -> bool:
    return type(data) in (tuple, list) and len(data) == 2 and getattr(data[0], "ndim", 0) > 2


def is_map_style(data: Any) -> bool:
    return hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, Mapping)


def image_folder(data: Any, where: str, options: DataConfig, progress: Progress) -> Listed:
    """Its files, which are read without its transform."""
    return [{"path": os.path.abspath(path), "label": data.classes[label]} for path, label in data.samples]


def frame(data: Any, where: str, options: DataConfig, progress: Progress) -> Listed:
    """Its rows; a value that is missing becomes empty, and is found with the others of the csv."""
    if missing := [column for column in ("path", "label") if column not in data.columns]:
        raise DataError(f"{where}: expected a frame with the columns path and label; missing {', '.join(missing)}")
    rows = [
        {str(key): "" if value is None or value != value else str(value) for key, value in row.items()}
        for row in data.to_dict("records")
    ]
    return [row | {"path": row["path"] and os.path.abspath(row["path"])} for row in rows]


def hugging_face(data: Any, where: str, options: DataConfig, progress: Progress) -> Arrays:
    """Its columns are found by their types, not by their names."""
    image, label = find_columns(where, data.features, "")

    def example(i: int) -> tuple[Any, Any]:
        row = data[i]
        return row[image], row[label]

    return stacked(example, len(data), data.features[label].names, where, options, progress)


def arrays(data: Any, where: str, options: DataConfig, progress: Progress) -> Arrays:
    labels = data[1].detach().cpu().numpy() if isinstance(data[1], Tensor) else np.asarray(data[1])
    return Arrays(levels(data[0], where), labels.astype(str) if labels.dtype.kind == "O" else labels)


def map_style(data: Any, where: str, options: DataConfig, progress: Progress) -> Arrays:
    """Its class names may be those of the data set that it is a part of."""
    owner = data
    while not hasattr(owner, "classes") and hasattr(owner, "dataset"):
        owner = owner.dataset
    return stacked(data.__getitem__, len(data), getattr(owner, "classes", None), where, options, progress)


KINDS: dict[str, tuple[Callable[[Any], bool], Reader]] = {
    "a torchvision ImageFolder": (instance_of("torchvision.datasets", "ImageFolder"), image_folder),
    "a pandas frame with the columns path and label": (instance_of("pandas", "DataFrame"), frame),
    "a Hugging Face Dataset": (instance_of("datasets", "Dataset"), hugging_face),
    "(X, y) as arrays or tensors": (is_pair, arrays),
    "a data set of pairs (image, label)": (is_map_style, map_style),
}


# --- items ------------------------------------------------------------------------------------------------------------


def stacked(
    get: Callable[[int], Any], n: int, names: Any, where: str, options: DataConfig, progress: Progress
) -> Arrays:
    """All items as arrays; grey if all of them are."""
    images, is_grey, labels, sizes = np.empty(0, np.uint8), True, [], Counter[tuple[int, int]]()
    for i in range(n):
        pixels, label = item(get, i, where, options)
        if i < N_TWICE and not np.array_equal(pixels, item(get, i, where, options)[0]):
            raise DataError(f"{where}: item {i} is another image each time; give the data set without its transform")
        sizes[pixels.shape[0], pixels.shape[1]] += 1
        if i == 0:
            check_memory(where, n, *pixels.shape[:2])
            images = np.empty((n, *pixels.shape[:2], 3), np.uint8)
        if len(sizes) == 1:
            images[i] = pixels
        is_grey = is_grey and pixels.shape[2] == 1
        labels.append(label)
        progress("reading images", i + 1, n)
    if not labels:
        raise DataError(f"{where}: no images")
    if len(kinds := {type(label).__name__ for label in labels}) > 1:
        raise DataError(f"{where}: labels of several kinds ({', '.join(sorted(kinds))}); give one kind")
    one_size(where, sizes)
    highest = max((label for label in labels if isinstance(label, int)), default=None)
    is_named = names is not None and highest is not None and highest < len(names)
    class_names = [str(name) for name in names] if is_named else None
    return Arrays(images[..., :1] if is_grey else images, np.array(labels), class_names)


def item(get: Callable[[int], Any], i: int, where: str, options: DataConfig) -> tuple[Array, int | str]:
    """The pixels of an item, (H, W, C) uint8, and its label."""
    try:
        found = get(i)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise DataError(f"expected (image, label), got {type(found).__name__}")
        image, label = picture(found[0]), found[1].item() if hasattr(found[1], "item") else found[1]
        if not isinstance(label, int | str):
            raise DataError(f"expected an integer or a text as its label, got {type(label).__name__}")
        n_channels = 1 if image.mode in ("1", "L") or decode.is_deep(image) else 3
        return decode.pixels(image, options)[..., :n_channels], label
    except Exception as error:  # whatever the data set does
        raise DataError(f"{where}: item {i}: {str(error) or type(error).__name__}") from error


def picture(image: Any) -> Image.Image:
    if isinstance(image, Image.Image):
        return image.copy()  # decoding turns it upright
    if not isinstance(image, Tensor | np.ndarray):
        raise DataError(f"expected a PIL image, a tensor or an array, got {type(image).__name__}")
    (pixels,) = levels(image[None], "image")
    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


# --- pixels -----------------------------------------------------------------------------------------------------------


def levels(images: Any, where: str) -> Array:
    """(B, H, W, C) uint8, of arrays with the channels last or first, and of tensors with the channels first or last."""
    if isinstance(images, Tensor):
        images = images.detach().cpu()
        array = (images.float() if images.is_floating_point() else images).numpy()
        if array.ndim == 4 and array.shape[1] in (1, 3):
            array = array.transpose(0, 2, 3, 1)
    else:
        array = np.asarray(images)
    return channels_last(to_8_bits(of_floats(array, where), where), where)


def of_floats(array: Array, where: str) -> Array:
    """Floats that are levels divided by 255, as ToTensor makes them, are exactly these levels again."""
    if array.dtype.kind != "f" or not array.size:
        return array
    low, high = array.min(), array.max()
    if 0 <= low <= high <= 1:
        scaled = array * np.float32(255)
        found = np.rint(scaled)
        if np.abs(scaled - found).max() < NEAR_A_LEVEL:
            return found.astype(np.uint8)
    raise DataError(
        f"{where}: floats from {low:g} to {high:g}, which are not levels of 8 bits divided by 255; give uint8 images, "
        "without normalisation and without resizing as floats"
    )


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
