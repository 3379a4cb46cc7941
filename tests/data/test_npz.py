import numpy as np
import pytest
import torch

from pictures import refused
from slackaug.data import load

GENERATOR = np.random.default_rng(0)


def part(name, n=20, shape=(6, 5), n_classes=2, dtype=np.uint8):
    images = GENERATOR.integers(0, np.iinfo(dtype).max, (n, *shape), endpoint=True).astype(dtype)
    return {f"{name}_images": images, f"{name}_labels": (np.arange(n) % n_classes)[:, None]}


def saved(tmp_path, **arrays):
    np.savez_compressed(tmp_path / "x.npz", **arrays)
    return str(tmp_path / "x.npz")


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 1), (6, 5, 3), (3, 6, 5)])
def test_medmnist_keys(shape, tmp_path):
    train, val, test = part("train", 20, shape), part("val", 4, shape), part("test", 8, shape)
    dataset = load(saved(tmp_path, **train, **val, **test))
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (24, 8)
    assert dataset.image_size == (6, 5)
    assert dataset.class_names == ("0", "1")
    assert dataset.notes == ("classes: 0, 1 (2)", "val joined train: a search splits it anew")
    images = np.concatenate([train["train_images"], val["val_images"]])
    channel = {(6, 5): images, (3, 6, 5): images[:, 2]}.get(shape)
    assert np.array_equal(dataset.train.images[:, 2].numpy(), images[..., -1] if channel is None else channel)


def test_labels_with_gaps_flat_labels_text_labels_and_names(tmp_path):
    labels = np.where(np.arange(20) % 2, 7, 3)
    arrays = part("train") | {"train_labels": labels} | part("test") | {"test_labels": np.full(20, 7)}
    dataset = load(saved(tmp_path, **arrays))
    assert (dataset.class_names, dataset.test.labels.tolist()) == (("3", "7"), [1] * 20)
    texts = part("train") | {"train_labels": np.where(labels == 7, "left", "right")}
    assert load(saved(tmp_path, **texts)).class_names == ("left", "right")
    named = load(saved(tmp_path, **part("train"), class_names=np.array(["benign", "malign"])), size=8)
    assert (named.class_names, named.image_size) == (("benign", "malign"), (8, 8))
    assert named.notes[0] == "classes: benign, malign (2)"
    assert "held out" in named.notes[1]


def test_sixteen_bits_and_booleans(tmp_path):
    deep = part("train", dtype=np.uint16)
    dataset = load(saved(tmp_path, **deep, **part("test", dtype=np.uint16)))
    expected = np.rint(deep["train_images"] / 257).astype(np.uint8)
    assert np.array_equal(dataset.train.images[:, 0].numpy(), expected)
    masks = part("train") | {"train_images": part("train")["train_images"] > 99}
    assert torch.equal(load(saved(tmp_path, **masks)).train.images.unique(), torch.tensor([0, 255], dtype=torch.uint8))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_images": None}, "train_images missing; expected the keys.*found train_labels"),
        ({"train_labels": None}, "train_labels missing"),
        ({"val_images": np.zeros((3, 6, 5), np.uint8)}, "val_labels missing"),
        (part("val", shape=(9, 9)), "must be alike"),
        ({"train_images": np.zeros((20, 6, 5))}, "expected uint8.*got float64.*astype"),
        ({"train_images": np.zeros((20, 6, 5), np.int64)}, "got int64"),
        ({"train_images": np.zeros((20, 6, 5, 7), np.uint8)}, "volumes"),
        ({"train_images": np.zeros((20, 6), np.uint8)}, r"got \(20, 6\)"),
        ({"train_images": np.uint8(3)}, "single value"),
        ({"train_images": np.zeros((0, 6, 5), np.uint8), "train_labels": np.zeros(0, int)}, "no images"),
        ({"train_labels": np.zeros((20, 14), int)}, "14 labels for each image"),
        ({"train_labels": np.zeros(19, int)}, "19 labels for 20 images"),
        ({"train_labels": np.arange(20) % 2 - 1}, "10 labels are missing"),
        ({"train_labels": np.array(["", "a"] * 10)}, "10 labels are missing"),
        ({"train_labels": np.array(["0", "1"] * 10), "class_names": np.array(["a", "b"])}, "need no class_names"),
        ({"train_labels": np.zeros(20)}, "expected integers.*float64"),
        ({"train_labels": np.zeros(20, int)}, "only one class"),
        ({"train_labels": np.arange(20) // 19}, r"'1' \(1\)"),
        ({"class_names": np.array(["only"])}, "not among the classes"),
        ({"class_names": np.array([1, 2])}, "vector of texts"),
        (part("test", n_classes=3), "test labels: 2: not among the classes"),
        (part("test", shape=(9, 9)), "test images 9 x 9"),
    ],
)
def test_refuses(changes, message, tmp_path):
    arrays = {key: value for key, value in (part("train") | changes).items() if value is not None}
    refused(saved(tmp_path, **arrays), f"(?s){message}")


def test_a_file_cut_off_anywhere_is_refused(tmp_path):
    path = tmp_path / saved(tmp_path, **part("train"))
    content = path.read_bytes()
    for cut in range(0, len(content), 97):
        path.write_bytes(content[:cut])
        refused(path, "cannot be read")
