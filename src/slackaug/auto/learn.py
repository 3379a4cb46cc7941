"""A whole search, from the data to the policy: its stages one after the other, and the files of the run."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..config.run import RunConfig
from ..data import Dataset
from ..methods import slack
from ..runs.folders import POLICY, Run
from . import composing, steps
from .stages import Learner, Progress
from .steps import Steps

CHECKPOINT_SECONDS = 120.0
METRICS_EVERY = 10  # steps
TRIALS = ("calibration", "confirmation")  # stages that may diverge, and leave no metrics
AT_A_TIME, MOST_AT_A_TIME = 0.1, 20  # seconds and steps that are timed together


class Diverged(RuntimeError):
    """A loss is no longer a number."""


class Arriving:
    """Numbers of a step on their way from the device: to look at them at once is to wait for it, so that it idles."""

    def __init__(self, progress: Progress):
        def on_cpu(value: Tensor) -> Tensor:
            return value.to("cpu", non_blocking=True)

        phi = replace(progress.phi, pi=on_cpu(progress.phi.pi), mu=on_cpu(progress.phi.mu))
        val_loss = None if progress.val_loss is None else on_cpu(progress.val_loss)
        self.progress = progress._replace(train_loss=on_cpu(progress.train_loss), val_loss=val_loss, phi=phi)
        self.event = torch.cuda.Event() if progress.train_loss.is_cuda else None
        if self.event is not None:
            self.event.record()

    @property
    def is_here(self) -> bool:
        return self.event is None

    def get(self) -> Progress:
        if self.event is not None:
            self.event.synchronize()
        return self.progress


class Ending(Enum):
    FINISHED = "finished"
    TIME_LIMIT = "time limit"
    STOPPED = "stopped"


class Clock:
    """Seconds of work, over all processes that worked on a run."""

    def __init__(self, before: float = 0.0):
        self.start = time.monotonic() - before

    def __call__(self) -> float:
        return time.monotonic() - self.start


def execute(
    learner: Learner,
    run: Run | None,
    on_step: Callable[[Progress, float], None],
    should_stop: Callable[[], bool],
    *,
    seconds_before: float = 0.0,
    time_limit: float = math.inf,
) -> Ending:
    """Work until the end, the time limit or the wish to stop; in each case everything is on disk then.

    In an ensemble all ranks do this in step; those without a run write nothing.
    """
    ensemble, clock = learner.ensemble, Clock(seconds_before)
    saved_at = time.monotonic()
    arriving: Arriving | None = None

    def look() -> None:
        nonlocal arriving
        if arriving is not None:
            seen, arriving = arriving.get(), None
            is_finite = check_finite(learner, run, seen, [seen.train_loss, seen.val_loss, seen.phi.pi, seen.phi.mu])
            if run is not None and is_finite and seen.stage not in TRIALS:  # of which parts would be there twice
                record(run, seen)

    def save(progress: Progress) -> None:
        nonlocal saved_at
        check_finite(learner, run, progress, [learner.theta, progress.phi.pi, progress.phi.mu])
        states = ensemble.gather_states(learner.get_state())
        if run is not None and states is not None:
            if progress.round and progress.step == progress.n_steps:
                save_policy(run, learner, clock())  # first: a checkpoint that ends a search says that it is there
            elif learner.is_finished:
                save_result(run, learner, clock())
            run.save_checkpoint(pack(states) | {"seconds": clock()})
            if progress.step == progress.n_steps and not learner.is_finished:
                for follow in run.followers:
                    follow()
        saved_at = time.monotonic()

    for progress in work(learner):
        if progress.step % METRICS_EVERY == 0 or progress.step == progress.n_steps:
            look()
            arriving = Arriving(progress)
            if arriving.is_here:
                look()
        on_step(progress, clock())
        stage_ended = progress.step == progress.n_steps
        is_due = time.monotonic() - saved_at > CHECKPOINT_SECONDS
        # asked once: what is acted upon is saved
        stop, too_long, is_due = map(bool, ensemble.agree(should_stop(), clock() > time_limit, is_due))
        if stage_ended or stop or too_long or is_due:
            look()
            save(progress)
        if learner.is_finished:
            break
        if stop or too_long:
            return Ending.STOPPED if stop else Ending.TIME_LIMIT
    return Ending.FINISHED


def work(learner: Learner) -> Iterator[Progress]:
    if learner.state is None:
        yield from learner.pretrain()
        composed = learner.composing
        if composed is not None and not math.isfinite(composed.losses[composed.n_positions]):
            raise Diverged(
                "the model is no longer a number after pre-training, however many transformations are composed; try a "
                f"lower rate, from the start: --overwrite --set pretrain.lr={learner.config.pretrain.lr / 4:g}"
            )
        if learner.needs_calibration:
            yield from learner.calibrate()
        learner.begin_search()
    if not learner.is_searched:
        yield from learner.search()
    if learner.confirmation is not None:
        yield from learner.confirm()


def pack(states: list[dict[str, Any]]) -> dict[str, Any]:
    """The states of all ranks as one; that of a single process is its own."""
    return states[0] if len(states) == 1 else {"ranks": states}


def unpack(saved: dict[str, Any]) -> list[dict[str, Any]]:
    states: list[dict[str, Any]] = saved.get("ranks", [saved])
    return states


def check_finite(learner: Learner, run: Run | None, progress: Progress, values: list[Tensor | None]) -> bool:
    """The losses and the policy, and of what is about to be saved the model; on any rank. Trials may diverge."""
    is_finite = all(value is None or torch.isfinite(value).all().item() for value in values)
    is_trial = progress.stage in TRIALS or (progress.stage == "pre-training" and learner.config.n_composed is None)
    if is_trial or not any(learner.ensemble.agree(not is_finite)):
        return is_finite
    config = learner.config
    lr = {"search.model_lr": learner.search_config.model_lr} if progress.round else {"pretrain.lr": config.pretrain.lr}
    where = f"round {progress.round}, step {progress.step}" if progress.round else f"step {progress.step}"
    is_kept = run is not None and run.checkpoints.paths()
    kept = "the last checkpoint is from before" if is_kept else "there was no checkpoint yet"
    advice = " ".join(f"--set {setting}={value / 4:g}" for setting, value in lr.items())
    raise Diverged(
        f"the loss or the model is no longer a number ({progress.stage}, {where}); {kept}. "
        f"Try a lower rate, from the start: --overwrite {advice}"
    )


def record(run: Run, progress: Progress) -> None:
    """A line of metrics.jsonl."""
    metrics: dict[str, Any] = {
        "stage": progress.stage,
        "round": progress.round,
        "step": progress.step,
        "train_loss": progress.train_loss.item(),
    }
    if not progress.round:
        metrics["n_composed"] = composing.number_of(progress.phi)  # of which several may be tried
    if progress.val_loss is not None:
        metrics["val_loss"] = progress.val_loss.item()
        metrics["entropy"] = progress.phi.entropy().tolist()
        metrics["pi"] = [[round(p, 6) for p in row] for row in progress.phi.probabilities.tolist()]
        bounds = zip(progress.phi.space, progress.phi.mu.tolist(), strict=True)
        metrics["mu"] = [None if transform.span is None else round(mu, 6) for transform, mu in bounds]
    run.add_metrics(metrics)


def save_policy(run: Run, learner: Learner, seconds: float) -> None:
    """The policy of the round that just ended, among the rounds and as policy.json."""
    assert learner.state is not None
    n_done = learner.state.round
    run.write(f"policies/round_{n_done:02d}.json", replace(learner.learned, learned=about(learner, seconds)).dumps())
    save_result(run, learner, seconds)


def save_result(run: Run, learner: Learner, seconds: float) -> None:
    """policy.json: after the confirmation, what is left of the last round's."""
    run.write(POLICY, replace(learner.result, learned=about(learner, seconds)).dumps())


def about(learner: Learner, seconds: float) -> dict[str, Any]:
    """How a policy was learned."""
    assert learner.state is not None
    config, n_done = learner.config, learner.state.round
    learned = {
        "preset": config.preset,
        "model": config.model,
        "seed": config.seed,
        "rounds": n_done,
        "seconds": round(seconds, 1),
    }
    if config.n_ranks > 1:
        learned["ranks"] = config.n_ranks
    if learner.confirmation is not None and learner.is_finished:
        learned["kept"] = learner.confirmation.strength
    return learned


class StepSeconds(NamedTuple):
    """Of one step of each kind."""

    n_pretraining: int  # steps
    pretraining: float
    retraining: float
    policy: float


def search_seconds(
    config: RunConfig, data: Dataset, device: str, engine_name: str = "compiled", n_pretrainings: int = 1
) -> float:
    """The cost of a whole search, measured over a few steps of each kind on a copy of everything."""
    return whole_seconds(step_seconds(config, data, device, engine_name), config, n_pretrainings)


def whole_seconds(each: StepSeconds, config: RunConfig, n_pretrainings: int = 1) -> float:
    seconds = Steps(each.pretraining, each.retraining, each.policy)
    return steps.usual(config, each.n_pretraining, n_pretrainings).at(seconds)


def step_seconds(config: RunConfig, data: Dataset, device: str, engine_name: str = "compiled") -> StepSeconds:
    learner = Learner(config, data, device, engine=engine_name)
    fit_seconds = timed(lambda: learner.fit.step())
    learner.begin_search()
    assert learner.engine is not None
    assert learner.state is not None
    engine, state, search = learner.engine, learner.state, config.search
    retrain = timed(lambda: engine.execute(slack.take_step, state, search))
    unrolled = timed(lambda: engine.execute(slack.take_step, state._replace(step=search.n_retrain), search))
    return StepSeconds(learner.fit.n_steps, fit_seconds, retrain, unrolled)


def timed(step: Callable[[], object]) -> float:
    """Seconds of one step after a warm-up: a few steps where they are slow, some hundred where they are not.

    On a GPU several at a time, as steps follow one another there: to wait for each had made a seventh of a short one.
    """
    times: list[float] = []
    spent, n = 0.0, 1
    while len(times) < 4 or (spent < 1 and len(times) < 200):
        start = time.perf_counter()
        try:
            for _ in range(n):
                step()
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise ValueError(
                "with a batch of one image, this network's batch-norm has a single value to normalise; give batches of "
                "at least 2: pretrain.batch, search.batch and search.train_batch, or evaluate.batch"
            ) from None
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        times.append(seconds / n)
        spent += seconds
        if spent > 5:
            break
        if torch.cuda.is_available():
            n = min(max(round(AT_A_TIME / times[-1]), 1), MOST_AT_A_TIME)
    return statistics.median(times[len(times) // 2 :])
