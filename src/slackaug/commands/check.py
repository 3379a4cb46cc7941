"""`slackaug.check`: what a data set is, what to fix, and what a search would do and cost."""

from json import dumps
from typing import Annotated, Any

from rich.console import Console

from ..auto.check import Findings, closing, lines, look
from ..config.options import IMAGES, TRAINING, Given, Json, Machine, Source, Verbose, command
from ..config.run_config import Choices
from ..data import DataConfig, held
from ..data.options import is_path
from ..machine import machine
from ..messages.check import takes
from ..messages.terminal import say, terminal
from ..runs.progress import Reading


@command
def check(
    data: Source,
    *,
    json: Json = False,
    cost: Annotated[bool, "measure what a search takes here"] = True,
    chosen: Annotated[dict[str, Any], Given(Choices, TRAINING, only=("model",))],
    reading: Annotated[dict[str, Any], Given(DataConfig, IMAGES, without=("source", "fingerprint", "cache"))],
    where: Machine,
    verbose: Verbose = False,
    test: Any = None,
    console: Console | None = None,
) -> Findings:
    """Look at a data set: what is in it, what to fix, what a search would do and cost. Writes nothing.

    Exits 1 where you have to fix something before a search can start.

    Examples:
        slackaug check pets/
        slackaug check images.csv --group-by patient
        slackaug check pets/ --json
    """
    # In Python alone: `test` is the test set of data that is given as an object.
    device, _ = machine(where.device, where.threads)
    progress = Reading(None if console is None else terminal(stderr=True))
    shown = Console(quiet=True) if console is None or json else console
    with held.for_a_look(data) as folder:
        source = held.file_of(data, test, folder, DataConfig(**reading), progress)
        findings = look(
            DataConfig(source=source, **reading),
            [] if is_path(data) else ["data", *["test=test"] * (test is not None)],
            model=chosen.get("model"),
            device=device,
            cost=cost,
            progress=progress,
            on_found=lambda found: say(shown, "\n".join(lines(found))),
            on_cost=lambda one: say(shown, takes(*one, is_verbose=verbose)),
        )
    say(shown, "\n".join(closing(findings)))
    if console is not None and json:
        print(dumps(findings.as_dict(), indent=1))
    return findings
