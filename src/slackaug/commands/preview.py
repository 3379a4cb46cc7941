"""`slackaug.preview`: what a policy does to some images, on one sheet."""

import os
from collections.abc import Sequence
from typing import Annotated

from ..config.options import Path, PolicySource, command
from ..messages.terminal import say, terminal
from ..report import contact_sheet
from ..report.policy_table import of_the_race


@command
def preview(
    policy: PolicySource,
    images: Annotated[Sequence[Path], "image files"],
    *,
    out: Annotated[Path, "file to write"] = "preview.png",
    seed: Annotated[int, "seed of the random composites, directions and crops"] = 0,
    overwrite: Annotated[bool, "replace the file"] = False,
) -> None:
    """A contact sheet of images: their most and least likely transformations, and random composites.

    Examples:
        slackaug preview runs/pets cat.jpg dog.jpg -o preview.png
    """
    if seed < 0:
        raise ValueError(f"--seed {seed}: expected at least 0")
    files = [os.fspath(image) for image in images]
    shown = contact_sheet.write(os.fspath(policy), files, os.fspath(out), seed=seed, overwrite=overwrite)
    for line in (f"wrote {out}", *of_the_race(shown)):
        say(terminal(), line)
