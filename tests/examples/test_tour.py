"""examples/tour.ipynb runs from top to bottom, and lies in git without its outputs."""

import json
import os
from pathlib import Path

import pytest

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"
SECONDS = 120  # on 2 cores that have nothing else to do
PATIENCE = 4  # times that, where they have


def code() -> list[dict]:
    return [cell for cell in json.loads(TOUR.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_it_has_no_outputs():
    assert len(code()) > 5
    assert [cell for cell in code() if cell["outputs"] or cell["execution_count"] is not None] == []


@pytest.mark.recipes
@pytest.mark.filterwarnings("ignore")  # of Jupyter
def test_it_runs(tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="not installed: nbclient; `make test-recipes` has it")
    import nbformat

    (tmp_path / "none").mkdir()
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("PYTHONPATH", str(TOUR.parents[1] / "src") + os.pathsep + os.environ.get("PYTHONPATH", ""))
    tour = nbformat.read(TOUR, as_version=4)
    nbclient.NotebookClient(tour, timeout=PATIENCE * SECONDS, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in tour.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = "".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs)
    pictures = [data for output in outputs if "<svg" in (data := output.get("data", {})).get("text/html", "")]
    assert len(pictures) == 2  # the learned policy, and the accuracies
    assert [1 for output in outputs if "image/png" in output.get("data", {})] == [1]  # the contact sheet
    assert "of the test images right" in shown
    assert "trainings of each of the last two" in shown  # the answer
    assert "Warning" not in shown
    assert (tmp_path / "runs" / "tour" / "report.html").is_file()
