"""Where the numbers of a search go beside metrics.jsonl: to a library that is named here, or to a function of yours.

A logger is a function of numbers by their names, and of the step. Each library has a file of its own, which imports it
when it is asked for, and not before.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ...foreign import extra
from ...messages import search as messages
from ...schema import unknown
from . import mlflow, tensorboard, wandb

Numbers = dict[str, float]
Logger = Callable[[Numbers, int], object]
# From a folder of its own in the run's, and the settings of the run. Names are those of packages and of extras.
LOGGERS: dict[str, Callable[[Path, dict[str, Any]], AbstractContextManager[Logger]]] = {
    "tensorboard": tensorboard.opened,
    "wandb": wandb.opened,
    "mlflow": mlflow.opened,
}


def check(wanted: Sequence[str | Logger]) -> None:
    """That each is a function, or a name whose library is there."""
    for one in wanted:
        if isinstance(one, str) and one not in LOGGERS:
            raise ValueError(unknown("logger", one, [*LOGGERS]))
        if isinstance(one, str):
            extra(one)
        elif not callable(one):
            raise TypeError(f"log takes names and functions of (numbers, step), got {type(one).__name__}")


class Guarded:
    """A logger whose first failure is its last, and is reported: no search ends because of it."""

    def __init__(self, one: str | Logger, folder: Path, settings: dict[str, Any], say: Callable[[str], None]):
        self.name = one if isinstance(one, str) else getattr(one, "__name__", type(one).__name__)
        self.say, self.open, self.log = say, ExitStack(), None if isinstance(one, str) else one
        if isinstance(one, str):
            with self.reported():
                (folder / one).mkdir(exist_ok=True)
                self.log = self.open.enter_context(LOGGERS[one](folder / one, settings))

    def __call__(self, numbers: Numbers, step: int) -> None:
        with self.reported():
            if self.log is not None:
                self.log(numbers, step)

    def close(self) -> None:
        with self.reported():
            self.open.close()

    @contextmanager
    def reported(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever a library, a network or a user's function does
            self.log = None
            self.say(messages.no_log(self.name, str(error).partition("\n")[0] or type(error).__name__))


def scalars(metrics: dict[str, Any], names: Sequence[str], n_steps: int) -> tuple[Numbers, int]:
    """A line of metrics.jsonl as numbers, and the step: rounds of `n_steps` follow one another."""
    step = max(metrics["round"] - 1, 0) * n_steps + metrics["step"]
    stage = "search" if metrics["round"] else f"pre-training-{metrics['n_composed']}"
    numbers = {f"{stage}/{key}": metrics[key] for key in ("train_loss", "val_loss") if key in metrics}
    if "pi" in metrics:
        numbers["search/entropy"] = sum(metrics["entropy"]) / len(metrics["entropy"])
        means = (sum(column) / len(column) for column in zip(*metrics["pi"], strict=True))
        numbers |= {f"pi/{name}": mean for name, mean in zip(names, means, strict=True)}
        numbers |= {f"mu/{name}": mu for name, mu in zip(names, metrics["mu"], strict=True) if mu is not None}
    return numbers, step
