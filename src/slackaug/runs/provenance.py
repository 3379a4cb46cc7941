"""Which code and machine a result comes from. The commit is that of the checkout, or of what pip installed."""

import json
import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..files import read_note
from ..messages import search as messages

PACKAGE = Path(__file__).parents[1]
SECONDS = 5.0  # that git may take
CODE = {"slackaug": "slackaug {}", "commit": "commit {}"}  # what decides about numbers as a whole
ROUNDING = {"torch": "torch {}", "gpu": "GPU {}", "threads": "{} threads"}  # what decides how sums are rounded


def environment() -> dict[str, Any]:
    """What a result may depend on beside the configuration."""
    return {
        "slackaug": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
    }


def what_changed(folder: Path) -> str | None:
    """How this process differs from the one that began a run, where that can change its numbers."""
    before, now, known = read_note(folder / "env.json"), environment(), CODE | ROUNDING
    changed = {name: text for name, text in known.items() if name in before and before[name] != now[name]}
    if not changed:
        return None

    def told(one: dict[str, Any]) -> str:
        return ", ".join(
            "no " + text.format("").strip() if one[name] is None else text.format(one[name])
            for name, text in changed.items()
        )

    return messages.changed_since(told(before), told(now), is_code=bool(CODE.keys() & changed))


@cache
def commit() -> str | None:
    """Name the commit, with "+" where the code may have been changed since; None for an installed copy of the code."""
    return of_checkout(PACKAGE) or of_installation(PACKAGE)


def of_checkout(package: Path) -> str | None:
    """Only where the package itself is under version control: an environment may lie in another project's folder."""
    if git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    head = git(package, "rev-parse", "--short=12", "HEAD")
    is_unchanged = git(package, "status", "--porcelain", "--untracked-files=normal", "--", ".") == ""
    return None if head is None else head + ("" if is_unchanged else "+")


def git(folder: Path, *arguments: str) -> str | None:
    """What it answers; None where there is no git, no repository, or no answer."""
    command = ["git", "--no-optional-locks", "-c", "safe.directory=*", "-C", str(folder), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # of a hook
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, env=environment
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def of_installation(package: Path) -> str | None:
    """Read what pip notes down for `pip install git+URL`, if this is the code that it installed."""
    try:
        found = metadata.distribution("slackaug")
        if Path(str(found.locate_file("slackaug"))).resolve() != package.resolve():
            return None
        noted = json.loads(found.read_text("direct_url.json") or "{}")["vcs_info"]["commit_id"]
    except (metadata.PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        return None
    return noted[:12] if isinstance(noted, str) else None
