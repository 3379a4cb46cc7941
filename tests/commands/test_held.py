"""Commands that are given images as objects of a program: their file lies in the folder of the run."""

from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import slackaug
import tiny
from slackaug.auto import timing
from slackaug.data import DataError
from tiny import EVALUATION

pytestmark = pytest.mark.usefixtures("quick_search")
ARRAYS = tiny.arrays()
TRAIN, TEST = ((ARRAYS[f"{part}_images"], ARRAYS[f"{part}_labels"]) for part in ("train", "test"))
QUIET = Console(quiet=True)


def dataset(part):
    return [(torch.tensor(image).permute(2, 0, 1), int(label)) for image, label in zip(*part, strict=True)]


def search(data, out, **options):
    options = {"set": tiny.assignments()} | options
    return slackaug.search(data, out, console=QUIET, **options)


def stored(folder):
    return sorted(path.name for path in folder.glob("images-*"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(0.0, 0.0, 0.0))
        search(dataset(TRAIN), folder, test=dataset(TEST))
    return folder


def test_a_search_is_the_same_as_on_a_file(run, tiny_npz, tmp_path):
    search(str(tiny_npz), tmp_path / "run")
    assert tiny.policy(run / "policy.json") == tiny.policy(tmp_path / "run" / "policy.json")
    assert len(stored(run)) == 1


def test_what_is_given_to_a_run_that_goes_on(tmp_path):
    out, data = tmp_path / "run", dataset(TRAIN)
    with pytest.raises(RuntimeError, match=r"search .*images-.*\.npz -o .* --resume"):  # a file, to go on with
        search(data, out, time_limit=0.0)
    with pytest.raises(DataError, match="not the images of this run; give those that it began with"):
        search(dataset(TEST), out, resume=True, set=())
    search(data, out, resume=True, set=())
    search(str(next(out.glob("images-*.npz"))), out, resume=True, set=())  # as the command line does
    assert len(stored(out)) == 1


def test_images_of_several_sizes_find_their_run_again(tmp_path):
    out, data = tmp_path / "run", [(image[:, : 6 + label], label) for image, label in dataset(TRAIN)]
    search(data, out, size=8)
    search(data, out, resume=True, set=())
    assert slackaug.evaluate(data, [out], seeds=1, set=EVALUATION, console=QUIET).protocol.data.size == 8
    assert len(stored(out)) == 1


def test_another_run_takes_its_place(tmp_path):
    search(dataset(TRAIN), tmp_path)
    first = stored(tmp_path)
    with pytest.raises(ValueError, match="is not empty"):
        search(TRAIN, tmp_path)
    search((TRAIN[0][::-1].copy(), TRAIN[1]), tmp_path, overwrite=True)
    assert len(stored(tmp_path)) == 1
    assert stored(tmp_path) != first


def test_nothing_is_written_by_a_look_or_a_dry_run(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert search(TRAIN, tmp_path / "run", dry_run=True) is None
    found = slackaug.check(TRAIN, test=TEST, cost=False, size=6)
    assert repr(found) == "Findings('your images': 24 training images, 0 problems to fix)"
    assert (found.survey.count("train"), found.survey.count("test")) == (24, 6)
    assert found.proposal.command == "slackaug.search(data, test=test, out='runs/NAME', size=6)"
    assert list(tmp_path.iterdir()) == []


def test_evaluations_share_the_images_of_their_run(run, tmp_path):
    found = slackaug.evaluate(TRAIN, [run], test=TEST, baselines=["none"], seeds=1, set=EVALUATION, console=QUIET)
    assert [row.name for row in found.rows] == ["none", str(run)]
    assert len(stored(run)) == 1
    again = slackaug.evaluate(
        dataset(TRAIN), test=TEST, baselines=["none"], seeds=1, set=EVALUATION, out=tmp_path, console=QUIET
    )
    assert again.rows[0].accuracies == found.rows[0].accuracies
    assert stored(tmp_path) == stored(run)


def test_a_study(tmp_path):
    settings = [*tiny.assignments(), *EVALUATION]
    asked = {"searches": 1, "evaluations": 1, "baselines": ["none"], "jobs": 2, "console": QUIET}
    found = slackaug.study("digits", tmp_path, data=dataset(TRAIN), test=TEST, set=settings, **asked)
    assert [row.name for row in found.rows] == ["none", "auto"]
    again = slackaug.study(out=tmp_path, data=TRAIN, test=TEST, resume=True, console=QUIET)
    assert again.rows == found.rows
    with pytest.raises(DataError, match="not the images of this run"):
        slackaug.study(out=tmp_path, data=(np.zeros_like(TRAIN[0]), TRAIN[1]), resume=True, console=QUIET)
    assert len(stored(Path(tmp_path))) == 1
