"""ImageNet-100 and DomainNet as they are published, in small."""

import numpy as np
import pytest

from pictures import noise, refused
from slackaug.augment import policy
from slackaug.config import paper, presets
from slackaug.data import layouts, load

WNIDS = ["n01440764", "n01443537", "n02085620", "n03000684"]


@pytest.fixture
def imagenet(tmp_path):
    """Four classes; the list names three of them, in another order."""
    for k, name in enumerate(WNIDS):
        for i in range(4):
            noise(tmp_path / "train" / name / f"{name}_{i}.JPEG", 10 * k + i, (30, 24))
        for i in range(2):
            noise(tmp_path / "val" / name / f"ILSVRC2012_val_{k:04d}{i:04d}.JPEG", 1000 + 10 * k + i, (24, 40))
    (tmp_path / "imagenet100.txt").write_text(f"{WNIDS[2]}\n{WNIDS[0]}\n{WNIDS[3]}\n")
    return tmp_path


def test_imagenet100(imagenet):
    dataset = load(f"imagenet100:{imagenet}")
    assert dataset.class_names == (WNIDS[0], WNIDS[2], WNIDS[3])
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (12, 6)
    assert dataset.image_size == (224, 224)
    assert dataset.train.images.shape[1:] == (3, 256, 256)  # Resize(256), for random windows of 224
    assert (dataset.mean, dataset.std) == policy.IMAGENET
    assert "val is the test set" in dataset.notes
    assert presets.paper(dataset) == paper.row("imagenet100")
    assert presets.paper(dataset, "wrn-40-2").model == "wrn-40-2"
    assert paper.paper_row(dataset) == "imagenet100"
    (imagenet / "train" / "n09999999").mkdir()  # a class that is not in the list, unpacked later, or never
    assert load(f"imagenet100:{imagenet}", size=8).n_classes == 3


def test_links_to_folders_are_refused_as_in_any_folder(imagenet, domainnet):
    (imagenet / "train" / WNIDS[0] / "more").symlink_to(imagenet / "val")
    refused(f"imagenet100:{imagenet}", f"not followed: .*/train/{WNIDS[0]}/more", size=8)
    (domainnet / "clipart_test.txt").unlink()
    (domainnet / "clipart" / "ant" / "more").symlink_to(domainnet)
    refused(f"domainnet:{domainnet}/clipart", r"not followed: .*/clipart/ant/more", size=8)


def test_a_list_from_windows_or_in_composed_letters(imagenet):
    for part in ("train", "val"):
        (imagenet / part / WNIDS[0]).rename(imagenet / part / "cafe\u0301")  # as macOS stores it
    (imagenet / "imagenet100.txt").write_text(f"{WNIDS[2]}\r\ncaf\u00e9\r\n", encoding="utf-8-sig")
    assert load(f"imagenet100:{imagenet}", size=8).class_names == ("caf\u00e9", WNIDS[2])


def test_imagenet100_at_another_size(imagenet):
    assert load(f"imagenet100:{imagenet}", size=16).train.images.shape[1:] == (3, 16, 16)
    dataset = load(f"imagenet100:{imagenet}", size=14, margin=True)
    assert (dataset.image_size, dataset.train.images.shape[2]) == ((14, 14), 16)


def test_imagenet100_in_a_folder_of_its_own_needs_no_list(imagenet, monkeypatch):
    (imagenet / "imagenet100.txt").unlink()
    assert load(f"imagenet100:{imagenet}", size=8).n_classes == 4
    monkeypatch.setitem(layouts.N_CLASSES, "imagenet100", 3)
    refused(f"imagenet100:{imagenet}", r"4 classes in train and no .*imagenet100.txt; put the list of the 100")


def test_imagenet100_refuses(imagenet):
    for name, message in (
        ("n01440764\nn09999999", r"no folder in .*train for n09999999, which imagenet100.txt names"),
        ("", r"imagenet100.txt: no classes; expected one on each line"),
    ):
        (imagenet / "imagenet100.txt").write_text(name)
        refused(f"imagenet100:{imagenet}", message)
    refused("imagenet100:nowhere", r"nowhere/train with class folders is missing; expected train/CLASS")


@pytest.fixture
def domainnet(tmp_path):
    """Two domains with their lists, and a file in none of them: the published zips have duplicates."""
    for d, domain in enumerate(("clipart", "real")):
        lines = []
        for k, name in enumerate(("ant", "The_Eiffel_Tower", "zebra")):
            for i in range(10):
                file = f"{domain}/{name}/{domain}_{k:03d}_{i:06d}.jpg"
                noise(tmp_path / file, 1000 * d + 100 * k + i, (30, 24))
                lines.append(f"{file} {k}")
            noise(tmp_path / domain / name / "unlisted.jpg", 7, (30, 24))
        for part in ("train", "test"):
            chosen = [line for line in lines if ("000009" in line) == (part == "test")]
            (tmp_path / f"{domain}_{part}.txt").write_text("\n".join(chosen) + "\n")
    return tmp_path


def test_domainnet_holds_out_a_fifth_of_each_class(domainnet):
    dataset = load(f"domainnet:{domainnet}/clipart")
    assert dataset.class_names == ("The_Eiffel_Tower", "ant", "zebra")
    assert dataset.train.labels.bincount().tolist() == [8, 8, 8]
    assert dataset.test.labels.bincount().tolist() == [2, 2, 2]
    assert dataset.train.images.shape[1:] == (3, 224, 224)  # clipart: Resize((224, 224))
    assert (dataset.mean, dataset.std) == policy.IMAGENET
    assert any("3 classes, of the 345" in note for note in dataset.notes)
    assert presets.paper(dataset) == paper.row("domainnet-clipart")


def test_real_and_quickdraw_are_reduced(domainnet, monkeypatch):
    monkeypatch.setattr(layouts, "N_REDUCED", 14)
    dataset = load(f"domainnet:{domainnet}/real")
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (14, 16)
    assert sorted(dataset.train.labels.bincount().tolist()) == [4, 5, 5]
    assert dataset.input_size == (224, 224)  # real: Resize(256) + RandomCrop(224)
    assert len(load(f"domainnet:{domainnet}/clipart", size=8).train.labels) == 24
    assert presets.paper(dataset) == paper.row("domainnet-real")


def test_the_split_depends_on_the_names_alone(domainnet):
    first = load(f"domainnet:{domainnet}/clipart", size=8)
    for part in ("train", "test"):
        path = domainnet / f"clipart_{part}.txt"
        path.write_text("\n".join(reversed(path.read_text().split("\n"))))
    assert load(f"domainnet:{domainnet}/clipart", size=8).fingerprint == first.fingerprint


def test_lists_of_windows_and_no_lists(domainnet):
    expected = load(f"domainnet:{domainnet}/clipart", size=8).fingerprint
    for path in domainnet.glob("clipart_*.txt"):
        path.write_text(path.read_text(), encoding="utf-8-sig")  # from an editor on Windows
    assert load(f"domainnet:{domainnet}/clipart", size=8).fingerprint == expected
    (domainnet / "clipart_test.txt").unlink()
    whole = load(f"domainnet:{domainnet}/clipart", size=8)  # all files
    assert len(whole.train.labels) + len(whole.test.labels) == 33


def test_domainnet_refuses(domainnet):
    for place, message in (
        ("oil", r"with a domain of clipart, infograph"),
        ("clipart@mine", r"expected domainnet:ROOT/DOMAIN with"),
        ("sketch", r"no folder .*sketch; expected sketch/CLASS/\*.jpg in "),
    ):
        refused(f"domainnet:{domainnet}/{place}", message)
    (domainnet / "clipart" / "ant" / "clipart_000_000003.jpg").unlink()
    refused(f"domainnet:{domainnet}/clipart", "1 of 30 files.*clipart_000_000003.jpg: no such file", size=8)
    with (domainnet / "clipart_train.txt").open("a") as file:
        file.write("clipart/ant 3\n../secret/x.jpg 4\n")
    says = r"clipart_train.txt: expected lines such as .*line 28: 'clipart/ant 3'; line 29"
    refused(f"domainnet:{domainnet}/clipart", says)


def test_a_file_that_is_listed_twice_counts_once(domainnet):
    """It would be trained on and tested on, otherwise."""
    train, test = (domainnet / f"clipart_{part}.txt" for part in ("train", "test"))
    once = load(f"domainnet:{domainnet}/clipart", size=8)
    test.write_text(test.read_text() + "\n".join(train.read_text().splitlines()[:2]) + "\n")
    train.write_text(train.read_text() * 2)
    twice = load(f"domainnet:{domainnet}/clipart", size=8)
    assert twice.fingerprint == once.fingerprint
    assert "held out a stratified 20 % (seed 0)" in twice.notes


# --- DomainNet's published split --------------------------------------------------------------------------------------

CLASSES = ("The_Eiffel_Tower", "ant", "zebra")
INDEX = {"ant": 0, "The_Eiffel_Tower": 1, "zebra": 2}


def publish(root, train=range(7), test=range(7, 10), more=None) -> None:
    """The lists as SLACK's authors have them: an array of file names for each class, in no order."""
    for part, chosen in (("train", train), ("test", test)):
        names = {c: [f"clipart_{INDEX[c]:03d}_{i:06d}.jpg" for i in reversed(chosen)] for c in reversed(CLASSES)}
        arrays = {c: np.array(values) for c, values in (names | (more or {}).get(part, {})).items()}
        np.savez(root / f"clipart_{part}.npz", **arrays)


def test_the_published_split_is_taken_where_it_lies(domainnet):
    ours = load(f"domainnet:{domainnet}/clipart", size=8)
    publish(domainnet)
    dataset = load(f"domainnet:{domainnet}/clipart", size=8)
    assert dataset.class_names == CLASSES
    assert dataset.train.labels.bincount().tolist() == [7, 7, 7]
    assert dataset.test.labels.bincount().tolist() == [3, 3, 3]
    said = (
        "the published split, clipart_train.npz and clipart_test.npz: 21 training images, 9 test images; "
        "3 files in neither list"  # those that are called unlisted.jpg
    )
    assert said in dataset.notes
    assert not any("held out" in note for note in dataset.notes)
    (domainnet / "clipart_train.txt").unlink()  # lists of lines are not needed beside it
    assert load(f"domainnet:{domainnet}/clipart", size=8).fingerprint == dataset.fingerprint != ours.fingerprint


def test_the_published_split_has_the_files_it_names(domainnet):
    publish(domainnet, train=[3, 5], test=[1])
    found = layouts.list_domainnet(f"{domainnet}/clipart").items
    parts = {"clipart_000_000003.jpg": "train", "clipart_000_000005.jpg": "train", "clipart_000_000001.jpg": "test"}
    assert {item.path.name: item.part for item in found if item.label == "ant"} == parts
    assert len(found) == 9
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": range(6, 10)}, r"clipart_train.npz and clipart_test.npz: 3 files are named more than once: .*000006"),
        (
            {"test": range(7, 12)},
            r"6 files of 36 not in the folder of the domain: .*000011.jpg.*as DomainBed downloads",
        ),
        ({"more": {"train": {"cat": ["a.jpg"]}}}, r"1 file of 31 not in the folder of the domain: cat/a.jpg"),
        ({"more": {"train": {"ant": [["a.jpg"]]}}}, r"clipart_train.npz: ant: expected a vector of file names"),
        ({"more": {"test": {"ant": [1, 2]}}}, r"clipart_test.npz: ant: expected a vector of file names, got int64"),
    ],
)
def test_a_published_split_that_is_not_this_data_s_is_refused(changes, message, domainnet):
    publish(domainnet, **changes)
    refused(f"domainnet:{domainnet}/clipart", message, size=8)


def test_half_of_a_published_split_is_refused(domainnet):
    publish(domainnet)
    (domainnet / "clipart_test.npz").unlink()
    refused(f"domainnet:{domainnet}/clipart", r"clipart_test.npz: missing; the published split is in two lists", size=8)
    (domainnet / "clipart_test.npz").write_bytes(b"cut off")
    refused(f"domainnet:{domainnet}/clipart", r"clipart_test.npz: cannot be read: not an npz file", size=8)
    np.savez(domainnet / "clipart_test.npz", ant=np.array([{}], dtype=object))
    refused(f"domainnet:{domainnet}/clipart", r"clipart_test.npz: holds Python objects", size=8)
