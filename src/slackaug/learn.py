"""A whole search, from the data to the policy: pre-training, rounds, and the files of the run."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from . import engines, models, prepare, rng, slack, weights
from .data import Dataset, Split, splits
from .engine import Plain, alone
from .ensemble import ALONE, Ensemble
from .policy import Policy
from .recipes import RunConfig
from .runs import Run
from .spaces import get_space

CHECKPOINT_SECONDS = 120.0
METRICS_EVERY = 10  # steps


class Diverged(RuntimeError):
    """A loss is no longer a number."""


class Progress(NamedTuple):
    """Where a search stands after a step."""

    stage: str  # "pre-training", "re-training" or "policy"
    round: int  # from 1; 0 in pre-training
    step: int  # done in this stage of this round
    n_steps: int
    done: float  # share of the whole search, by steps
    train_loss: Tensor
    val_loss: Tensor | None
    phi: Policy


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


def start_policy(config: RunConfig, data: Dataset) -> Policy:
    space = get_space(config.space)
    if config.exclude:
        space = space.exclude(*config.exclude)
    flip = data.flip if config.flip is None else config.flip
    phi = Policy.uniform(space, flip=flip, mean=data.mean, std=data.std)
    return replace(phi, dataset=data.fingerprint)


class Learner:
    """The two stages of a search, and how to leave and take them up again. Test images have no part in it."""

    def __init__(
        self, config: RunConfig, data: Dataset, device: str = "cpu", ensemble: Ensemble = ALONE, engine: str = "fast"
    ):
        self.config, self.ensemble, self.engine_name = config, ensemble, engine
        train, val = data.halves(config.seed)
        if config.balanced:
            val = val.subset(splits.balanced(val.labels))
        self.train, self.val = to_device(train, device), to_device(val, device)
        self.phi = start_policy(config, data)
        self.model = models.build(
            config.model, data.n_classes, data.image_size, rng.generator(config.seed, "model", *ensemble.purpose())
        )
        self.remarks = [] if config.weights is None else [weights.load(self.model, config.weights)]
        self.model.to(device)
        self.preparation = prepare.window(data.image_size)
        streams = self.streams("pre-training")
        self.fit = engines.make_fit(
            "pretrain", self.model, self.phi, self.train, config.pretrain, streams, self.preparation
        )
        self.engine: Plain | None = None  # from the end of pre-training on, which settles theta_0
        self.state: slack.State | None = None

    def begin_search(self) -> None:
        """theta_0 is what the model has become."""
        search, streams = self.config.search, self.streams("search")
        average = self.ensemble.average if self.ensemble.n_ranks > 1 else alone
        arguments = self.model, self.phi, self.train, self.val, search.batch, streams, self.preparation, average
        self.engine = engines.make_engine(self.engine_name, search, *arguments)
        self.state = slack.start(self.phi, self.engine)

    def streams(self, stage: str) -> dict[str, Generator]:
        return rng.streams(self.config.seed, stage, *self.ensemble.purpose())

    def pretrain(self) -> Iterator[Progress]:
        n = self.fit.n_steps
        while self.fit.done < n:
            loss = self.fit.step()
            yield Progress("pre-training", 0, self.fit.done, n, self.share_done(), loss, None, self.phi)

    def search(self) -> Iterator[Progress]:
        assert self.engine is not None
        assert self.state is not None
        search = self.config.search
        for state, report in slack.search(self.state, self.engine, search):
            self.state = state
            ended = state.step == 0
            round_number = state.round + (not ended)
            step = search.n_steps if ended else state.step
            stage = "re-training" if report.val_loss is None else "policy"
            yield Progress(
                stage,
                round_number,
                step,
                search.n_steps,
                self.share_done(),
                report.train_loss,
                report.val_loss,
                state.phi,
            )

    def share_done(self) -> float:
        """By passes through the model: a search step has as many as composites."""
        search = self.config.search
        weight = search.n_composites * min(search.batch, len(self.train.labels)) / self.fit.batches.batch
        done = 0 if self.state is None else self.state.round * search.n_steps + self.state.step
        total = self.fit.n_steps + weight * search.n_rounds * search.n_steps
        return (self.fit.done + weight * done) / total

    @property
    def theta(self) -> Tensor:
        return self.fit.theta if self.engine is None else self.engine.theta

    @property
    def is_finished(self) -> bool:
        return self.state is not None and self.state.round >= self.config.search.n_rounds

    def get_state(self) -> dict[str, Any]:
        if self.engine is None or self.state is None:
            return {"stage": "pre-training", "fit": self.fit.get_state()}
        return {
            "stage": "search",
            "theta_0": self.engine.theta_0,
            "search": slack.to_tensors(self.state),
            "engine": self.engine.get_state(),
        }

    def set_state(self, saved: dict[str, Any]) -> None:
        if saved["stage"] == "pre-training":
            self.fit.set_state(saved["fit"])
            return
        self.fit.done = self.fit.n_steps
        self.model.load_state_dict(saved["theta_0"])
        self.begin_search()
        assert self.engine is not None
        self.engine.set_state(saved["engine"])
        state = slack.from_tensors(saved["search"], self.phi)
        self.state = state._replace(theta_momentum=state.theta_momentum.to(self.engine.theta.device))


def to_device(split: Split, device: str) -> Split:
    return Split(split.images.to(device), split.labels.to(device))


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
            check_finite(learner, run, seen, [seen.train_loss, seen.val_loss])
            if run is not None:
                record(run, seen)

    def save(progress: Progress) -> None:
        nonlocal saved_at
        check_finite(learner, run, progress, [learner.theta, progress.phi.pi, progress.phi.mu])
        states = ensemble.gather_states(learner.get_state())
        if run is not None and states is not None:
            if progress.round and progress.step == progress.n_steps:
                save_policy(run, learner, clock())  # first: a checkpoint that ends a search says that it is there
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
        learner.begin_search()
    yield from learner.search()


def pack(states: list[dict[str, Any]]) -> dict[str, Any]:
    """The states of all ranks as one; that of a single process is its own."""
    return states[0] if len(states) == 1 else {"ranks": states}


def unpack(saved: dict[str, Any]) -> list[dict[str, Any]]:
    states: list[dict[str, Any]] = saved.get("ranks", [saved])
    return states


def check_finite(learner: Learner, run: Run | None, progress: Progress, values: list[Tensor | None]) -> None:
    """The losses, and of what is about to be saved the model and the policy; on any rank."""
    is_finite = all(value is None or torch.isfinite(value).all().item() for value in values)
    if not any(learner.ensemble.agree(not is_finite)):
        return
    config = learner.config
    lr = {"search.model_lr": config.search.model_lr} if progress.round else {"pretrain.lr": config.pretrain.lr}
    where = f"round {progress.round}, step {progress.step}" if progress.round else f"step {progress.step}"
    is_kept = run is not None and run.checkpoints()
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
    if progress.val_loss is not None:
        metrics["val_loss"] = progress.val_loss.item()
        metrics["entropy"] = progress.phi.entropy().tolist()
        metrics["pi"] = [[round(p, 6) for p in row] for row in progress.phi.probabilities.tolist()]
        bounds = zip(progress.phi.space, progress.phi.mu.tolist(), strict=True)
        metrics["mu"] = [None if transform.span is None else round(mu, 6) for transform, mu in bounds]
    run.add_metrics(metrics)


def save_policy(run: Run, learner: Learner, seconds: float) -> None:
    """The policy of the round that just ended, as policy.json and among the rounds."""
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
    text = replace(learner.state.phi, learned=learned).dumps()
    run.write(f"policies/round_{n_done:02d}.json", text)
    run.write("policy.json", text)


class StepSeconds(NamedTuple):
    """Of one step of each kind."""

    n_pretraining: int  # steps
    pretraining: float
    retraining: float
    policy: float


def search_seconds(config: RunConfig, data: Dataset, device: str, engine_name: str = "fast") -> float:
    """The cost of a whole search, measured over a few steps of each kind on a copy of everything."""
    each, search = step_seconds(config, data, device, engine_name), config.search
    per_round = search.n_retrain * each.retraining + search.n_unrolled * each.policy
    return each.n_pretraining * each.pretraining + search.n_rounds * per_round


def step_seconds(config: RunConfig, data: Dataset, device: str, engine_name: str = "fast") -> StepSeconds:
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
    """Seconds of one step after a warm-up, which is enough where a step is slow."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        if sum(times) > 5:
            break
    return statistics.median(times[1:] or times)
