"""TensorBoard: event files in the folder of the run."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def opened(folder: Path, settings: dict[str, Any]) -> Iterator[Callable[[dict[str, float], int], None]]:
    from torch.utils.tensorboard import SummaryWriter

    def log(numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    with closing(SummaryWriter(str(folder))) as writer:
        yield log
