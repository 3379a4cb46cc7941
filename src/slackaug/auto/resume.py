"""A run that was left is taken up again, from its newest checkpoint."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..augment.policy import Policy
from ..config import layers
from ..config.layers import is_foreign
from ..config.run_config import RunConfig
from ..messages import duration
from ..runs import folders
from ..runs.ensemble import n_processes
from ..runs.folders import POLICY, START_ANEW, Run, RunError
from ..runs.provenance import what_changed
from . import learn, steps
from .conduct import Opened, SearchResult, Session, holding, read_data, writing
from .stages import Problem, Search

TELLING = 0.1  # share of a search after which its seconds tell of the rest; before, much is compiling and calibration


@contextmanager
def resumed(session: Session, model: str | None, weights: str | None) -> Iterator[Opened | SearchResult]:
    """A run from its newest checkpoint, or from its start if there is none; the result of one that is finished."""
    stored = session.ensemble.lead(lambda: read_config(session.folder))
    with session.ensemble.together():
        check_resumable(session, stored, model)
        if weights is not None:
            stored = found_elsewhere(stored, weights)
    if session.ensemble.lead(lambda: folders.is_finished(session.folder)):
        # Neither its data nor its network are needed, nor a checkpoint.
        session.say(f"{session.folder}: this search is finished; its policy is {session.folder / POLICY}")
        policy = session.ensemble.lead(lambda: Policy.load(session.folder / POLICY))
        yield SearchResult(policy, session.folder)
        return
    with holding(session, stored, lambda: Run(session.folder)) as run:
        with session.ensemble.together(), writing(session, stored):
            dataset = read_data(session, stored.data)
            layers.check_data(dataset, session.data, stored.data)
            has_state = session.ensemble.lead(lambda: run is not None and bool(run.checkpoints.paths()))
            start = replace(stored, weights=None) if has_state else layers.known_weights(stored)
            search = Search(Problem(start, dataset, session.device, session.ensemble, session.engine))
        seconds = restore(session, run, search)
        if run is not None and search.is_finished and not (session.folder / POLICY).is_file():  # somebody removed it
            learn.save_result(run, search, seconds)
        yield Opened(search, run, dataset, seconds)


def check_resumable(session: Session, stored: RunConfig, model: str | None) -> None:
    if model != (stored.model if is_foreign(stored.model) else None):  # a file alone may not name code to run
        expected = f"give --model {stored.model}" if is_foreign(stored.model) else "do not give --model"
        raise RunError(f"the model of this run is {stored.model}; {expected} with --resume")
    if stored.n_ranks != session.ensemble.n_ranks:
        raise RunError(
            f"{session.folder}: this run has {n_processes(stored.n_ranks)}, not "
            f"{session.ensemble.n_ranks}. To go on: {session.resume_command(stored)}"
        )


def found_elsewhere(stored: RunConfig, weights: str) -> RunConfig:
    """With the file that the network started from where it lies now; no other one may take its place."""
    if stored.weights is None:
        raise RunError("the network of this run did not start from a file; do not give --weights with --resume")
    return layers.known_weights(replace(stored, weights=weights))


def restore(session: Session, run: Run | None, search: Search) -> float:
    """Give every rank its state of the newest checkpoint; the seconds of work that are in it."""
    saved: dict[str, Any] | None = None
    with session.ensemble.together(), writing(session, search.problem.config):
        if run is not None:
            saved, remarks = run.load_checkpoint()
            for remark in remarks:
                session.say(remark)
            if saved is not None and not is_of_a_search(saved):
                raise NotOurs(session.folder)
            run.cut_metrics(0 if saved is None else saved["metrics_size"])
    states = None if run is None else [None] * search.problem.config.n_ranks if saved is None else learn.unpack(saved)
    own = session.ensemble.scatter_states(states)
    if own is None:
        session.say("no checkpoint yet: starting again with the stored configuration")
        return 0.0
    try:
        search.set_state(own)
        share, is_finished = steps.share_done(search), search.is_finished
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
    ):  # whole, but not what this version writes
        raise NotOurs(session.folder) from None
    except RuntimeError as error:
        if "state_dict" not in str(error):  # of the device, say
            raise
        raise NotOurs(session.folder) from None
    seconds = 0.0 if saved is None else float(saved["seconds"])
    if not is_finished:
        left = f"; about {duration(seconds * (1 - share) / share)} left" if share > TELLING else ""
        session.say(f"going on after {share:.0%} of the search{left}")
        changed = None if run is None else what_changed(session.folder)
        if changed is not None:
            session.say(changed)
    return seconds


class NotOurs(RunError):
    """A checkpoint is whole, and still not what this version writes."""

    def __init__(self, folder: Path):
        super().__init__(f"{folder}: its checkpoint is not one of this slackaug's searches; {START_ANEW}")


def is_of_a_search(saved: dict[str, Any]) -> bool:
    """Whether it says how much of the metrics it has seen, and how long the work took."""
    match saved:
        case {"metrics_size": int(size), "seconds": int() | float() as seconds}:
            return size >= 0 and 0 <= seconds < math.inf
    return False


def read_config(folder: Path) -> RunConfig:
    if not (folder / "config.yaml").is_file():
        raise RunError(f"{folder}: holds no run to resume (no config.yaml)")
    return layers.read(folder / "config.yaml")
