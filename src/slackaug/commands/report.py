"""The command `report`: one HTML file about a run."""

import webbrowser
from pathlib import Path
from typing import Annotated

from .. import messages
from ..config.options import Path as PathLike
from ..config.options import command
from ..messages.terminal import say, terminal
from ..report import page


@command
def report(
    run: Annotated[PathLike, "folder of a run, a study or an evaluation"],
    *,
    out: Annotated[PathLike | None, "file to write; the default is report.html in the run"] = None,
    data: Annotated[str | None, "where the images are now, to show some"] = None,
    open: Annotated[bool, "show it in the browser"] = False,
) -> Path:
    """Write one HTML file about a run: the verdict, the policy, how it was learned, and what it does to your images.

    Examples:
        slackaug report runs/pets --open
    """
    path = page.write(run, out, data=data)
    say(terminal(), messages.report(str(path)))
    if open and not webbrowser.open(path.resolve().as_uri()):
        say(terminal(stderr=True), "no browser was found to open it with")
    return path
