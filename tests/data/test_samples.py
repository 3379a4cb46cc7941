"""A few images to show: of different classes, without decoding the others, and nothing that a file may not name."""

import numpy as np
import pytest
import torch

import made_up
import tiny
from slackaug import data
from slackaug.data import DataError, samples
from slackaug.data.options import DataConfig


def find(source, **options):
    return samples.find(DataConfig(source=str(source), **options), None)


def test_a_folder_is_not_decoded_as_a_whole(tmp_path):
    source = made_up.images(tmp_path / "files", ("a", "b")).parent
    for label, name in (("cat", "0.png"), ("dog", "1.png")):
        (tmp_path / "set" / label).mkdir(parents=True)
        (source / name).rename(tmp_path / "set" / label / name)
        (tmp_path / "set" / label / "z.png").write_text("not an image")
    found = find(tmp_path / "set")
    assert found.class_names == ("cat", "dog")
    assert found.images.shape == (2, 3, 40, 40)


def test_a_table_is_not_decoded_as_a_whole(tmp_path):
    source = made_up.images(tmp_path, ("b", "a", "ت"))
    for i in range(3, 15):
        (tmp_path / f"{i}.png").write_text("not an image")
    found = find(source)
    assert found.class_names == ("a", "b", "ت")
    assert found.images.shape == (3, 3, 40, 40)
    (tmp_path / "0.png").write_text("not an image")
    with pytest.raises(DataError, match=r"0\.png: "):
        find(source)
    with pytest.raises(DataError, match="none of 5 files can be read"):
        find(source, skip_bad=True)


def test_a_table_shows_nothing_from_outside_of_its_folder(tmp_path):
    made_up.images(tmp_path / "secret", ("a",))
    (tmp_path / "data.csv").write_text("path,label,split\nsecret/1.png,a,test\nsecret/0.png,a,train\n")
    assert len(find(tmp_path / "data.csv").images) == 1
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "data.csv").write_text("path,label\n../secret/0.png,a\n")
    with pytest.raises(DataError, match="outside"):
        find(tmp_path / "inner" / "data.csv")


def test_a_folder_shows_nothing_that_a_link_leads_out_to(tmp_path):
    made_up.images(tmp_path / "secret", ("a",))
    (tmp_path / "set" / "cat").mkdir(parents=True)
    (tmp_path / "set" / "cat" / "0.png").symlink_to(tmp_path / "secret" / "0.png")
    with pytest.raises(DataError, match="outside"):
        find(tmp_path / "set")


def test_bad_files_are_left_out_where_the_search_left_them_out(tmp_path):
    source = made_up.images(tmp_path, ("a", "b"))
    (tmp_path / "0.png").write_text("not an image")
    found = find(source, skip_bad=True)
    assert found.class_names == ("a", "b")


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
