"""Images of one group stay on one side of every split; classes count alike where that is asked for."""

from dataclasses import replace

import pytest
import torch

import tiny
from pictures import picture, refused
from slackaug.auto import resume
from slackaug.auto.problem import Problem
from slackaug.commands import search as api
from slackaug.config import presets
from slackaug.data import dividing, load


@pytest.fixture
def patients(tmp_path):
    """12 patients, 4 images of each; the level tells the patient, healthy and ill are six each."""
    root, rows = tmp_path / "hospital", ["path,label,patient"]
    for patient in range(12):
        label = "healthy" if patient % 2 else "ill"
        for i in range(4):
            name = f"{label}/patient{patient:02d}_{i}.png"
            picture(root / name, 20 * patient + i)
            rows.append(f"{name},{label},p{patient}")
    (root / "x.csv").write_text("\n".join(rows))
    return root


def patients_in(split):
    return {*(split.images[torch.arange(len(split.labels))][:, 0, 0, 0] // 20).tolist()}


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


def table(patients, header, change):
    """Another csv of the same files, with what `change` makes of path, label and patient."""
    rows = [row.split(",") for row in (patients / "x.csv").read_text().split()[1:]]
    (patients / "y.csv").write_text("\n".join([header, *(",".join(change(*row)) for row in rows)]))
    return patients / "y.csv"


def test_empty_cells_and_groups_on_both_sides(patients):
    source = table(patients, "path,label,patient", lambda *row: (*row[:2], row[2].replace("p3", "")))
    refused(source, r"4 lines are not complete: line \d+: patient missing", group_by="patient")
    header = "path,label,patient,split"
    source = table(patients, header, lambda *row: (*row, "test" if row[0].endswith("_1.png") else "train"))
    refused(source, r"groups in train and in test: p0, p1, p10", group_by="patient")
    refused("digits", "digits: --group-by x: groups are for image files", group_by="x")


def test_a_class_that_cannot_be_held_out_is_named(patients):
    source = table(patients, "path,label,patient",
                   lambda path, label, who: (path, "rare" if who in ("p0", "p2") else label, who))  # fmt: skip
    data = load(source, group_by="patient")
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
