import pytest
import torch
from scipy import stats

from slackaug import rng


def test_a_generator_depends_on_seed_and_purpose_alone():
    torch.manual_seed(1)
    first = rng.uniform((8,), rng.generator(0, "policy", 3))
    torch.manual_seed(2)
    assert torch.equal(first, rng.uniform((8,), rng.generator(0, "policy", 3)))


@pytest.mark.parametrize(
    "other", [(1, "policy", 3), (0, "data", 3), (0, "policy", 4), (0, "policy"), (0, "policy", "3")]
)
def test_another_seed_or_purpose_gives_another_stream(other):
    assert not torch.equal(rng.uniform((8,), rng.generator(0, "policy", 3)), rng.uniform((8,), rng.generator(*other)))


def test_seeds_mean_the_same_on_every_machine():
    assert rng.generator(0, "policy").initial_seed() == 4466886342490359798


def test_drawing_for_one_purpose_does_not_shift_another():
    a, b = rng.streams(0, "search"), rng.streams(0, "search")
    rng.uniform((1000,), a["train data"])
    assert torch.equal(rng.uniform((8,), a["transform"]), rng.uniform((8,), b["transform"]))


def test_state_round_trip():
    streams = rng.streams(0, "search")
    state = rng.get_state(streams)
    first = {purpose: rng.normal((8,), stream) for purpose, stream in streams.items()}
    rng.set_state(streams, state)
    assert all(torch.equal(first[purpose], rng.normal((8,), stream)) for purpose, stream in streams.items())


def test_state_of_other_streams_is_refused():
    state = rng.get_state({"data": rng.generator(0)})
    with pytest.raises(ValueError, match=r"for the streams \['data'\], expected \['model', 'policy', 'train data'"):
        rng.set_state(rng.streams(0, "search"), state)


def test_uniform_and_normal_follow_their_laws():
    """Kolmogorov-Smirnov; a fair stream fails either with probability 1e-3. The seed is fixed."""
    stream = rng.generator(0, "test")
    u, z = rng.uniform((4000,), stream), rng.normal((4000,), stream)
    assert u.dtype == z.dtype == torch.float64
    assert 0 <= u.min() <= u.max() < 1
    assert stats.kstest(u.numpy(), "uniform").pvalue > 1e-3
    assert stats.kstest(z.numpy(), "norm").pvalue > 1e-3


def test_without_a_generator_torch_seeds_the_stream():
    with torch.random.fork_rng():
        torch.manual_seed(5)
        first = rng.uniform((4,), None), rng.normal((4,), None)
        torch.manual_seed(5)
        assert all(map(torch.equal, first, (rng.uniform((4,), None), rng.normal((4,), None))))
