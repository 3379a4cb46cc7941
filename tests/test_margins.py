"""The choice of input preparation."""

import json
import math

import numpy as np
import pytest

import slackaug
import tiny
from slackaug import margins
from slackaug.resuming import read_config

pytestmark = pytest.mark.usefixtures("quick_search")


class Stub:
    """A learner whose pre-training ends with a loss."""

    def __init__(self, loss: float):
        self.loss = loss

    def pretrain(self):
        return iter(range(3))

    def val_loss(self) -> float:
        return self.loss


@pytest.mark.parametrize(
    ("whole", "with_margin", "expected"),
    [(1.0, 0.9, True), (0.9, 1.0, False), (1.0, 1.0, False), (math.nan, 1.0, True), (1.0, math.nan, False)],
)
def test_the_lower_loss_wins(whole, with_margin, expected):
    said = []
    found = margins.compare(lambda margin: Stub(with_margin if margin else whole), said.append)
    assert found.margin is expected
    assert f"whole images {whole:.3f}, windows of images with a margin {with_margin:.3f}" in said[-1]
    assert said[-1].endswith(margins.TEXTS[expected])
    json.dumps(found.to_json(), allow_nan=False)


@pytest.fixture
def large(tmp_path):
    arrays = tiny.arrays()
    for part in ("train", "test"):
        arrays[f"{part}_images"] = np.repeat(np.repeat(arrays[f"{part}_images"], 10, 1), 10, 2)
    np.savez(tmp_path / "large.npz", **arrays)
    return tmp_path / "large.npz"


def test_the_run_knows_what_was_chosen(large, tmp_path, monkeypatch):
    for wanted in (False, True):
        losses = {wanted: 1.5, not wanted: 2.5}

        def compare(learner_of, say, wanted=wanted, losses=losses):
            learner_of(wanted)
            return margins.Choice(losses)

        monkeypatch.setattr(margins, "compare", compare)
        out = tmp_path / str(wanted)
        slackaug.search(large, out, size=70, try_margin=True, set=tiny.assignments())
        assert read_config(out).data.margin is wanted
        stored = json.loads((out / "preparation.json").read_text())
        assert stored == {
            "margin": wanted,
            "val_loss_of_whole_images": losses[False],
            "val_loss_with_margin": losses[True],
        }


def test_it_needs_a_size_and_no_margin(large, tmp_path, command):
    for more in ([], ["--size", "70", "--margin"]):
        done = command(*tiny.arguments(large, tmp_path / "run", "--try-margin", *more))
        assert done.returncode == 2
        assert "--try-margin needs --size, and stands in place of --margin" in " ".join(done.stderr.split())
