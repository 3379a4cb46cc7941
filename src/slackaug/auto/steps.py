"""The steps of a search by kind: how many there are, and what they come to, in images or in seconds."""

from typing import NamedTuple

from ..config.run import RunConfig
from ..methods.slack import SearchConfig
from . import calibrate, composing, confirm


class Steps(NamedTuple):
    """So many of each kind; or so much for one of each."""

    training: float  # of a network with one policy: pre-trainings, and those that confirm
    retraining: float  # in rounds, and in the trials of a rate
    policy: float

    def at(self, each: "Steps") -> float:
        """What they cost together."""
        return sum(n * cost for n, cost in zip(self, each, strict=True))


def usual(config: RunConfig, n_training: int, n_pretrainings: int = 1) -> Steps:
    """Of a whole search, with as many trials as there are as a rule; a training has n_training."""
    search, n_trainings = config.search, n_pretrainings
    if config.n_composed is None:
        n_trainings += composing.N_USUAL - 1
    if config.confirm:
        n_trainings += len(confirm.STRENGTHS)
    n_retrainings = search.n_rounds + calibrate.N_USUAL * search.calibrate
    return Steps(n_trainings * n_training, n_retrainings * search.n_retrain, search.n_rounds * search.n_unrolled)


def images(search: SearchConfig, n_train: int, batch: int) -> Steps:
    """That pass through the model in a step of each kind; `batch` is that of trainings."""
    composites = search.n_composites * min(search.batch, n_train)
    if search.train_batch is None:
        return Steps(batch, composites, composites)
    retraining = min(search.train_batch, n_train)
    return Steps(batch, retraining, composites + retraining)
