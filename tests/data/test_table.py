"""Csv files of images."""

import pytest
import torch

from pictures import COMPOSED, DECOMPOSED, classes, refused
from slackaug.data import load


def table(root, rows, header="path,label"):
    classes(root / "files")
    (root / "x.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8-sig")
    return root / "x.csv"


ROWS = [f"files/{name}/{i}.png,{name}" for name in ("cat", "dog") for i in range(10)]


def test_csv(tmp_path):
    dataset = load(table(tmp_path, ROWS))
    assert dataset.class_names == ("cat", "dog")
    assert torch.equal(dataset.train.images[:, 0, 0, 0].long() % 10, dataset.train.labels)
    assert len(dataset.test.labels) == 4


def test_a_label_in_a_csv_is_one_class_however_its_accents_are_stored(tmp_path):
    names = [name for name in ("dog", COMPOSED, DECOMPOSED) for _ in range(6)]
    rows = [f"{row.partition(',')[0]},{name}" for row, name in zip(ROWS, names, strict=False)]
    assert load(table(tmp_path, rows)).class_names == (COMPOSED, "dog")


@pytest.mark.parametrize(
    "parts", [("train", "val", "test", "train", "test"), ("Train", "VALID", "Testing", "training", "TEST")]
)
def test_csv_with_splits(parts, tmp_path):
    rows = [f"{row},{part}" for row, part in zip(ROWS, parts * 4, strict=True)]
    dataset = load(table(tmp_path, rows, "path, label, split"))
    assert (len(dataset.train.labels), len(dataset.test.labels)) == (12, 8)
    assert dataset.notes == ("classes: cat, dog (2)", "val joined train: a search splits it anew")


@pytest.mark.parametrize("separator", [",", ";", "\t", "; "])
def test_csv_with_other_separators_and_columns(separator, tmp_path):
    expected = load(table(tmp_path, ROWS)).fingerprint
    rows = [row.replace(",", separator) for row in ROWS]
    bare = separator.strip(" ")
    more = ",a,b,c".replace(",", bare)
    for header in (f"path{separator}label", f'"path"{bare}"label"', f"path{separator}label{more}"):
        assert load(table(tmp_path, rows, header)).fingerprint == expected
    for end in (bare, 2 * bare):  # columns without names, as spreadsheets leave them behind
        found = load(table(tmp_path, [row + end for row in rows], f"path{separator}label{end}"))
        assert found.fingerprint == expected


def test_columns_may_have_other_names(tmp_path):
    expected = load(table(tmp_path, ROWS)).fingerprint
    renamed = table(tmp_path, [f"{i // 2};{row.replace(',', ';')}" for i, row in enumerate(ROWS)], "id;File name;class")
    assert load(renamed, columns="File name, class").fingerprint == expected
    refused(renamed, "no column file.*id, File name, class", columns="file,class")
    for wrong in ("class", "a,b,c", "a,"):
        refused(renamed, f"--columns {wrong}: expected two", columns=wrong)
    assert load(renamed, columns="File name,class", group_by="id").groups is not None


def test_absolute_paths_in_a_csv_may_lie_anywhere(tmp_path):
    classes(tmp_path / "elsewhere")
    rows = [f"{tmp_path}/elsewhere/{row.removeprefix('files/')}" for row in ROWS]
    assert load(str(table(tmp_path / "here", rows))).class_names == ("cat", "dog")
    (tmp_path / "here" / "files" / "link.png").symlink_to(tmp_path / "elsewhere" / "cat" / "0.png")
    (tmp_path / "here" / "linked").symlink_to(tmp_path / "elsewhere")
    for path in ("files/link.png", "linked/cat/0.png", "../elsewhere/cat/0.png", "files/../../elsewhere/cat/0.png"):
        refused(table(tmp_path / "here", [*rows[1:], f"{path},cat"]), f"files outside of .* are not read.*: .*{path}")
    refused(table(tmp_path / "here", [*rows, rows[0]]), "more than once: 0.png")


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (ROWS, "file,label", "no column path. Its columns, .* file, label. Say .* --columns file,label$"),
        (ROWS[1:], ROWS[0], r"the first line looks like data \(.*, cat\)\. Put a header above it: path,label$"),
        ([], "", "names no column path and no column label; expected names with a comma or"),
        (ROWS, "file;label", "with a semicolon between them: file, label"),
        (ROWS, "path|label", "expected names with a comma or a semicolon or a tab between them"),
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


@pytest.mark.parametrize("options", [{}, {"skip_bad": True}])
def test_paths_of_which_none_exists_are_one_mistake(options, tmp_path):
    rows = [row.replace("files/", "x.csv/" if "cat" in row else "gone/") for row in ROWS]  # a file is no folder
    said = refused(
        table(tmp_path, rows), "none of the 20 paths exists.*from the folder of x.csv; the first: ", **options
    )
    assert said.endswith(f"{tmp_path}/x.csv/cat/0.png")
    assert "\n" not in said


def test_csv_in_another_encoding(tmp_path):
    (tmp_path / "x.csv").write_bytes("path,label\nb\xe4r.png,b\xe4r\n".encode("latin-1"))
    refused(tmp_path / "x.csv", "not a csv file in UTF-8")


def test_absolute_paths_inside_the_folder_are_read(tmp_path, monkeypatch):
    table(tmp_path, [*(f"{tmp_path}/{row}" for row in ROWS), f"{tmp_path}/files/77.png,cat"])
    monkeypatch.chdir(tmp_path)
    refused("x.csv", "1 of 21 files.*files/77.png: no such file")
    assert load("x.csv", skip_bad=True).class_names == ("cat", "dog")
