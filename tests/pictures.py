"""Small sets of image files, and how they are refused."""

import sys
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from slackaug.data import DataError, load

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"  # as Linux and as macOS store the same name


def picture(path, value=0, size=(4, 4)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size[1], size[0]), value, dtype=np.uint8)).save(path)


def noise(path, seed=0, size=(8, 8), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)
    return path


def classes(root, names=("cat", "dog"), n=10, **options):
    for c, name in enumerate(names):
        for i in range(n):
            picture(root / name / f"{i}.png", 100 + 10 * i + c, **options)
    return root


def noises(root, n, names=("cat", "dog"), **options):
    """All of them different."""
    for c, name in enumerate(names):
        for i in range(n):
            noise(root / name / f"{i}.png", 1000 * c + i, **options)
    return root


def refused(source, message, **options):
    with pytest.raises(DataError, match=f"(?s){message}") as caught:
        load(str(source), **options)
    return str(caught.value)


def inject(monkeypatch, name, **attributes):
    """A module of that name, to be imported, which has these."""
    module = ModuleType(name)
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, name, module)
