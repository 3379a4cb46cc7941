"""Work that is killed at random moments and taken up again, and a ledger of what it had saved by then.

The process that works writes a line to the ledger after each thing that it has saved. A line is one system call, so
that SIGKILL leaves it whole or not there: what the ledger says must be found again, whatever the moment was.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import tiny
from slackaug import cli
from slackaug.data import load
from slackaug.judge import records, training
from slackaug.judge.protocols import Training
from slackaug.judge.studies import search_jobs
from slackaug.runs.checkpoints import Checkpoints

N_STEPS = 1000  # more than a round of any test has
LIMIT = 120.0  # seconds that no attempt takes


class Work(NamedTuple):
    """Something that can be killed. The functions take the folder that it writes to."""

    begin: Callable[[Path], list[str]]  # words of the command
    resume: Callable[[Path], list[str]]
    mark: str  # the file from which on it is resumed, not begun
    outcome: Callable[[Path], Any]  # all that must not depend on interruptions

    def words(self, out: Path) -> list[str]:
        return self.resume(out) if (out / self.mark).exists() else self.begin(out)


def search(data: Path) -> Work:
    return Work(partial(tiny.arguments, data), partial(tiny.resume, data), "config.yaml", tiny.outcome)


def evaluation(data: Path, n_seeds: int = 2, more: Sequence[object] = ()) -> Work:
    def words(out: Path) -> list[str]:
        return tiny.evaluate_words(data, out, "--baselines", "none,uniform", "--seeds", n_seeds, *more)

    return Work(words, words, "", tiny.evaluate_outcome)


def study(data: Path) -> Work:
    def begin(out: Path) -> list[str]:
        return tiny.study_words(data, out, "--baselines", "none", "--evaluations", 1)

    return Work(begin, tiny.study_resume, "study.yaml", tiny.study_outcome)


def torment(work: Work, target: Callable[..., None], folder: Path, n_kills: int) -> None:
    """Kill the work `n_kills` times, resume it each time, and compare what comes out in the end with what should."""
    random, kills, completions = Random(n_kills), 0, 0
    _, seconds = attempt(target, work, folder / "whole", None)
    expected = work.outcome(folder / "whole")
    while kills < n_kills:
        out, code = folder / f"killed {completions}", -signal.SIGKILL
        while code:
            moment = random.uniform(0, seconds) if kills < n_kills else None
            code, _ = attempt(target, work, out, moment)
            check(ledger(out))
            kills += code != 0
        assert work.outcome(out) == expected
        completions += 1
    print(f"{kills} kills, {completions} times finished, in {seconds:.1f} s without a kill")


def attempt(target: Callable[..., None], work: Work, out: Path, moment: float | None) -> tuple[int, float]:
    """Begin or go on, until the end or until so many seconds after the start; the exit code, and the seconds."""
    book, log = ledger(out), out.with_name(out.name + ".log")
    n_lines = len(lines(book))
    process = tiny.start(target, work.words(out), str(log), str(book), daemon=False)
    while len(lines(book)) == n_lines and process.is_alive():
        time.sleep(0.001)
    start = time.monotonic()
    process.join(LIMIT if moment is None else moment)
    if process.is_alive():
        assert moment is not None, f"it hangs: {log.read_text()}"
        process.kill()
    process.join(LIMIT)
    code, seconds = process.exitcode, time.monotonic() - start
    process.close()
    assert code in (0, -signal.SIGKILL), log.read_text()
    return int(code), seconds


# --- the ledger -------------------------------------------------------------------------------------------------------


def ledger(out: Path) -> Path:
    return out.with_name(out.name + ".ledger")


def lines(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []


def check(path: Path) -> None:
    """Whatever was saved is loaded again, or something newer; what was finished is still there, and not begun anew."""
    saved: dict[str, int] = {}
    done: set[str] = set()
    for verb, *rest in lines(path):
        if verb == "saved":
            saved[rest[0]] = int(rest[1])
        elif verb == "loaded":
            assert int(rest[1]) >= saved.get(rest[0], -1), f"{rest[0]}: {rest[1]} loaded, {saved[rest[0]]} was saved"
            assert rest[0] not in done
        elif verb == "done":
            done.add(rest[0])
            assert Path(rest[1]).is_file()


def position(state: dict[str, Any] | None) -> int:
    """Of a checkpoint: it grows with the work that is done."""
    if state is None:
        return -1
    stage = state.get("stage", state)  # an evaluation's training has no stages
    if "search" in stage:
        return int((stage["search"]["round"] + 1) * N_STEPS + stage["search"]["step"])
    return int((stage["fit"] if "fit" in stage else stage["fits"][0])["done"])


# --- in the process that is killed ------------------------------------------------------------------------------------


def prepare(log: str) -> None:
    """As for a search, for trainings, too."""
    tiny.prepare(log)
    training.CHECKPOINT_SECONDS, training.REPORT_EVERY, training.seconds_of = -1.0, 1, lambda one: 0.0


def notes(path: str) -> Callable[..., None]:
    """The function that writes a line to the ledger; the first says that the work begins."""
    book = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(*words: object) -> None:
        os.write(book, ("\t".join(map(str, words)) + "\n").encode())

    note("begun")
    return note


def command(words: list[str], log: str, path: str) -> None:
    prepare(log)
    save, find, keep = Checkpoints.save, Checkpoints.load, records.keep

    def save_and_note(self: Checkpoints, state: dict[str, Any]) -> None:
        save(self, state)
        note("saved", self.folder, position(state))

    def load_and_note(self: Checkpoints) -> Any:
        found = find(self)
        note("loaded", self.folder, position(found[0]))
        return found

    def keep_and_note(one: Training, *rest: Any) -> None:
        keep(one, *rest)
        note("done", one.checkpoint_folder, one.result_file)

    Checkpoints.save, Checkpoints.load = save_and_note, load_and_note  # type: ignore[method-assign]
    records.keep = keep_and_note
    note = notes(path)
    sys.argv = ["slackaug", *words]
    cli.main()


def build_cache(words: list[str], log: str, path: str) -> None:
    """Decode the images of a folder; `words` are that folder and the cache's."""
    prepare(log)
    note = notes(path)
    load(words[0], cache=words[1], progress=lambda what, done, total: note(what, done, total))


# --- at a chosen moment of an evaluation or a study -------------------------------------------------------------------


def until(words: list[str], log: Path, job: str, share: float, number: int) -> int:
    """The exit code of a command that sends itself the signal when so much of that search or training is done."""
    return tiny.ended(tiny.start(live_and_die, words, str(log), job, share, number), LIMIT)


def live_and_die(words: list[str], log: str, job: str, share: float, number: int) -> None:
    prepare(log)

    def dying(run: Callable[..., None], name: Callable[[Any], str]) -> Callable[..., None]:
        def run_or_die(*given: Any) -> None:
            *_, one, report = given

            def report_or_die(done: float) -> None:
                if name(one) == job and done >= share:
                    os.kill(os.getpid(), number)
                report(done)

            run(*given[:-1], report_or_die)

        return run_or_die

    training.run = dying(training.run, lambda team: f"{team[0].name} {team[0].seed}")
    search_jobs.search = dying(search_jobs.search, lambda one: f"search {one.seed}")
    sys.argv = ["slackaug", *words]
    cli.main()
