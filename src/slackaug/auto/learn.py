"""A search at work: its stages one after the other, what it shows, and the files of the run."""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..augment.policy import Policy
from ..augment.policy_file import MU_START
from ..engine.fit import Diverged
from ..runs.folders import POLICY, Run
from ..runs.progress import Bar, Standing
from .stages import Search
from .timing import has_race

CHECKPOINT_SECONDS = 120.0
METRICS_EVERY = 10  # steps
NO_ANSWER = {"use": None, "is_answer": False, "is_final": False}  # of a policy before its race
TRIAL = "calibration"  # the stage that may diverge, and leaves no metrics


class Arriving:
    """Numbers of a step on their way from the device: to look at them at once is to wait for it, so it idles."""

    def __init__(self, standing: Standing):
        def on_cpu(value: Tensor) -> Tensor:
            return value.to("cpu", non_blocking=True)

        phi = replace(standing.phi, pi=on_cpu(standing.phi.pi), mu=on_cpu(standing.phi.mu))
        val_loss = None if standing.val_loss is None else on_cpu(standing.val_loss)
        self.standing = standing._replace(train_loss=on_cpu(standing.train_loss), val_loss=val_loss, phi=phi)
        self.event = torch.cuda.Event() if standing.train_loss.is_cuda else None
        if self.event is not None:
            self.event.record()

    def get(self) -> Standing:
        if self.event is not None:
            self.event.synchronize()
        return self.standing


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


class Keeper:
    """Writes what a search leaves in its run: metrics, policies, checkpoints. Without a run it writes nothing."""

    def __init__(self, search: Search, run: Run | None, clock: Clock, seconds: float = 0.0):
        self.search, self.run, self.clock = search, run, clock
        self.seconds = seconds  # of work, at the last save
        self.saved_at = time.monotonic()
        self.arriving: list[Arriving] = []  # of one step

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self.saved_at > CHECKPOINT_SECONDS

    def see(self, standing: Standing) -> None:
        if standing.step % METRICS_EVERY == 0 or standing.step == standing.n_steps:
            if self.arriving and self.arriving[0].standing.step != standing.step:
                self.look()
            self.arriving.append(Arriving(standing))
            if self.arriving[-1].event is None:  # it is here
                self.look()

    def look(self) -> None:
        """Look at the numbers that were seen last, which have arrived by now."""
        arrived, self.arriving = self.arriving, []
        for seen in (one.get() for one in arrived):
            is_finite = self.check_finite(seen, [seen.train_loss, seen.val_loss, seen.phi.pi, seen.phi.mu])
            if self.run is not None and is_finite and seen.stage != TRIAL:  # of which parts would be there twice
                self.run.add_metrics(metrics(seen))

    def save(self, standing: Standing) -> None:
        search, run = self.search, self.run
        self.look()
        self.check_finite(standing, [search.theta, standing.phi.pi, standing.phi.mu])
        states = search.problem.ensemble.gather_states(search.state())
        if run is not None and states is not None:
            self.seconds, stage_ended = self.clock(), standing.step == standing.n_steps
            if standing.round and stage_ended:  # first: a checkpoint that ends the rounds says that they are there
                self.save_policy(standing.phi.to("cpu"), standing.round, f"policies/round_{standing.round:02d}.json")
            run.save_checkpoint(pack(states) | {"seconds": self.seconds})
            if stage_ended and standing.done < 1:
                for follow in run.followers:
                    follow()
        self.saved_at = time.monotonic()

    def save_policy(self, phi: Policy, n_rounds: int, *names: str) -> None:
        """Write it with how it was learned, as the result so far and under other names."""
        config = self.search.problem.config
        learned = {
            "preset": config.preset,
            "model": config.model,
            "seed": config.seed,
            "rounds": n_rounds,
            "seconds": round(self.seconds, 1),
        }
        learned |= {"ranks": config.n_ranks} if config.n_ranks > 1 else {}
        learned |= {"mu_start": config.mu_start} if config.mu_start != MU_START else {}
        phi = replace(phi, learned=learned | phi.learned)
        so_far = NO_ANSWER if has_race(config, self.search.problem.n_images) else {}
        if self.run is not None:
            for name in names:
                self.run.write(name, phi.dumps())
            self.run.write(POLICY, replace(phi, learned=phi.learned | so_far).dumps())

    def check_finite(self, standing: Standing, values: list[Tensor | None]) -> bool:
        """The losses and the policy, and of what is about to be saved the model; on any rank. Trials may diverge."""
        search, config = self.search, self.search.problem.config
        is_finite = all(value is None or torch.isfinite(value).all().item() for value in values)
        is_trial = standing.stage == TRIAL or (standing.stage == "pre-training" and config.n_composed is None)
        if is_trial or not any(search.problem.ensemble.agree(not is_finite)):
            return is_finite
        setting, lr = "pretrain.lr", config.pretrain.lr
        if standing.round:
            setting, lr = "search.model_lr", search.stage.given.model_lr
        where = f"round {standing.round}, step {standing.step}" if standing.round else f"step {standing.step}"
        is_kept = self.run is not None and self.run.checkpoints.paths()
        kept = "the last checkpoint is from before" if is_kept else "there was no checkpoint yet"
        raise Diverged(
            f"the loss or the model is no longer a number ({standing.stage}, {where}); {kept}. "
            f"Try a lower rate, from the start: --overwrite --set {setting}={lr / 4:g}"
        )


class Watch(NamedTuple):
    """Those who look on while a search works."""

    on_step: Callable[[Standing, float], None]
    say: Callable[[str], None] = lambda _: None  # what a stage that is over has found
    detail: Callable[[str], None] = lambda _: None  # the numbers behind it
    caught: Sequence[int] = ()  # signals that are to stop it
    bar: Bar | None = None  # shows the whole search; its last part is the race's


def learn(
    search: Search, run: Run | None, watch: Watch, seconds_before: float = 0.0, time_limit: float = math.inf
) -> Ending:
    """Work until the end, the time limit or the wish to stop; in each case everything is on disk then.

    In an ensemble all ranks do this in step; those without a run write nothing.
    """
    ensemble, clock = search.problem.ensemble, Clock(seconds_before)
    limit = seconds_before + time_limit
    keeper = Keeper(search, run, clock, seconds_before)
    for stage in search.stages():
        for standing in map(search.counted, stage.run()):
            keeper.see(standing)
            if not standing.is_last:
                continue
            watch.on_step(standing, clock())
            stage_ended = standing.step == standing.n_steps
            # asked once: what is acted upon is saved
            stop, too_long, is_due = map(bool, ensemble.agree(bool(watch.caught), clock() > limit, keeper.is_due))
            if stage_ended or stop or too_long or is_due:
                keeper.save(standing)
            if (stop or too_long) and standing.done < 1:
                return Ending.STOPPED if stop else Ending.TIME_LIMIT
        if (notice := stage.notice()) is not None:
            if run is not None and notice.file is not None:
                run.write(notice.file, json.dumps(notice.content, indent=1))
            for sentence in notice.sentences:
                watch.say(sentence)
            for detail in notice.details:
                watch.detail(detail)
    keeper.save_policy(search.stage.found.phi, search.problem.config.search.n_rounds)
    return Ending.FINISHED


def pack(states: list[dict[str, Any]]) -> dict[str, Any]:
    """The states of all ranks as one; that of a single process is its own."""
    return states[0] if len(states) == 1 else {"ranks": states}


def unpack(saved: dict[str, Any]) -> list[dict[str, Any]]:
    states: list[dict[str, Any]] = saved.get("ranks", [saved])
    return states


def metrics(standing: Standing) -> dict[str, Any]:
    """A line of metrics.jsonl."""
    found: dict[str, Any] = {
        "stage": standing.stage,
        "round": standing.round,
        "step": standing.step,
        "train_loss": standing.train_loss.item(),
    }
    if not standing.round:
        found["n_composed"] = standing.phi.n_composed  # of which several may be tried
    if standing.val_loss is not None:
        found["val_loss"] = standing.val_loss.item()
        found["entropy"] = standing.phi.entropy().tolist()
        found["pi"] = [[round(p, 6) for p in row] for row in standing.phi.probabilities.tolist()]
        bounds = zip(standing.phi.space, standing.phi.mu.tolist(), strict=True)
        found["mu"] = [None if transform.span is None else round(mu, 6) for transform, mu in bounds]
    return found
