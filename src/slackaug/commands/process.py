"""The process of a command: what it finds when it starts, and how it ends.

Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 130 and 143 stopped by a signal.
"""

import io
import os
import sys
from collections.abc import Callable

from ..exits import Told, exit_code

# Turns that threads wait before they sleep. By default they are so many that busy cores starve (research/busy.py).
SPINS = "4000"


def follows() -> bool:
    """Whether this is a process of an ensemble, but not its first (torchrun)."""
    return os.environ.get("RANK", "0") != "0"


def is_understood() -> None:
    """The line is read: from here on the ensemble decides which process says what."""
    if follows():
        sys.stderr = sys.__stderr__


def describe(error: Exception) -> str:
    """What is wrong; of a file that cannot be written its name and why, without numbers of the system."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; a smaller --size, or a smaller batch, needs less"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def run(command: Callable[[], object]) -> None:
    """Run a command; a known error is one message on stderr, with no traceback unless --debug is given."""
    debug = "--debug" in sys.argv  # anywhere on the line
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # closed by whoever started this
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows question marks
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # torch, which reads it, is not loaded yet
    if follows():
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # rank 0 says what is wrong with the line
    try:
        command()
    except Told as error:
        sys.exit(error.code)
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        if debug:
            raise
        print(f"slackaug: {describe(error)}", file=sys.stderr)
        sys.exit(exit_code(error))
    except KeyboardInterrupt as error:
        print("slackaug: interrupted", file=sys.stderr)
        sys.exit(exit_code(error))
