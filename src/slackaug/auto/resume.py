"""A run that was left is taken up again, from its newest checkpoint."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..augment.policy import Policy
from ..config import layers
from ..config.layers import is_foreign
from ..config.run_config import RunConfig
from ..judge import answer
from ..messages import search as messages
from ..runs import folders
from ..runs.ensemble import n_processes
from ..runs.folders import POLICY, START_ANEW, Run, RunError
from ..runs.provenance import what_changed
from . import learn
from .conduct import Opened, SearchResult, Session, holding, read_data, writing
from .problem import Problem
from .stages import Search
from .timing import share_of_learning

TELLING = 0.1  # share of a search after which its seconds say how long the rest takes; before, much is compilation


@contextmanager
def resumed(
    session: Session, chosen: dict[str, Any], reading: dict[str, Any], assignments: Sequence[str]
) -> Iterator[Opened | SearchResult]:
    """A run from its newest checkpoint, or from its start if there is none; the result of one that is finished."""
    weights = chosen.get("weights")
    settings = {name: value for name, value in chosen.items() if name != "weights"}
    stored = session.ensemble.lead(lambda: read_config(session.folder))
    with session.ensemble.together():
        layers.refuse_others(stored, settings, reading, assignments)
        check_resumable(session, stored, chosen.get("model"))
        if weights is not None:  # the file lies there now; no other one may take its place
            if stored.weights is None:
                raise RunError("the network of this run did not start from a file; do not give --weights with --resume")
            stored = layers.known_weights(replace(stored, weights=weights))
    if session.ensemble.lead(lambda: folders.is_finished(session.folder)):
        # Neither its data nor its network are needed, nor a checkpoint.
        session.say(messages.finished(str(session.folder), str(session.folder / POLICY)))
        policy = session.ensemble.lead(lambda: Policy.load(session.folder / POLICY))
        found = session.ensemble.lead(lambda: answer.load(session.folder))
        if found is not None:
            session.say(found.sentence)
        yield SearchResult(policy, session.folder, found)
        return
    with holding(session, stored, lambda: Run(session.folder)) as run:
        with session.ensemble.together(), writing(session, stored):
            dataset = read_data(session, stored.data)
            layers.check_data(dataset, session.data, stored.data)
            has_state = session.ensemble.lead(lambda: run is not None and bool(run.checkpoints.paths()))
            start = replace(stored, weights=None) if has_state else layers.known_weights(stored)
            problem = Problem(start, dataset, session.device, session.ensemble, session.engine)
        search, seconds = restore(session, run, problem)
        with session.ensemble.together(), writing(session, stored):
            if run is not None and search.share_done() < 1:
                withdraw(run)
        yield Opened(search, run, dataset, seconds)


def withdraw(run: Run) -> None:
    """An answer from before is none any more where learning continues."""
    if not (run.path / answer.FILE).is_file():
        return
    if folders.has_learned(run.path):
        policy = folders.learned(run.path)
        run.write(POLICY, replace(policy, learned=policy.learned | learn.NO_ANSWER).dumps())
    else:
        (run.path / POLICY).unlink(missing_ok=True)
    (run.path / answer.FILE).unlink()


def check_resumable(session: Session, stored: RunConfig, model: str | None) -> None:
    if is_foreign(stored.model) and model is None:  # a file alone may not name code to run
        raise RunError(f"the model of this run is {stored.model}; give --model {stored.model} with --resume")
    if stored.n_ranks != session.ensemble.n_ranks:
        had, has = n_processes(stored.n_ranks), session.ensemble.n_ranks
        raise RunError(f"{session.folder}: this run has {had}, not {has}. {session.to_continue(stored)}")


def restore(session: Session, run: Run | None, problem: Problem) -> tuple[Search, float]:
    """Return each rank's search at the newest checkpoint, and the seconds of work that are in it."""
    saved: dict[str, Any] | None = None
    with session.ensemble.together(), writing(session, problem.config):
        if run is not None:
            saved, remarks = run.load_checkpoint()
            for remark in remarks:
                session.say(remark)
            if saved is not None and not is_of_a_search(saved):
                raise not_ours(session.folder)
            run.cut_metrics(0 if saved is None else saved["metrics_size"])
    states = None if run is None else [None] * problem.config.n_ranks if saved is None else learn.unpack(saved)
    own = session.ensemble.scatter_states(states)
    if own is None:
        session.say(messages.NO_CHECKPOINT)
        with session.ensemble.together():
            return Search(problem), 0.0
    try:
        search = Search(problem, own)
        share = search.share_done()
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):  # not what this version writes
        raise not_ours(session.folder) from None
    except RuntimeError as error:
        if "state_dict" not in str(error):  # of the device, say
            raise
        raise not_ours(session.folder) from None
    seconds = 0.0 if saved is None else float(saved["seconds"])
    if share < 1:
        done = share * share_of_learning(search, problem.n_images, session.n_jobs)  # as the bar has it, with the race
        session.say(messages.resuming(done, seconds * (1 - done) / done if share > TELLING else None))
        if run is not None and (changed := what_changed(session.folder)) is not None:
            session.say(changed)
    return search, seconds


def not_ours(folder: Path) -> RunError:
    """A checkpoint is whole, and still not what this version writes."""
    return RunError(f"{folder}: its checkpoint is not one of this slackaug's searches; {START_ANEW}")


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
