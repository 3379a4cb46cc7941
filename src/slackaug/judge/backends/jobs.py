"""What a job is, how it ends, and what a backend does with jobs.

A job is a function of `tell`, to which it says what share of it is done; it leaves its result in a file, and takes up
what an earlier attempt has left. So a job that died is simply started again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from ...exits import Stopped, signals
from ...runs.progress import Jobs

MAX_ATTEMPTS = 3  # of a job whose process died; one that raised an error is not tried again
POLL_SECONDS = 0.2
STOPPED = "stopped; everything is saved"

Tell = Callable[[float], None]  # takes the share that is done
Job = Callable[[Tell], None]


class BackendError(RuntimeError):
    """The backend cannot be used, or jobs failed on it."""


class Backend(Protocol):
    is_elsewhere: bool  # on machines other than this one, about which nothing is known here

    def run(self, jobs: Sequence[Job], shown: Jobs) -> None:
        """Do all jobs. One that fails does not keep the others from being done; the error comes at the end."""


class Tally:
    """How far jobs are, and which have failed."""

    def __init__(self, shown: Jobs):
        self.shown, self.names = shown, shown.names
        self.shares = [0.0] * len(self.names)
        self.failures: dict[str, str] = {}

    def share(self, index: int, share: float) -> None:
        self.shares[index] = share
        self.shown.progress(self.shares)

    def end(self, index: int, error: Exception | None) -> None:
        """A job is done, or has failed; what would be wrong with all others, too, the input or the disk, is raised."""
        if isinstance(error, ValueError | OSError):
            raise error
        self.shares[index] = 1.0
        if error is None:
            self.shown.done(index)
        else:
            self.failures[self.names[index]] = str(error)
        self.shown.progress(self.shares)

    @contextmanager
    def until_stopped(self) -> Iterator[list[int]]:
        """The signals that come; what has failed, and that the work was stopped, is raised at its end."""
        with signals() as caught:
            yield caught
        if caught:
            raise Stopped(STOPPED, caught[0])
        if self.failures:
            texts = "\n".join(f"  {name}: {reason}" for name, reason in self.failures.items())
            others = ", the others are saved" if len(self.failures) < len(self.names) else ""
            raise BackendError(f"{len(self.failures)} of {len(self.names)} failed{others}:\n{texts}")


def attempt(job: Job, tell: Tell) -> Exception | None:
    """Why a job failed, if it did: an error that can be sent, as not all kinds can."""
    try:
        job(tell)
    except (Stopped, BrokenPipeError):
        raise
    except ValueError as error:
        return ValueError(str(error))
    except OSError as error:
        return OSError(error.errno, error.strerror or str(error), error.filename)
    except RuntimeError as error:
        return RuntimeError(str(error))
    return None
