"""Weights & Biases, as its environment variables say: WANDB_MODE, WANDB_PROJECT (else slackaug), WANDB_ENTITY."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...files import write_atomically
from ...foreign import extra


@contextmanager
def opened(folder: Path, settings: dict[str, Any]) -> Iterator[Callable[[dict[str, float], int], None]]:
    wandb, run = extra("wandb"), folder.parent.resolve()
    known = folder / "run_id"  # a search that is resumed continues the same run there
    with wandb.init(
        project=os.environ.get("WANDB_PROJECT", "slackaug"), name=run.name, dir=str(run), config=settings,
        id=known.read_text() if known.is_file() else None, resume="allow",
    ) as there:  # fmt: skip
        write_atomically(known, there.id.encode())
        there.define_metric("*", step_metric="step")  # its own steps may not go back, as stages and resumed runs do
        yield lambda numbers, step: there.log(numbers | {"step": step})
