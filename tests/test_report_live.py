"""The report of a search that is going on."""

import slackaug
import tiny
from slackaug import learn
from slackaug.report import page


def test_it_is_written_after_every_round_and_stands_still_at_the_end(tiny_npz, tmp_path, monkeypatch):
    seen = []
    real = page.write

    def write(folder, **options):
        path = real(folder, **options)
        text = path.read_text()
        seen.append((options["is_running"], 'http-equiv="refresh"' in text, text.count('class="frame charts"')))
        return path

    monkeypatch.setattr(page, "write", write)
    slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments())
    assert seen == [(True, True, 0), (True, True, 2), (False, False, 3)]
    assert "On your images" in (tmp_path / "run" / "report.html").read_text()


def test_what_goes_wrong_with_it_is_said_once_and_stops_nothing(command, tiny_npz, finished, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(learn, "METRICS_EVERY", 1)
    monkeypatch.setattr(page, "write", broken)
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run"))
    assert done.returncode == 0
    said = [line for line in done.stdout.splitlines() if "report" in line]
    assert said == ["the report cannot be written ([Errno 28] No space left on device); all else is"]
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)


def test_a_search_that_was_stopped_has_a_page_that_stands_still(tiny_npz, tmp_path):
    log = tmp_path / "log"
    tiny.run_until(tiny.arguments(tiny_npz, tmp_path / "run"), log, ("policy", 2, 5), 15)
    text = (tmp_path / "run" / "report.html").read_text()
    assert "The search was left: round 1 of 2 is done." in text
    assert 'http-equiv="refresh"' not in text
