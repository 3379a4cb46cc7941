"""Which code a result comes from: the commit, where this package is a checkout or was installed from one."""

import json
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).parent
SECONDS = 5.0  # that git may take


@cache
def commit() -> str | None:
    """With "+" where the code has been changed since; None for a release, which its version names."""
    return of_checkout(PACKAGE) or of_installation()


def of_checkout(package: Path) -> str | None:
    """Only where the package itself is under version control: an environment may lie in another project's folder."""
    if git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    head, changes = git(package, "rev-parse", "--short=12", "HEAD"), git(package, "status", "--porcelain", "--", ".")
    return None if head is None else head + ("+" if changes else "")


def git(folder: Path, *arguments: str) -> str | None:
    """What it answers; None where there is no git, no repository, or no answer."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def of_installation() -> str | None:
    """As pip notes it down for `pip install git+URL`."""
    try:
        noted = metadata.distribution("slackaug").read_text("direct_url.json")
        found = json.loads(noted or "{}")["vcs_info"]["commit_id"]
    except (metadata.PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        return None
    return found[:12] if isinstance(found, str) else None
