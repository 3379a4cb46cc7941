import json
import subprocess
from importlib import metadata

import pytest

from slackaug import provenance, runs


@pytest.fixture
def checkout(tmp_path):
    """A repository with a package in it, and how to ask git there."""
    package = tmp_path / "src" / "slackaug"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("# first")

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *who, "-C", str(tmp_path), *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init")
    return package, git


def test_a_checkout_has_the_commit_that_it_stands_at(checkout):
    package, git = checkout
    git("add", ".")
    git("commit", "-m", "first")
    head = git("rev-parse", "HEAD")
    assert provenance.of_checkout(package) == head[:12]
    (package.parent.parent / "notes").write_text("beside the package")
    assert provenance.of_checkout(package) == head[:12]


@pytest.mark.parametrize("file", ["__init__.py", "new.py"])
def test_a_plus_says_that_the_code_was_changed(checkout, file):
    package, git = checkout
    git("add", ".")
    git("commit", "-m", "first")
    (package / file).write_text("# changed")
    assert provenance.of_checkout(package) == git("rev-parse", "HEAD")[:12] + "+"


def test_an_environment_in_the_repository_of_something_else_has_no_commit(checkout):
    package, git = checkout
    (package.parent / "theirs.py").write_text("")
    git("add", "src/theirs.py")
    git("commit", "-m", "their project, which ignores its environment")
    assert provenance.of_checkout(package) is None


def test_a_folder_without_a_repository_has_none(tmp_path):
    assert provenance.of_checkout(tmp_path) is None


def test_a_repository_without_commits_has_none(checkout):
    package, git = checkout
    git("add", ".")
    assert provenance.of_checkout(package) is None


def test_without_git_there_is_none(checkout, monkeypatch):
    package, git = checkout
    git("add", ".")
    git("commit", "-m", "first")
    monkeypatch.setenv("PATH", "")
    assert provenance.of_checkout(package) is None


class Installed:
    def __init__(self, noted: str | None):
        self.noted = noted

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.noted


@pytest.mark.parametrize(
    ("noted", "found"),
    [
        (
            json.dumps({"url": "https://a/b", "vcs_info": {"vcs": "git", "commit_id": "0123456789abcdef"}}),
            "0123456789ab",
        ),
        (json.dumps({"url": "file:///a", "dir_info": {"editable": True}}), None),
        (json.dumps({"vcs_info": {"commit_id": 3}}), None),
        ("[]", None),
        ("{", None),
        (None, None),
    ],
)
def test_an_installation_has_the_commit_that_pip_noted_down(noted, found, monkeypatch):
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed(noted))
    assert provenance.of_installation() == found


def test_code_that_was_never_installed_has_none(monkeypatch):
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert provenance.of_installation() is None


def test_it_is_part_of_what_a_result_depends_on(monkeypatch):
    monkeypatch.setattr(provenance, "commit", lambda: "abc")
    assert runs.environment()["commit"] == "abc"
