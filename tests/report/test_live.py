"""The report of a search, and of a study, that is going on."""

import io
import re
import signal

import pytest
from rich.console import Console

import slackaug
import tiny
from slackaug.auto import learn, timing
from slackaug.exits import Stopped
from slackaug.judge import training
from slackaug.judge.studies import search_jobs
from slackaug.report import live, page


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Every page of the run or study in tmp_path: whether the work went on, and the text. It is written at any time."""
    found, real = [], page.write

    def write(folder, **options):
        path = real(folder, **options)
        if folder == tmp_path:  # not that of one of the searches of a study
            text = path.read_text()
            assert ('http-equiv="refresh"' in text) == options["is_running"]
            found.append((options["is_running"], text))
        return path

    monkeypatch.setattr(page, "write", write)
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(live, "REST", 0.0)
    return found


def test_it_is_written_after_every_round_and_stands_still_at_the_end(tiny_npz, tmp_path, written):
    slackaug.search(str(tiny_npz), tmp_path, set=tiny.assignments())
    assert [(running, text.count('class="frame"')) for running, text in written] == [
        (True, 0), (True, 2), (False, 3)]  # fmt: skip
    assert "On your images" in written[-1][1]


@pytest.fixture
def full_disk(monkeypatch):
    """No page can be written; the reason that is shown."""

    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page, "write", broken)
    return "[Errno 28] No space left on device"


def test_a_search_without_a_page_says_so_once(command, tiny_npz, finished, tmp_path, monkeypatch, full_disk):
    monkeypatch.setattr(learn, "METRICS_EVERY", 1)
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run"))
    assert (done.returncode, done.stdout.count(full_disk)) == (0, 1)
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)


def test_a_search_that_was_stopped_has_a_page_that_stands_still(tiny_npz, tmp_path):
    log = tmp_path / "log"
    tiny.run_until(tiny.arguments(tiny_npz, tmp_path / "run"), log, ("policy", 2, 5), 15)
    text = (tmp_path / "run" / "report.html").read_text()
    assert "round 1 of 2 is done." in text
    assert 'http-equiv="refresh"' not in text


# --- a study ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def start_study(tiny_npz, tmp_path, monkeypatch):
    """A study of 2 searches x 2 evaluations."""
    monkeypatch.setattr(training, "seconds_of", lambda one: 0.0)
    monkeypatch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(0.0, 0.0, 0.0))
    given = {"data": tiny_npz, "baselines": ["uniform"], "console": Console(quiet=True)}
    given["set"] = [*tiny.assignments(), "evaluate.epochs=1", "evaluate.batch=4"]
    return lambda **options: slackaug.study("digits", tmp_path, **(given | options))


def notice(text):
    found = re.search(r'<div class="notice" role="status">\s*<p>(.*?)(?: <button|</p>)', text)
    return found and found[1]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_study_has_a_page_that_follows_it(start_study, written, jobs):
    start_study(jobs=jobs)
    *during, (is_running, last) = written
    assert all(running for running, _ in during)
    assert (is_running, notice(last)) == (False, None)
    said = [notice(text) for _, text in during]
    assert "0 of 2 searches are done" in said[0]
    if jobs == 1:  # two at a time, chance decides what is seen
        assert len(set(said)) == len(said)  # written when something has come, and only then
        assert "0 of 2 searches are done; search 0 has done round 1 of 2" in said[1]
        assert "How often, search 0, round 1 of 2" in during[1][1]
        assert any("2 of 2 searches are done; 3 trainings are done" in one for one in said)
    assert "There is no answer yet: " in during[-1][1]


def test_a_study_that_was_stopped_has_a_page_that_says_how_to_go_on(start_study, written, tmp_path, monkeypatch):
    real = search_jobs.search

    def stop_in_the_second(function, one, tell):
        if one.seed == 1:
            raise Stopped("stopped", signal.SIGTERM)
        real(function, one, tell)

    monkeypatch.setattr(search_jobs, "search", stop_in_the_second)
    with pytest.raises(Stopped):
        start_study()
    is_running, text = written[-1]
    assert "1 of 2 searches are done" in notice(text)
    assert (is_running, notice(text).endswith("To continue:")) == (False, True)
    assert f"<code>slackaug study -o PATH/TO/{tmp_path.name} --resume</code>" in text


def test_a_study_whose_page_cannot_be_written_shows_that_once(start_study, tmp_path, full_disk):
    shown = io.StringIO()
    start_study(console=Console(file=shown, width=1000))
    assert shown.getvalue().count(full_disk) == 1
    assert (tmp_path / "study.json").is_file()


@pytest.mark.parametrize("way", ["look", "follow"])
def test_pages_take_little_of_the_time_of_the_work(way, tmp_path, monkeypatch):
    """A slow page is written the more rarely."""
    now, n_written = 0.0, 0

    def write(*_, **__):
        nonlocal now, n_written
        now, n_written = now + 4.0, n_written + 1

    monkeypatch.setattr(live.time, "monotonic", lambda: now)
    monkeypatch.setattr(page, "write", write)
    follower = live.Live(tmp_path, None, print)
    folder = tmp_path / "eval" / "trials"
    folder.mkdir(parents=True)
    for i in range(1000):
        (folder / f"{i}.json").touch()
        now += 1.0
        getattr(follower, way)()
    assert 4.0 * n_written < 0.06 * now
    assert n_written > 5
