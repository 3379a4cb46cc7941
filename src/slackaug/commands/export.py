"""The command `export`: what to use, as a Python file for another library."""

import os
from pathlib import Path as FilePath
from typing import Annotated, Any

from ..augment.formats.published import policy_file
from ..augment.policy import Policy
from ..config.options import Path, PolicySource, command
from ..data import DataError, samples
from ..export import ExportError, check_target, find, import_line, new_file, write
from ..export.fidelity import is_here
from ..files import write_atomically
from ..judge import ready_made
from ..messages.answer import is_the_answer, not_the_answer, race_was_stopped
from ..messages.names import spoken
from ..messages.terminal import TO_CONTINUE, how, say, terminal
from ..report import history
from ..report.use import command as command_line
from ..report.use import search_longer, train_command
from ..runs.folders import round_files


@command
def export(
    policy: PolicySource,
    *,
    to: Annotated[str, "the library: torchvision, timm, albumentations, kornia, or python (torch alone)"],
    out: Annotated[Path, "file to write, such as augment.py"],
    overwrite: Annotated[bool, "replace the file"] = False,
) -> None:
    """Write what to use as a Python file for another library, with its numbers inside and no need of slackaug.

    Says for each transformation whether its pixels are exactly those of the search. Of a run it is the answer. Where
    the library does not have that, as with UniformAugment, it says what to type instead.

    Examples:
        slackaug export runs/pets --to torchvision -o augment.py
    """
    source, found = os.fspath(policy), find(os.fspath(policy))
    if found.learned.get("is_answer") is False:
        check_target(to)
        path, use = new_file(out, overwrite=overwrite), found.learned["use"]
        file = of_the_answer(use, to, policy_file(source), found)
        write_atomically(path, file.text.encode())
        written, name = file.table, file.name
    else:
        written, name = write(source, to, os.fspath(out), overwrite=overwrite), "SlackAugment"
    remarks = raced(found.learned)
    remarks.append(f"wrote {out}: {import_line(os.fspath(out), name)}")
    remarks += [] if is_here(to) else [f"{to} is not installed here; the file needs it"]
    say(terminal(), "\n".join([written, *remarks]))


def raced(learned: dict[str, Any]) -> list[str]:
    """Whether the answer of a run is final; nothing of what was never raced."""
    if (use := learned.get("use")) is None:
        return []
    return [is_the_answer(use) if learned.get("is_final", True) else race_was_stopped(use)]


def of_the_answer(use: str | None, to: str, policy: FilePath, learned: Policy) -> ready_made.File:
    """The answer of a run whose policy file holds what was `learned`, for that is no policy, or there is none yet."""
    run = policy.parent
    config = history.read_config(run)
    instead = [how("To export the learned policy", f"give {path}") for path in round_files(run)[-1:]]
    if use is None:
        source = config.data.source
        again = how("To search with longer trainings", search_longer(source, str(run), config))
        if not learned.learned.get("is_final", True):
            again = how(TO_CONTINUE, command_line("search", source, "-o", str(run), "--resume"))
        raise ExportError("\n".join([f"{run}: {not_the_answer(None)}", again, *instead]))
    instead = [how("To train with it", train_command(config.data.source, use)), *instead]
    try:
        size = samples.find(config.data, None, "its file cannot be written without them").size
    except DataError as error:
        says = f"{run}: its answer, {spoken(use)}, depends on the size of its images. {error}"
        raise ExportError("\n".join([says, *instead])) from None
    if to not in (known := ready_made.targets(use, size)):
        others = f"; --to {' or --to '.join(known)} does" if known else ""
        raise ExportError("\n".join([f"{run}: {to} does not have its answer, {spoken(use)}{others}", *instead]))
    return ready_made.file(use, to, size, learned, str(run))
