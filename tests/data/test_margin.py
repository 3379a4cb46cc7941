"""Data stored with a margin around what the network sees, against Pillow."""

import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

from pictures import refused
from slackaug.data import DATASETS, DataError, load
from slackaug.data.decode import fit
from slackaug.data.options import DataConfig

RANDOM = np.random.default_rng(0)


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    return Image.fromarray(RANDOM.integers(0, 256, shape, dtype=np.uint8))


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize(
    ("given", "resized", "corner"),
    [
        ((512, 512), (256, 256), (0, 0)),
        ((600, 400), (384, 256), (64, 0)),
        ((100, 333), (256, 852), (0, 298)),
        ((257, 256), (257, 256), (0, 0)),  # half a pixel on each side: rounded to even
    ],
)
def test_the_centre_square_of_an_image_whose_shorter_side_is_256(mode, given, resized, corner):
    image = picture(*given, mode)
    left, top = corner
    expected = image.resize(resized, Image.Resampling.BICUBIC).crop((left, top, left + 256, top + 256))
    found = fit(image, DataConfig(size=224, margin=True))
    assert found.size == (256, 256)
    assert np.array_equal(found, expected)
    assert np.array_equal(fit(found, DataConfig(size=224, margin=True)), found)  # twice is once


def test_a_line_is_not_blown_up_to_gigabytes():
    line = Image.new("L", (40_000, 2))
    with pytest.raises(DataError, match=r"40000 x 2 pixels become 5120000 x 256 with a margin, the limit is"):
        fit(line, DataConfig(size=224, margin=True))
    assert fit(line, DataConfig(size=224)).size == (224, 224)


@pytest.mark.parametrize(("size", "stored"), [(224, 256), (96, 110), (32, 37), (7, 8)])
def test_the_stored_side_is_eight_sevenths(size, stored):
    assert DataConfig(size=size, margin=True).stored_size == stored
    assert DataConfig(size=size).stored_size == size


def save_folder(root):
    for label in ("cat", "dog"):
        (root / label).mkdir(parents=True)
        for i in range(6):
            picture(40 + i, 30).save(root / label / f"{i}.png")
    return str(root)


def save_npz(root):
    images = RANDOM.integers(0, 256, (12, 30, 44, 3), dtype=np.uint8)
    np.savez(root / "x.npz", train_images=images, train_labels=np.arange(12) % 2)
    return str(root / "x.npz")


def save_torchvision(monkeypatch):
    """A stand-in with one data set of PIL images."""

    class Pets:
        def __init__(self, root, train=True):
            self.examples = [(picture(40 + i, 30), i % 2) for i in range(8)]

        def __iter__(self):
            return iter(self.examples)

    module = ModuleType("torchvision.datasets")
    vars(module).update(Pets=Pets, __all__=("Pets",))
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.datasets", module)
    return "torchvision:Pets"


@pytest.mark.parametrize("kind", ["folder", "npz", "torchvision", *DATASETS])
def test_every_source_stores_a_margin(kind, tmp_path, monkeypatch):
    made = {"folder": lambda: save_folder(tmp_path), "npz": lambda: save_npz(tmp_path),
            "torchvision": lambda: save_torchvision(monkeypatch)}  # fmt: skip
    source = made.get(kind, lambda: kind)()
    dataset = load(source, size=21, margin=True)
    assert dataset.image_size == (21, 21)
    assert dataset.train.images.shape[1:] == dataset.test.images.shape[1:] == (3, 24, 24)
    whole = load(source, size=21)
    assert whole.train.images.shape[1:] == (3, 21, 21)
    assert whole.input_size is None
    assert whole.fingerprint != dataset.fingerprint


def test_pixels_of_an_array(tmp_path):
    images = RANDOM.integers(0, 256, (8, 30, 44, 3), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", train_images=images, train_labels=np.arange(8) % 2, test_images=images,
             test_labels=np.arange(8) % 2)  # fmt: skip
    dataset = load(str(tmp_path / "x.npz"), size=21, margin=True)
    expected = Image.fromarray(images[3]).resize((35, 24), Image.Resampling.BICUBIC).crop((6, 0, 30, 24))  # 5.5: even
    assert np.array_equal(dataset.train.images[3].permute(1, 2, 0), expected)


def test_a_margin_needs_a_size():
    refused("digits", r"a margin is around images of a given size.*--size", margin=True)


def test_a_users_data_set_has_its_own(monkeypatch):
    base = load("shapes", size=21, margin=True)
    module = ModuleType("own_data")
    vars(module).update(
        good=lambda: base,
        whole=lambda: load("shapes", size=21),
        wrong=lambda: replace(base, input_size=(25, 25)),
    )
    monkeypatch.setitem(sys.modules, "own_data", module)
    assert load("own_data:good").image_size == load("own_data:good", size=21, margin=True).image_size == (21, 21)
    assert torch.equal(load("own_data:good").train.images, base.train.images)
    refused("own_data:whole", r"stored at \(21, 21\).*are stored at 24", size=21, margin=True)
    refused("own_data:wrong", r"input_size \(25, 25\) exceeds")
