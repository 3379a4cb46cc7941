"""The rounds of Algorithm 1, as a stage of a search."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..engine.state import State
from ..methods import slack
from ..runs.progress import Standing
from .problem import Found, Problem


class Rounds:
    """Lines 3 to 14, from theta_0 and the policy of pre-training."""

    def __init__(self, problem: Problem, given: Found):
        self.problem, self.given = problem, given
        self.config = replace(problem.config.search, model_lr=given.model_lr)
        self.chance, self.passes = problem.make_search(given)
        self.reached = slack.start(given.phi, self.passes.theta)

    def run(self) -> Iterator[Standing]:
        for state, report in slack.rounds(self.reached, self.chance, self.passes, self.config):
            self.reached, ended = state, state.step == 0
            stage = "re-training" if report.val_loss is None else "policy"
            where = state.round + (not ended), self.config.n_steps if ended else state.step, self.config.n_steps
            yield Standing(stage, *where, report.train_loss, report.val_loss, state.phi)

    @property
    def found(self) -> Found:
        return self.given._replace(phi=self.reached.phi.to("cpu"))

    def notice(self) -> None:
        """Nothing: files and sentences of rounds are those of every step."""

    def state(self) -> dict[str, Any]:
        return {
            "search": self.reached.to_dict(),
            "engine": {"model": self.problem.weights(), **self.chance.get_state()},
        }

    def set_state(self, saved: dict[str, Any]) -> None:
        self.problem.model.load_state_dict(saved["engine"]["model"])
        self.chance.set_state(saved["engine"])
        self.reached = State.from_dict(saved["search"], self.given.phi, self.reached.theta)
        if self.reached.round < 0 or self.reached.step < 0:
            raise ValueError(f"round {self.reached.round}, step {self.reached.step}: expected numbers from 0 on")
