"""The folder of a run: nothing in it is ever half written, and what was saved is never lost.

Files: config.yaml, env.json, search.log, metrics.jsonl, policy.json, policies/, checkpoints/. The newest
checkpoint carries its own checksums, and the one before it is kept.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count, takewhile
from pathlib import Path
from typing import IO, Any

from ..augment.policy import Policy
from ..augment.stability import agreement_of_rounds
from ..data.held import FILES as IMAGES
from ..files import leads_elsewhere, read_note, temporary_name, write_atomically
from ..messages import search as messages
from ..messages.terminal import how
from ..schema import PolicyError
from .checkpoints import PART_FILES, SMALL_FILES, Checkpoints

POLICY = "policy.json"
ROUNDS = "policies"  # the policy of each finished round
FINISHED = "finished.json"  # is written last
STUDY = "study.yaml"  # of a study: all that decides it
SEARCHES = "search.yaml"  # of a study: the settings that all of its searches share
OWN = (  # beside config.yaml
    "env.json", "search.log", "metrics.jsonl", POLICY, FINISHED, "policies/round_*.json",
    "composing.json", "calibration.json", "answer.json", "race/trials/*.json", "report.html",
    "eval/results.json", "eval/results.csv", "tensorboard/events.*",
    "wandb/run_id", "mlflow/run_id", *IMAGES, *(f"checkpoints/{pattern}" for pattern in (SMALL_FILES, *PART_FILES)),
)  # fmt: skip
LOGS = ("search.log", "metrics.jsonl")
START_ANEW = "start anew with --overwrite, or choose another -o"


class RunError(ValueError):
    """A run folder cannot be used as asked."""


def lock(path: Path) -> IO[str]:
    """Hold a folder; the lock goes with the process, even a killed one."""
    refuse_links(path, ".lock")
    file = (path / ".lock").open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise RunError(f"{path}: another process is working on this run; wait for it, or choose another -o") from None
    return file


def refuse_links(path: Path, *names: str) -> None:
    """What is written to without being replaced must be a file: a link would change what it points to."""
    for name in names:
        if leads_elsewhere(path / name):
            raise RunError(f"{path / name}: is a link, a pipe or a folder, expected a file of the run; remove it")


def is_held(path: Path) -> bool:
    """Whether a process, perhaps this one, is working on a folder."""
    if (path / ".lock").is_file() and not leads_elsewhere(path / ".lock"):
        try:
            with suppress(OSError):  # a folder that may only be read
                lock(path).close()
        except RunError:
            return True
    return False


@contextmanager
def held(path: Path) -> Iterator[None]:
    """A folder for this process alone, made where there is none."""
    path.mkdir(parents=True, exist_ok=True)
    with lock(path):
        yield


@contextmanager
def writing(folder: Path, advice: Callable[[], str]) -> Iterator[None]:
    """What goes wrong with a folder becomes one message, which says how to go on."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(
            f"{error.filename or folder}: cannot be written ({error.strerror or error}). What was saved before is "
            f"intact. {how('Once this is fixed', advice())}"
        ) from error


class Run:
    """A run folder, held by this process alone."""

    def __init__(self, path: Path):
        self.path, self.metrics = path, path / "metrics.jsonl"
        self.checkpoints = Checkpoints(path / "checkpoints")
        self.listeners: list[Callable[[dict[str, Any]], None]] = []  # get the metrics, too
        self.followers: list[Callable[[], None]] = []  # are called when a round has ended and more are to come
        refuse_links(path, *LOGS)
        self.lock = lock(path)

    @classmethod
    def create(cls, path: Path, config: str, *, overwrite: bool = False) -> "Run":
        """A new run in a folder that is empty, or that held a run and may be replaced; files not ours stay."""
        refuse(path, overwrite=overwrite)
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path)
        try:
            run.write("config.yaml", config)  # first: from here on the folder holds a run, whatever happens
            for own in map(Path, OWN):
                for pattern in (own, own.with_name(temporary_name(own.name))):
                    for old in path.glob(str(pattern)):
                        if str(own) not in IMAGES or old.name not in config:  # which names the images of this run
                            old.unlink()
        except OSError:
            run.close()
            raise
        return run

    def close(self) -> None:
        self.lock.close()

    def write(self, name: str, content: str) -> None:
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, content.encode())

    # --- metrics ------------------------------------------------------------------------------------------------------

    def add_metrics(self, metrics: dict[str, Any]) -> None:
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics) + "\n")
        for listen in self.listeners:
            listen(metrics)

    def cut_metrics(self, size: int) -> None:
        """Forget what was written after a checkpoint: it will be written again."""
        if self.metrics.exists() and self.metrics.stat().st_size > size:
            os.truncate(self.metrics, size)

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        size = 0
        if self.metrics.exists():
            with self.metrics.open("rb") as file:
                os.fsync(file.fileno())  # a checkpoint refers to what is on disk for certain
                size = os.fstat(file.fileno()).st_size
        self.checkpoints.save(state | {"metrics_size": size, "config": config_digest(self.path)})

    def load_checkpoint(self) -> tuple[dict[str, Any] | None, list[str]]:
        """The newest checkpoint that is whole, and a remark on each that is not; None where there is no checkpoint."""
        state, wrong = self.checkpoints.load()
        if state is None and wrong:
            raise RuntimeError(f"{'; '.join(dict.fromkeys(map(str, wrong)))}; no checkpoint can be read; {START_ANEW}")
        if state is not None:
            check_config(self.path, state["config"])
        return state, [messages.older_checkpoint(str(error)) for error in wrong]

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Say that all of it is there, by this configuration."""
        self.write(FINISHED, json.dumps({"config": config_digest(self.path)}, indent=1))


def config_digest(path: Path) -> str:
    return hashlib.sha256((path / "config.yaml").read_bytes()).hexdigest()


def check_config(path: Path, digest: object) -> None:
    """A run continues and ends with the configuration that it began with."""
    if digest != config_digest(path):
        raise RunError(f"{path / 'config.yaml'}: was changed after the run began; {START_ANEW}")


def is_finished(path: Path) -> bool:
    """Whether the run in a folder says that all of it is there."""
    if not (path / FINISHED).is_file() or not (path / POLICY).is_file():
        return False
    try:
        digest = json.loads((path / FINISHED).read_bytes())["config"]
    except (ValueError, LookupError, TypeError, RecursionError):  # not a file of ours
        return False
    check_config(path, digest)
    return True


def round_files(run: Path) -> list[Path]:
    """Of the policies of the rounds, from the first on, as far as they are all there."""
    return list(takewhile(Path.is_file, (run / ROUNDS / f"round_{number:02d}.json" for number in count(1))))


def read_policies(run: Path) -> list[Policy]:
    """Read the policies of the rounds from the first on, as far as they are all there."""
    policies = [Policy.load(path) for path in round_files(run)]
    if len({tuple(policy.space.names) for policy in policies}) > 1:
        raise PolicyError(f"{run / 'policies'}: the rounds are policies over different spaces")
    if len({policy.pi.shape for policy in policies}) > 1:
        raise PolicyError(f"{run / 'policies'}: the rounds are policies of different numbers of positions")
    return policies


def has_learned(run: Path) -> bool:
    """Whether there is a policy of a round; a race that had no time to wait for one leaves where learning starts."""
    return (run / POLICY).is_file() and not is_start(read_note(run / POLICY).get("learned"))


def is_start(learned: object) -> bool:
    """Whether a policy that says this of how it was learned is the one that learning starts from, or a baseline."""
    return isinstance(learned, dict) and learned.get("rounds") == 0


def learned(run: Path) -> Policy:
    """What the rounds have come to, kept or not; the result itself where no rounds are there to read."""
    try:
        rounds = read_policies(run)
    except PolicyError:
        rounds = []
    return rounds[-1] if rounds else Policy.load(run / POLICY)


def agreement(run: Path) -> float | None:
    """Compare what its rounds changed; None if it is unknown, as it only informs."""
    try:
        return agreement_of_rounds(read_policies(run))
    except PolicyError:
        return None


def is_before_it(entry: Path, config: str) -> bool:
    """Whether it is what a process leaves that dies before its run has begun, or the run's own images."""
    return entry.name in (".lock", temporary_name(config)) or any(map(entry.match, IMAGES))


def refuse(path: Path, *, overwrite: bool, what: str = "run", config: str = "config.yaml") -> None:
    """Where a new run, or a study, whose configuration is a file of another name, may not be written to."""
    if path.exists() and not path.is_dir():
        raise RunError(f"{path}: is a file, expected a folder for the {what}")
    if not path.is_dir() or all(is_before_it(entry, config) for entry in path.iterdir()):
        return
    if not overwrite:
        raise RunError(f"{path}: is not empty; go on with --resume, start anew with --overwrite, or choose another -o")
    if not (path / config).is_file():
        raise RunError(f"{path}: is not empty and holds no {what}, so --overwrite does not touch it; choose another -o")
