"""What TensorBoard gets of a search, read back by TensorBoard itself."""

import pytest

import slackaug
import tiny


@pytest.mark.figures
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TensorBoard's own imports
def test_it_gets_scalars(tiny_npz, tmp_path, quick_search):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    policy = slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments(), tensorboard=True).policy
    found = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    found.Reload()
    assert {"pre-training-3/train_loss", "search/val_loss", "search/entropy"} <= set(found.Tags()["scalars"])
    for name, share in zip(policy.space.names, policy.probabilities.mean(0).tolist(), strict=True):
        last = found.Scalars(f"pi/{name}")[-1]
        assert (last.step, last.value) == (12, pytest.approx(share, abs=6e-7))  # metrics have 6 decimals


def test_a_search_without_it_writes_nothing_for_it(finished):
    assert not (finished / "tensorboard").exists()
