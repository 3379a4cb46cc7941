"""Folders and csv files of images."""

import os

import numpy as np
import pytest
import torch
from PIL import Image

import slackaug
from slackaug.data import DataError, load


def picture(path, value=0, size=(4, 4)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size[1], size[0]), value, dtype=np.uint8)).save(path)


def classes(root, names=("cat", "dog"), n=10, **options):
    for c, name in enumerate(names):
        for i in range(n):
            picture(root / name / f"{i}.png", 100 + 10 * i + c, **options)
    return root


def test_a_folder_of_class_folders(tmp_path):
    dataset = load(str(classes(tmp_path)))
    assert dataset.class_names == ("cat", "dog")
    assert dataset.train.labels.bincount().tolist() == [8, 8]
    assert dataset.test.labels.bincount().tolist() == [2, 2]
    assert ((dataset.train.images[:, 0, 0, 0] % 10) == dataset.train.labels).all()
    assert dataset.notes[0] == "classes: cat, dog (2)"
    assert "held out" in dataset.notes[1]
    assert dataset.flip


def test_train_val_and_test(tmp_path):
    for part, n in (("train", 3), ("val", 2), ("test", 4)):
        classes(tmp_path / part, n=n)
    picture(tmp_path / "extra" / "x.png")
    dataset = load(str(tmp_path))
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (10, 8)
    assert dataset.notes == (
        "classes: cat, dog (2)",
        "folders beside train/ and test/ are not read: extra",
        "val joined train: a search splits it anew",
    )


def test_a_class_may_be_called_train(tmp_path):
    assert load(str(classes(tmp_path, ("bus", "train", "val")))).class_names == ("bus", "train", "val")


def test_images_may_lie_deeper_and_other_files_are_counted(tmp_path):
    classes(tmp_path)
    picture(tmp_path / "cat" / "more" / "x.PNG")
    (tmp_path / "cat" / "readme.txt").write_text("hello")
    (tmp_path / "cat" / ".DS_Store").write_text("")
    picture(tmp_path / "stray.png")
    dataset = load(str(tmp_path))
    assert len(dataset.train.labels) + len(dataset.test.labels) == 21
    assert dataset.notes[1] == f"outside of the class folders, and not read: 1 image in {tmp_path.name}"
    assert dataset.notes[2] == f"not images by their names, and not read: 1 file in {tmp_path.name} (.txt 1)"


def test_files_that_are_no_images_are_counted_by_their_endings(tmp_path):
    classes(tmp_path)
    for i in range(5):
        for suffix in (".heic", ".HEIC", ".txt", ".x\x1b", "", ".json", ".xml")[: 7 - i]:
            (tmp_path / "cat" / f"{i}{suffix}").write_text("")
    kinds = r".heic 10, .txt 5, .x\x1b 4, no ending 3, .json 2, ..."
    assert load(str(tmp_path)).notes[1].endswith(f"25 files in {tmp_path.name} ({kinds})")


@pytest.mark.parametrize("inside", [[], ["cat", "dog"]], ids=str)
@pytest.mark.parametrize("part", ["test", "val"])
def test_a_part_without_images_is_said(part, inside, tmp_path):
    """As a download that failed leaves it."""
    classes(tmp_path / "train")
    (tmp_path / part).mkdir()
    for name in inside:
        (tmp_path / part / name).mkdir()
    says = f"{part}/ has no images and is taken for missing; if it should have some, fetch it again"
    assert load(str(tmp_path)).notes.count(says) == 1
    assert slackaug.check(tmp_path, cost=False).as_dict()["notes"].count(says) == 1


def test_what_systems_leave_behind_is_no_data(tmp_path):
    classes(tmp_path)
    expected = load(str(tmp_path))
    for name in ("__pycache__", "__MACOSX", ".git", "cat/__pycache__", "cat/.thumbnails", "dog/@eaDir"):
        picture(tmp_path / name / "x.png", 99)
    for name in (".DS_Store", "Thumbs.db", "desktop.ini", "._x.png"):
        for place in (tmp_path, tmp_path / "cat"):
            (place / name).write_bytes(b"")
    dataset = load(str(tmp_path))
    assert (dataset.notes, dataset.fingerprint) == (expected.notes, expected.fingerprint)


@pytest.mark.parametrize(
    ("train", "val", "test"),
    [("Train", "Val", "TEST"), ("training", "validation", "testing"), ("TRAIN", "Valid", "Testing")],
)
def test_parts_by_other_names(train, val, test, tmp_path):
    for part, n in ((train, 3), (val, 2), (test, 4)):
        classes(tmp_path / part, n=n)
    dataset = load(str(tmp_path))
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (10, 8)
    assert dataset.class_names == ("cat", "dog")
    assert dataset.notes[1:] == (f"{val} joined train: a search splits it anew",)


def test_two_folders_for_one_part_are_refused(tmp_path):
    for part in ("train", "training", "test"):
        classes(tmp_path / part)
    refused(tmp_path, "several folders for one part .test, train, training.; join them")


@pytest.mark.parametrize("names", [("train", "test"), ("Train", "VAL", "Testing"), ("train",)])
def test_parts_without_classes_are_no_classes(names, tmp_path):
    refused(classes(tmp_path, names), f"labels missing.*like parts of a data set.*{tmp_path}/.*/CLASS/image.png.*csv")


def test_test_without_train_in_any_case(tmp_path):
    classes(tmp_path / "Test")
    classes(tmp_path)
    refused(tmp_path, "has Test/ with class folders, but no train/")


def test_several_data_sets_are_not_taken_for_classes(tmp_path):
    for domain in ("photo", "sketch"):
        for part in ("Train", "test"):
            classes(tmp_path / "domains" / domain / part)
    expected = f"several data sets; give one of them: {tmp_path}/domains/photo, {tmp_path}/domains/sketch"
    refused(tmp_path / "domains", expected)
    refused(tmp_path, expected)  # from one folder higher
    assert load(str(tmp_path / "domains" / "photo")).class_names == ("cat", "dog")
    refused(tmp_path / "domains" / "photo" / "..", "several data sets")


def test_one_data_set_below_a_folder_is_suggested(tmp_path):
    for part in ("train", "test"):
        classes(tmp_path / "photo" / part)
    refused(tmp_path, f"looks like a folder above a data set; give: {tmp_path}/photo$")


def test_parts_inside_of_classes_are_refused(tmp_path):
    for name in ("cat", "dog"):
        classes(tmp_path / name, ("train", "test"))
    refused(tmp_path, f"divided into train and test.*{tmp_path}/cat.*put the parts above.*{tmp_path}/train/CLASS")
    for part in ("train", "test"):
        classes(tmp_path / "more" / part)
    picture(tmp_path / "more" / "train" / "cat" / "test" / "x.png")
    refused(tmp_path / "more", "divided into train and test")


def test_a_single_folder_with_class_folders_is_suggested(tmp_path):
    classes(tmp_path / "archive")
    refused(tmp_path, f"only one class .'archive'.*if these are the classes, give {tmp_path}/archive$")
    assert load(str(tmp_path / "archive")).class_names == ("cat", "dog")


def refused(source, message, **options):
    with pytest.raises(DataError, match=f"(?s){message}") as caught:
        load(str(source), **options)
    return str(caught.value)


def test_folders_without_what_is_needed(tmp_path):
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no images")
    picture(tmp_path / "flat" / "x.png")
    refused(tmp_path / "flat", "labels missing: 1 image lies directly.*path,label")
    refused(classes(tmp_path / "one", ["cat"]), "only one class")
    classes(tmp_path / "scarce")
    picture(tmp_path / "scarce" / "emu" / "x.png")
    refused(tmp_path / "scarce", r"'emu' \(1\)")
    classes(tmp_path / "hollow")
    (tmp_path / "hollow" / "emu").mkdir()
    refused(tmp_path / "hollow", "without images: emu")
    classes(tmp_path / "half" / "test")
    refused(tmp_path / "half", "no train/")
    classes(tmp_path / "more" / "train")
    classes(tmp_path / "more" / "test", ("cat", "emu"))
    refused(tmp_path / "more", "no training images: emu")


def test_different_sizes_need_a_size(tmp_path):
    classes(tmp_path)
    picture(tmp_path / "cat" / "wide.png", size=(9, 5))
    refused(tmp_path, r"different sizes: 4 x 4 \(20\), 9 x 5 \(1\)\. Give a size, for example --size 4")
    assert load(str(tmp_path), size=6).image_size == (6, 6)
    refused(tmp_path, "size must be from 1 to", size=0)


def test_all_bad_files_are_listed_and_can_be_left_out(tmp_path):
    classes(tmp_path)
    content = (tmp_path / "cat" / "0.png").read_bytes()
    (tmp_path / "cat" / "0.png").write_bytes(content[:45])
    for i in range(24):
        (tmp_path / "dog" / f"bad{i:02}.jpg").write_bytes(b"")
    message = refused(tmp_path, "25 of 44 files cannot be read.*--skip-bad.*cat/0.png: .*dog/bad00.jpg: empty")
    assert len(message.splitlines()) == 1 + 25
    dataset = load(str(tmp_path), skip_bad=True)
    assert len(dataset.train.labels) + len(dataset.test.labels) == 19
    assert dataset.notes[1].startswith("left out 25 of 44 files that cannot be read")


def test_only_bad_files(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(b"")
    refused(tmp_path, "2 of 2 files")
    refused(tmp_path, "none of the 2 files", skip_bad=True)


def test_a_test_set_of_bad_files_is_not_replaced_silently(tmp_path):
    classes(tmp_path / "train")
    for name in ("cat", "dog"):
        (tmp_path / "test" / name).mkdir(parents=True)
        (tmp_path / "test" / name / "x.png").write_bytes(b"")
    refused(tmp_path, "test: no images", skip_bad=True)


def test_a_folder_that_may_not_be_listed(tmp_path, monkeypatch):
    def iterdir(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(type(tmp_path), "iterdir", iterdir)
    refused(tmp_path, "cannot be read .Permission denied")


def test_a_folder_beside_train_that_may_not_be_listed_does_not_matter(tmp_path, monkeypatch):
    for part in ("train", "test", "lost+found"):
        classes(tmp_path / part)
    scandir = os.scandir

    def scan(path):
        if "lost+found" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    assert load(str(tmp_path)).notes[1] == "folders beside train/ and test/ are not read: lost+found"


def test_absolute_paths_inside_the_folder_are_read(tmp_path, monkeypatch):
    table(tmp_path, [*(f"{tmp_path}/{row}" for row in ROWS), f"{tmp_path}/files/77.png,cat"])
    monkeypatch.chdir(tmp_path)
    refused("x.csv", "1 of 21 files.*files/77.png: no such file")
    assert load("x.csv", skip_bad=True).class_names == ("cat", "dog")


def test_a_class_must_not_vanish_with_its_bad_files(tmp_path):
    classes(tmp_path)
    (tmp_path / "emu").mkdir()
    (tmp_path / "emu" / "x.png").write_bytes(b"")
    refused(tmp_path, r"'emu' \(0\)", skip_bad=True)


def test_links_may_not_lead_outside(tmp_path):
    classes(tmp_path / "data")
    picture(tmp_path / "secret" / "x.png")
    inside = tmp_path / "data" / "cat" / "again.png"
    inside.symlink_to(tmp_path / "data" / "cat" / "0.png")
    assert len(load(str(tmp_path / "data")).train.labels) == 17
    link = tmp_path / "data" / "cat" / "out.png"
    link.symlink_to(tmp_path / "secret" / "x.png")
    refused(tmp_path / "data", "outside.*out.png")
    link.unlink()
    link.symlink_to(link)
    refused(tmp_path / "data", "1 of 22 files.*out.png: Too many levels of symbolic links$")
    link.unlink()
    (tmp_path / "data" / "fox").symlink_to(tmp_path / "secret")
    refused(tmp_path / "data", "outside.*fox")


def test_links_to_folders_inside_of_a_class_are_named_and_not_followed(tmp_path):
    picture(tmp_path / "store" / "x.png")
    classes(tmp_path / "data")
    for link, target in (("cat/batch2", tmp_path / "store"), ("dog/2020/circle.png", tmp_path / "data")):
        (tmp_path / "data" / link).parent.mkdir(exist_ok=True)
        (tmp_path / "data" / link).symlink_to(target)
    says = "not followed: .*/data/cat/batch2, .*/data/dog/2020/circle.png; copy .*, or remove them"
    refused(tmp_path / "data", says, skip_bad=True)
    (tmp_path / "data" / "cat" / ".batch3").symlink_to(tmp_path / "store")  # hidden, as all that systems leave behind
    for link in ("cat/batch2", "dog/2020/circle.png"):
        (tmp_path / "data" / link).unlink()
    assert load(str(tmp_path / "data")).class_names == ("cat", "dog")


@pytest.mark.parametrize("names", [("cat",), ("cat", "dog")])
def test_a_class_that_is_all_behind_a_link_is_not_called_empty(names, tmp_path):
    classes(tmp_path / "store")
    classes(tmp_path / "data", [name for name in ("cat", "dog") if name not in names])
    for name in names:
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "all").symlink_to(tmp_path / "store" / name)
    refused(tmp_path / "data", "links to folders are not followed: .*/cat/all")


# --- slackaug's own folders among the images --------------------------------------------------------------------------


def written(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")


@pytest.mark.parametrize(
    ("names", "own"),
    [
        ((".lock", "config.yaml", "checkpoints/000000.pt"), "run"),
        ((".lock",), "run"),  # of a process that has died at once
        ((".lock", "study.yaml", "searches/0/config.yaml", "eval/results.json"), "study"),
        (("eval/.lock", "eval/results.json", "eval/results.csv"), "run"),
        (("eval/.lock", "eval/trials/none-0.json"), "run"),
        (("plain-16x16-dcfe761c6234/.lock", "plain-16x16-dcfe761c6234/images.u8"), "cache"),
        (("a/.lock", "a/config.yaml", "a.log", ".DS_Store", "b/c/.lock", "b/c/config.yaml"), "runs"),
    ],
)
@pytest.mark.parametrize("place", [".", "cat"])
def test_what_slackaug_has_written_is_no_class(names, own, place, tmp_path):
    expected = load(str(classes(tmp_path)))
    written(tmp_path / place / own, *names)
    if len(names) > 1 and ".lock" in names:
        picture(tmp_path / place / own / "strips.png", 255, (9, 9))  # of `slackaug figure`
    dataset = load(str(tmp_path))
    assert (dataset.class_names, dataset.fingerprint) == (expected.class_names, expected.fingerprint)
    assert f"folders that slackaug has written are not read: {tmp_path / place / own}" in dataset.notes
    assert not any("not images by their names" in note for note in dataset.notes)


def test_it_is_left_out_of_parts_and_beside_them(tmp_path):
    for part, n in (("train", 3), ("test", 4)):
        classes(tmp_path / part, n=n)
        written(tmp_path / part / "run", ".lock", "config.yaml")
    written(tmp_path / "runs" / "a", ".lock", "config.yaml")
    dataset = load(str(tmp_path))
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (6, 8)
    assert dataset.notes[1:] == (
        "folders beside train/ and test/ are not read: runs",
        f"folders that slackaug has written are not read: {tmp_path}/test/run",
        f"folders that slackaug has written are not read: {tmp_path}/train/run",
    )


@pytest.mark.parametrize("names", [("config.yaml", "metrics.jsonl", "results.json"), (".lock", "labels.txt")])
def test_a_class_with_files_of_others_stays_one(names, tmp_path):
    written(classes(tmp_path) / "cat", *names, "eval/.lock", "eval/results.json")
    assert load(str(tmp_path)).class_names == ("cat", "dog")


def test_a_class_behind_a_link_is_not_taken_for_a_folder_of_runs(tmp_path):
    classes(tmp_path / "data", ("dog", "emu"))
    written(tmp_path / "data" / "cat" / "run", ".lock", "config.yaml")
    (tmp_path / "data" / "cat" / "batch").symlink_to(classes(tmp_path / "store") / "cat")
    refused(tmp_path / "data", "links to folders are not followed: .*/data/cat/batch")


COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"  # as Linux and as macOS store the same name


def test_a_name_is_one_class_however_its_accents_are_stored(tmp_path):
    classes(tmp_path / "train", ("dog", DECOMPOSED))
    classes(tmp_path / "test", ("dog", COMPOSED), n=4)
    dataset = load(str(tmp_path))
    assert (dataset.class_names, dataset.test.labels.bincount().tolist()) == ((COMPOSED, "dog"), [4, 4])
    classes(tmp_path / "test", (DECOMPOSED,))
    refused(tmp_path, r"test: class folders of the same name.*'cafe\\u0301' and 'caf\\xe9'")


# --- csv --------------------------------------------------------------------------------------------------------------


def table(root, rows, header="path,label"):
    classes(root / "files")
    (root / "x.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8-sig")
    return root / "x.csv"


ROWS = [f"files/{name}/{i}.png,{name}" for name in ("cat", "dog") for i in range(10)]


def test_csv(tmp_path):
    dataset = load(str(table(tmp_path, ROWS)))
    assert dataset.class_names == ("cat", "dog")
    assert torch.equal(dataset.train.images[:, 0, 0, 0].long() % 10, dataset.train.labels)
    assert len(dataset.test.labels) == 4


def test_a_label_in_a_csv_is_one_class_however_its_accents_are_stored(tmp_path):
    names = [name for name in ("dog", COMPOSED, DECOMPOSED) for _ in range(6)]
    rows = [f"{row.partition(',')[0]},{name}" for row, name in zip(ROWS, names, strict=False)]
    assert load(str(table(tmp_path, rows))).class_names == (COMPOSED, "dog")


def test_csv_with_splits(tmp_path):
    parts = ["train", "val", "test", "train", "test"] * 4
    rows = [f"{row},{part}" for row, part in zip(ROWS, parts, strict=True)]
    dataset = load(str(table(tmp_path, rows, "path, label, split")))
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (12, 8)
    assert dataset.notes == ("classes: cat, dog (2)", "val joined train: a search splits it anew")


def test_csv_with_splits_by_other_names(tmp_path):
    parts = ["Train", "VALID", "Testing", "training", "TEST"] * 4
    rows = [f"{row},{part}" for row, part in zip(ROWS, parts, strict=True)]
    dataset = load(str(table(tmp_path, rows, "path,label,split")))
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (12, 8)
    assert dataset.notes[1:] == ("val joined train: a search splits it anew",)


@pytest.mark.parametrize("separator", [";", "\t", "; "])
def test_csv_with_other_separators(separator, tmp_path):
    expected = load(str(table(tmp_path, ROWS)))
    rows = [row.replace(",", separator) for row in ROWS]
    for header in (
        f"path{separator}label",
        f'"path"{separator.strip(" ")}"label"',
        f"path{separator}label{separator}a,b,c,d",
    ):
        assert load(str(table(tmp_path, rows, header))).fingerprint == expected.fingerprint


def test_csv_with_columns_without_names(tmp_path):
    """As spreadsheets leave them behind."""
    assert load(str(table(tmp_path, [f"{row},," for row in ROWS], "path,label,,"))).class_names == ("cat", "dog")


def test_absolute_paths_in_a_csv_may_lie_anywhere(tmp_path):
    classes(tmp_path / "elsewhere")
    rows = [f"{tmp_path}/elsewhere/{row.removeprefix('files/')}" for row in ROWS]
    assert load(str(table(tmp_path / "here", rows))).class_names == ("cat", "dog")
    link = tmp_path / "here" / "files" / "link.png"
    link.symlink_to(tmp_path / "elsewhere" / "cat" / "0.png")
    refused(table(tmp_path / "here", [*rows[1:], "files/link.png,cat"]), "outside.*link.png")
    refused(table(tmp_path / "here", [*rows[1:], "../elsewhere/cat/0.png,cat"]), "outside.*absolute paths: .*0.png")
    refused(table(tmp_path / "here", [*rows, rows[0]]), "more than once: 0.png")


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (ROWS, "file,label", r"missing \['path'\], found file, label"),
        ([], "", "found none"),
        (ROWS, "file;label", r"missing \['path'\], found file, label .separated by a semicolon.; known separators"),
        (ROWS, "path|label", r"found path\|label; known separators: a comma, a semicolon, a tab"),
        ([], "path,label", "no images"),
        ([*ROWS, "files/cat/0.png,"], "path,label", "line 22: label missing"),
        ([*ROWS, "files/cat/0.png"], "path,label", "line 22: label missing"),
        ([*ROWS, ",cat"], "path,label", "line 22: path missing"),
        ([*ROWS, "files/cat/0.png,dog"], "path,label", "more than once.*0.png"),
        ([*ROWS, "files/cat/../cat/0.png,cat"], "path,label", "more than once.*0.png"),
        ([f"{row},exam" for row in ROWS], "path,label,split", "line 2: split 'exam', expected train, val"),
        ([*ROWS, "../x.png,cat"], "path,label", r"outside.*\.\./x.png"),
        ([*ROWS, "/etc/x.png,cat"], "path,label", "1 of 21 files.*/etc/x.png: no such file"),
        ([*ROWS, "files/cat/77.png,cat"], "path,label", "1 of 21 files.*77.png: no such file"),
        (["", "", *ROWS, "files/cat/0.png,"], "path,label", "line 24: label missing"),
        ([*ROWS, "", 'files/cat/0.png,"cat', 'or lynx"', ",dog"], "path,label", "line 25: path missing"),
        (ROWS, "path,label,label", "columns named more than once: label; keep one of each"),
        (ROWS, "label,path,path,x,x", "columns named more than once: path, x;"),
        ([*ROWS, "files/\0.png,cat"], "path,label", "line 22: not a path"),
        ([*ROWS, '"unfinished'], "path,label", "not a csv"),
    ],
)
def test_csv_refuses(rows, header, message, tmp_path):
    refused(table(tmp_path, rows, header), message)


def test_csv_in_another_encoding(tmp_path):
    (tmp_path / "x.csv").write_bytes("path,label\nb\xe4r.png,b\xe4r\n".encode("latin-1"))
    refused(tmp_path / "x.csv", "not a csv file in UTF-8")
