"""The wheel alone, in an environment that has nothing else: what `pip install slackaug` gives somebody."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def run(*words, **options):
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run([*map(str, words)], env=env, check=True, capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (path,) = folder.glob("slackaug-*.whl")
    return path


def test_the_wheel_has_all_that_is_no_code_and_no_more(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {path.relative_to(ROOT / "src") for path in (ROOT / "src" / "slackaug").rglob("*") if path.is_file()}
    ours = {str(path) for path in sources if "__pycache__" not in path.parts}
    assert ours <= names
    assert all(".dist-info/" in name for name in names - ours)


def test_the_wheel_alone_runs_the_demo(wheel, tmp_path):
    """With the versions of constraints.txt, which say which torch; without any extra."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    done = run(tmp_path / "venv" / "bin" / "slackaug", "demo", cwd=tmp_path)
    assert "The report is" in done.stdout
    assert (tmp_path / "runs" / "demo" / "report.html").is_file()
    assert run(python, "-m", "pip", "check").stdout == "No broken requirements found.\n"
