"""The device, the threads and the time of a command."""

import pytest
import torch

from slackaug.machine import BESIDE_A_GPU, default_device, duration_seconds, machine, use_threads

pytestmark = pytest.mark.usefixtures("threads_as_before")


def test_what_is_there_is_the_default():
    assert machine(None, None) == (default_device(), None)
    assert default_device() == ("cuda" if torch.cuda.is_available() else "cpu")


def test_threads_are_set():
    n = torch.get_num_threads() + 1
    assert machine("cpu", n) == ("cpu", n)
    assert torch.get_num_threads() == n


@pytest.mark.parametrize(
    ("device", "asked", "environment", "n"),
    [("cuda", None, None, BESIDE_A_GPU), ("cuda:1", 9, None, 9), ("cuda", None, "8", 8), ("cpu", None, None, 8)],
)
def test_few_threads_beside_a_gpu_unless_more_are_asked_for(device, asked, environment, n, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if environment is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    torch.set_num_threads(8)
    use_threads(device, asked)
    assert torch.get_num_threads() == n


@pytest.mark.parametrize(("device", "made_current"), [("cuda:1", ["cuda:1"]), ("cuda", []), ("cpu", [])])
def test_a_gpu_that_is_named_becomes_the_current_one(device, made_current, monkeypatch):
    """Else a graph would be captured on the first one, without a step in it."""
    found: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_device", found.append)
    monkeypatch.setattr(torch, "empty", lambda *_, device: torch.zeros(1))
    assert machine(device, torch.get_num_threads())[0] == device
    assert found == made_current


def test_a_device_elsewhere_is_not_tried_here():
    assert machine("cuda:7", None, is_here=False) == ("cuda:7", None)
    with pytest.raises(ValueError, match="--device cuda:7: cannot be used"):
        machine("cuda:7", None)


@pytest.mark.parametrize(
    ("cuda", "says"), [(None, "built for CPUs alone: pip install"), ("13.0", "for CUDA 13.0, .* nvidia-smi")]
)
def test_cuda_that_is_not_there_is_explained(cuda, says, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    with pytest.raises(ValueError, match=f"--device cuda: cannot be used .*{says}"):
        machine("cuda", None)


@pytest.mark.parametrize(
    ("name", "says"), [("gpu", r"did you mean cuda\?"), ("gpu:0", r"cuda\?"), ("tpu", "cpu or cuda")]
)
def test_a_device_of_an_unknown_kind_is_refused_in_a_few_words(name, says):
    with pytest.raises(ValueError, match=f"^--device {name}: cannot be used; .*{says}$"):
        machine(name, None)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("2m", 120), ("1.5min", 90), ("2h", 7200)])
def test_durations(text, seconds):
    assert duration_seconds(text) == seconds
