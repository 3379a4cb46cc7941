"""The command `export`: a policy as a Python file for another library."""

import os
from typing import Annotated

from ..config.options import Path, PolicySource, command
from ..export import import_line, write
from ..messages.terminal import say, terminal


@command
def export(
    policy: PolicySource,
    *,
    to: Annotated[str, "the library: torchvision, timm, albumentations, kornia, or python (torch alone)"],
    out: Annotated[Path, "file to write, such as augment.py"],
    overwrite: Annotated[bool, "replace the file"] = False,
) -> None:
    """Write a policy as a Python file for another library, with its numbers inside and no need of slackaug.

    Says for each transformation whether its pixels are exactly those of the search.

    Examples:
        slackaug export runs/pets --to torchvision -o augment.py
    """
    written = write(os.fspath(policy), to, os.fspath(out), overwrite=overwrite)
    say(terminal(), f"{written}\nwrote {out}: {import_line(os.fspath(out))}")
