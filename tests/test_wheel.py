"""What is published: a wheel that is small and whole, made from the sdist, and enough by itself."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import slackaug

ROOT = Path(__file__).parents[1]
MOST_BYTES = 1_000_000
BUILD = "import sys; from setuptools import build_meta; print(build_meta.{}(sys.argv[1]))"


def run(*words, **options):
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run([*map(str, words)], env=env, check=True, capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """Of a copy: what an earlier build has left here is not to get into it."""
    here, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("sdist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, here)
    shutil.copytree(ROOT / "src", here / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    run(sys.executable, "-c", BUILD.format("build_sdist"), out, cwd=here)
    (path,) = out.glob("slackaug-*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    here, out = tmp_path_factory.mktemp("unpacked"), tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(here, filter="data")
    (top,) = here.iterdir()
    run(sys.executable, "-c", BUILD.format("build_wheel"), out, cwd=top)
    (path,) = out.glob("slackaug-*-py3-none-any.whl")
    return path


def test_both_are_small_and_have_the_version_of_the_package(sdist, wheel):
    assert max(path.stat().st_size for path in (sdist, wheel)) < MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        said = email.message_from_bytes(archive.read(name))
    assert said["Version"] == slackaug.__version__
    assert sdist.name == f"slackaug-{slackaug.__version__}.tar.gz"


def test_the_version_is_written_down_in_one_place():
    files = [ROOT / "pyproject.toml", ROOT / "Dockerfile", ROOT / "docs" / "conf.py", *(ROOT / "src").rglob("*.py")]
    number = re.compile(rf'"v?{re.escape(slackaug.__version__)}"')
    assert [path.name for path in files if number.search(path.read_text(encoding="utf-8"))] == ["_version.py"]


def test_the_wheel_has_all_that_is_no_code_and_no_more(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {path.relative_to(ROOT / "src") for path in (ROOT / "src" / "slackaug").rglob("*") if path.is_file()}
    ours = {str(path) for path in sources if "__pycache__" not in path.parts}
    assert ours <= names
    assert all(".dist-info/" in name for name in names - ours)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_wheel_alone_runs_the_demo(wheel, tmp_path):
    """With the versions of constraints.txt, which say which torch; without any extra."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    done = run(tmp_path / "venv" / "bin" / "slackaug", "demo", cwd=tmp_path)
    assert "The report is" in done.stdout
    assert (tmp_path / "runs" / "demo" / "report.html").is_file()
    assert run(python, "-m", "pip", "check").stdout == "No broken requirements found.\n"
