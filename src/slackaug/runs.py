"""The folder of a run: nothing in it is ever half written, and what was saved is never lost.

Files: config.yaml, env.json, search.log, metrics.jsonl, policy.json, policies/, checkpoints/. A checkpoint carries its
own checksum, and the one before it is kept.
"""

import fcntl
import hashlib
import io
import json
import os
import platform
import shutil
from pathlib import Path
from typing import Any

import torch

from . import __version__

DIGEST = 32  # bytes of the checksum at the head of a checkpoint
KEPT = 2  # checkpoints
OWN = ("config.yaml", "env.json", "search.log", "metrics.jsonl", "policy.json", "policies", "checkpoints", "eval")


class RunError(ValueError):
    """A run folder cannot be used as asked."""


def write_atomically(path: Path, content: bytes) -> None:
    """Either the old content or the new, whatever happens in between."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name, too, survives a power cut
    finally:
        os.close(folder)


class Run:
    """A run folder, held by this process alone."""

    def __init__(self, path: Path):
        self.path = path
        self.lock = (path / ".lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with the process, even a killed one
        except BlockingIOError:
            self.lock.close()
            raise RunError(
                f"{path}: another process is working on this run; wait for it, or choose another -o"
            ) from None

    @classmethod
    def create(cls, path: Path, *, overwrite: bool = False) -> "Run":
        """A new run in a folder that is empty, or that held a run and may be replaced."""
        if path.exists() and not path.is_dir():
            raise RunError(f"{path}: is a file, expected a folder for the run")
        if path.is_dir() and any(entry.name != ".lock" for entry in path.iterdir()):
            if not overwrite:
                raise RunError(
                    f"{path}: is not empty; go on with --resume, start anew with --overwrite, or choose another -o"
                )
            if not (path / "config.yaml").is_file():
                raise RunError(
                    f"{path}: is not empty and holds no run, so --overwrite does not touch it; choose another -o"
                )
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path)
        for name in OWN:
            if (path / name).is_dir():
                shutil.rmtree(path / name)
            else:
                (path / name).unlink(missing_ok=True)
        for folder in ("policies", "checkpoints"):
            (path / folder).mkdir()
        return run

    @classmethod
    def open(cls, path: Path) -> "Run":
        if not (path / "config.yaml").is_file():
            raise RunError(f"{path}: holds no run to resume (no config.yaml)")
        return cls(path)

    def close(self) -> None:
        self.lock.close()

    def write(self, name: str, content: str) -> None:
        write_atomically(self.path / name, content.encode())

    # --- metrics ------------------------------------------------------------------------------------------------------

    def add_metrics(self, metrics: dict[str, Any]) -> None:
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics) + "\n")

    def metrics_size(self) -> int:
        path = self.path / "metrics.jsonl"
        return path.stat().st_size if path.exists() else 0

    def cut_metrics(self, size: int) -> None:
        """Forget what was written after a checkpoint: it will be written again."""
        if self.metrics_size() > size:
            os.truncate(self.path / "metrics.jsonl", size)

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def checkpoints(self) -> list[Path]:
        """From the oldest to the newest."""
        return sorted((self.path / "checkpoints").glob("[0-9]*.pt"))

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        existing = self.checkpoints()
        number = int(existing[-1].stem) + 1 if existing else 0
        buffer = io.BytesIO()
        torch.save(state | {"metrics_size": self.metrics_size()}, buffer)
        content = buffer.getvalue()
        write_atomically(self.path / "checkpoints" / f"{number:06d}.pt", hashlib.sha256(content).digest() + content)
        for old in existing[: 1 - KEPT]:
            old.unlink()

    def load_checkpoint(self) -> tuple[dict[str, Any] | None, list[str]]:
        """The newest checkpoint that is whole, and a remark on each that is not."""
        remarks: list[str] = []
        for path in reversed(self.checkpoints()):
            content = path.read_bytes()
            if hashlib.sha256(content[DIGEST:]).digest() == content[:DIGEST]:
                state: dict[str, Any] = torch.load(io.BytesIO(content[DIGEST:]), weights_only=True)
                return state, remarks
            remarks.append(f"{path}: damaged, going back to the checkpoint before it")
        return None, remarks


def environment() -> dict[str, Any]:
    """What a result may depend on beside the configuration."""
    return {
        "slackaug": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
    }
