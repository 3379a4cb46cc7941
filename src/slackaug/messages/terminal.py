"""How sentences fit a terminal: by whole words, and commands so that they can be copied.

A command stands on a line of its own, indented: if it does not fit, it continues in the way that a shell reads it.
"""

import os
import re
import sys
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console

ENDLESS = 1000  # columns of what is neither a terminal nor told its width: one sentence, one line
INDENT = "  "
TO_CONTINUE = "To continue"  # what was stopped, on a terminal as on a page
COMMAND = re.compile(r" +(slackaug|torchrun|pip|python) ")
COLUMNS = re.compile(r".*\S {2,}(?=\S)")  # of a row: up to where its last column begins
NARROWEST = 20  # a column that is wrapped
CONTINUES = " \\"
WORDS = re.compile(r"(?:--?[\w-]+ (?=[^-]))?(?:'[^']*'|[^\s'])+")  # of a command: an option stays with its value


def how(purpose: str, advice: str) -> str:
    """Advice, in words or as a command, which has a line of its own to be copied."""
    is_command = COMMAND.match(f"{INDENT}{advice}")
    return f"{purpose}:\n{INDENT}{advice}" if is_command else f"{purpose}: {advice}"


def terminal(*, stderr: bool = False) -> Console:
    """The console of a stream: as wide as its terminal, or as COLUMNS says."""
    stream = sys.stderr if stderr else sys.stdout
    is_known = "COLUMNS" in os.environ or stream.isatty()
    return Console(stderr=stderr, width=None if is_known else ENDLESS)


def say(console: Console, text: str) -> None:
    """Sentences, which hold no markup."""
    console.print("\n".join(fitted(text, console.width)), highlight=False, markup=False, soft_wrap=True)


def fitted(text: str, width: int) -> list[str]:
    """The lines of a text, in lines of whole words; the last column of a row stays a column. A word that is wider, such
    as a path, has a line of its own."""
    lines = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        if cell_len(line) <= width:
            lines.append(line)
        elif COMMAND.match(line):
            own = packed(WORDS.findall(line), width - len(indent) - len(CONTINUES))
            lines += [f"{indent}{part}{CONTINUES}" for part in own]
            lines[-1] = lines[-1].removesuffix(CONTINUES)
        elif (row := COLUMNS.match(line)) and width - (start := cell_len(row[0])) >= NARROWEST:
            first, *others = packed(line[row.end() :].split(), width - start)
            lines += [row[0] + first, *(" " * start + part for part in others)]
        else:
            lines += [indent + part for part in packed(line.split(), width - len(indent))]
    return lines


def packed(words: Sequence[str], width: int) -> list[str]:
    """Lines of as many words as fit."""
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and cell_len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
