"""The image sets that evidence is collected on: packed small enough to travel, and unpacked where they are used.

A packed set is one .npz of encoded images: files as they come where their size is kept, else WebP without loss.
"""

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

PARTS = ("train", "test")
SUFFIXES = (".jpg", ".png")
SIZE = (32, 32)  # what sixteen seeds of every row on nine sets can be paid at


class ImageSet(NamedTuple):
    """What is taken of a shared set. Nothing here was chosen by results."""

    source: str  # as unpack.py names it
    size: tuple[int, int]  # height and width
    folder: str | None = None  # of class folders, in what unpack.py writes; None: it writes arrays
    n_train: int | None = None  # so many, drawn as the notebook draws its 5,000 images of CIFAR-10; None: all
    per_class: tuple[int | None, int | None] = (None, None)  # the first so many of each class, to train and to test
    flip: bool | None = None  # whether a mirror image keeps its label; None: as a user would leave it
    recording: int | None = None  # field of a file's name: one image of each is kept, and none that is tested on


SETS = {
    "cifar10": ImageSet("cifar10", SIZE, n_train=5000, per_class=(None, 350)),
    "pacs-art_painting": ImageSet("pacs", SIZE, "art_painting"),
    "pacs-cartoon": ImageSet("pacs", SIZE, "cartoon"),
    "pacs-photo": ImageSet("pacs", SIZE, "photo"),
    "quickdraw": ImageSet("quickdraw", (28, 28), per_class=(20, 20)),
    "signdigits": ImageSet("signdigits", SIZE),
    "neu": ImageSet("neu", SIZE, "neu"),
    "flowers": ImageSet("flowers", SIZE, "flowers", per_class=(None, 14)),
    "esc50": ImageSet("esc50", SIZE, "esc50", flip=False, recording=1),  # mirrored, a sound runs backwards
}


class Labelled(NamedTuple):
    picture: Path | np.ndarray[Any, Any]  # a file, or (H, W) or (H, W, 3) uint8
    label: int


# --- packing ----------------------------------------------------------------------------------------------------------


def prepare(shared: Path, data: Path, names: Sequence[str]) -> None:
    """Write each set as DATA/NAME.npz, and print how large it is."""
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            one, place = SETS[name], Path(scratch) / SETS[name].source
            target = place if one.folder else place.with_suffix(".npz")
            if not target.exists():
                script = shared / "data" / "unpack.py"
                subprocess.run([sys.executable, str(script), one.source, str(target)], check=True)
            parts, classes = (from_folders if one.folder else from_arrays)(target, one)
            pack(data / f"{name}.npz", parts, classes, one)
            n_train, n_test = (len(parts[part]) for part in PARTS)
            size = (data / f"{name}.npz").stat().st_size / 2**20
            print(f"{name}: {n_train:,} + {n_test:,} images of {one.size}, {len(classes)} classes, {size:.1f} MiB")


def from_arrays(path: Path, one: ImageSet) -> tuple[dict[str, list[Labelled]], list[str]]:
    parts = {}
    with np.load(path) as found:
        for part, most in zip(PARTS, one.per_class, strict=True):
            images, labels = found[f"{part}_images"], found[f"{part}_labels"]
            if part == "train" and one.n_train is not None:
                chosen = np.random.default_rng(0).choice(len(labels), one.n_train, replace=False)
                images, labels = images[chosen], labels[chosen]
            parts[part] = first_of_each(map(Labelled, images, map(int, labels)), most)
        return parts, [str(name) for name in found["class_names"]]


def from_folders(path: Path, one: ImageSet) -> tuple[dict[str, list[Labelled]], list[str]]:
    assert one.folder is not None
    root = path / one.folder
    classes, parts = sorted(entry.name for entry in (root / "train").iterdir()), {}
    for part, most in zip(PARTS, one.per_class, strict=True):
        files = [
            Labelled(file, label)
            for label, name in enumerate(classes)
            for file in sorted((root / part / name).iterdir())
            if file.suffix in SUFFIXES
        ]
        parts[part] = first_of_each(files, most)
    if one.recording is not None:
        tested = {recording(file, one.recording) for file in parts["test"]}
        single = {recording(file, one.recording): file for file in reversed(parts["train"])}
        parts["train"] = sorted(file for key, file in single.items() if key not in tested)
    return parts, classes


def recording(one: Labelled, field: int) -> str:
    assert isinstance(one.picture, Path)
    return one.picture.stem.split("-")[field]


def first_of_each(images: Iterable[Labelled], most: int | None) -> list[Labelled]:
    """The first images of each class, in their order."""
    kept, seen = [], dict[int, int]()
    for one in images:
        seen[one.label] = seen.get(one.label, 0) + 1
        if most is None or seen[one.label] <= most:
            kept.append(one)
    return kept


def pack(path: Path, parts: dict[str, list[Labelled]], classes: Sequence[str], one: ImageSet) -> None:
    arrays: dict[str, Any] = {"class_names": np.array(classes)}
    for part, images in parts.items():
        encoded = [encode(image.picture, one.size) for image in images]
        arrays[f"{part}_bytes"] = np.frombuffer(b"".join(encoded), np.uint8)
        arrays[f"{part}_ends"] = np.cumsum([0, *map(len, encoded)])
        arrays[f"{part}_labels"] = np.array([image.label for image in images])
    np.savez(path, **arrays)


def encode(picture: Path | np.ndarray[Any, Any], size: tuple[int, int]) -> bytes:
    """A photograph as it is where its file has this size, else a picture of this size, without loss."""
    height, width = size
    if isinstance(picture, Path):
        with Image.open(picture) as file:
            if file.format == "JPEG" and file.size == (width, height):
                return picture.read_bytes()
            image = file.convert("RGB")
    else:
        image = Image.fromarray(picture).convert("RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", lossless=True)
    return buffer.getvalue()


# --- unpacking --------------------------------------------------------------------------------------------------------


def unpacked(data: Path, name: str, scratch: Path) -> Path:
    """SCRATCH/data/NAME.npz, which slackaug reads; written if it is not there."""
    target = scratch / "data" / f"{name}.npz"
    if not target.is_file():
        packed = data / f"{name}.npz"
        if not packed.is_file():
            raise FileNotFoundError(2, "not prepared; run: evidence.py prepare --shared DIR", str(packed))
        target.parent.mkdir(parents=True, exist_ok=True)
        with np.load(packed) as found:
            arrays = {"class_names": found["class_names"]}
            for part in PARTS:
                raw, ends = found[f"{part}_bytes"].tobytes(), found[f"{part}_ends"]
                pictures = [Image.open(io.BytesIO(raw[start:end])).convert("RGB") for start, end in pairwise(ends)]
                arrays |= {f"{part}_images": np.stack(pictures), f"{part}_labels": found[f"{part}_labels"]}
        partial = target.with_suffix(".part.npz")
        np.savez(partial, **arrays)
        partial.replace(target)
    return target
