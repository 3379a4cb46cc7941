"""How long a step takes."""

from types import SimpleNamespace

import pytest
import torch

from slackaug.engine import timing


def test_steps_of_a_gpu_are_timed_together_and_those_of_a_cpu_alone(monkeypatch):
    now, waits = [0.0], []

    def wait(seconds):
        now[0] += seconds
        waits.append(seconds)

    def step():
        now[0] += 0.003

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: wait(0.001))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert timing.timed(step) == pytest.approx(0.003)
    assert not waits
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert timing.timed(step) == pytest.approx(0.003 + 0.001 / 20)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: wait(2.0))  # a slow step: few of them
    waits.clear()
    assert timing.timed(step) == pytest.approx(2.003)
    assert len(waits) == 3
