"""What the files of a run say about its course, also of a run that is still going on.

Axes: K positions, N transformations.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from ..augment.apply import get_space
from ..augment.policy import MAX_COMPOSED, Policy
from ..auto import calibrate, composing, confirm
from ..config import parse, presets
from ..files import read_note
from ..runs import folders
from ..runs.folders import RunError
from ..schema import PolicyError

MAX_STEPS = 2000  # that are held, beside the ends of rounds; a curve has a tenth of that
MAX_ROUND = 1_000_000
MAX_STEP = 10**12  # of the pre-training
LONGEST_REMARK = 1000  # characters


class Step(NamedTuple):
    """A line of metrics.jsonl."""

    stage: str  # "pre-training", "re-training" or "policy"
    round: int  # from 1; 0 in pre-training
    step: int  # of the pre-training or of the round
    train_loss: float
    n_composed: int | None = None  # in pre-training, of which there is one for each number that was tried
    val_loss: float | None = None  # this and the rest: in the stage "policy" only
    entropy: list[float] | None = None  # (K,) nats
    pi: list[list[float]] | None = None  # (K, N) probabilities
    mu: list[float | None] | None = None  # (N,); None where there is no magnitude


class History(NamedTuple):
    """The course of a search."""

    run: Path
    config: presets.RunConfig
    start: Policy  # the uniform policy that it began with
    steps: list[Step]  # as recorded, every few steps
    policies: list[Policy]  # at the end of each finished round
    policy: Policy | None  # policy.json: of the last finished round, and after a confirmation what is left of it
    rate: float | None  # of re-training, where it was found by trial
    remark: str  # on what pre-training had learned; empty where there is none
    is_kept: bool | None = None  # the policy of the last round; None before the confirmation
    confirmation: str = ""  # in words

    @property
    def names(self) -> list[str]:
        return self.start.space.names

    @property
    def n_steps(self) -> int:
        """Of a round."""
        return self.config.search.n_steps

    @property
    def n_rounds(self) -> int:
        """That it will have in the end."""
        return self.config.search.n_rounds

    @property
    def is_finished(self) -> bool:
        return len(self.policies) >= self.n_rounds and (self.is_kept is not None or not self.config.confirm)

    @property
    def anchors(self) -> list[Policy]:
        """The policy at the start of each round, up to that of the round after the last finished one."""
        return [self.start, *self.policies][: self.n_rounds]

    @property
    def kl(self) -> list[float]:
        """Of each finished round's policy to its anchor, in nats over all positions."""
        return [
            policy.kl(anchor).item()
            for policy, anchor in zip(self.policies, [self.start, *self.policies], strict=False)
        ]

    @property
    def policy_steps(self) -> list[Step]:
        """Those in which phi moved."""
        return [step for step in self.steps if step.pi is not None]

    def moved(self, step: Step) -> float:
        """Rounds done by then, counting only the steps in which phi moves."""
        search = self.config.search
        return step.round - 1 + max(0, step.step - search.n_retrain) / search.n_unrolled

    def elapsed(self, step: Step) -> float:
        """Rounds done by then, counting all steps; the pre-training goes from -1 to 0."""
        if step.round:
            return step.round - 1 + step.step / self.n_steps
        last = max(other.step for other in self.steps if not other.round)
        return step.step / last - 1


def read(run: Path | str) -> History:
    """The history in a run's folder. What is not there yet, or was cut off, is left out."""
    run = Path(run)
    if not (run / "config.yaml").is_file():
        hint = "expected a folder that `slackaug search` wrote"
        if (run / "study.yaml").is_file():
            hint = f"it holds a study, whose runs are in {run / 'searches'}"
        raise RunError(f"{run}: holds no run (there is no config.yaml); {hint}")
    config = read_config(run / "config.yaml")
    policies, composed = folders.read_policies(run), read_note(run / composing.FILE).get("n_positions")
    if not isinstance(composed, int) or not 1 <= composed <= MAX_COMPOSED:
        composed = config.n_composed
    start = start_policy(config, policies, composed)
    steps = [step for step in read_steps(run / "metrics.jsonl", start) if is_planned(step, config)]
    steps = without_other_trials(steps, len(start.pi) if policies else composed)
    policy = read_result(run / folders.POLICY, policies)
    rounds = policies[: config.search.n_rounds]
    return History(run, config, start, steps, rounds, policy, *read_calibration(run), *read_confirmation(run))


def read_config(path: Path) -> presets.RunConfig:
    try:
        return parse.update(presets.BLANK, parse.read_yaml(path))
    except parse.SettingError as error:
        raise RunError(f"{path}: is not the configuration of a run ({error})") from error


def read_result(path: Path, policies: list[Policy]) -> Policy | None:
    """policy.json; where that is gone or broken, the last round's."""
    try:
        return Policy.load(path) if path.is_file() else policies[-1] if policies else None
    except PolicyError:
        if not policies:
            raise
        return policies[-1]


def read_calibration(run: Path) -> tuple[float | None, str]:
    """The rate that was found, and a remark."""
    found = read_note(run / calibrate.FILE)
    return number_in(found, "model_lr"), text_in(found, "remark")


def read_confirmation(run: Path) -> tuple[bool | None, str]:
    found = read_note(run / confirm.FILE)
    is_kept = found.get("is_kept")
    return is_kept if isinstance(is_kept, bool) else None, text_in(found, "remark")


def number_in(note: dict[str, Any], name: str) -> float | None:
    try:
        return finite(note.get(name))
    except ValueError:
        return None


def text_in(note: dict[str, Any], name: str) -> str:
    found = note.get(name)
    return found[:LONGEST_REMARK] if isinstance(found, str) else ""


def start_policy(config: presets.RunConfig, policies: list[Policy], n_composed: int | None) -> Policy:
    if policies:
        return Policy.uniform(policies[0].space, n_composed=len(policies[0].pi))
    space = get_space(config.space)
    space = space.exclude(*config.exclude) if config.exclude else space
    return Policy.uniform(space, n_composed=n_composed or composing.PAPER)


def read_steps(path: Path, start: Policy) -> list[Step]:
    """All whole lines; of very many, evenly spread ones and the last of each round, so that a long search does not
    need ever more memory to be shown. A run that goes on may just be writing the last one."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        every = max(1, math.ceil(sum(1 for _ in file) / MAX_STEPS))
    steps: list[Step] = []
    last: Step | None = None
    with path.open(encoding="utf-8", errors="replace") as lines:
        for i, line in enumerate(lines):
            step = read_step(line, start)
            if step is None:
                continue
            if last is not None and last.round != step.round and last is not steps[-1]:
                steps.append(last)
            if i % every == 0 or last is None:
                steps.append(step)
            last = step
    return steps if last is None or last is steps[-1] else [*steps, last]


def without_other_trials(steps: list[Step], n_composed: int | None) -> list[Step]:
    """Without the pre-trainings that the search did not go on with; as long as that is open, the newest one counts."""
    if n_composed is None:
        n_composed = next((step.n_composed for step in reversed(steps) if not step.round), None)
    return [step for step in steps if step.round or n_composed is None or step.n_composed in (None, n_composed)]


def is_planned(step: Step, config: presets.RunConfig) -> bool:
    """Whether a search has such a step: an axis to the round 10^18 has no end."""
    search = config.search
    if step.round == 0:
        return 1 <= step.step <= MAX_STEP
    return 1 <= step.round <= min(search.n_rounds, MAX_ROUND) and 1 <= step.step <= search.n_steps


def read_step(line: str, start: Policy) -> Step | None:
    try:
        found = json.loads(line)
        step = Step(
            stage=str(found["stage"]),
            round=int(found["round"]),
            step=int(found["step"]),
            train_loss=finite(found["train_loss"]),
            n_composed=int(found["n_composed"]) if "n_composed" in found else None,
        )
        if "pi" not in found:
            return step
        n = len(start.space)
        pi = [[finite(p) for p in row] for row in found["pi"]]
        mu = [None if bound is None else finite(bound) for bound in found["mu"]]
        entropy = [finite(value) for value in found["entropy"]]
        if len(mu) != n or not pi or any(len(row) != n for row in pi) or len(entropy) != len(pi):
            return None
        return step._replace(val_loss=finite(found["val_loss"]), entropy=entropy, pi=pi, mu=mu)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    return float(value)
