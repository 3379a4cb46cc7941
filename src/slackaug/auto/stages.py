"""The stages of a search and what they hand on: pre-training, with the trials of how much is composed; the calibration
of a rate; the rounds; and the confirmation of what they have learned."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from .. import models, rng
from ..augment import prepare
from ..augment.policy import Policy
from ..config.run import RunConfig, start_policy
from ..data import Dataset, Split, splits
from ..data.rows import repeated
from ..engine import ways, weights
from ..engine.fit import Fit, predict
from ..engine.passes import Plain, alone
from ..methods import slack
from ..methods.slack import SearchConfig
from ..runs.ensemble import ALONE, Ensemble
from . import calibrate, composing, confirm, steps
from .calibrate import Calibration, Trial
from .composing import Composing
from .confirm import Confirmation
from .steps import Steps

Weights = dict[str, Tensor]  # of a model, and its buffers, by name


class Progress(NamedTuple):
    """Where a search stands after a step."""

    stage: str  # "pre-training", "calibration", "re-training", "policy" or "confirmation"
    round: int  # from 1; 0 before the rounds and after them
    step: int  # done in this stage of this round
    n_steps: int
    done: float  # share of the whole search, by images
    train_loss: Tensor
    val_loss: Tensor | None
    phi: Policy


class Learner:
    """The stages of a search, and how to leave and take them up again. Test images have no part in it."""

    def __init__(
        self,
        config: RunConfig,
        data: Dataset,
        device: str = "cpu",
        ensemble: Ensemble = ALONE,
        engine: str = "compiled",
    ):
        self.config, self.ensemble, self.engine_name = config, ensemble, engine
        self.on_composed: Callable[[Composing], None] = lambda _: None  # for who wants to be told
        self.on_calibrated: Callable[[Calibration], None] = lambda _: None
        self.on_confirmed: Callable[[Confirmation], None] = lambda _: None
        self.calibration: Calibration | None = None
        self.n_tried = 0  # steps of its trials
        train, val = data.halves(config.seed)
        if config.balanced:
            index = splits.balanced(val.labels)
            val = Split(repeated(val.images, index), val.labels[index])
        self.train, self.val = to_device(train, device), to_device(val, device)
        self.phi = start_policy(config, data)
        self.model = models.build(
            config.model, data.n_classes, data.image_size, rng.generator(config.seed, "model", *ensemble.purpose())
        )
        self.remarks = [] if config.weights is None else [weights.load(self.model, config.weights)]
        self.model.to(device)
        self.preparation = prepare.window(data.image_size)
        self.fit = self.make_fit(self.phi)
        least = 0 if composing.has_none(self.phi.space) else 1
        tried = Composing({}, least, config.fewest_composed)
        self.composing = tried if config.n_composed is None else None  # trials that are done
        self.first = self.weights() if config.n_composed is None or config.confirm else None  # where trainings start
        self.theta_0: Weights | None = None  # of the trial that rounds would start from
        self.confirmation: Confirmation | None = None  # from the end of pre-training on
        self.trained: float | None = None  # the strength of the policy that `fit` confirms, when rounds are over
        self.pretrained: dict[str, Any] | None = None  # the state of `fit`, while trials move the model
        self.engine: Plain | None = None  # from the end of pre-training on, which settles theta_0
        self.state: slack.State | None = None

    @property
    def search_config(self) -> SearchConfig:
        """As it is settled: with the rate that was found by trial, where it was to be."""
        search = self.config.search
        return search if self.calibration is None else replace(search, model_lr=self.calibration.model_lr)

    def make_fit(self, phi: Policy) -> Fit:
        """Pre-training from its start on, with a policy."""
        streams = self.streams("pre-training")
        return ways.make_fit("pretrain", self.model, phi, self.train, self.config.pretrain, streams, self.preparation)

    def make_engine(self) -> Plain:
        """theta_0 is what the model has become."""
        search, streams = self.search_config, self.streams("search")
        average = self.ensemble.average if self.ensemble.n_ranks > 1 else alone
        data = self.train, self.val, search.batch, streams, self.preparation
        batches = search.val_batch, search.train_batch
        return ways.make_engine(self.engine_name, search, self.model, self.phi, *data, average, *batches)

    def begin_search(self) -> None:
        self.engine = self.engine or self.make_engine()  # that of the trials is as new
        self.state = slack.start(self.phi, self.engine)

    def streams(self, stage: str) -> dict[str, Generator]:
        return rng.streams(self.config.seed, stage, *self.ensemble.purpose())

    def pretrain(self) -> Iterator[Progress]:
        while True:
            yield from self.train_on("pre-training", self.phi)
            if self.is_composed:
                break
            self.judge_composed()
        if self.config.confirm and self.confirmation is None:
            if self.composing is None:
                self.confirmation = Confirmation(self.tempered_loss(), {}, len(self.phi.pi), len(self.phi.pi))
            else:
                best = self.composing.best
                self.confirmation = Confirmation(self.composing.losses[best], {}, best, self.composing.n_positions)

    def train_on(self, stage: str, phi: Policy) -> Iterator[Progress]:
        n = self.fit.n_steps
        while self.fit.done < n:
            loss = self.fit.step()
            yield Progress(stage, 0, self.fit.done, n, self.share_done(), loss, None, phi)

    @property
    def is_composed(self) -> bool:
        """Whether the number of transformations in a composite is settled."""
        return self.composing is None or self.composing.next_number() is None

    def judge_composed(self) -> None:
        """Compare this pre-training with those before it; then go to the next one, or back to where rounds start."""
        assert self.composing is not None
        assert self.first is not None
        number = composing.number_of(self.phi)
        losses = self.composing.losses | {number: self.tempered_loss()}
        self.composing = self.composing._replace(losses=losses)
        if self.composing.n_positions == number:
            self.theta_0 = self.weights()
        following = self.composing.next_number()
        if following is not None:
            self.compose(following, self.first)
            self.fit = self.make_fit(self.phi)
            return
        assert self.theta_0 is not None
        self.compose(self.composing.n_positions, self.theta_0)
        self.theta_0 = None
        if not self.config.confirm:
            self.first = None
        self.on_composed(self.composing)

    def compose(self, number: int, start: Weights) -> None:
        """A uniform policy with so many transformations in a composite, and a network with these weights."""
        self.phi = composing.uniform(self.phi, number)
        self.model.load_state_dict(start)

    def weights(self) -> Weights:
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def tempered_loss(self) -> float:
        """Of validation images, as trainings are tested."""
        val = self.val
        if len(val.labels) > calibrate.N_IMAGES:
            val = val.subset(calibrate.mixed(len(val.labels), self.config.seed))
        batch = self.config.search.n_val  # which is known to fit
        logits = predict(self.model, self.fit.normalise, val, batch, self.preparation)
        return self.ensemble.average(composing.tempered_loss(logits, val.labels)).item()

    @property
    def needs_calibration(self) -> bool:
        return self.config.search.calibrate and self.calibration is None and self.state is None

    def calibrate(self) -> Iterator[Progress]:
        """Re-training from theta_0 at one rate after the other; then the model is theta_0 again."""
        search = self.config.search
        self.pretrained = self.fit.get_state()
        self.engine = engine = self.make_engine()
        fresh = engine.get_state()
        found = Calibration(self.val_loss(), ())
        while (rate := found.next_rate(search.model_lr)) is not None:
            tried, state = replace(search, model_lr=rate), slack.start(self.phi, engine)
            for step in range(1, search.n_retrain + 1):
                state, report = engine.execute(slack.take_step, state, tried)
                self.n_tried += 1
                yield Progress(
                    "calibration", 0, step, search.n_retrain, self.share_done(), report.train_loss, None, self.phi
                )
            found = found._replace(trials=(*found.trials, Trial(rate, self.val_loss())))
            engine.set_state(fresh)
        self.calibration, self.pretrained = found, None
        self.on_calibrated(found)

    def val_loss(self) -> float:
        """Of the model as it is, without augmentation."""
        data, config = (self.fit.normalise, self.preparation, self.val), self.config
        loss = calibrate.val_loss(self.model, *data, config.search.n_val, config.seed)
        return self.ensemble.average(loss).item()

    def search(self) -> Iterator[Progress]:
        assert self.engine is not None
        assert self.state is not None
        search = self.search_config
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

    def confirm(self) -> Iterator[Progress]:
        """Whole trainings with what was learned, until it is settled how much of it is kept."""
        assert self.confirmation is not None
        assert self.first is not None
        n, unknown = self.fit.n_steps, torch.tensor(math.nan)  # the loss, where no step is left to be taken
        last = Progress("confirmation", 0, n, n, 1.0, unknown, None, self.learned)
        while (strength := self.confirmation.next_strength()) is not None:
            tried = confirm.at_strength(self.learned, strength)
            if self.trained != strength:
                self.engine = None  # its work is done; the model is another's now
                self.model.load_state_dict(self.first)
                self.fit, self.trained = self.make_fit(tried), strength
            for last in self.train_on("confirmation", tried):
                yield last
            losses = self.confirmation.losses | {strength: self.tempered_loss()}
            self.confirmation = self.confirmation._replace(losses=losses)
        self.on_confirmed(self.confirmation)
        yield last._replace(done=1.0, phi=self.result)

    @property
    def learned(self) -> Policy:
        """What the rounds have come to, on the CPU."""
        assert self.state is not None
        phi = self.state.phi
        return replace(phi, pi=phi.pi.cpu(), mu=phi.mu.cpu())

    @property
    def result(self) -> Policy:
        """What is left of it after the confirmation."""
        if self.confirmation is None or not self.is_finished:
            return self.learned
        return self.confirmation.kept(self.learned)

    def share_done(self) -> float:
        """By images that pass through the model."""
        n, whole = self.fit.n_steps, steps.usual(self.config, self.fit.n_steps)
        each = steps.images(self.config.search, len(self.train.labels), self.fit.batches.batch)
        return self.steps_done(n, whole).at(each) / whole.at(each)

    def steps_done(self, n: int, whole: Steps) -> Steps:
        """What is left of the usual number of trials when a stage is over counts as done; a training has n steps."""
        search, confirming = self.config.search, n * len(confirm.STRENGTHS) * self.config.confirm
        pretraining, calibrating = whole.training - confirming, calibrate.N_USUAL * search.n_retrain * search.calibrate
        if self.state is None:
            if self.fit.done < n or not self.is_composed:
                earlier = 0 if self.composing is None else len(self.composing.losses)
                pretraining = min(earlier * n + self.fit.done, pretraining)
            return Steps(pretraining, min(self.n_tried, calibrating), 0)
        confirmed = 0
        if self.is_searched and self.confirmation is not None and self.trained is not None:
            confirmed = len(self.confirmation.losses) * n + self.fit.done
        rounds, step = self.state.round, self.state.step
        return Steps(
            pretraining + confirmed,
            calibrating + rounds * search.n_retrain + min(step, search.n_retrain),
            rounds * search.n_unrolled + max(step - search.n_retrain, 0),
        )

    @property
    def theta(self) -> Tensor:
        return self.fit.theta if self.engine is None else self.engine.theta

    @property
    def is_searched(self) -> bool:
        """Whether all rounds are over."""
        return self.state is not None and self.state.round >= self.config.search.n_rounds

    @property
    def is_finished(self) -> bool:
        is_confirmed = self.confirmation is None or self.confirmation.next_strength() is None
        return self.is_searched and is_confirmed

    def get_state(self) -> dict[str, Any]:
        """A calibration that is left begins anew: it is as if pre-training had just ended."""
        state: dict[str, Any] = {} if self.first is None else {"first": self.first}
        if self.state is None:
            return state | self.state_of_pretraining()
        state["search"] = slack.to_tensors(self.state)
        if self.confirmation is not None:
            state["confirmation"] = self.confirmation.to_dict()
        if self.engine is None:
            return state | {"stage": "confirmation", "trained": self.trained, "fit": self.fit.get_state()}
        return state | {
            "stage": "search",
            "calibration": None if self.calibration is None else self.calibration.to_dict(),
            "theta_0": self.engine.theta_0,
            "engine": self.engine.get_state(),
        }

    def state_of_pretraining(self) -> dict[str, Any]:
        state: dict[str, Any] = {"stage": "pre-training", "fit": self.pretrained or self.fit.get_state()}
        if self.theta_0 is not None:
            state["theta_0"] = self.theta_0
        if self.composing is not None:
            losses = [list(item) for item in self.composing.losses.items()]
            state["composing"] = {"n_composed": composing.number_of(self.phi), "losses": losses}
        return state

    def set_state(self, saved: dict[str, Any]) -> None:
        self.first = saved.get("first")
        if saved["stage"] == "pre-training":
            if self.composing is not None:
                self.composing = self.composing._replace(losses=dict(saved["composing"]["losses"]))
                if self.composing.losses and not self.is_composed:
                    self.theta_0 = saved["theta_0"]
                self.compose(saved["composing"]["n_composed"], saved["fit"]["model"])
                self.fit = self.make_fit(self.phi)
            self.fit.set_state(saved["fit"])
            return
        self.composing = None  # it is settled
        self.phi = composing.uniform(self.phi, len(saved["search"]["pi"]))
        if "confirmation" in saved:
            self.confirmation = Confirmation.from_dict(saved["confirmation"])
        state = slack.from_tensors(saved["search"], self.phi)
        if saved["stage"] == "confirmation":
            self.state, self.trained = state, saved["trained"]
            self.fit = self.make_fit(confirm.at_strength(self.learned, self.trained))
            self.fit.set_state(saved["fit"])
            return
        self.model.load_state_dict(saved["theta_0"])
        self.fit.done = self.fit.n_steps
        if saved.get("calibration") is not None:
            self.calibration = Calibration.from_dict(saved["calibration"])
        self.engine = None  # theta_0 is another
        self.begin_search()
        assert self.engine is not None
        self.engine.set_state(saved["engine"])
        self.state = state._replace(theta_momentum=state.theta_momentum.to(self.engine.theta.device))


def to_device(split: Split, device: str) -> Split:
    return Split(split.images.to(device), split.labels.to(device))
