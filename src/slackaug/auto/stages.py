"""The stages of a search: small objects that run from wherever they are, and say what it takes to go on from there.

`paper` has two, lines 2 and 3 to 14 of Algorithm 1: `Pretrain` and `Rounds`. What a new dataset needs beyond that
stands around them: pre-training with several numbers of transformations, `Calibrate` before the rounds, and `Confirm`.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from .. import models, rng
from ..augment import prepare
from ..augment.policy import Policy
from ..config.run_config import RunConfig, start_policy
from ..data import Dataset, Split, dividing
from ..data.rows import repeated
from ..engine import ways, weights
from ..engine.chance import Chance
from ..engine.fit import Diverged, Fit, predict, to_device
from ..engine.passes import Passes, alone
from ..engine.state import Report, State
from ..methods import slack
from ..methods.budget import SearchConfig
from ..runs.ensemble import ALONE, Ensemble
from ..runs.progress import Standing
from . import calibrate, composing, confirm
from .calibrate import Calibration
from .composing import Composing
from .confirm import Confirmation

Weights = dict[str, Tensor]  # of a model, and its buffers, by name
UNKNOWN = torch.tensor(math.nan)


class Problem:
    """What all stages share: the images to learn from, the network, the settings. Test images have no part in it."""

    def __init__(
        self,
        config: RunConfig,
        data: Dataset,
        device: str = "cpu",
        ensemble: Ensemble = ALONE,
        engine: str = ways.ENGINES[0],
    ):
        self.config, self.ensemble, self.engine = config, ensemble, engine
        train, val = data.halves(config.seed)
        if config.balanced:
            index = dividing.balanced(val.labels)
            val = Split(repeated(val.images, index), val.labels[index])
        self.train, self.val = to_device(train, device), to_device(val, device)
        self.phi = start_policy(config, data)
        generator = rng.generator(config.seed, "model", *ensemble.purpose())
        self.model = models.build(config.model, data.n_classes, data.image_size, generator)
        self.remarks = [] if config.weights is None else [weights.load(self.model, config.weights)]
        self.model.to(device)
        self.preparation = prepare.window(data.image_size)
        self.made: tuple[Chance, Passes] | None = None

    def streams(self, stage: str) -> dict[str, Generator]:
        return rng.streams(self.config.seed, stage, *self.ensemble.purpose())

    def weights(self) -> Weights:
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def make_fit(self, phi: Policy) -> Fit:
        """A training with a policy, as pre-training is, from the network as it is."""
        data = self.train, self.config.pretrain, self.streams("pre-training"), self.preparation
        return ways.make_fit("pretrain", self.model, phi, *data)

    def make_search(self, phi: Policy) -> tuple[Chance, Passes]:
        """The chance and the passes of rounds, whose theta_0 is the network as it is; made once."""
        if self.made is None:
            search, streams = self.config.search, self.streams("search")
            batches = search.batch, search.n_val, streams
            chance = Chance(self.train, self.val, *batches, flip=phi.flip, preparation=self.preparation)
            average = self.ensemble.average if self.ensemble.n_ranks > 1 else alone

            def try_out(passes: Passes) -> None:
                for step in dict.fromkeys((0, search.n_retrain)):  # one if nothing is re-trained
                    take_one(chance, passes, slack.start(phi, passes.theta)._replace(step=step), search)

            before = chance.get_state()
            data = self.train, self.val, streams["model"], self.preparation, average
            try:
                passes = ways.make_passes(self.engine, try_out, self.model, phi, *data)
            except torch.OutOfMemoryError:
                images = f"{search.n_composites} x {chance.train.batches.batch} images"
                raise ways.OutOfMemory(images, "search.batch", chance.train.batches.batch) from None
            chance.set_state(before)
            self.made = chance, passes
        return self.made

    def tempered_loss(self, fit: Fit) -> float:
        """Of validation images, as trainings are tested."""
        val = self.val
        if len(val.labels) > calibrate.N_IMAGES:
            val = val.subset(calibrate.mixed(len(val.labels), self.config.seed))
        logits = predict(self.model, fit.normalise, val, self.config.search.n_val)  # known to fit
        return self.ensemble.average(composing.tempered_loss(logits, val.labels)).item()

    def val_loss(self, passes: Passes) -> float:
        """Of the network as it is, without augmentation."""
        config = self.config
        loss = calibrate.val_loss(self.model, passes.normalise, self.val, config.search.n_val, config.seed)
        return self.ensemble.average(loss).item()


def take_one(chance: Chance, passes: Passes, state: State, search: SearchConfig) -> tuple[State, Report]:
    """A single step outside of rounds: of a trial, or to be timed."""
    step = passes.as_captured(slack.take_step)
    return step(state, passes.send(slack.draw(state, chance, search)), passes, search)


class SearchStage(Protocol):
    @property
    def is_done(self) -> bool: ...

    def run(self) -> Iterator[Standing]:
        """From where it is to its end; it can be left after any step."""
        ...

    def get_state(self) -> dict[str, Any]:
        """What decides all that is to come of this stage, and what later ones need of it."""
        ...

    def set_state(self, saved: dict[str, Any]) -> None: ...

    def finding(self) -> "Finding | None":
        """What it has found, when it is done."""
        ...


class Finding(Protocol):
    @property
    def file(self) -> str:
        """The file of the run that keeps it."""
        ...

    def describe(self) -> str: ...

    def to_json(self) -> dict[str, Any]: ...


def train(name: str, fit: Fit, phi: Policy) -> Iterator[Standing]:
    while fit.done < fit.n_steps:
        loss = fit.step()
        yield Standing(name, 0, fit.done, fit.n_steps, loss, None, phi)


class Pretrain:
    """Line 2: theta_0. Where the number of transformations is to be found, one training for each number tried."""

    name = "pre-training"

    def __init__(self, problem: Problem):
        self.problem, self.phi, config = problem, problem.phi, problem.config
        least = 0 if self.phi.can_compose_none else 1
        self.composing = Composing({}, least, config.fewest_composed) if config.n_composed is None else None
        self.first = problem.weights() if self.composing is not None or config.confirm else None
        self.fit = problem.make_fit(self.phi)
        self.theta_0: Weights | None = (
            None  # of the trial that rounds would start from; at the end, what they start from
        )
        self.loss = math.nan  # of the best training, at the best temperature
        self.is_done = False

    def run(self) -> Iterator[Standing]:
        while not self.is_done:
            yield from train(self.name, self.fit, self.phi)
            if self.composing is None:
                if self.problem.config.confirm:
                    self.loss = self.problem.tempered_loss(self.fit)
                self.end(self.problem.weights())
            else:
                self.composing = self.judge(self.composing)

    def judge(self, before: Composing) -> Composing:
        """Compare this training with those before it; then to the next one, or back to where rounds start."""
        number = self.phi.n_composed
        found = before._replace(losses=before.losses | {number: self.problem.tempered_loss(self.fit)})
        if found.n_positions == number:
            self.theta_0 = self.problem.weights()
        following = found.next_number()
        if following is not None:
            assert self.first is not None
            self.compose(following, self.first)
            self.fit = self.problem.make_fit(self.phi)
            return found
        if not math.isfinite(found.losses[found.n_positions]):
            raise Diverged(
                "the model is no longer a number after pre-training, however many transformations are composed; try a "
                f"lower rate, from the start: --overwrite --set pretrain.lr={self.problem.config.pretrain.lr / 4:g}"
            )
        assert self.theta_0 is not None
        self.compose(found.n_positions, self.theta_0)
        self.loss = found.losses[found.best]
        self.end(self.theta_0)
        return found

    def end(self, theta_0: Weights) -> None:
        self.theta_0, self.is_done = theta_0, True
        if not self.problem.config.confirm:
            self.first = None

    def compose(self, number: int, start: Weights) -> None:
        """A uniform policy with so many transformations in a composite, and a network with these weights."""
        self.phi = self.phi.with_composed(number)
        self.problem.model.load_state_dict(start)

    @property
    def n_trained(self) -> int:
        """Steps of trainings so far."""
        earlier = 0 if self.composing is None else len(self.composing.losses)
        return earlier * self.fit.n_steps + (0 if self.is_done and earlier else self.fit.done)

    def get_state(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "is_done": self.is_done,
            "loss": self.loss,
            "n_composed": self.phi.n_composed,
        }
        state |= {} if self.first is None else {"first": self.first}
        state |= {} if self.theta_0 is None else {"theta_0": self.theta_0}
        state |= {} if self.composing is None else {"losses": [list(item) for item in self.composing.losses.items()]}
        return state if self.is_done else state | {"fit": self.fit.get_state()}

    def set_state(self, saved: dict[str, Any]) -> None:
        self.is_done, self.loss = saved["is_done"], saved["loss"]
        self.first, self.theta_0 = saved.get("first"), saved.get("theta_0")
        if self.composing is not None:
            self.composing = self.composing._replace(losses=dict(saved["losses"]))
        if self.is_done:
            self.compose(saved["n_composed"], saved["theta_0"])
            self.fit.done = self.fit.n_steps
            return
        if self.composing is not None:
            self.compose(saved["n_composed"], saved["fit"]["model"])
            self.fit = self.problem.make_fit(self.phi)
        self.fit.set_state(saved["fit"])

    def finding(self) -> Finding | None:
        return self.composing


class Calibrate:
    """Re-training from theta_0 at one rate after the other. One that was left begins anew."""

    name = "calibration"

    def __init__(self, problem: Problem, pretrain: Pretrain):
        self.problem, self.pretrain = problem, pretrain
        self.found: Calibration | None = None
        self.n_tried = 0  # steps

    @property
    def is_done(self) -> bool:
        return self.found is not None

    def run(self) -> Iterator[Standing]:
        phi, search = self.pretrain.phi, self.problem.config.search
        chance, passes = self.problem.make_search(phi)
        fresh = chance.get_state()
        found = Calibration(self.problem.val_loss(passes), ())
        while (rate := found.next_rate(search.model_lr)) is not None:
            tried, state = replace(search, model_lr=rate), slack.start(phi, passes.theta)
            for step in range(1, search.n_retrain + 1):
                state, report = take_one(chance, passes, state, tried)
                self.n_tried += 1
                yield Standing(self.name, 0, step, search.n_retrain, report.train_loss, None, phi)
            found = found.with_trial(rate, self.problem.val_loss(passes))
            passes.cold_start()
            chance.set_state(fresh)
        self.found = found._replace(remark=self.remark(found))

    def remark(self, found: Calibration) -> str | None:
        config, n_composed = self.problem.config, len(self.pretrain.phi.pi)
        said = None
        if not config.balanced:  # whose training has other frequencies than its validation
            labels = self.problem.val.labels
            said = calibrate.remark(found.before, labels, config.pretrain.epochs, n_composed)
        return said or calibrate.too_short(found, config.pretrain.epochs)

    def get_state(self) -> dict[str, Any]:
        return {"found": None if self.found is None else self.found.to_dict()}

    def set_state(self, saved: dict[str, Any]) -> None:
        self.found = None if saved["found"] is None else Calibration.from_dict(saved["found"])

    def finding(self) -> Finding | None:
        return self.found


class Rounds:
    """Lines 3 to 14, from theta_0 and the policy of pre-training."""

    def __init__(self, problem: Problem, pretrain: Pretrain, calibrate: Calibrate | None):
        self.problem, self.pretrain, self.calibrate = problem, pretrain, calibrate
        self.state: State | None = None

    @property
    def config(self) -> SearchConfig:
        """As it is settled: with the rate that was found by trial, if it was to be."""
        search = self.problem.config.search
        if self.calibrate is None or self.calibrate.found is None:
            return search
        return replace(search, model_lr=self.calibrate.found.model_lr)

    @property
    def is_done(self) -> bool:
        return self.state is not None and self.state.round >= self.problem.config.search.n_rounds

    def run(self) -> Iterator[Standing]:
        chance, passes = self.problem.make_search(self.pretrain.phi)
        search, first = self.config, self.state or slack.start(self.pretrain.phi, passes.theta)
        for state, report in slack.rounds(first, chance, passes, search):
            self.state, ended = state, state.step == 0
            stage = "re-training" if report.val_loss is None else "policy"
            where = state.round + (not ended), search.n_steps if ended else state.step, search.n_steps
            yield Standing(stage, *where, report.train_loss, report.val_loss, state.phi)

    @property
    def learned(self) -> Policy:
        """What the rounds have come to, on the CPU."""
        assert self.state is not None
        return self.state.phi.to("cpu")

    def get_state(self) -> dict[str, Any]:
        if self.state is None:
            return {}
        if self.problem.made is None:  # another stage has the network
            return {"search": self.state.to_dict()}
        chance, _ = self.problem.made
        return {"search": self.state.to_dict(), "engine": {"model": self.problem.weights(), **chance.get_state()}}

    def set_state(self, saved: dict[str, Any]) -> None:
        if not saved:
            return
        phi = self.pretrain.phi
        if "engine" not in saved:
            self.state = State.from_dict(saved["search"], phi, torch.empty(0))
            return
        chance, passes = self.problem.make_search(phi)  # with the theta_0 that pre-training has brought back
        self.problem.model.load_state_dict(saved["engine"]["model"])
        chance.set_state(saved["engine"])
        self.state = State.from_dict(saved["search"], phi, passes.theta)

    def finding(self) -> Finding | None:
        return None


class Confirm:
    """A whole training with the learned policy, from the start of pre-training and with its draws."""

    name = "confirmation"

    def __init__(self, problem: Problem, pretrain: Pretrain, rounds: Rounds):
        self.problem, self.pretrain, self.rounds = problem, pretrain, rounds
        self.fit: Fit | None = None
        self.found: Confirmation | None = None

    @property
    def is_done(self) -> bool:
        return self.found is not None

    def run(self) -> Iterator[Standing]:
        learned = confirm.at_strength(self.rounds.learned)
        if self.fit is None:
            assert self.pretrain.first is not None
            self.problem.made = None  # its work is done; the network is another's now
            self.problem.model.load_state_dict(self.pretrain.first)
            self.fit = self.problem.make_fit(learned)
        yield from train(self.name, self.fit, learned)
        found = self.pretrain.composing
        n_composed = len(self.pretrain.phi.pi) if found is None else found.best
        self.found = Confirmation(self.pretrain.loss, self.problem.tempered_loss(self.fit), n_composed)
        yield Standing(
            self.name, 0, self.fit.n_steps, self.fit.n_steps, UNKNOWN, None, self.found.kept(self.rounds.learned)
        )

    def get_state(self) -> dict[str, Any]:
        state: dict[str, Any] = {} if self.found is None else {"found": self.found._asdict()}
        return state if self.fit is None else state | {"fit": self.fit.get_state()}

    def set_state(self, saved: dict[str, Any]) -> None:
        if "fit" in saved:
            self.problem.made = None
            self.fit = self.problem.make_fit(confirm.at_strength(self.rounds.learned))
            self.fit.set_state(saved["fit"])
        if "found" in saved:
            self.found = Confirmation(**saved["found"])

    def finding(self) -> Finding | None:
        return self.found


class Search:
    """All stages of a search, and its result."""

    def __init__(self, problem: Problem):
        self.problem, config = problem, problem.config
        self.pretrain = Pretrain(problem)
        self.calibrate = Calibrate(problem, self.pretrain) if config.search.calibrate else None
        self.rounds = Rounds(problem, self.pretrain, self.calibrate)
        self.confirm = Confirm(problem, self.pretrain, self.rounds) if config.confirm else None
        stages: list[SearchStage | None] = [self.pretrain, self.calibrate, self.rounds, self.confirm]
        self.stages = [stage for stage in stages if stage is not None]

    @property
    def is_finished(self) -> bool:
        return all(stage.is_done for stage in self.stages)

    @property
    def theta(self) -> Tensor:
        return torch.cat([p.detach().flatten() for p in self.problem.model.parameters()])

    @property
    def result(self) -> Policy:
        """What is left of the learned policy after the confirmation."""
        learned = self.rounds.learned
        return learned if self.confirm is None or self.confirm.found is None else self.confirm.found.kept(learned)

    def get_state(self) -> dict[str, Any]:
        return {"stages": [stage.get_state() for stage in self.stages]}

    def set_state(self, saved: dict[str, Any]) -> None:
        for stage, state in zip(self.stages, saved["stages"], strict=True):
            stage.set_state(state)
