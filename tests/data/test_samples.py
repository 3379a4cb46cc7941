"""A few images to show: of different classes, without decoding the others, and nothing that a file may not name."""

import numpy as np
import pytest
import torch

import tiny
from pictures import classes, picture
from slackaug import data
from slackaug.data import DataError, samples
from slackaug.data.options import DataConfig


def find(source, **options):
    return samples.find(DataConfig(source=str(source), **options), None)


@pytest.mark.parametrize("name", [".", "x.csv"])
def test_files_are_not_decoded_as_a_whole(name, tmp_path):
    paths = [path.relative_to(tmp_path) for path in sorted(classes(tmp_path, ("b", "a", "ت")).rglob("*.png"))]
    (tmp_path / "x.csv").write_text("\n".join(["path,label", *(f"{path},{path.parent}" for path in paths)]))
    for path in paths:
        if path.name != "0.png":
            (tmp_path / path).write_text("not an image")
    found = find(tmp_path / name)
    assert (found.class_names, found.images.shape) == (("a", "b", "ت"), (3, 3, 4, 4))
    picture(tmp_path / "a" / "1.png", 7)
    (tmp_path / "a" / "0.png").write_text("not an image")
    with pytest.raises(DataError, match=r"a/0\.png: "):
        find(tmp_path / name)
    assert find(tmp_path / name, skip_bad=True).images[0].unique().tolist() == [7]
    (tmp_path / "a" / "1.png").write_text("not an image")
    with pytest.raises(DataError, match="none of 10 files can be read"):
        find(tmp_path / name, skip_bad=True)


def test_nothing_is_shown_from_outside_of_the_data(tmp_path):
    picture(tmp_path / "secret" / "0.png")
    (tmp_path / "data.csv").write_text("path,label,split\nsecret/1.png,a,test\nsecret/0.png,a,train\n")
    assert len(find(tmp_path / "data.csv").images) == 1
    (tmp_path / "set" / "cat").mkdir(parents=True)
    (tmp_path / "set" / "cat" / "0.png").symlink_to(tmp_path / "secret" / "0.png")
    (tmp_path / "set" / "data.csv").write_text("path,label\n../secret/0.png,a\n")
    for source in (tmp_path / "set", tmp_path / "set" / "data.csv"):
        with pytest.raises(DataError, match="outside"):
            find(source)


@pytest.mark.parametrize("named", [False, True])
def test_an_npz_shows_what_the_data_set_has(tmp_path, named):
    content = tiny.arrays() | ({"class_names": np.array(["x", "y", "<b>"])} if named else {})
    np.savez(tmp_path / "x.npz", **content)
    found = find(tmp_path / "x.npz")
    expected = samples.of_dataset(data.load(str(tmp_path / "x.npz")))
    assert found.class_names == expected.class_names == (("x", "y", "<b>") if named else ("0", "1", "2"))
    assert torch.equal(found.images, expected.images)


@pytest.mark.parametrize("source", ["os:getcwd", "torchvision:CIFAR10", "hf:mnist", "gone/", "gone.npz", ""])
def test_a_file_names_neither_code_nor_downloads(source, monkeypatch):
    monkeypatch.setattr(samples, "read", lambda *_, **__: pytest.fail("was read"))
    with pytest.raises(DataError, match="--data says where the images are now"):
        find(source)
