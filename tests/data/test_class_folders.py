"""Folders of class folders."""

import os

import pytest

import slackaug
from pictures import COMPOSED, DECOMPOSED, classes, picture, refused
from slackaug.data import DataError, load
from slackaug.data.sources import refuse_inside


def test_a_folder_of_class_folders(tmp_path):
    dataset = load(classes(tmp_path))
    assert dataset.class_names == ("cat", "dog")
    assert [split.labels.bincount().tolist() for split in (dataset.train, dataset.test)] == [[8, 8], [2, 2]]
    assert ((dataset.train.images[:, 0, 0, 0] % 10) == dataset.train.labels).all()
    assert dataset.notes[0] == "classes: cat, dog (2)"
    assert "held out" in dataset.notes[1]
    assert dataset.flip
    assert load(str(tmp_path)).fingerprint == dataset.fingerprint  # a path is as good as its text


@pytest.mark.parametrize(
    ("train", "val", "test"),
    [("train", "val", "test"), ("Train", "Val", "TEST"), ("training", "validation", "testing"),
     ("TRAIN", "Valid", "Testing")],
)  # fmt: skip
def test_train_val_and_test(train, val, test, tmp_path):
    for part, n in ((train, 3), (val, 2), (test, 4)):
        classes(tmp_path / part, n=n)
    picture(tmp_path / "extra" / "x.png")
    dataset = load(tmp_path)
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (10, 8)
    assert dataset.notes == (
        "classes: cat, dog (2)",
        "folders beside train/ and test/ are not read: extra",
        f"{val} joined train: a search splits it anew",
    )


def test_a_class_may_be_called_train(tmp_path):
    assert load(str(classes(tmp_path, ("bus", "train", "val")))).class_names == ("bus", "train", "val")


def test_images_may_lie_deeper_and_other_files_are_counted_by_their_endings(tmp_path):
    classes(tmp_path)
    picture(tmp_path / "cat" / "more" / "x.PNG")
    picture(tmp_path / "stray.png")
    for i in range(5):
        for suffix in (".heic", ".HEIC", ".txt", ".x\x1b", "", ".json", ".xml")[: 7 - i]:
            (tmp_path / "cat" / f"{i}{suffix}").write_text("")
    dataset = load(tmp_path)
    assert len(dataset.train.labels) + len(dataset.test.labels) == 21
    assert dataset.notes[1].endswith(f"1 image in {tmp_path.name}")
    kinds = r".heic 10, .txt 5, .x\x1b 4, no ending 3, .json 2, ..."
    assert dataset.notes[2].endswith(f"25 files in {tmp_path.name} ({kinds})")


@pytest.mark.parametrize("inside", [[], ["cat", "dog"]], ids=str)
@pytest.mark.parametrize("part", ["test", "val"])
def test_a_part_without_images_is_said(part, inside, tmp_path):
    """As a download that failed leaves it."""
    classes(tmp_path / "train")
    (tmp_path / part).mkdir()
    for name in inside:
        (tmp_path / part / name).mkdir()
    for notes in (load(tmp_path).notes, slackaug.check(tmp_path, cost=False).as_dict()["notes"]):
        assert sum(note.startswith(f"{part}/ has no images and is taken for missing") for note in notes) == 1


def test_what_systems_leave_behind_is_no_data(tmp_path):
    classes(tmp_path)
    expected = load(tmp_path)
    for name in ("__pycache__", "__MACOSX", ".git", "cat/__pycache__", "cat/.thumbnails", "dog/@eaDir"):
        picture(tmp_path / name / "x.png", 99)
    for name in (".DS_Store", "Thumbs.db", "desktop.ini", "._x.png"):
        for place in (tmp_path, tmp_path / "cat"):
            (place / name).write_bytes(b"")
    dataset = load(tmp_path)
    assert (dataset.notes, dataset.fingerprint) == (expected.notes, expected.fingerprint)


# --- layouts that are none --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "where", "message"),
    [
        (["train/cat", "training/cat", "test/cat"], "", "several folders for one part .test, train, training.; join"),
        (["train", "test"], "", "labels missing.*like parts of a data set.*ROOT/.*/CLASS/image.png.*csv"),
        (["Train", "VAL", "Testing"], "", "labels missing.*like parts of a data set.*ROOT/.*/CLASS/image.png.*csv"),
        (["train"], "", "labels missing.*like parts of a data set.*ROOT/.*/CLASS/image.png.*csv"),
        (["Test/cat", "cat", "dog"], "", "has Test/ with class folders, but no train/"),
        (["cat/train", "cat/test", "dog/train"], "", "divided into train and test.*ROOT/cat.*ROOT/train/CLASS"),
        (["train/cat/test", "train/cat", "train/dog", "test/cat"], "", "divided into train and test"),
        (["photo/train/cat", "photo/test/cat"], "", "looks like a folder above a data set; give: ROOT/photo$"),
        (["archive/cat", "archive/dog"], "", "only one class .'archive'.*if these are .* classes, give ROOT/archive$"),
        (["cat"], "", "only one class"),
        ([], "", "no images"),
        (["flat"], "flat", "labels missing: 10 images lie directly.*path,label"),
        (["train/cat", "train/dog", "test/cat", "test/emu"], "", "no training images: emu"),
        *(([f"all/{domain}/{part}/cat" for domain in ("photo", "sketch") for part in ("Train", "test")], where,
           "several data sets; give one of them: ROOT/all/photo, ROOT/all/sketch") for where in ("all", "")),
        (["photo/train/cat", "photo/test/cat", "b/train/cat"], "photo/..", "several data sets"),
    ],
)  # fmt: skip
def test_layouts_that_are_none(made, where, message, tmp_path):
    for name in made:
        classes(tmp_path / name, [""])
    refused(tmp_path / where, message.replace("ROOT", str(tmp_path)))


def test_classes_that_are_not_tested_are_named(tmp_path):
    classes(tmp_path / "train", ("cat", "dog", "fox"))
    classes(tmp_path / "test")
    assert "classes that are not tested: fox" in load(tmp_path).notes


def test_different_sizes_need_a_size(tmp_path):
    classes(tmp_path)
    picture(tmp_path / "cat" / "wide.png", size=(9, 5))
    refused(tmp_path, r"different sizes: 4 x 4 \(20\), 9 x 5 \(1\)\. Give a size, for example --size 4")
    assert load(str(tmp_path), size=6).image_size == (6, 6)
    refused(tmp_path, "size must be from 1 to", size=0)


# --- files that cannot be read ----------------------------------------------------------------------------------------


def test_all_bad_files_are_listed_and_can_be_left_out(tmp_path):
    classes(tmp_path)
    for i in range(25):
        (tmp_path / "dog" / f"bad{i:02}.jpg").write_bytes(b"")
    message = refused(tmp_path, "25 of 45 files cannot be read.*--skip-bad.*dog/bad00.jpg: empty")
    assert len(message.splitlines()) == 1 + 25
    dataset = load(tmp_path, skip_bad=True)
    assert len(dataset.train.labels) + len(dataset.test.labels) == 20
    assert dataset.notes[1].startswith("left out 25 of 45 files")
    (tmp_path / "emu").mkdir()
    refused(tmp_path, "without images: emu")
    (tmp_path / "emu" / "x.png").write_bytes(b"")
    refused(tmp_path, r"'emu' \(0\)", skip_bad=True)  # a class must not vanish with its bad files
    picture(tmp_path / "emu" / "x.png")
    refused(tmp_path, r"'emu' \(1\)", skip_bad=True)


@pytest.mark.parametrize("cached", [False, True])
def test_only_bad_files(cached, tmp_path):
    cache = {"cache": tmp_path / "cache"} if cached else {}
    for name in ("train/cat", "train/dog", "test/cat", "test/dog"):
        (tmp_path / "set" / name).mkdir(parents=True)
        (tmp_path / "set" / name / "x.png").write_bytes(b"")
    refused(tmp_path / "set", "4 of 4 files", **cache)
    refused(tmp_path / "set", "none of the 4 files", skip_bad=True, **cache)
    classes(tmp_path / "set" / "train")  # a test set of bad files is not replaced in silence
    refused(tmp_path / "set", "test: no images", skip_bad=True, **cache)


def test_a_folder_beside_train_that_may_not_be_listed_does_not_matter(tmp_path, monkeypatch):
    for part in ("train", "test", "lost+found"):
        classes(tmp_path / part)
    scandir = os.scandir

    def scan(path):
        if "lost+found" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    assert load(tmp_path).notes[1] == "folders beside train/ and test/ are not read: lost+found"


# --- links ------------------------------------------------------------------------------------------------------------


def test_links_may_not_lead_outside(tmp_path):
    data = classes(tmp_path / "data")
    picture(tmp_path / "secret" / "x.png")
    (data / "cat" / "again.png").symlink_to(data / "cat" / "0.png")
    assert len(load(data).train.labels) == 17
    link = data / "cat" / "out.png"
    for target, message in ((tmp_path / "secret" / "x.png", "outside.*out.png"),
                            (link, "1 of 22 files.*out.png: Too many levels of symbolic links$")):  # fmt: skip
        link.symlink_to(target)
        refused(data, message)
        link.unlink()
    (data / "fox").symlink_to(tmp_path / "secret")
    refused(data, "outside.*fox")


def test_a_link_may_not_put_a_file_into_train_and_test(tmp_path):
    for part in ("train", "test"):
        classes(tmp_path / part)
    (tmp_path / "test" / "cat" / "again.png").symlink_to(tmp_path / "train" / "cat" / "0.png")
    refused(tmp_path, "in two parts; remove one of each: test/cat/again.png and train/cat/0.png")


def test_links_to_folders_inside_of_a_class_are_named_and_not_followed(tmp_path):
    picture(tmp_path / "store" / "x.png")
    data = classes(tmp_path / "data")
    links = {data / "cat/batch2": tmp_path / "store", data / "dog/2020/circle.png": data}
    for link, target in links.items():
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(target)
    refused(data, "not followed: .*/data/cat/batch2, .*/data/dog/2020/circle.png; copy .*, or remove", skip_bad=True)
    (data / "cat" / ".batch3").symlink_to(tmp_path / "store")  # hidden, as all that systems leave behind
    for link in links:
        link.unlink()
    assert load(data).class_names == ("cat", "dog")


@pytest.mark.parametrize("names", [("cat",), ("cat", "dog")])
def test_a_class_that_is_all_behind_a_link_is_not_called_empty(names, tmp_path):
    classes(tmp_path / "store")
    classes(tmp_path / "data", [name for name in ("cat", "dog") if name not in names])
    for name in names:
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "all").symlink_to(tmp_path / "store" / name)
    refused(tmp_path / "data", "links to folders are not followed: .*/cat/all")


# --- what slackaug writes is not among the images ---------------------------------------------------------------------


def test_results_are_not_written_among_the_images(command, tmp_path):
    classes(tmp_path / "pets")
    before = sorted(tmp_path.rglob("*"))
    run = tmp_path / "pets" / "runs" / "a"
    for words in (
        ["search", tmp_path / "pets", "-o", run],
        ["evaluate", tmp_path / "pets", "--baselines", "none", "-o", run],
        ["evaluate", tmp_path / "pets", "--baselines", "none", "-o", tmp_path / "a", "--save-models", run],
        ["study", "quick", "--data", tmp_path / "pets", "-o", run],
        ["search", tmp_path / "pets", "-o", tmp_path / "a", "--cache", run],
    ):
        done = command(*words)
        assert done.returncode == 2, words
        assert f"{words[-2]} {run}: is inside of {tmp_path}/pets, among the images" in " ".join(done.stderr.split())
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_beside_the_images_or_that_a_name_stands_for_is_not_among_them(tmp_path, monkeypatch):
    classes(tmp_path / "pets")
    monkeypatch.chdir(tmp_path / "pets")
    for source, place in (("../pets", "../petshop"), ("digits", "digits"), ("x.csv", "a"), (".", None)):
        refuse_inside(source, place)
    for source in (".", "imagenet100:.", f"domainnet:{tmp_path}/pets"):
        with pytest.raises(DataError, match=r"-o a: is inside of .*, among the images"):
            refuse_inside(source, "a")


def test_a_name_is_one_class_however_its_accents_are_stored(tmp_path):
    classes(tmp_path / "train", ("dog", DECOMPOSED))
    classes(tmp_path / "test", ("dog", COMPOSED), n=4)
    dataset = load(tmp_path)
    assert (dataset.class_names, dataset.test.labels.bincount().tolist()) == ((COMPOSED, "dog"), [4, 4])
    classes(tmp_path / "test", (DECOMPOSED,))  # both ways side by side
    assert load(tmp_path).test.labels.bincount().tolist() == [14, 4]
