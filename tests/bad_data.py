"""Data that no search can use, by what is said about it."""

import numpy as np
from PIL import Image

import tiny
from pictures import classes


def pictures(root, names=("cat", "dog"), n=6, size=(4, 4)):
    return classes(root, names, n, size=size)


def nested(root):
    for part in ("one/train", "one/test", "other/train", "other/test"):
        pictures(root / part)
    return root


def incomplete(root):
    (pictures(root) / "x.csv").write_text("path,label\ncat/0.png,\n")
    return root / "x.csv"


def nothing(root):
    root.mkdir()
    return root


def spoiled(change):
    def make(root):
        change(pictures(root))
        return root

    return make


def numbers(**changes):
    def make(root):
        np.savez(nothing(root) / "x.npz", **(tiny.arrays() | changes))
        return root / "x.npz"

    return make


BAD_DATA = {
    "no images; known are files that end in .png": nothing,
    "class folders without images: emu; fill them or remove them": spoiled(lambda root: (root / "emu").mkdir()),
    "train/ or test/ lies inside of what would be a class folder. This looks like several data sets": nested,
    "floating-point pixels, whose range is not known; convert to 8 or 16 bits": spoiled(
        lambda root: Image.new("F", (4, 4)).save(root / "cat" / "x.tif")
    ),
    "grey levels from 70000 to 70000, expected at most 16 bits (0..65535)": spoiled(
        lambda root: Image.new("I", (4, 4), 70_000).save(root / "cat" / "x.tif")
    ),
    "1 line is not complete: line 2: label missing": incomplete,
    "train_labels is a single value, expected an array": numbers(train_labels=np.array(3)),
    "expected uint8 (0..255), uint16 (0..65535) or bool, got float64": numbers(train_images=np.zeros((24, 8, 8, 3))),
    "expected integers (N,) or (N, 1), got float64": numbers(train_labels=np.zeros(24)),
}
