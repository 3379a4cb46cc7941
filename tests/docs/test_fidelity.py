"""The page of departures, line by line: what it names is there, and nothing of the paper is left out."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import slackaug
from slackaug.judge.studies.paper_tables import TABLES

ROOT = Path(__file__).parents[2]
PACKAGE = Path(slackaug.__file__).parent
PAPER = ROOT.parent / "shared" / "paper.tex"
PAGE = (ROOT / "docs" / "science" / "fidelity.md").read_text(encoding="utf-8")
LINES = PAGE.partition("## The paper, line by line\n")[2].partition("\n## ")[0]
CODE = re.compile(r"`([\w/]+\.py): ([\w, ]+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
AS_ABOVE = "the same"


def rows() -> list[list[str]]:
    """The cells of all rows: what the paper has, where it is here, what holds it, its state."""
    found = [re.split(r" \| ", line.strip().removeprefix("| ").removesuffix(" |")) for line in LINES.splitlines()
             if line.startswith("| ")]  # fmt: skip
    return [cells for cells in found if cells[-1] != "state"]


@cache
def defined(path: Path) -> set[str]:
    """Functions, methods, classes and module-level names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    targets = [node.targets if isinstance(node, ast.Assign) else [node.target] for node in tree.body
               if isinstance(node, ast.Assign | ast.AnnAssign)]  # fmt: skip
    return names | {name.id for some in targets for target in some for name in ast.walk(target)
                    if isinstance(name, ast.Name)}  # fmt: skip


def test_code_that_is_named_is_there():
    named = CODE.findall(PAGE)
    assert named
    wrong = [
        f"{path}: {name}"
        for path, names in named
        for name in names.split(", ")
        if not (PACKAGE / path).is_file() or name not in defined(PACKAGE / path)
    ]
    assert wrong == []


def test_tests_that_are_named_are_there():
    named = TEST.findall(PAGE)
    assert named
    wrong = [name for path, name in named if not (ROOT / path).is_file() or name not in defined(ROOT / path)]
    assert wrong == []
    assert PAGE.count("::test_") == len(named)  # none that is written otherwise


def test_every_row_has_a_state_and_what_is_said_to_be_there_is_held_by_a_test():
    assert rows()
    for cells in rows():
        what, code, held, state = cells
        assert re.fullmatch(r"same|(differs|not run): .+", state), what
        assert TEST.search(held) or held in (AS_ABOVE, "-"), what
        assert (CODE.search(code) and TEST.search(held)) or state.startswith("not run"), what


def test_every_row_of_the_tables_of_accuracies_has_an_entry():
    entries = [cells[0] for cells in rows()]
    tables = {label: table for label, table in TABLES.items() if table.figure is None}
    expected = {f"`tab:{label}`, `{row}`" for label, table in tables.items() for row in table.rows}
    assert expected <= {*entries}
    assert len({*entries}) == len(entries)


@pytest.mark.data
def test_every_label_of_the_paper_has_an_entry():
    if not PAPER.is_file():
        pytest.skip(f"the paper is not at {PAPER}")
    labels = re.findall(r"\\label\{((?:eq|alg|tab|fig):[^}]+)\}", PAPER.read_text(encoding="utf-8"))
    assert {label for label in labels if f"`{label}`" not in LINES} == set()
