from dataclasses import replace

import numpy as np
import pytest
import torch

from slackaug import rng
from slackaug.data import DataError, Split, build, load
from slackaug.data.dataset import classes_note, fingerprint, histogram, moments, rebuild


def random_split(n=12, n_classes=3, size=(4, 5), seed=0):
    images = torch.randint(256, (n, 3, *size), dtype=torch.uint8, generator=rng.generator(seed))
    return Split(images, torch.arange(n) % n_classes)


def test_moments_are_those_of_numpy_in_float64():
    images = random_split(50).images
    values = images.numpy().astype(np.float64) / 255
    mean, std = moments(histogram(images))
    assert mean == pytest.approx(values.mean((0, 2, 3)), abs=1e-14)
    assert std == pytest.approx(values.std((0, 2, 3)), abs=1e-14)


def test_build_measures_the_training_images_only():
    train, test = random_split(seed=0), random_split(seed=1)
    dataset = build("x", train, test, "abc")
    assert (dataset.mean, dataset.std) == moments(histogram(train.images))
    assert dataset.fingerprint == build("x", train, random_split(seed=2), "abc").fingerprint
    assert (dataset.n_classes, dataset.image_size, dataset.notes) == (3, (4, 5), ())


def test_the_note_on_classes_names_eight():
    assert classes_note("abcdefgh") == "classes: a, b, c, d, e, f, g, h (8)"
    assert classes_note([str(i) for i in range(37)]) == "classes: 0, 1, 2, 3, 4, 5, 6, 7, ... (37)"


def test_fingerprint_changes_with_a_pixel_a_label_and_the_shape():
    split = random_split(2000)
    pixel = Split(split.images.clone(), split.labels)
    pixel.images[-1, -1, -1, -1] ^= 1
    label = Split(split.images, split.labels.roll(1))
    shape = Split(split.images.view(2000, 3, 5, 4), split.labels)
    assert len({fingerprint(s) for s in (split, pixel, label, shape)}) == 4
    assert len(fingerprint(split)) == 16


def test_without_a_test_set_a_stratified_fifth_is_held_out_and_said():
    dataset = build("x", random_split(60), None, "abc")
    assert dataset.test.labels.bincount().tolist() == [4, 4, 4]
    assert len(dataset.train.labels) == 48
    assert dataset.notes == ("no test set: held out a stratified 20 % (12 of 60 images, seed 0)",)
    assert torch.equal(build("x", random_split(60), None, "abc").test.images, dataset.test.images)


def test_a_constant_channel_is_said():
    split = random_split()
    split.images[:, 2] = 7
    dataset = build("x", split, split, "abc")
    assert dataset.std[2] == 1 / 255
    assert "blue" in dataset.notes[0]


def test_levels_that_are_hardly_used_are_said():
    split = random_split()
    dim = Split(split.images // 20, split.labels)  # 12 bits in an array of 16, say
    (note,) = build("x", dim, split, "abc").notes
    assert note.startswith("no training image has a level above 12 of 255, and of 256")
    agreed = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    dataset = build("x", dim, split, "abc", statistics=agreed)
    assert (dataset.mean, dataset.std, dataset.notes) == (*agreed, ())
    dim.images[-1, -1, -1, -1] = 64
    assert build("x", dim, split, "abc").notes == ()


@pytest.mark.parametrize(
    ("train", "test", "names", "message"),
    [
        (random_split(0), None, "abc", "train: no images"),
        (random_split(6, 1), None, "a", "only one class"),
        (random_split(4, 3), None, "abc", r"at least 2 training images.*'b' \(1\), 'c' \(1\)"),
        (random_split(6, 3), None, "abcd", r"'d' \(0\)"),
        (random_split(6, 3), None, "abc", "too few images to hold one out"),
        (random_split(6, 3), random_split(6, 3, (9, 5)), "abc", "5 x 4 pixels, the test images 5 x 9.*--size"),
        (random_split(6, 3), random_split(6, 4), "abc", "test: labels must be from 0 to 2"),
        (Split(torch.zeros(6, 1, 4, 4), torch.arange(6) % 2), None, "ab", "uint8"),
        (Split(random_split(6).images, torch.arange(5) % 2), None, "ab", "one int64 label for each of 6"),
    ],
)
def test_refuses(train, test, names, message):
    with pytest.raises(DataError, match=f"(?s){message}"):
        build("x", train, test, names)


def test_rebuild_checks_and_keeps_the_users_statistics():
    dataset = replace(load("digits"), mean=(0.5, 0.5, 0.5), notes=("mine",))
    assert (rebuild(dataset).mean, rebuild(dataset).notes) == (dataset.mean, dataset.notes)
    with pytest.raises(DataError, match="at least 2"):
        rebuild(replace(dataset, class_names=(*dataset.class_names, "ten")))
