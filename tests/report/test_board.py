"""What TensorBoard gets of a search, read back by TensorBoard itself; and a search without it."""

import sys

import pytest

import slackaug
import tiny
from slackaug.report import plots


def events(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(run / "tensorboard"), size_guidance={"images": 0})
    found.Reload()
    return found


def steps_of_pies(run):
    """In order: files of the same second are read in that of the processes' numbers."""
    return sorted(pie.step for pie in events(run).Images("policy/pie"))


@pytest.mark.figures
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TensorBoard's own imports
def test_it_gets_scalars_and_a_pie_of_each_round(tiny_npz, tmp_path, quick_search):
    run = tmp_path / "run"
    result = slackaug.search(str(tiny_npz), run, set=tiny.assignments(), tensorboard=True)
    found = events(run)
    names = result.policy.space.names
    assert {"pre-training-3/train_loss", "search/val_loss", "search/entropy"} <= set(found.Tags()["scalars"])
    last = {name: found.Scalars(f"pi/{name}")[-1] for name in names}
    for name, share in zip(names, result.policy.probabilities.mean(0).tolist(), strict=True):
        assert (last[name].step, last[name].value) == (12, pytest.approx(share, abs=6e-7))  # metrics have 6 decimals
    pies = found.Images("policy/pie")
    assert [pie.step for pie in pies] == [6, 12]  # rounds of 6 steps
    assert all(pie.encoded_image_string.startswith(b"\x89PNG") and pie.width > 500 for pie in pies)
    assert pies[0].encoded_image_string != pies[1].encoded_image_string


@pytest.mark.figures
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_resumed_search_adds_the_pies_that_are_missing(tiny_npz, tmp_path):
    words = tiny.arguments(tiny_npz, tmp_path / "run", "--tensorboard")
    tiny.run_until(words, tmp_path / "log", ("policy", 2, 5), 15)
    assert steps_of_pies(tmp_path / "run") == [6]
    slackaug.search(str(tiny_npz), tmp_path / "run", resume=True, tensorboard=True)
    assert steps_of_pies(tmp_path / "run") == [6, 12]


@pytest.mark.figures
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_without_matplotlib_it_says_so_once_and_goes_on(command, tiny_npz, tmp_path, quick_search, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--tensorboard"))
    assert done.returncode == 0
    said = [line for line in done.stdout.splitlines() if "TensorBoard" in line]
    hint = "matplotlib is not installed; pip install 'slackaug[figures]'"
    assert said == [f"TensorBoard gets no pies ({hint}); all else is written"]
    assert "search/val_loss" in events(tmp_path / "run").Tags()["scalars"]


def test_a_search_without_it_draws_no_pies(tiny_npz, tmp_path, quick_search, monkeypatch):
    monkeypatch.setattr(plots, "image", lambda scene: pytest.fail("nobody asked for a pie"))
    slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments())
    assert not (tmp_path / "run" / "tensorboard").exists()
