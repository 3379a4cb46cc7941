"""How a command ends: its exit code, the signals that stop it, and the errors that go with them."""

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

BROKEN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # a disk that is full, read-only or failing


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
    """1 the run failed, 2 the input was wrong, 130 and 143 stopped by a signal."""
    if isinstance(error, Told):
        return error.code
    if isinstance(error, Stopped):
        return 128 + error.signal_number
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    if isinstance(error, OSError) and error.errno in BROKEN:
        return 1
    return 2 if isinstance(error, ValueError | OSError) else 1


class Note:
    """A handler that notes signals; a second SIGINT interrupts at once."""

    def __init__(self, caught: list[int]):
        self.caught = caught

    def __call__(self, number: int, frame: object) -> None:
        if self.caught and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.caught.append(number)


@contextmanager
def signals() -> Iterator[list[int]]:
    """SIGINT and SIGTERM are noted, to be acted upon after the step. Where one is inside another, both see all."""
    outside = signal.getsignal(signal.SIGINT)
    caught: list[int] = outside.caught if isinstance(outside, Note) else []
    note = Note(caught)
    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: whoever owns that decides
        yield caught
        return
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore_sigterm() -> None:
    """For a process that is ending by itself: torchrun sends SIGTERM to all when one has ended."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
