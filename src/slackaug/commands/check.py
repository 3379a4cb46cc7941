"""`slackaug.check`: what a data set is, what to fix, and what a search would do and cost."""

from json import dumps
from typing import Annotated, Any

from rich.console import Console

from ..auto.check import Findings, lines, look
from ..config.options import Given, Machine, Source, command
from ..config.run_config import Choices
from ..data import DataConfig, held
from ..data.options import is_path
from ..machine import machine
from ..runs.progress import Reading


@command
def check(
    data: Source,
    *,
    json: Annotated[bool, "print one JSON object"] = False,
    cost: Annotated[bool, "measure what a search takes here"] = True,
    chosen: Annotated[dict[str, Any], Given(Choices, only=("model",))],
    reading: Annotated[dict[str, Any], Given(DataConfig, without=("source", "fingerprint", "cache"))],
    where: Machine,
    test: Any = None,
    console: Console | None = None,
) -> Findings:
    """Look at a data set: what is in it, what to fix, what a search would do and cost. Writes nothing.

    Exits 1 where you have to fix something before a search can start.
    """
    # In Python alone: `test` is the test set of data that is given as an object.
    device, _ = machine(where.device, where.threads)
    progress = Reading(None if console is None else Console(stderr=True))
    with held.for_a_look(data) as folder:
        source = held.file_of(data, test, folder, DataConfig(**reading), progress)
        config = DataConfig(source=source, **reading)
        given = [] if is_path(data) else ["data", *["test=test"] * (test is not None)]
        findings = look(config, given, model=chosen.get("model"), device=device, cost=cost, progress=progress)
    if console is not None:
        text = dumps(findings.as_dict(), indent=1) if json else "\n".join(lines(findings))
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    return findings
