"""What the documents show is there: commands are understood, links lead somewhere, the README is short."""

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import slackaug
from slackaug import cli, export
from slackaug.commands import COMMANDS
from slackaug.report import contact_sheet, page, policy_figures, run_figures

ROOT = Path(__file__).parents[2]
PACKAGE = Path(slackaug.__file__).parent
README = ROOT / "README.md"
DOCUMENTS = [README, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "research/notebook.md"))]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))
each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


def blocks(path: Path) -> list[str]:
    """Those of commands."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)
    return [text for language, text in found if language in ("", "bash")]


def commands(path: Path) -> list[list[str]]:
    """Those that stand in blocks, each on a line, and those in the middle of a sentence that have arguments."""
    text = path.read_text(encoding="utf-8")
    lines = [line for block in blocks(path) for line in block.splitlines()]
    inline = [found for found in re.findall(r"`(slackaug [^`\n]+)`", text) if " " in found.removeprefix("slackaug ")]
    words = [shlex.split(line, comments=True) for line in (*lines, *inline) if line.startswith("slackaug ")]
    return [found[1:] for found in words]


# --- Python -----------------------------------------------------------------------------------------------------------


CALLED = [
    slackaug.search, slackaug.evaluate, slackaug.study, slackaug.load, slackaug.SlackAugment, slackaug.Policy,
    slackaug.figure, page.write, export.write, export.render, contact_sheet.write, contact_sheet.render,
    policy_figures.pie, policy_figures.side_by_side, policy_figures.correlations,
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


# --- messages ---------------------------------------------------------------------------------------------------------

ELSEWHERE = ("operator torchvision::nms does not exist",)  # torch's


def texts(path: Path) -> Iterator[str]:
    """All that a module may say; what it fills in is left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "\0".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_messages_that_are_explained_exist():
    said = "\n".join(text for path in PACKAGE.rglob("*.py") for text in texts(path))
    page = (ROOT / "docs" / "guide" / "troubleshooting.md").read_text(encoding="utf-8")
    heads = re.findall(r"^- (\*\*.*?\*\*):", page, re.M | re.S)
    quoted = [message for head in heads for message in re.findall(r"`([^`]+)`", head) if message not in ELSEWHERE]
    assert len(quoted) > 20
    parts = [part.strip() for message in quoted for part in re.split(r"\.\.\.|\d+", message)]
    assert [part for part in parts if part not in said] == []


# --- links ------------------------------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


LINK = r"([^)#\s]*)(?:#([^)\s]*))?"


@each_document
def test_links_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    inline, below = (re.findall(form, text, re.M) for form in (rf"\]\({LINK}\)", rf"^\[[^\]]+\]: {LINK}$"))
    for target, anchor in (*inline, *below):
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


def test_the_readme_is_short():
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) < 700
    assert -1 < text.find("whl/cpu") < text.find("\npip install .\n")  # by then CUDA has been downloaded
    assert [line for line in text.splitlines() if len(line) > 120] == []


@each_document
def test_every_reference_has_its_link(path):
    """`[text][name]` without `[name]: target` would be shown as it is."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    used = set(re.findall(r"\]\[([^\]]+)\]", re.sub(r"`[^`\n]*`", "", text)))
    assert used <= set(re.findall(r"^\[([^\]]+)\]: ", text, re.M))


@pytest.mark.parametrize("name", ["research/notebook.md", "docs/science/performance.md"])
def test_a_long_document_lists_its_sections(name):
    path = ROOT / name
    head, *sections = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.M)
    listed = re.findall(r"^- \[([^\]]*)\]\(#", head, re.M)
    assert listed == [section.splitlines()[0] for section in sections]
