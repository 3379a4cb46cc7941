"""What the stages of a search share, and what each hands on to the next."""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from .. import models, rng
from ..augment import prepare
from ..augment.policy import Policy
from ..config.run_config import RunConfig, start_policy
from ..data import Dataset, Split, dividing
from ..data.rows import repeated
from ..engine import ways, weights
from ..engine.chance import Chance
from ..engine.fit import Fit, Fits, predict, to_device
from ..engine.passes import Passes, alone, drawing_from, unchanged_buffers
from ..messages import search as messages
from ..methods import slack
from ..runs.ensemble import ALONE, Ensemble
from ..runs.progress import Standing

N_IMAGES = 4096  # at most, for a validation loss
N_HALVINGS = 40
NEAR = 0.05  # of the loss of guessing: as near to it, the classes are not learned; as near to none, all of them are
SCALES = (-5.0, 5.0)  # logarithms between which the best scale of logits is looked for

Weights = dict[str, Tensor]  # of a model, and its buffers, by name


class Found(NamedTuple):
    """All that a search has found so far. A stage is given one, and hands on another, with what it found itself."""

    phi: Policy  # uniform (line 1 of Algorithm 1), then learned
    theta_0: Weights  # of the network that rounds start from (line 2); empty before pre-training
    first: Weights  # of the network that whole trainings start from; empty where there is only one
    loss: float  # of the best pre-training: `Problem.tempered_loss`
    n_composed: int  # transformations of a composite in that pre-training; 0: images were as they are
    model_lr: float  # eta of the rounds

    def to_dict(self) -> dict[str, Any]:
        saved = self._asdict() | {"phi": [self.phi.pi, self.phi.mu]}
        return {name: value for name, value in saved.items() if value != {}}

    def with_saved(self, saved: dict[str, Any]) -> "Found":
        pi, mu = saved["phi"]
        return self._replace(**saved | {"phi": replace(self.phi, pi=pi, mu=mu)})


class Notice(NamedTuple):
    """What a stage tells of what it found: in a file of the run, and in sentences."""

    file: str | None  # None: it has none
    content: dict[str, Any]
    sentences: list[str]
    details: list[str]  # for those who want the numbers behind


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
        self.n_images = len(data.train.labels)
        self.phi = start_policy(config, data)  # uniform
        generator = rng.generator(config.seed, "model", *ensemble.purpose())
        self.model = models.build(config.model, data.n_classes, data.image_size, generator)
        self.remarks = [] if config.weights is None else [weights.load(self.model, config.weights)]
        self.model.to(device)
        self.preparation = prepare.window(data.image_size)
        self.made: tuple[Chance, Passes] | None = None  # kept from stage to stage: to capture steps takes long

    def chance_remark(self, loss: float) -> str:
        """What a user must know where pre-training comes to no better a tempered loss than guessing."""
        pretrain, is_chance = self.config.pretrain, loss > (1 - NEAR) * guessing_loss(self.val.labels)
        return messages.hardly_learned(pretrain.epochs, pretrain.lr) if is_chance else ""

    @property
    def compares_trainings(self) -> bool:
        return self.config.n_composed is None

    def start(self) -> Found:
        """What is known before the first stage."""
        first = self.weights() if self.compares_trainings else {}
        return Found(self.phi, {}, first, math.nan, self.phi.n_composed, self.config.search.model_lr)

    def streams(self, stage: str) -> dict[str, Generator]:
        return rng.streams(self.config.seed, stage, *self.ensemble.purpose())

    def weights(self) -> Weights:
        return weights_of(self.model)

    def make_fits(self, phis: Sequence[Policy], first: Weights) -> list[Fit]:
        """Trainings with these policies, as pre-training is: all from the same start, the network as it is where there
        are no weights, and with the same draws."""
        self.made = None  # the network is another's from now on
        if first:
            self.model.load_state_dict(first)
        networks = [self.model, *(deepcopy(self.model) for _ in phis[1:])]
        data = self.train, self.config.pretrain
        return [
            Fit(network, phi, *data, self.streams("pre-training"), self.preparation)
            for network, phi in zip(networks, phis, strict=True)
        ]

    def make_search(self, found: Found) -> tuple[Chance, Passes]:
        """The chance and the passes of rounds from theta_0; made once."""
        if self.made is None:
            self.model.load_state_dict(found.theta_0)
            phi, search, streams = found.phi, self.config.search, self.streams("search")
            batches = search.batch, search.n_val, streams
            chance = Chance(self.train, self.val, *batches, flip=phi.flip, preparation=self.preparation)
            average = self.ensemble.average if self.ensemble.n_ranks > 1 else alone

            def try_out(passes: Passes) -> None:
                for step in dict.fromkeys((0, search.n_retrain)):  # one if nothing is re-trained
                    next(slack.rounds(slack.start(phi, passes.theta)._replace(step=step), chance, passes, search))

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

    # --- validation losses --------------------------------------------------------------------------------------------

    def tempered_loss(self, fit: Fit) -> float:
        """After a training: of validation images as they are, as trainings are tested, at the best temperature."""
        val = self.val
        if len(val.labels) > N_IMAGES:
            val = val.subset(mixed(len(val.labels), self.config.seed))
        logits = predict(fit.model, fit.normalise, val, self.config.search.n_val)  # known to fit
        return self.ensemble.average(tempered_loss(logits, val.labels)).item()

    @torch.no_grad()
    def val_loss(self, passes: Passes) -> float:
        """Return the loss of validation images as a search sees them: unchanged, in train mode. It leaves no trace."""
        self.model.train()
        total, n = torch.zeros((), device=self.val.labels.device), 0
        stream = rng.generator(self.config.seed, "validation loss")
        with unchanged_buffers(self.model), drawing_from(stream, total.device):
            for index in mixed_batches(len(self.val.labels), self.config.search.n_val, self.config.seed):
                images, labels = self.val.take(index.to(self.val.labels.device))
                logits = self.model(passes.normalise(images))
                total += cross_entropy(logits.float(), labels, reduction="sum")
                n += len(labels)
        return self.ensemble.average(total / n).item()


def guessing_loss(labels: Tensor) -> float:
    """Return the loss of a network that knows how frequent the classes of these labels are, and nothing else."""
    return float(torch.special.entr(labels.bincount() / len(labels)).sum())


def weights_of(model: nn.Module) -> Weights:
    return {name: value.clone() for name, value in model.state_dict().items()}


def train(name: str, fits: Fits) -> Iterator[Standing]:
    """Train to the end, and tell of each after every step."""
    while fits.fits[0].done < fits.fits[0].n_steps:
        for fit, loss in zip(fits.fits, fits.step(), strict=True):
            phi = fit.policy
            assert isinstance(phi, Policy)
            is_last = fit is fits.fits[-1]
            yield Standing(name, 0, fit.done, fit.n_steps, loss, None, phi, is_last=is_last)
    fits.settle()


def tempered_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of logits (B, C) at the scale that suits these labels (B,) best.

    How sure a network is goes with how much augmentation it had. That changes the loss, but no answer, so the plain
    loss would choose by it.
    """
    logits = logits.double()
    right = logits.gather(1, labels[:, None]).squeeze(1)
    low, high = logits.new_tensor(SCALES)
    for _ in range(N_HALVINGS):  # the loss is convex in the scale
        middle = (low + high) / 2
        probabilities = (middle.exp() * logits).softmax(1)
        is_above = ((probabilities * logits).sum(1) - right).mean() > 0  # the derivative by the scale
        low, high = torch.where(is_above, low, middle), torch.where(is_above, middle, high)
    return cross_entropy(low.exp() * logits, labels)


def mixed(n: int, seed: int) -> Tensor:
    """Indices below n in random order, as many as count."""
    return torch.randperm(n, generator=rng.generator(seed, "validation batches"))[:N_IMAGES]


def mixed_batches(n: int, batch: int, seed: int) -> tuple[Tensor, ...]:
    """Indices below n, as many as count; of equal size and in random order, since each batch has its own batch-norm
    statistics: folders come class by class, and a batch of one class would be nothing that the model has seen."""
    order = mixed(n, seed)
    batch = min(batch, len(order))
    batches: tuple[Tensor, ...] = order[: len(order) - len(order) % batch].split(batch)
    return batches
