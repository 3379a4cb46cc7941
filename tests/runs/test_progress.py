"""What long work shows."""

import io

import pytest
import torch
from rich.console import Console

from slackaug import Policy
from slackaug.runs import progress


def step(stage="policy", number=2, step=3, done=0.25, val_loss=1.5):
    phi = Policy.uniform("cifar")
    phi.pi[:, phi.space.index("Rotate")] = 1
    return progress.Standing(
        stage, number, step, 10, torch.tensor(2.0), None if val_loss is None else torch.tensor(val_loss), phi, done
    )


def test_line_of_a_policy_step():
    text = progress.line(step(), elapsed=30)
    assert text.startswith("policy, round 2, step 3 of 10; 1 min 30 s left; train loss 2.000; val loss 1.500; entropy ")
    assert "Rotate 0.145 (0 to ±67.5 degrees)" in text


def test_line_of_pre_training():
    text = progress.line(step("pre-training", 0, done=0.0, val_loss=None), elapsed=30)
    assert text == "pre-training, 3 composed, step 3 of 10; 0 s left; train loss 2.000"


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_one_plain_line_every_30_seconds_and_one_for_each_round(clock, tmp_path):
    screen, log = io.StringIO(), tmp_path / "search.log"
    with progress.Display(Console(file=screen, width=20), log) as display:  # a long line is not broken
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


# --- several jobs -----------------------------------------------------------------------------------------------------


def jobs(screen, **options):
    console = Console(file=screen, width=200, **options)
    return progress.Jobs(console, ["a", "b", "c"], lambda i: f"job {i} [red] done", lambda: None)


def test_jobs_say_who_is_done_and_how_long_the_rest_takes(clock):
    screen = io.StringIO()
    with jobs(screen) as shown:
        shown.progress([1e-9, 0, 0])
        clock[0] += 10
        shown.progress([0.5, 1e-9, 0])
        assert screen.getvalue() == ""  # a line every 30 seconds
        clock[0] += 20
        shown.progress([1.0, 0.5, 0])
        shown.done(0)
    assert screen.getvalue() == "1 of 3 done; b 50%; 30 s left\njob 0 [red] done\n"


def test_what_was_done_before_is_not_taken_for_speed(clock):
    shown = jobs(io.StringIO())
    shown.progress([0.9, 0, 0])  # taken up again
    clock[0] += 10
    shown.progress([1.0, 1e-9, 0])
    assert shown.line([1.0, 0.1, 0]) == "1 of 3 done; b 10%; 1 min 35 s left"


def test_jobs_on_a_terminal_have_one_live_line(clock):
    screen = io.StringIO()
    with jobs(screen, force_terminal=True) as shown:
        clock[0] += 1
        shown.progress([0.5, 0, 0])
    assert "0 of 3 done; a 50%" in screen.getvalue()
