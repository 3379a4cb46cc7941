"""Data stored with a margin around what the network sees, against Pillow."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from pictures import inject, refused
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


@pytest.mark.parametrize("source", ["FOLDER", "x.npz", "torchvision:Pets", *DATASETS])
def test_every_source_stores_a_margin(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = [(picture(40 + i, 30), i % 2) for i in range(12)]
    for i, (image, label) in enumerate(examples):
        (tmp_path / "FOLDER" / "ab"[label]).mkdir(parents=True, exist_ok=True)
        image.save(tmp_path / "FOLDER" / "ab"[label] / f"{i}.png")
    np.savez("x.npz", train_images=np.stack([image.crop((0, 0, 40, 30)) for image, _ in examples]),
             train_labels=[label for _, label in examples])  # fmt: skip
    inject(monkeypatch, "torchvision")
    inject(monkeypatch, "torchvision.datasets", Pets=lambda root, train=True: examples, __all__=["Pets"])
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
    wrong = replace(base, input_size=(25, 25))
    inject(monkeypatch, "mine", good=lambda: base, whole=lambda: load("shapes", size=21), wrong=lambda: wrong)
    assert load("mine:good").image_size == load("mine:good", size=21, margin=True).image_size == (21, 21)
    assert torch.equal(load("mine:good").train.images, base.train.images)
    refused("mine:whole", r"stored at \(21, 21\).*are stored at 24", size=21, margin=True)
    refused("mine:wrong", r"input_size \(25, 25\) exceeds")
