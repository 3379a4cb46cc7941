"""Whether a test is one: images of the test set that are also in the training set."""

import hashlib

from torch import Tensor

from .dataset import Dataset


def digests(images: Tensor) -> list[bytes]:
    return [hashlib.blake2b(image.numpy().tobytes(), digest_size=16).digest() for image in images.contiguous()]


def count_duplicates(data: Dataset) -> int:
    """Test images that are equal to a training image in every pixel."""
    known = set(digests(data.train.images))
    return sum(digest in known for digest in digests(data.test.images))
