"""From what a user types to a loader; other packages are small stand-ins here."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from pictures import inject, refused
from slackaug.data import Split, build, load
from slackaug.data.dataset import histogram, moments


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("digit", "digit: there is no such file or folder; did you mean digits"),
        ("shapes:color", "did you mean shapes:colour"),
        ("nowhere", "no such file or folder; expected digits, digits:few, shapes.*torchvision:NAME"),
        ("no/such/folder", "no such file or folder$"),
        ("x.npz", "x.npz: there is no such file"),
        ("x.csv", "x.csv: there is no such file"),
        ("", "DATA: there is no such file"),
        ("pest", "pest: there is no such file or folder; did you mean pets\\?"),
        ("pets/trian/", "pets/trian/: there is no such file or folder; did you mean pets/train\\?"),
        ("./digit", "no such file or folder$"),  # the name of ours is no place
        ("no_such_module:load", "no module 'no_such_module'.*PYTHONPATH"),
        ("slackaug.rng:nothing", "nothing does not exist in .*rng.py"),
        ("slackaug.rng:PURPOSES", "PURPOSES is not callable"),
        ("a.zip", "expected a folder, an npz file or a csv file.*'.zip'"),
    ],
)
def test_unknown_sources(source, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.zip").write_bytes(b"")
    (tmp_path / "pets" / "train").mkdir(parents=True)
    refused(source, message)


def arrays(n, size=4):
    images = np.random.default_rng(n).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    return images, np.arange(n) % 2


# --- module:callable --------------------------------------------------------------------------------------------------


def fails():
    raise KeyError("oops")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fails, "mine:load: failed with KeyError: 'oops'"),
        (lambda: None, "expected a slackaug.data.Dataset or the arrays.*NoneType"),
        (lambda: arrays(9) + arrays(4)[:1], "expected a slackaug.data.Dataset or the arrays"),
        (lambda: ([[1, 2], [3]], [0, 1]), "failed with ValueError"),
        (lambda: (arrays(9)[0], arrays(8)[1]), "8 labels for 9 images"),
    ],
)
def test_own_loaders_that_fail(function, message, monkeypatch):
    inject(monkeypatch, "mine", load=function)
    refused("mine:load", message)


def test_own_loaders_may_return_arrays_or_a_dataset(monkeypatch):
    inject(monkeypatch, "mine", two=lambda: arrays(20), four=lambda: (*arrays(20), *arrays(8)), all=own_dataset)
    assert len(load("mine:two").train.labels) == 16
    assert len(load("mine:four", size=9).test.labels) == 8
    dataset = load("mine:all")
    assert (dataset.name, dataset.flip, dataset.class_names) == ("own", False, ("a", "b"))
    refused("mine:all", r"its images are \(4, 4\); a Dataset is not resized, resize in mine:all", size=9)


def own_dataset():
    digits = load("digits", size=4)
    return build("own", *(Split(s.images, s.labels % 2) for s in (digits.train, digits.test)), "ab", flip=False)


# --- torchvision ------------------------------------------------------------------------------------------------------


class Examples(list):
    """A data set of PIL images, as torchvision makes them."""

    def __init__(self, n, mode="RGB", label=int):
        images, labels = arrays(n)
        pairs = zip(images, labels, strict=True)
        super().__init__((Image.fromarray(i).convert(mode), label(y)) for i, y in pairs)


class ByTrain(Examples):
    classes = ("cat", "dog")

    def __init__(self, root, train=True, transform=None, download=False):
        assert download
        assert root.endswith("torchvision")
        super().__init__(20 if train else 8)


def by_split(root, split="train"):
    return Examples({"train": 20, "test": 8}[split], "L", np.int64)


def flowers(root, split="train", download=False):
    return Examples({"train": 10, "val": 6, "test": 8}[split])


def not_there(root, train=True):
    raise RuntimeError("Dataset not found")


@pytest.fixture
def torchvision(monkeypatch):
    sets = {"ByTrain": ByTrain, "CIFAR10": ByTrain, "CIFAR100": ByTrain, "BySplit": by_split, "Flowers102": flowers,
            "Whole": lambda root, download=False: Examples(20), "NotThere": not_there,
            "Detection": lambda root, train=True: Examples(20, label=lambda y: {"boxes": []})}  # fmt: skip
    inject(monkeypatch, "torchvision")
    inject(monkeypatch, "torchvision.datasets", **sets, __all__=[*sets, "helper"])


@pytest.mark.parametrize(
    ("name", "n_train", "n_test"), [("ByTrain", 20, 8), ("BySplit", 20, 8), ("Flowers102", 16, 8), ("Whole", 16, 4)]
)
def test_torchvision(name, n_train, n_test, torchvision):
    dataset = load(f"torchvision:{name}", size=6)
    assert (len(dataset.train.labels), len(dataset.test.labels), dataset.image_size) == (n_train, n_test, (6, 6))
    assert dataset.class_names == (("cat", "dog") if name == "ByTrain" else ("0", "1"))


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
def test_cifar_has_the_statistics_of_the_paper_and_others_are_measured(name, torchvision):
    dataset, other = load(f"torchvision:{name}"), load("torchvision:ByTrain")
    assert (dataset.mean, dataset.std) == ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
    assert (other.mean, other.std) == moments(histogram(other.train.images))


def test_torchvision_refuses(torchvision):
    refused("torchvision:ByTrian", "did you mean 'ByTrain'")
    refused("torchvision:NotThere", "failed with RuntimeError: Dataset not found")
    refused("torchvision:Detection", "item 0: expected an integer or a text as its label, got dict")


def test_extras_that_are_absent_or_broken(monkeypatch):
    for package, source in (("torchvision", "torchvision:CIFAR10"), ("datasets", "hf:cifar10")):
        monkeypatch.setitem(sys.modules, package, None)
        refused(source, f"{package} is not installed; pip install {package}")


# --- Hugging Face -----------------------------------------------------------------------------------------------------


class ClassLabel(SimpleNamespace):
    pass


class Part(list):
    pass


def hub(monkeypatch, parts, *labels):
    """A stand-in for `datasets`, with one data set of these parts, and of these columns of labels."""

    def load_dataset(name, *config):
        assert (name, *config) in (("me/pets",), ("me/pets", "small"))
        found = {}
        for part, n in parts.items():
            found[part] = Part({"image": image, **dict.fromkeys(labels, y)} for image, y in Examples(n))
            found[part].features = {"image": type("Image", (), {})()}
            found[part].features |= {label: ClassLabel(names=["cat", "dog"]) for label in labels}
        return found

    inject(monkeypatch, "datasets", load_dataset=load_dataset)


def test_hf(monkeypatch):
    hub(monkeypatch, {"train": 20, "validation": 6, "test": 8, "unlabelled": 3}, "label", "coarse")
    dataset = load("hf:me/pets:small")
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (26, 8)
    assert dataset.class_names == ("cat", "dog")
    assert dataset.notes == ("validation joined train: a search splits it anew",)
    assert len(load("hf:me/pets@coarse").test.labels) == 8
    refused("hf:me/pets@course", "unknown column of labels 'course'; did you mean 'coarse'")


def test_hf_refuses(monkeypatch):
    hub(monkeypatch, {"train": 20}, "fine", "coarse")
    refused("hf:me/pets", "several columns of labels; say which: hf:me/pets@fine, hf:me/pets@coarse")
    refused("hf:you/pets", "failed with AssertionError")
    hub(monkeypatch, {"train": 20})
    refused("hf:me/pets", "one of type ClassLabel, found")
    hub(monkeypatch, {"test": 20}, "label")
    refused("hf:me/pets", "no part named train; found test")
    hub(monkeypatch, {"train": 20}, "label")
    parts = sys.modules["datasets"].load_dataset("me/pets")
    unlabelled = Part({"image": row["image"]} for row in parts["train"])
    unlabelled.features = {}
    inject(monkeypatch, "datasets", load_dataset=lambda _: parts | {"test": unlabelled})
    refused("hf:me/pets", "item 0: 'label'")
