"""Policies and results in a notebook and as tables: one line, a part of a page, a frame, a figure."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import pytest

import slackaug
from pictures import inject
from slackaug import Policy
from slackaug.auto.conduct import SearchResult
from slackaug.foreign import ForeignError
from slackaug.judge.answer import Answer, Entrant
from slackaug.judge.intervals import Accuracy, Interval
from slackaug.judge.results import PolicyRow, Results
from slackaug.judge.studies.results import StudyResults, StudyRow

SENTENCE = "Use <2> transformations & more."
POLICY = Policy.uniform("cifar", n_composed=2)
ENTRANTS = [Entrant("uniform-2", 8, 90.0, (89.0, 91.0), None), Entrant("none", 2, 80.0, None, 2)]
ANSWER = Answer(SENTENCE, "uniform-2", "none", "better", 10.0, (9.0, 11.0), 1.0, True, ENTRANTS, 10, 60.0)
TIGHT, LONE = Accuracy(0.9, 0.89, 0.91, 4), Accuracy(0.8, None, None, 1)
ROWS = [PolicyRow("none", LONE, LONE, None, 1.0, 1.0, []),
        PolicyRow("mine", TIGHT, TIGHT, Interval(0.1, 0.02, 4), 1.0, 1.0, [])]  # fmt: skip
PROTOCOL = SimpleNamespace()
SHOWN = {
    "policy": POLICY,
    "answer": ANSWER,
    "search": SearchResult(POLICY, Path("runs/pets"), ANSWER),
    "search without a race": SearchResult(POLICY, Path("runs/pets")),
    "evaluation": Results(PROTOCOL, ("a", "b"), "mine", "none", ROWS, SENTENCE, None, None, (), {}),
    "study": StudyResults([StudyRow("none", TIGHT, TIGHT, None, [])], SENTENCE),
    "nothing yet": StudyResults([], SENTENCE),
}
all_of_them = pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
IN_WORDS = "2 of 17 transformations of 'cifar', with flips"


def test_each_is_one_line():
    assert [repr(one) for one in SHOWN.values()] == [
        f"Policy({IN_WORDS})",
        f"Answer({SENTENCE!r})",
        f"SearchResult('runs/pets', Answer({SENTENCE!r}))",
        f"SearchResult('runs/pets', Policy({IN_WORDS}))",
        f"Results({SENTENCE!r})",
        f"StudyResults({SENTENCE!r})",
        f"StudyResults({SENTENCE!r})",
    ]
    assert repr(POLICY.with_composed(0)) == "Policy(0 of 17 transformations of 'cifar', with flips)"


@all_of_them
def test_a_notebook_shows_the_sentence_and_a_picture(shown):
    page = ET.fromstring(shown._repr_html_())
    says = "".join(page[0].itertext())
    assert says == (SENTENCE if "transformations &" in repr(shown) else repr(POLICY))
    assert page[1].tag.endswith("svg")
    assert page[1].attrib["id"].startswith("slackaug-")


def test_pictures_of_one_page_have_ids_of_their_own():
    pages = [ET.fromstring(one._repr_html_())[1].attrib["id"] for one in (POLICY, ANSWER, SHOWN["evaluation"])]
    assert len({*pages}) == 3


def test_frames(monkeypatch):
    inject(
        monkeypatch, "pandas", DataFrame=lambda rows, columns: [dict(zip(columns, row, strict=True)) for row in rows]
    )
    assert {row["transformation"]: row["probability"] for row in POLICY.to_frame()} == dict.fromkeys(
        POLICY.space.names, pytest.approx(1 / 17)
    )
    assert ANSWER.to_frame()[1] == {
        "policy": "none", "accuracy in %": 80.0, "low": None, "high": None, "trainings": 2}  # fmt: skip
    assert SHOWN["evaluation"].to_frame()[1] == {
        "policy": "mine", "accuracy in %": 90.0, "low": 89.0, "high": 91.0, "n": 4, "to the first baseline": 10.0,
        "± (95 %)": 2.0}  # fmt: skip
    assert SHOWN["nothing yet"].to_frame() == []


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_frame"), ("matplotlib", "plot")])
def test_without_the_package_the_message_says_what_to_install(package, method, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ForeignError, match=f"{package} is not installed; pip install {package}$"):
        getattr(slackaug.Policy.uniform("cifar"), method)()


@pytest.mark.figures
@all_of_them
def test_plots(shown, tmp_path):
    shown.plot().savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
