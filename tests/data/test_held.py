"""Images that a program holds: of each kind the same data set, and errors that name the item."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Subset, TensorDataset

from pictures import inject, noise
from slackaug.data import DataConfig, DataError, held, read

N, NAMES = 24, ["cat", "dog"]
PIXELS = np.random.default_rng(0).integers(0, 256, (N, 8, 8, 3), dtype=np.uint8)
LABELS = np.arange(N) % 2
X, Y = torch.tensor(PIXELS).permute(0, 3, 1, 2), torch.tensor(LABELS)


class Named(list):
    """A data set of pairs that knows the names of its classes."""

    classes = NAMES


class Frame:
    """What slackaug uses of a pandas frame."""

    def __init__(self, rows):
        self.rows, self.columns = rows, list(rows[0])

    def to_dict(self, orient):
        assert orient == "records"
        return self.rows


class Hub(list):
    """What slackaug uses of a Hugging Face data set."""

    def __init__(self):
        super().__init__({"picture": Image.fromarray(image), "y": y} for image, y in pairs())
        kinds = [type(name, (SimpleNamespace,), {})(names=NAMES) for name in ("Image", "ClassLabel")]
        self.features = dict(zip(("picture", "y"), kinds, strict=True))


def pairs():
    return [(image, int(y)) for image, y in zip(PIXELS, LABELS, strict=True)]


def given(folder, data, test=None, **options):
    return held.file_of(data, test, folder, DataConfig(**options))


def taken(folder, data, test=None, **options):
    return read(DataConfig(source=given(folder, data, test, **options), **options))


def is_refused(folder, data, message, test=None, **options):
    with pytest.raises(DataError, match=message):
        given(folder, data, test, **options)
    assert not list(folder.iterdir())


KINDS = {
    "arrays": (PIXELS, LABELS),
    "channels first": (PIXELS.transpose(0, 3, 1, 2), LABELS),
    "tensors": (X, Y),
    "in a list": [X, Y],
    "floats": (X / 255, Y),
    "half precision": ((X / 255).half(), Y),
    "tensor data set": TensorDataset(X, Y),
    "arrays of pairs": pairs(),
    "PIL images": [(Image.fromarray(image), y) for image, y in pairs()],
    "floats of pairs": [(image / 255, y) for image, y in zip(X, Y, strict=True)],
    "part of another": Subset(Named(pairs()), range(N)),
}


@pytest.mark.parametrize("data", KINDS.values(), ids=KINDS)
def test_all_kinds_are_the_same_images(data, tmp_path):
    expected = taken(tmp_path, (PIXELS, LABELS))
    found = taken(tmp_path, data)
    assert found.fingerprint == expected.fingerprint
    assert torch.equal(torch.cat([found.train.images, found.test.images]).sum(0), X.sum(0))
    assert found.class_names == (tuple(NAMES) if isinstance(data, Subset) else ("0", "1"))


def test_names_grey_and_deep_images(tmp_path):
    named = taken(tmp_path, (PIXELS, ["cat", "dog"] * (N // 2)))
    assert named.class_names == ("cat", "dog")
    grey = taken(tmp_path, [(Image.fromarray(image[..., 0]), y) for image, y in pairs()])
    assert {kind.mode for kind in grey.kinds} == {"L"}
    assert grey.fingerprint == taken(tmp_path, (PIXELS[..., 0], LABELS)).fingerprint
    deep = [(Image.fromarray(image[..., 0].astype(np.uint16) * 257), y) for image, y in pairs()]
    assert taken(tmp_path, deep).fingerprint == grey.fingerprint
    more = Named(pairs())
    more.classes = ["cat"]  # not a name for each label
    assert taken(tmp_path, more).class_names == ("0", "1")


def test_a_test_set_of_its_own(tmp_path):
    found = taken(tmp_path, Named(pairs()[:16]), Named(pairs()[16:]))
    assert (len(found.train.labels), len(found.test.labels)) == (16, 8)
    assert torch.equal(found.test.images, X[16:])
    other = Named(pairs()[16:])
    other.classes = ["cat", "bird"]
    with pytest.raises(DataError, match=r"different classes: \['cat', 'dog'\] and \['cat', 'bird'\]"):
        given(tmp_path, Named(pairs()[:16]), other)


def test_the_same_images_have_one_file_and_others_another(tmp_path):
    first = given(tmp_path, (PIXELS, LABELS))
    before = Path(first).stat().st_mtime_ns
    assert given(tmp_path, pairs()) == first
    assert Path(first).stat().st_mtime_ns == before
    assert given(tmp_path, (PIXELS, 1 - LABELS)) != first
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(DataError, match="not the images of this run"):
        held.file_of((PIXELS[::-1], LABELS), None, tmp_path, DataConfig(), is_new=False)


def test_sizes(tmp_path):
    mixed = [(Image.fromarray(image[: 6 + y]), y) for image, y in pairs()]
    is_refused(tmp_path, mixed, r"different sizes: 8 x 6 \(12\), 8 x 7 \(12\)\. Give a size.*size=7")
    found = taken(tmp_path, mixed, size=5)
    assert found.image_size == (5, 5)
    expected = np.asarray(mixed[0][0].resize((5, 5), Image.Resampling.BICUBIC))
    every = torch.cat([found.train.images, found.test.images])
    assert (every == torch.tensor(expected).permute(2, 0, 1)).flatten(1).all(1).any()
    assert taken(tmp_path, mixed, size=7, margin=True).train.images.shape[2:] == (8, 8)


class Fickle(list):
    def __getitem__(self, index):
        return torch.randint(0, 256, (3, 8, 8), dtype=torch.uint8), 0


class Broken(list):
    def __getitem__(self, index):
        raise KeyError if index else OSError("the disk is gone")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "expected a path, .*got int"),
        (DataLoader([1]), "got DataLoader; give its .dataset"),
        ({"train": pairs()}, r"got dict; give one part, such as data\['train'\]"),
        ([], "train images: no images"),
        ([(PIXELS[0], 0), (PIXELS[1],)], r"item 1: expected \(image, label\), got tuple"),
        ([(PIXELS[0], 0), ("cat.png", 0)], "item 1: expected a PIL image, a tensor or an array, got str"),
        ([(PIXELS[0], 0), (PIXELS[1] - 1.5, 0)], "item 1: image: floats from .*not levels"),
        ([(PIXELS[0], 0), (PIXELS[1].astype(np.int64), 0)], "item 1: image: expected uint8.*got int64"),
        ([(PIXELS[0], 0), (torch.zeros(4, 8, 8, dtype=torch.uint8), 0)], r"item 1: image: .*\(1, 4, 8, 8\)"),
        ([(PIXELS[0], 0), (PIXELS[1], 0.5)], "item 1: expected an integer or a text as its label, got float"),
        ([(PIXELS[0], 0), (PIXELS[1], "dog")], r"labels of several kinds \(int, str\)"),
        (Fickle([0, 1]), "item 0 is another image each time; give the data set without its transform"),
        (Broken([0, 1]), "item 0: the disk is gone"),
        ((X / 255 - 0.5, Y), "floats from -0.5 to 0.5"),
        ((X / 255 * 0.7, Y), "not levels of 8 bits divided by 255"),
        ((torch.full((4, 3, 8, 8), float("nan")), Y), "floats from nan to nan"),
    ],
)
def test_refuses(data, message, tmp_path):
    is_refused(tmp_path, data, message)


def test_a_path_stays_what_it_is(tmp_path):
    assert given(tmp_path, Path("pets")) == "pets"
    is_refused(tmp_path, "pets", "test images are in test/", test=pairs())
    is_refused(tmp_path, pairs(), "test= is a path, and data is not", test="pets")


# --- what is made of files --------------------------------------------------------------------------------------------


def files(folder):
    paths = [noise(folder / NAMES[i % 2] / f"{i}.png", i) for i in range(N)]
    return [{"path": str(path), "label": path.parent.name} for path in paths]


def test_a_frame(tmp_path, monkeypatch):
    rows, home = files(tmp_path / "pets"), tmp_path / "runs"
    inject(monkeypatch, "pandas", DataFrame=Frame)
    grouped = Frame([row | {"film": i // 4} for i, row in enumerate(rows)])
    assert taken(home, grouped, group_by="film").groups.unique().tolist() == [0, 1, 2, 3, 5]  # 4 is held out
    found = taken(home, Frame(rows[:16]), Frame(rows[16:]))
    assert (len(found.train.labels), len(found.test.labels)) == (16, 8)
    monkeypatch.chdir(tmp_path / "pets")  # paths are those of the program, wherever the file lies
    here = [row | {"path": str(Path(row["path"]).relative_to(Path.cwd()))} for row in rows]
    assert taken(home, Frame(here)).fingerprint == taken(home, Frame(rows)).fingerprint
    with pytest.raises(DataError, match="line 3: label missing"):
        taken(home, Frame([rows[0], rows[1] | {"label": float("nan")}]))
    with pytest.raises(DataError, match="missing label"):
        given(home, Frame([{"path": "cat.png"}]))
    with pytest.raises(DataError, match="give either it or test="):
        given(home, Frame([row | {"split": "train"} for row in rows]), Frame(rows))
    with pytest.raises(DataError, match="give the same kind twice"):
        given(home, Frame(rows), pairs())


def test_a_hugging_face_data_set(tmp_path, monkeypatch):
    inject(monkeypatch, "datasets", Dataset=Hub)
    found = taken(tmp_path, Hub())
    assert found.class_names == ("cat", "dog")
    assert found.fingerprint == taken(tmp_path, pairs()).fingerprint


def test_nothing_is_imported_to_ask_whose_an_object_is(tmp_path, monkeypatch):
    for name in ("torchvision", "torchvision.datasets", "datasets", "pandas"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    given(tmp_path, (PIXELS, LABELS))
    assert not {"torchvision", "datasets", "pandas"} & sys.modules.keys()


@pytest.mark.torchvision
def test_an_image_folder_is_its_files_without_its_transform(tmp_path):
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    files(tmp_path / "pets")
    plain, flipping = (ImageFolder(tmp_path / "pets", change) for change in (None, v2.RandomHorizontalFlip()))
    assert given(tmp_path / "runs", plain) == given(tmp_path / "runs", flipping)
    expected = read(DataConfig(source=str(tmp_path / "pets")))
    assert taken(tmp_path / "runs", plain).fingerprint == expected.fingerprint
    part = taken(tmp_path / "runs", Subset(plain, range(20)))
    assert (part.class_names, len(part.train.labels)) == (("cat", "dog"), 16)
    with pytest.raises(DataError, match="another image each time"):
        given(tmp_path / "runs", Subset(flipping, range(20)))
