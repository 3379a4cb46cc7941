"""The steps of a search by kind: how many there are, and what they come to, in images or in seconds."""

from typing import NamedTuple

from ..config.run_config import RunConfig
from ..methods.budget import SearchConfig
from . import calibrate, composing
from .stages import Search


class Steps(NamedTuple):
    """So many of each kind; or so much for one of each."""

    training: float  # of a network with one policy: pre-trainings, and those that confirm
    retraining: float  # in rounds, and in the trials of a rate
    policy: float

    def at(self, each: "Steps") -> float:
        """What they cost together."""
        return sum(n * cost for n, cost in zip(self, each, strict=True))


def usual(config: RunConfig, n_training: int) -> Steps:
    """Of a whole search, with as many trials as there are as a rule; a training has n_training."""
    search, n_trainings = config.search, 1 + config.confirm
    if config.n_composed is None:
        n_trainings += composing.N_USUAL - 1
    n_retrainings = search.n_rounds + calibrate.N_USUAL * search.calibrate
    return Steps(n_trainings * n_training, n_retrainings * search.n_retrain, search.n_rounds * search.n_unrolled)


def images(search: SearchConfig, n_train: int, batch: int) -> Steps:
    """That pass through the model in a step of each kind; `batch` is that of trainings."""
    composites = search.n_composites * min(search.batch, n_train)
    return Steps(batch, composites, composites)


def done(search: Search) -> Steps:
    """So far; what is left of the usual number of trials when a stage is over counts as done."""
    config, n = search.problem.config, search.pretrain.fit.n_steps
    whole, each_round = usual(config, n), config.search
    trainings, calibrating = whole.training - n * config.confirm, calibrate.N_USUAL * each_round.n_retrain
    training = trainings if search.pretrain.is_done else min(search.pretrain.n_trained, trainings)
    if search.confirm is not None and search.confirm.fit is not None:
        training += search.confirm.fit.done
    retraining, policy = 0, 0
    if search.calibrate is not None:
        retraining += calibrating if search.calibrate.is_done else min(search.calibrate.n_tried, calibrating)
    if (state := search.rounds.state) is not None:
        retraining += state.round * each_round.n_retrain + min(state.step, each_round.n_retrain)
        policy += state.round * each_round.n_unrolled + max(state.step - each_round.n_retrain, 0)
    return Steps(training, retraining, policy)


def share_done(search: Search) -> float:
    """Of a whole search, by images that pass through the network."""
    fit, config = search.pretrain.fit, search.problem.config
    each = images(config.search, len(search.problem.train.labels), fit.feed.batches.batch)
    return 1.0 if search.is_finished else done(search).at(each) / usual(config, fit.n_steps).at(each)
