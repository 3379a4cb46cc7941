"""Images of one group stay on one side of every split; classes count alike where that is asked for."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import tiny
from pictures import refused
from slackaug.auto import resume
from slackaug.auto.problem import Problem
from slackaug.commands import search as api
from slackaug.config import presets
from slackaug.data import DataError, dividing, load


@pytest.fixture
def patients(tmp_path):
    """12 patients, 4 images of each; the red level is the patient, healthy and ill are six each."""
    root, rows = tmp_path / "hospital", []
    for patient in range(12):
        label = "healthy" if patient % 2 else "ill"
        for i in range(4):
            path = root / label / f"patient{patient:02d}_{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((6, 6, 3), [20 * patient, 50 * i, 7], dtype=np.uint8)).save(path)
            rows.append([str(path.relative_to(root)), label, f"p{patient}"])
    with (root / "x.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", "label", "patient"], *rows])
    return root


def patients_in(split):
    return {*split.images[torch.arange(len(split.labels))][:, 0, 0, 0].tolist()}


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("group_by", ["patient", r"(patient\d+)_", r"patient\d+"])
def test_a_group_is_on_one_side_of_every_split(group_by, cached, patients, tmp_path):
    source = patients / "x.csv" if group_by == "patient" else patients
    dataset = load(str(source), group_by=group_by, cache=tmp_path / "cache" if cached else None)
    train, val = dataset.halves(0)
    found = [patients_in(part) for part in (dataset.test, train, val)]
    assert sum(map(len, found)) == 12
    assert len(set.union(*found)) == 12
    assert all(part.labels.unique().tolist() == [0, 1] for part in (dataset.test, train, val))
    assert any(note.startswith("12 groups by") for note in dataset.notes)
    assert patients_in(dataset.halves(1)[0]) != found[1]
    assert torch.equal(dataset.halves(0)[0].labels, train.labels)


def test_without_groups_patients_are_mixed(patients):
    """So the test above can fail."""
    dataset = load(str(patients))
    assert patients_in(dataset.train) & patients_in(dataset.test)


@pytest.mark.parametrize(
    ("group_by", "message"),
    [
        ("(patient", r"neither a column of the data nor a regular expression"),
        ("person", r"finds nothing in 48 of 48 paths: healthy/patient01_0.png"),
        (r"(patient01)?_", r"finds nothing in 44 of 48 paths"),
        (r"(x?)patient", r"finds nothing in 48 of 48 paths"),
        (r"patient\d+_\d", r"every image is a group of its own"),
        ("patient", r"all images are of one group"),
        ("healthy|ill", r"no test set, and too few groups to hold one out"),
    ],
)
def test_groups_that_are_none(group_by, message, patients):
    refused(patients, message, group_by=group_by)


def test_empty_cells_and_groups_on_both_sides(patients):
    text = (patients / "x.csv").read_text()
    (patients / "y.csv").write_text(text.replace(",p3", ","))
    refused(patients / "y.csv", r"4 lines are not complete: line \d+: patient missing", group_by="patient")
    lines = text.split()
    parts = ["split", *(["train", "test", "train", "train"] * 12)]
    (patients / "z.csv").write_text("\n".join(f"{line},{part}" for line, part in zip(lines, parts, strict=True)))
    refused(patients / "z.csv", r"groups in train and in test: p0, p1, p10", group_by="patient")


def test_a_class_in_one_group_cannot_be_on_both_sides(patients):
    rows = [line.split(",") for line in (patients / "x.csv").read_text().split()[1:]]
    text = []
    for path, label, who in rows:
        part = "test" if who in ("p0", "p1") else "train"
        site = f"{part} clinic" if label == "ill" else who
        text.append(f"{path},{label},{site},{part}")
    (patients / "z.csv").write_text("\n".join(["path,label,site,split", *text]))
    dataset = load(str(patients / "z.csv"), group_by="site")
    with pytest.raises(DataError, match=r"no images to (learn on|validate with) of ill, for groups stay on one side"):
        dataset.halves(0)


def test_groups_are_for_files():
    refused("digits", "digits: --group-by x: groups are for image files", group_by="x")


def test_a_class_that_cannot_be_held_out_is_named(patients):
    lines = (patients / "x.csv").read_text().split()
    rare = [line.replace(",ill,", ",rare,") for line in lines if line.endswith((",p0", ",p2"))]
    others = [line for line in lines if not line.endswith((",p0", ",p2"))]
    (patients / "y.csv").write_text("\n".join([*others, *rare]))
    data = load(str(patients / "y.csv"), group_by="patient")
    assert "classes that are not tested: too few groups to hold some out: rare" in data.notes
    data.halves(0)  # two groups are enough to learn on and to validate with


def test_a_search_takes_groups_and_goes_on_with_them(patients, tmp_path, quick_search):
    api.search(patients / "x.csv", tmp_path / "run", group_by="patient", set=tiny.assignments())
    stored = resume.read_config(tmp_path / "run")
    assert stored.data.group_by == "patient"
    again = api.search(patients / "x.csv", tmp_path / "run", resume=True)  # the same data, so the same groups
    assert again is not None


# --- classes that count alike -----------------------------------------------------------------------------------------


def test_a_balanced_search_validates_with_all_classes_alike():
    dataset = load("shapes", size=8)
    keep = torch.cat([(dataset.train.labels == k).nonzero().flatten()[:n] for k, n in enumerate((60, 30, 12, 6))])
    skewed = replace(dataset, train=dataset.train.subset(keep))
    config = presets.quick(skewed)
    plain, balanced = (Problem(replace(config, balanced=wanted), skewed) for wanted in (False, True))
    assert sorted(plain.val.labels.bincount().tolist()) == [3, 6, 15, 30]
    assert balanced.val.labels.bincount().tolist() == [30] * 4
    assert torch.equal(balanced.train.labels, plain.train.labels)  # training is as ever
    assert len(balanced.val.images.store) == 54  # none is in memory twice
    index = torch.arange(len(balanced.val.labels))
    assert torch.equal(balanced.val.images[index], plain.val.subset(dividing.balanced(plain.val.labels)).images)
