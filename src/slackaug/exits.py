"""The process of a command: what it finds when it starts, the signals that stop it, and how it ends.

Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 130 and 143 stopped by a signal.
"""

import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

BROKEN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # a disk that is full, read-only or failing
# Turns that threads wait before they sleep. By default they are so many that busy cores starve (research/busy.py).
SPINS = "4000"
NOTHING_WRITTEN, SOMETHING_KEPT = "stopped; nothing was written", "stopped; what was saved so far is kept"


class Stopped(RuntimeError):
    """The work was asked to stop; everything is saved."""

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.signal_number = signal_number


class Told(RuntimeError):
    """Another process of the ensemble says what happened; this one only ends, with the same code."""

    def __init__(self, code: int):
        super().__init__("another process of the ensemble says why this one ends")
        self.code = code


def exit_code(error: BaseException) -> int:
    if isinstance(error, Told):
        return error.code
    if isinstance(error, Stopped):
        return 128 + error.signal_number
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    if isinstance(error, OSError) and error.errno in BROKEN:
        return 1
    return 2 if isinstance(error, ValueError | OSError) else 1


class Note(list[int]):
    """The signals that have come, and the handler that notes them; a second SIGINT interrupts at once."""

    def __call__(self, number: int, frame: object) -> None:
        if self and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.append(number)


@contextmanager
def signals() -> Iterator[list[int]]:
    """SIGINT and SIGTERM are noted, to be acted upon after the step. Where one is inside another, both see all."""
    outside, before = signal.getsignal(signal.SIGINT), {}
    note = outside if isinstance(outside, Note) else Note()
    with suppress(ValueError):  # not in the main thread: whoever owns that decides
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield note
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.default_int_handler if handler is interrupt else handler)


@contextmanager
def alone() -> Iterator[None]:
    """In a process that is this command alone, Ctrl-C while it loads or ends leaves no traceback of its libraries."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # whoever started this may have it ignored
        signal.signal(signal.SIGINT, end_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def end_at_once(number: int, frame: object) -> None:
    """Libraries that are half loaded turn an exception into others, or print it."""
    with suppress(OSError):
        os.write(2, f"slackaug: {NOTHING_WRITTEN}\n".encode())
    os._exit(128 + number)


def interrupt(number: int, frame: object) -> None:
    """Before there is anything to save; where `signals` has been, there is."""
    raise KeyboardInterrupt(NOTHING_WRITTEN)


def ignore_sigterm() -> None:
    """For a process that is ending by itself: torchrun sends SIGTERM to all when one has ended."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextmanager
def understood() -> Iterator[None]:
    """The line is read, and all is loaded: from here on the ensemble decides which process says what. Typer would pass
    over Ctrl-C in silence."""
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, interrupt)
    if os.environ.get("RANK", "0") != "0":
        sys.stderr = sys.__stderr__
    try:
        yield
    except KeyboardInterrupt as error:
        raise Stopped(str(error) or SOMETHING_KEPT, signal.SIGINT) from None


def describe(error: BaseException) -> str:
    """What is wrong; of a file that cannot be written its name and why, without numbers of the system."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; a smaller --size, or a smaller batch, needs less"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def run(command: Callable[[], object]) -> None:
    """Run a command; a known error is one message on stderr, with no traceback unless --debug is given."""
    from .messages.terminal import say, terminal  # only now: Ctrl-C waits for nothing

    debug = "--debug" in sys.argv  # anywhere on the line
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # closed by whoever started this
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows question marks
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # torch, which reads it, is not loaded yet
    if os.environ.get("RANK", "0") != "0":  # not the first process of an ensemble (torchrun)
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # the first one says what is wrong with the line
    try:
        command()
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        if debug and not isinstance(error, Stopped | Told):
            raise
        if not isinstance(error, Told):
            say(terminal(stderr=True), f"slackaug: {describe(error)}")
        sys.exit(exit_code(error))
