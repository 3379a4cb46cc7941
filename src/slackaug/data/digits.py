"""The embedded data set: 1,797 handwritten digits.

E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998,
https://doi.org/10.24432/C50P49, CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). Changed: the 17 levels of
the 8 x 8 images are spread over 0..255.
"""

from dataclasses import replace
from importlib import resources

import numpy as np
import torch

from . import dividing
from .arrays import to_images
from .dataset import Dataset, Kind, build
from .options import DataConfig
from .split import Split

# Pixels to move by: at 8, a rotation or a shift can only tear a digit apart. At 32 nothing is gained but the cost.
SIZE = 16
N_FEW = 200


def digits(options: DataConfig) -> Dataset:
    """Ink is white on black; mirror images are other signs, so flips are off."""
    with resources.files("slackaug.data").joinpath("digits.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        images, labels = stored["images"], stored["labels"]  # (1797, 8, 8) and (1797,) uint8
    options = options if options.size else replace(options, size=SIZE)
    split = Split(to_images(images, options, "digits"), torch.from_numpy(labels.astype(np.int64)))
    kinds = {Kind(split.images.shape[2], split.images.shape[3], "L"): len(labels)}
    return build("digits", split, None, [str(digit) for digit in range(10)], flip=False, kinds=kinds)


def few_digits(options: DataConfig) -> Dataset:
    """About 20 of each digit to learn from, and the same test set: few enough that augmentation matters."""
    base = digits(options)
    kept, _ = dividing.train_on(base.train.labels, N_FEW)
    kinds = {Kind(*base.image_size, "L"): N_FEW + len(base.test.labels)}
    return build("digits:few", base.train.subset(kept), base.test, base.class_names, flip=False, kinds=kinds)
