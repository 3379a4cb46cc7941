"""What the documents show works: Python runs, commands are understood, links lead somewhere."""

import html
import inspect
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

import made_up
import slackaug
import tiny
from slackaug import cli, export
from slackaug.auto import learn
from slackaug.commands import COMMANDS
from slackaug.judge import training
from slackaug.report import contact_sheet, page, policy_figures, run_figures

ROOT = Path(__file__).parents[2]
PACKAGE = Path(slackaug.__file__).parent
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "research/notebook.md")]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))
each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


def blocks(path: Path, kind: str = "python") -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)
    return [text for language, text in found if language == kind]


def commands(path: Path) -> list[list[str]]:
    """Those that stand in blocks, each on a line, and those in the middle of a sentence that have arguments."""
    text = path.read_text(encoding="utf-8")
    lines = [line for block in blocks(path, "") for line in block.splitlines()]
    inline = [found for found in re.findall(r"`(slackaug [^`\n]+)`", text) if " " in found.removeprefix("slackaug ")]
    words = [shlex.split(line, comments=True) for line in (*lines, *inline) if line.startswith("slackaug ")]
    return [found[1:] for found in words]


# --- Python -----------------------------------------------------------------------------------------------------------


def run(name: str, found: list[str], given: dict) -> dict:
    exec(compile("\n".join(found), name, "exec"), given)
    return given


def test_the_examples_of_the_api_run(tmp_path, monkeypatch, capsys, quick_search):
    monkeypatch.chdir(tmp_path)
    found = blocks(ROOT / "docs" / "reference" / "api.md")
    assert len(found) == 4
    run("docs/reference/api.md", found, {})
    out = capsys.readouterr().out
    assert all(word in out for word in ("Hue", "none", "exact"))
    for name in ("runs/shapes/report.html", "evolution.svg", "sheet.png", "augment.py"):
        assert (tmp_path / name).stat().st_size > 1000


def test_the_examples_of_the_readme_run(tmp_path, monkeypatch):
    """But the search, whose arguments alone are looked at, and what needs torchvision."""
    monkeypatch.chdir(tmp_path)
    calls = []
    real = inspect.signature(slackaug.search)
    monkeypatch.setattr(slackaug, "search", lambda *a, **k: calls.append(real.bind(*a, **k)))
    found = [block for block in blocks(ROOT / "README.md") if "torchvision" not in block]
    given = {"slackaug": slackaug, "image": Image.new("RGB", (32, 24)), "tensor": torch.zeros(3, 24, 24).byte()}
    run("README.md", found, given)
    assert (len(found), len(calls)) == (3, 1)


@pytest.mark.torchvision
def test_the_readmes_example_with_torchvision_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    slackaug.Policy.uniform("cifar").save("policy.json")
    (found,) = (block for block in blocks(ROOT / "README.md") if "torchvision" in block)
    assert run("README.md", [found], {})["pipeline"](Image.new("RGB", (32, 24))).dtype == torch.float32


CALLED = [
    slackaug.search, slackaug.evaluate, slackaug.study, slackaug.load, slackaug.SlackAugment, slackaug.Policy,
    slackaug.figure, page.write, export.write, export.render, contact_sheet.write, contact_sheet.render,
    policy_figures.pie, policy_figures.mu_bars, policy_figures.side_by_side, policy_figures.correlations,
    run_figures.evolution, run_figures.entropy, run_figures.kl, run_figures.losses,
]  # fmt: skip


def test_what_people_call_says_what_it_is():
    assert [function.__name__ for function in CALLED if not inspect.getdoc(function)] == []


# --- commands ---------------------------------------------------------------------------------------------------------


@each_document
def test_commands_are_understood(path):
    """By the parser: no option that is not there, none missing."""
    for name, *arguments in commands(path):
        assert name in COMMANDS, f"slackaug {name}"
        try:
            cli.load(name).make_context(name, list(arguments))
        except Exception as error:  # click's, which typer brings under a name of its own
            pytest.fail(f"slackaug {shlex.join([name, *arguments])}: {error}")


def test_the_documents_show_every_command():
    shown = {name for path in DOCUMENTS for name, *_ in commands(path)} | {"demo", "doctor"}
    assert shown == {*COMMANDS}


def test_the_quickstart_works_on_a_folder(command, tmp_path, monkeypatch):
    """Its commands, in order, on images of one's own; with tiny settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "seconds_of", lambda one: 0.0)
    monkeypatch.setattr(learn, "search_seconds", lambda *_: 0.0)
    monkeypatch.setattr(learn, "step_seconds", lambda *_: learn.StepSeconds(8, 1, 0.0, 0.0, 0.0))
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    source = made_up.images(tmp_path / "files", ("cat", "dog"), side=16).parent
    for i in range(10):
        part = tmp_path / "pets" / ("test" if i > 6 else "train") / ("cat", "dog")[i % 2]
        part.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / f"{i}.png", part)
    fewer = ["--set", "evaluate.epochs=1", "--set", "evaluate.batch=2"]
    more = {"search": [*tiny.arguments("", "")[4:], *fewer], "evaluate": fewer[:2]}
    found = [words for words in commands(ROOT / "docs" / "guide" / "quickstart.md") if words[0] != "study"]
    assert [words[0] for words in found] == ["check", "search", "search", "evaluate", "report", "export"]
    for words in found:
        done = command(*words, *more.get(words[0], []))
        assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "pets"
    results = json.loads((run / "eval" / "results.json").read_text())
    assert [len(row["trials"]) for row in results["policies"]] == [4, 4, 4]
    assert html.escape(results["verdict"]) in (run / "report.html").read_text()
    assert slackaug.SlackAugment("runs/pets/policy.json")(Image.new("RGB", (16, 16))).size == (16, 16)


# --- links ------------------------------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@each_document
def test_links_lead_somewhere(path):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", path.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:")):
            file = path.parent / target if target else path
            assert file.exists(), target
            assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


@each_document
def test_files_that_are_named_are_there(path):
    """Those of the repository by their paths, those of the package by their paths in it."""
    named = re.findall(r"[` ]((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|md))?)[` ]", path.read_text(encoding="utf-8"))
    rooms = {
        "src",
        "tests",
        "docs",
        "research",
        "examples",
        *(room.name for room in PACKAGE.iterdir() if room.is_dir()),
    }
    ours = [name for name in named if name.partition("/")[0] in rooms]
    assert [name for name in ours if not any((place / name).exists() for place in (ROOT, PACKAGE))] == []


@pytest.mark.parametrize("name", ["research/notebook.md", "docs/science/performance.md"])
def test_a_long_document_lists_its_sections(name):
    path = ROOT / name
    head, *sections = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.M)
    listed = re.findall(r"^- \[([^\]]*)\]\(#", head, re.M)
    assert listed == [section.splitlines()[0] for section in sections]
