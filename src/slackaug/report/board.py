"""The pie of each round for TensorBoard, beside the scalars that `runs.tensorboard` writes there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..runs import folders
from . import figures, plots


class Pies:
    """Follows a run. What goes wrong is said once, and all goes on."""

    def __init__(self, run: Path, folder: Path, n_steps: int, say: Callable[[str], None]):
        self.run, self.folder, self.n_steps, self.say = run, folder, n_steps, say  # n_steps: of a round
        self.n_written, self.has_failed = len(folders.read_policies(run)), False  # of a resumed run they are there
        self.writer: Any = None  # opens a file, so it is made when there is something to write

    def update(self) -> None:
        """Write those of the rounds that have ended since the last time."""
        try:
            self.write()
        except Exception as error:  # whatever it is: a picture is not worth a search
            if not self.has_failed:
                self.say(f"TensorBoard gets no pies ({str(error) or type(error).__name__}); all else is written")
            self.has_failed = True

    def write(self) -> None:
        policies = folders.read_policies(self.run)
        if len(policies) <= self.n_written:
            return
        if self.writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(self.folder))
        for number, policy in enumerate(policies[self.n_written :], self.n_written + 1):
            pixels = np.asarray(plots.image(figures.pie_scene(policy)))
            self.writer.add_image("policy/pie", pixels, number * self.n_steps, dataformats="HWC")
        self.writer.flush()
        self.n_written = len(policies)
