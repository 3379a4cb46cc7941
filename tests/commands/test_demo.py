"""The demo, shortened to seconds."""

import json
from dataclasses import replace

import pytest
from rich.console import Console

from slackaug import messages
from slackaug.auto import timing
from slackaug.commands import demo
from slackaug.config import presets
from slackaug.runs.folders import RunError


@pytest.fixture
def shortened(monkeypatch):
    def short(data, model=None):
        base = presets.demo(data, model)
        search = replace(base.search, n_rounds=1, n_retrain=1, n_unrolled=1, batch=4, n_composites=2)
        fit = replace(base.evaluate, epochs=1, batch=512)
        race = replace(base.race, candidates=("uniform-2", "learned"), n_first=1, n_last=4)
        return replace(base, search=search, pretrain=replace(fit, nesterov=False), evaluate=fit, race=race)

    monkeypatch.setitem(presets.PRESETS, "demo", short)
    monkeypatch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(0.0, 0.0, 0.0))


def test_it_ends_with_an_answer_and_where_the_files_are(shortened, tmp_path, capsys):
    for _ in range(2):  # an earlier demo is replaced
        demo.demo(out=tmp_path / "demo", console=Console(width=200))
    out, folder = capsys.readouterr().out, tmp_path / "demo"
    answer = json.loads((folder / "answer.json").read_text())
    assert answer["is_final"]
    assert " ".join(out.split()).endswith(answer["sentence"])  # after the next command
    assert "\n  slackaug search FOLDER -o runs/mine\n" in out
    assert f"policy is {folder / 'policy.json'}" in out
    assert messages.report(str(folder / "report.html")) in out
    assert (folder / "report.html").is_file()


def test_it_replaces_no_other_run(shortened, tmp_path):
    demo.demo(out=tmp_path, console=Console(width=200, quiet=True))
    config = tmp_path / "config.yaml"
    config.write_text(config.read_text().replace("preset: demo", "preset: quick"))
    with pytest.raises(RunError, match="is not empty"):
        demo.demo(out=tmp_path, console=Console(width=200, quiet=True))
