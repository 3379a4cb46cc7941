"""What long work shows."""

import io
import re

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
    assert "Rotate 0.145 (up to ±67.5°)" in text


def test_line_of_pre_training():
    text = progress.line(step("pre-training", 0, done=0.0, val_loss=None), elapsed=30)
    assert text == "pre-training, 3 composed, step 3 of 10; 0 s left; train loss 2.000"


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def display(screen, log, **options):
    verbose = options.pop("is_verbose", False)
    bar = progress.Bar(Console(file=screen, **{"width": 1000} | options))
    return progress.Display(bar, log, 4, 0.5, is_verbose=verbose)


def test_a_plain_line_every_30_seconds_in_plain_words(clock, tmp_path):
    screen, log = io.StringIO(), tmp_path / "search.log"
    shown = display(screen, log)
    for second in range(95):
        clock[0] = 1000.0 + second
        shown.show(step(number=1, done=second / 120), 1.0)
    lines = screen.getvalue().splitlines()
    assert len(lines) == 3  # after 30, 60 and 90 seconds
    assert lines[0] == "Learning: round 1 of 4, 12%, 3 min 30 s left"  # half of the whole is learning
    assert not {"loss", "entropy", "Rotate"} & {*screen.getvalue().split()}


def test_the_log_has_the_numbers_of_each_round_and_verbose_prints_them(clock, tmp_path):
    for is_verbose in (False, True):
        screen, log = io.StringIO(), tmp_path / f"{is_verbose}.log"
        shown = display(screen, log, is_verbose=is_verbose)
        shown.show(step(), 1.0)
        shown.show(step(step=10), 1.0)  # the last one of a round
        logged = [line[20:] for line in log.read_text().splitlines()]  # after date and time
        assert len(logged) == 1
        assert "step 10 of 10" in logged[0]
        assert "entropy" in logged[0]
        assert screen.getvalue().splitlines() == (logged if is_verbose else [])


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_terminal_has_one_bar_that_fits(width, clock, tmp_path):
    screen = io.StringIO()
    shown = display(screen, tmp_path / "search.log", width=width, force_terminal=True, color_system=None)
    with shown.bar:
        for second in range(3):
            clock[0] += 1
            shown.show(step(step=second, done=0.2 + 0.1 * second), 1.0)
    found = [text.strip() for text in re.split(r"\x1b\[[?\d]*[a-zA-Z]|[\r\n]", screen.getvalue()) if text.strip()]
    assert len(found) == 4  # three, and the last one again when it goes
    assert all(len(text) <= width for text in found)
    assert found[0].startswith("Learning: round 2 of 4  10%")
    assert found[2].endswith("16 s left")
    assert not (tmp_path / "search.log").exists()


def test_what_was_done_before_tells_nothing_of_speed(clock):
    bar = progress.Bar(Console(file=io.StringIO()))
    bar.found = 0.3
    clock[0] += 1000  # until everything is compiled
    bar.update("Learning", 0.4)
    clock[0] += 10
    assert bar.left(0.4) == ""
    assert bar.left(0.6) == "20 s left"
    bar.deadline = clock[0] + 15  # a time limit
    assert bar.left(0.6) == "15 s left"


# --- several jobs -----------------------------------------------------------------------------------------------------


def jobs(screen, start=0.0, end=1.0, **options):
    bar = progress.Bar(Console(file=screen, width=200, **options))
    part = progress.Part(bar, start, end, lambda n: f"{n} of 3 done")
    return progress.Jobs(part, ["a", "b", "c"], lambda i: f"job {i} [red] done", lambda: None)


def test_jobs_say_who_is_done_and_how_long_the_rest_takes(clock):
    screen = io.StringIO()
    shown = jobs(screen)
    shown.progress([1e-9, 0, 0])
    clock[0] += 10
    shown.progress([0.5, 1e-9, 0])
    assert screen.getvalue() == ""  # a line every 30 seconds
    clock[0] += 20
    shown.progress([1.0, 0.5, 0])
    shown.done(0)
    assert screen.getvalue() == "1 of 3 done, 50%, 30 s left\njob 0 [red] done\n"


def test_jobs_that_are_taken_up_again_are_not_taken_for_speed(clock):
    shown = jobs(io.StringIO())
    shown.progress([0.9, 0, 0])
    clock[0] += 10
    shown.progress([1.0, 1e-9, 0])
    assert shown.part.bar.left(1.1 / 3) == "1 min 35 s left"


def test_jobs_may_be_a_part_of_what_a_bar_shows(clock):
    screen = io.StringIO()
    shown = jobs(screen, start=0.5, end=0.9)
    shown.progress([0.0, 0.0, 0.0])
    clock[0] += 40
    shown.progress([1.0, 1.0, 0.0])
    shown.part.bar.remark("a finding")  # at once, and it stays
    assert screen.getvalue() == "2 of 3 done, 77%, 35 s left\na finding\n"
