import json
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
import torch

from slackaug.runs import provenance

COMMIT = "0123456789abcdef"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with a package in it, and how to ask git there, whatever this user has configured."""
    if shutil.which("git") is None:
        pytest.skip("there is no git here")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX"):
        monkeypatch.delenv(name, raising=False)  # set in a hook, they would lead to another repository
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    package = tmp_path / "src" / "slackaug"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("# first")

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    return package, git


@pytest.fixture
def committed(checkout):
    package, git = checkout
    git("add", ".")
    git("commit", "-m", "first")
    return package, git("rev-parse", "HEAD")[:12], git


def test_a_checkout_has_the_commit_that_it_stands_at(committed, monkeypatch, tmp_path):
    package, head, _ = committed
    assert provenance.of_checkout(package) == head
    (package.parent.parent / "notes").write_text("beside the package")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))  # as in a hook
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere" / "index"))
    assert provenance.of_checkout(package) == head


@pytest.mark.parametrize("file", ["__init__.py", "new.py"])
def test_a_plus_says_that_the_code_was_changed(committed, file):
    package, head, git = committed
    git("config", "status.showUntrackedFiles", "no")
    (package / file).write_text("# changed")
    assert provenance.of_checkout(package) == f"{head}+"


def test_what_git_cannot_say_counts_as_changed(committed, monkeypatch):
    package, head, _ = committed
    ask = provenance.git
    monkeypatch.setattr(provenance, "git", lambda folder, *words: None if words[0] == "status" else ask(folder, *words))
    assert provenance.of_checkout(package) == f"{head}+"


def test_what_is_no_checkout_has_no_commit(checkout, tmp_path_factory, monkeypatch):
    package, git = checkout
    assert provenance.of_checkout(tmp_path_factory.mktemp("nothing")) is None
    git("add", ".")
    assert provenance.of_checkout(package) is None  # nothing is committed
    git("rm", "-r", "-q", "--cached", ".")
    (package.parent / "theirs.py").write_text("")
    git("add", "src/theirs.py")
    git("commit", "-m", "a project that ignores its environment")
    assert provenance.of_checkout(package) is None
    git("add", ".")
    git("commit", "-m", "no longer")
    assert provenance.of_checkout(package) is not None
    monkeypatch.setenv("PATH", "")  # there is no git
    assert provenance.of_checkout(package) is None


class Installed:
    def __init__(self, noted: str | None, place: Path):
        self.noted, self.place = noted, place

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.noted

    def locate_file(self, name: str) -> Path:
        return self.place / name


FROM_GIT = json.dumps({"url": "https://a/b", "vcs_info": {"vcs": "git", "commit_id": COMMIT}})


@pytest.mark.parametrize(
    ("noted", "place", "found"),
    [(FROM_GIT, "slackaug", COMMIT[:12]), (FROM_GIT, "copy/slackaug", None),
     ('{"url": "file:///a"}', "slackaug", None), ('{"vcs_info": {"commit_id": 3}}', "slackaug", None),
     *((noted, "slackaug", None) for noted in ("[]", "{", None))],
)  # fmt: skip
def test_an_installation_has_the_commit_that_pip_noted_down(noted, place, found, tmp_path, monkeypatch):
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed(noted, tmp_path))
    assert provenance.of_installation(tmp_path / place) == found
    monkeypatch.setattr(metadata, "distribution", lambda _: metadata.Distribution.from_name("no-such-package"))
    assert provenance.of_installation(tmp_path / place) is None


@pytest.mark.parametrize(("checkout", "found"), [("abc+", "abc+"), (None, "def")])
def test_a_checkout_counts_before_an_installation(checkout, found, monkeypatch):
    monkeypatch.setattr(provenance, "of_checkout", lambda _: checkout)
    monkeypatch.setattr(provenance, "of_installation", lambda _: "def")
    assert provenance.commit.__wrapped__() == found


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, None),
        ({"gpu": "A GPU"}, "GPU A GPU and continues with no GPU, so the last bits of its numbers may differ"),
        ({"commit": "0123"}, "began with commit 0123 and continues with commit abc+, so its numbers may differ"),
        ({"commit": None}, "began with no commit and continues with commit abc+"),
        ({"torch": "2.11.0", "threads": 64}, "began with torch 2.11.0, 64 threads and continues with torch"),
        ({"torch": None}, "began with no torch and continues with torch"),
        ({"slackaug": "0.0.1"}, "began with slackaug 0.0.1 and continues with slackaug"),
        ([1], None),
        ("{", None),
    ],
)
def test_what_has_changed_since_a_run_began(env, said, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(provenance, "commit", lambda: "abc+")
    assert provenance.what_changed(tmp_path) is None
    document = provenance.environment() | env if isinstance(env, dict) else env
    (tmp_path / "env.json").write_text(document if isinstance(document, str) else json.dumps(document))
    found = provenance.what_changed(tmp_path)
    assert found is None if said is None else said in found
