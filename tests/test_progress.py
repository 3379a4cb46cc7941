"""What long work shows."""

import io

import pytest
import torch
from rich.console import Console

from slackaug import Policy, progress
from slackaug.learn import Progress


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (90, "1 min 30 s"), (3600, "1 h 00 min"), (7380, "2 h 03 min")],
)
def test_duration(seconds, text):
    assert progress.duration(seconds) == text


def step(stage="policy", number=2, step=3, done=0.25, val_loss=1.5):
    phi = Policy.uniform("cifar")
    phi.pi[:, phi.space.index("Rotate")] = 1
    return Progress(
        stage, number, step, 10, done, torch.tensor(2.0), None if val_loss is None else torch.tensor(val_loss), phi
    )


def test_line_of_a_policy_step():
    text = progress.line(step(), elapsed=30)
    assert text.startswith("policy, round 2, step 3 of 10; 1 min 30 s left; train loss 2.000; val loss 1.500; entropy ")
    assert "Rotate 0.145 (0 to ±67.5 degrees)" in text


def test_line_of_pre_training():
    text = progress.line(step("pre-training", 0, done=0.0, val_loss=None), elapsed=30)
    assert text == "pre-training, step 3 of 10; 0 s left; train loss 2.000"


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_one_plain_line_every_30_seconds_and_one_for_each_round(clock, tmp_path):
    screen, log = io.StringIO(), tmp_path / "search.log"
    with progress.Display(Console(file=screen, width=1000), log) as display:
        for second in range(95):
            clock[0] = 1000.0 + second
            display.show(step(number=1), 1.0)
        assert len(screen.getvalue().splitlines()) == 3  # after 30, 60 and 90 seconds
        display.show(step(step=10), 1.0)  # the last one of a round
    lines = screen.getvalue().splitlines()
    assert len(lines) == 4
    assert "step 10 of 10" in lines[-1]
    logged = log.read_text().splitlines()
    assert [line[20:] for line in logged] == lines  # the same, after date and time


def test_a_long_line_is_not_broken(clock, tmp_path):
    screen = io.StringIO()
    with progress.Display(Console(file=screen, width=20), tmp_path / "search.log") as display:
        display.show(step(step=10), 1.0)
    assert len(screen.getvalue().splitlines()) == 1


def test_a_terminal_has_one_live_line(clock, tmp_path):
    screen = io.StringIO()
    console = Console(file=screen, width=60, force_terminal=True)
    with progress.Display(console, tmp_path / "search.log") as display:
        for second in range(3):
            clock[0] = 1000.0 + second
            display.show(step(step=second), 1.0)
    assert "step 1 of 10" in screen.getvalue()
    assert "step 2 of 10" in screen.getvalue()
    assert not (tmp_path / "search.log").exists()
