"""What is installed here, and the line that fixes what is broken."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from typing import NamedTuple

import torch
from rich.console import Console

from ..config.options import command
from ..messages.terminal import say

# The torchvision release made for a release of torch has the minor version of torch plus 15.
TORCHVISION_OFFSET = 15
QUIET = Console(quiet=True)


class Diagnosis(NamedTuple):
    what: str
    state: str
    remedy: str = ""  # empty: nothing to fix


class Diagnoses(list[Diagnosis]):
    @property
    def exit_code(self) -> int:
        return 1 if any(finding.remedy for finding in self) else 0


@command
def doctor(*, console: Console | None = None) -> Diagnoses:
    """Say what is installed, what is broken, and the line that fixes it. Exits 1 where something is broken.

    Examples:
        slackaug doctor
    """
    found = Diagnoses([
        Diagnosis("python", f"{platform.python_version()}, {platform.machine()}, {platform.system()}"),
        *(Diagnosis(package, version(package) or "not found") for package in ("slackaug", "torch", "numpy", "pillow")),
        Diagnosis("processor", f"{os.cpu_count()} cores, torch uses {torch.get_num_threads()} threads"),
        gpu(),
        torchvision(),
    ])  # fmt: skip
    for finding in found:
        say(console or QUIET, f"{finding.what:12} {finding.state}")
        if finding.remedy:
            say(console or QUIET, f"To fix it:\n  {finding.remedy}")
    return found


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def gpu() -> Diagnosis:
    cuda = torch.version.cuda
    if torch.cuda.is_available():
        name, memory = torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).total_memory
        return Diagnosis("GPU", f"{torch.cuda.device_count()} x {name}, {memory / 2**30:.0f} GiB, CUDA {cuda}")
    if cuda:
        return Diagnosis("GPU", f"torch is built for CUDA {cuda}, but finds no device", "check the driver: nvidia-smi")
    return Diagnosis("GPU", "none used: this torch is a CPU build")


def torchvision() -> Diagnosis:
    """Imported in a process of its own: a broken torchvision cannot be imported twice, nor take us down."""
    found = version("torchvision")
    if found is None:
        return Diagnosis("torchvision", "not installed (needed only for slackaug.torchvision)")
    attempt = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, text=True)
    if attempt.returncode == 0:
        return Diagnosis("torchvision", found)
    reason = (attempt.stderr.strip().splitlines() or ["no reason given"])[-1]
    release, _, build = torch.__version__.partition("+")
    minor = int(release.split(".")[1]) + TORCHVISION_OFFSET
    index = f" --index-url https://download.pytorch.org/whl/{build}" if build else ""
    remedy = f"python -m pip install --force-reinstall --no-deps 'torchvision==0.{minor}.*'{index}"
    return Diagnosis("torchvision", f"{found} does not import: {reason}", remedy)
