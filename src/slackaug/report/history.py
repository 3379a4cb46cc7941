"""What the files of a run say about its course, also of a run that is still going on.

Axes: K positions, N transformations.
"""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from .. import schema
from ..augment.policy import Policy
from ..augment.policy_file import MAX_COMPOSED
from ..augment.transforms import get_space
from ..config import parse
from ..config.run_config import BLANK, N_COMPOSED, RunConfig
from ..files import read_note
from ..runs import folders
from ..runs.folders import RunError
from ..schema import PolicyError
from . import race
from .race import Raced

MAX_STEPS = 2000  # that are held, beside the ends of rounds; a curve has a tenth of that
MAX_ROUND = 1_000_000
MAX_STEP = 10**12  # of the pre-training
LONGEST_REMARK = 1000  # characters
EXPECTED = "expected a folder that `slackaug search` wrote"


class Phi(NamedTuple):
    """What a step in which phi moves says of it."""

    val_loss: float
    entropy: list[float]  # (K,) nats
    pi: list[list[float]]  # (K, N) probabilities


class Step(NamedTuple):
    """A line of metrics.jsonl."""

    stage: str  # "pre-training", "re-training" or "policy"
    round: int  # from 1; 0 in pre-training
    step: int  # of the pre-training or of the round
    train_loss: float
    n_composed: int | None = None  # in pre-training only, of which there is one for each number that was tried
    phi: Phi | None = None  # in the stage "policy" only


class History(NamedTuple):
    """The course of a search."""

    run: Path
    config: RunConfig
    start: Policy  # the uniform policy that it began with
    steps: list[Step]  # as recorded, every few steps
    policies: list[Policy]  # at the end of each finished round
    policy: Policy | None  # policy.json: of the last finished round, and after a race what it says to use
    rate: float | None  # of re-training, where it was found by trial
    remark: str  # on what pre-training had learned; empty where there is none
    race: Raced | None  # None before there is an answer
    problems: list[str]  # with policy.json and answer.json, in words
    is_stand_in: bool  # whether `policy` is the last round's, for policy.json is broken

    @property
    def names(self) -> list[str]:
        return self.start.space.names

    @property
    def has_learned(self) -> bool:
        """Whether `policy` comes from rounds, perhaps by way of a race."""
        return self.policy is not None and not folders.is_start(self.policy.learned)

    @property
    def n_rounds(self) -> int:
        """That it will have in the end."""
        return self.config.search.n_rounds

    @property
    def is_finished(self) -> bool:
        is_raced = self.race is not None and self.race.is_final
        return len(self.policies) >= self.n_rounds and (is_raced or not self.config.race.candidates)

    @property
    def anchors(self) -> list[Policy]:
        """The policy at the start of each round, up to that of the round after the last finished one."""
        return [self.start, *self.policies][: self.n_rounds]

    @property
    def kl(self) -> list[float]:
        """Of each finished round's policy to its anchor, in nats over all positions."""
        return [after.kl(before).item() for before, after in pairwise([self.start, *self.policies])]

    @property
    def policy_steps(self) -> list[tuple[Step, Phi]]:
        """Those in which phi moved."""
        return [(step, step.phi) for step in self.steps if step.phi is not None]

    def moved(self, step: Step) -> float:
        """Rounds done by then, counting only the steps in which phi moves."""
        search = self.config.search
        return step.round - 1 + max(0, step.step - search.n_retrain) / search.n_unrolled

    def elapsed(self, step: Step) -> float:
        """Rounds done by then, counting all steps; the pre-training goes from -1 to 0."""
        if step.round:
            return step.round - 1 + step.step / self.config.search.n_steps
        last = max(other.step for other in self.steps if not other.round)
        return step.step / last - 1


def read(run: Path | str) -> History:
    """The history in a run's folder. What is not there yet, or was cut off, is left out."""
    run = Path(run)
    config, policies = read_config(run), folders.read_policies(run)
    composed = read_note(run / "composing.json").get("n_positions")
    if not isinstance(composed, int) or not 1 <= composed <= MAX_COMPOSED:
        composed = config.n_composed
    if policies:
        start = Policy.uniform(policies[0].space, n_composed=len(policies[0].pi), mu=config.mu_start)
    else:
        space = get_space(config.space)
        space = space.exclude(*config.exclude) if config.exclude else space
        start = Policy.uniform(space, n_composed=composed or N_COMPOSED, mu=config.mu_start)
    steps = [step for step in read_steps(run / "metrics.jsonl", start) if is_planned(step, config)]
    calibration = read_note(run / "calibration.json")
    policy, wrong_policy = read_result(run / folders.POLICY, policies)
    raced, wrong_answer = read_race(run, config.race.incumbent)
    return History(
        run,
        config,
        start,
        without_other_trials(steps, len(start.pi) if policies else composed),
        policies[: config.search.n_rounds],
        policy,
        rate=rate_in(calibration),
        remark=remark_in(calibration),
        race=raced,
        problems=[text for text in (wrong_policy, wrong_answer) if text],
        is_stand_in=bool(wrong_policy),
    )


def read_config(run: Path) -> RunConfig:
    path = run / "config.yaml"
    if not path.is_file():
        is_study = (run / "study.yaml").is_file()
        hint = f"it holds a study, whose runs are in {run / 'searches'}" if is_study else EXPECTED
        raise RunError(f"{run}: holds no run (there is no config.yaml); {hint}")
    try:
        return parse.update(BLANK, parse.read_yaml(path))
    except parse.SettingError as error:
        raise RunError(f"{path}: is not the configuration of a run ({error})") from error


def read_result(path: Path, policies: list[Policy]) -> tuple[Policy | None, str]:
    """policy.json; or if it is gone or broken, the last round's, and what is wrong."""
    if not path.is_file() and not policies:
        return None, ""
    instead = f"what you see is the policy of round {len(policies)}" if policies else "there is no policy to show"
    try:
        if path.is_file():
            return Policy.load(path), ""
        return policies[-1], f"The policy file is missing: {instead}."
    except PolicyError as error:
        return policies[-1] if policies else None, f"The policy file is broken: {instead}. The reason: {error}"


def read_race(run: Path, default: str) -> tuple[Raced | None, str]:
    """What answer.json says, or what is wrong with it."""
    try:
        return race.read(run, default), ""
    except PolicyError as error:
        return None, f"The file with the answer is broken, so there is none to show. The reason: {error}"


def rate_in(note: dict[str, Any]) -> float | None:
    try:
        return schema.number(note.get("model_lr"), "model_lr")
    except PolicyError:
        return None


def remark_in(note: dict[str, Any]) -> str:
    found = note.get("remark")
    return found[:LONGEST_REMARK] if isinstance(found, str) else ""


def read_steps(path: Path, start: Policy) -> list[Step]:
    """All whole lines; of very many, evenly spread ones and the last of each round, so that a long search does not
    need ever more memory to be shown. A running search may just be writing the last one."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        every = max(1, math.ceil(sum(1 for _ in file) / MAX_STEPS))
    held: dict[int, Step] = {}  # by number of the line
    last: dict[int, tuple[int, Step]] = {}  # of each round
    with path.open(encoding="utf-8", errors="replace") as lines:
        for i, line in enumerate(lines):
            step = read_step(line, start)
            if step is not None:
                last[step.round] = (i, step)
                if i % every == 0:
                    held[i] = step
    held |= dict(last.values())
    return [held[i] for i in sorted(held)]


def without_other_trials(steps: list[Step], n_composed: int | None) -> list[Step]:
    """Without the pre-trainings that the search did not keep; as long as that is open, the newest one counts."""
    if n_composed is None:
        n_composed = next((step.n_composed for step in reversed(steps) if not step.round), None)
    return [step for step in steps if step.round or step.n_composed == n_composed]


def is_planned(step: Step, config: RunConfig) -> bool:
    """Whether a search has such a step: an axis to the round 10^18 has no end."""
    search = config.search
    if step.round == 0:
        return 1 <= step.step <= MAX_STEP
    return 1 <= step.round <= min(search.n_rounds, MAX_ROUND) and 1 <= step.step <= search.n_steps


def read_step(line: str, start: Policy) -> Step | None:
    try:
        found = json.loads(line)
        step = schema.record(found, "", Step)
        if "pi" not in found:
            return step
        phi, n = schema.record(found, "", Phi), len(start.space)
    except (ValueError, RecursionError):
        return None
    is_whole = phi.pi and all(len(row) == n for row in phi.pi) and len(phi.entropy) == len(phi.pi)
    return step._replace(phi=phi) if is_whole else None
