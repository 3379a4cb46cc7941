"""Data that no search can use, by what is said about it."""

import numpy as np
from PIL import Image

import tiny


def pictures(root, names=("cat", "dog"), n=6, size=(4, 4)):
    for name in names:
        for i in range(n):
            path = root / name / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", size, (i, 0, 0)).save(path)
    return root


def empty_class(root):
    (pictures(root) / "emu").mkdir()
    return root


def nested(root):
    for name in ("one", "other"):
        pictures(root / name / "train")
        pictures(root / name / "test")
    return root


def deep(root):
    pictures(root)
    Image.new("F", (4, 4)).save(root / "cat" / "x.tif")
    return root


def levels(root):
    pictures(root)
    Image.new("I", (4, 4), 70_000).save(root / "cat" / "x.tif")
    return root


def incomplete(root):
    pictures(root)
    (root / "x.csv").write_text("path,label\ncat/0.png,\n")
    return root / "x.csv"


def numbers(**changes):
    def make(root):
        root.mkdir()
        np.savez(root / "x.npz", **(tiny.arrays() | changes))
        return root / "x.npz"

    return make


def nothing(root):
    root.mkdir()
    return root


BAD_DATA = {
    "no images; known are files that end in .png": nothing,
    "class folders without images: emu; fill them or remove them": empty_class,
    "train/ or test/ lies inside of what would be a class folder. This looks like several data sets": nested,
    "floating-point pixels, whose range is not known; convert to 8 or 16 bits": deep,
    "grey levels from 70000 to 70000, expected at most 16 bits (0..65535)": levels,
    "1 line is not complete: line 2: label missing": incomplete,
    "train_labels is a single value, expected an array": numbers(train_labels=np.array(3)),
    "expected uint8 (0..255), uint16 (0..65535) or bool, got float64": numbers(train_images=np.zeros((24, 8, 8, 3))),
    "expected integers (N,) or (N, 1), got float64": numbers(train_labels=np.zeros(24)),
}
