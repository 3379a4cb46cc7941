"""Is the race's answer ever worse than a fixed choice? Searches with their races, and what their candidates are worth.

    PYTHONPATH=src python research/evidence.py prepare --shared DIR      the sets, packed, into --data
    PYTHONPATH=src python research/evidence.py --minutes 9 --sets a,b    the next missing cells
    PYTHONPATH=src python research/evidence.py table                     what is known so far, as Markdown

Cells are added to RESULTS/SET.json after each block of 8 trainings or each search. A call that ends early leaves what
it was at in SCRATCH, and the next one continues from there.
"""

import argparse
import datetime
import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console

import evidence_cells as cells
import evidence_sets
import evidence_table
import slackaug
from evidence_cells import AUTO, Block, Book, Cell
from slackaug.auto import pretrain, race
from slackaug.auto.conduct import Session
from slackaug.auto.problem import Problem, train
from slackaug.auto.resume import read_config
from slackaug.config.layers import configure, data_config
from slackaug.config.run_config import RunConfig
from slackaug.data import Dataset, read
from slackaug.engine import ways
from slackaug.engine.fit import Fits
from slackaug.exits import Stopped, signals
from slackaug.files import finite_or_null, read_note
from slackaug.judge import answer, records
from slackaug.judge.protocols import Training, data_digest
from slackaug.judge.queue import Comparison, conduct
from slackaug.machine import machine
from slackaug.messages.names import LEARNED
from slackaug.runs import folders, provenance
from slackaug.runs.ensemble import ALONE

RESULTS = Path(__file__).parent / "results" / "evidence"
OLD_MARGIN = 0.02  # of the loss, by which the learned policy had to be better, before there was a race (465e2b5)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One set on this machine."""

    name: str
    data: Path
    scratch: Path
    preset: str
    assignments: Sequence[str]
    device: str
    threads: int | None
    console: Console

    @cached_property
    def source(self) -> Path:
        return evidence_sets.unpacked(self.data, self.name, self.scratch)

    @cached_property
    def dataset(self) -> Dataset:
        return read(data_config(str(self.source), {}, None))

    @property
    def given(self) -> dict[str, Any]:
        """What a user who knows the images would say."""
        flip = evidence_sets.SETS[self.name].flip
        return {"preset": self.preset} | ({} if flip is None else {"flip": flip})

    @cached_property
    def config(self) -> RunConfig:
        found = configure(self.dataset, self.given, None, self.assignments)
        return replace(
            found, data=replace(data_config(str(self.source), {}, None), fingerprint=self.dataset.fingerprint)
        )

    @cached_property
    def work(self) -> Comparison:
        """Fresh trainings are done as those of a race are."""
        folder = self.scratch / self.name / "fresh"
        folder.mkdir(parents=True, exist_ok=True)
        session = Session(str(self.source), folder, self.device, self.threads, None, (), self.console, ALONE)
        return race.comparison(session, self.config, self.dataset, folder)

    @property
    def settings(self) -> dict[str, Any]:
        n_images = [len(part.labels) for part in (self.dataset.train, self.dataset.test)]
        about = {"model": self.config.model, "images": n_images, "size": list(self.dataset.image_size)}
        found = about | self.given | {"set": list(self.assignments), "worth": self.config.worth}
        return found | {"fingerprint": self.dataset.fingerprint, "test": data_digest(self.dataset)}

    # --- a search with its race ---------------------------------------------------------------------------------------

    def search(self, seed: int) -> Cell:
        run = self.scratch / self.name / f"search-{seed}"
        clock = run.with_suffix(".json")  # the seconds of all calls that worked on it
        place: dict[str, Any] = {"device": self.device, "threads": self.threads, "console": self.console}
        began, spent = time.monotonic(), read_note(clock).get("seconds", 0.0)
        try:
            if (run / "config.yaml").is_file():
                slackaug.search(self.source, run, resume=True, **place)
            else:
                chosen = self.given | {"seed": seed, "set": self.assignments}
                slackaug.search(self.source, run, estimate=False, **chosen, **place)
        finally:
            spent += time.monotonic() - began
            clock.write_text(json.dumps({"seconds": spent}))
        found, learned = read_note(run / answer.FILE), folders.learned(run)
        return {
            "row": AUTO,
            "seed": seed,
            "seconds": round(spent, 1),
            "answer": found,
            "old_rule": self.old_rule(run),
            "policy": learned.to_dict(),
        }

    def old_rule(self, run: Path) -> dict[str, Any] | None:
        """What a search came to before there was a race: one training like those before the rounds, but with the
        learned policy, had to end with a loss lower by the margin than the best of them; else that one's number of
        transformations was the result.

        None where the search did not compare numbers of transformations.
        """
        composing = read_note(run / pretrain.FILE)
        if not composing:
            return None
        losses = {one["n_composed"]: one["val_loss_after_pretraining"] for one in composing["trials"]}
        before, learned = losses[composing["n_composed"]], folders.learned(run)
        problem = Problem(read_config(run), self.dataset, self.device)
        fit = ways.captured("pretrain", *problem.make_fits([learned], problem.start().first))
        for _ in train("the old rule", Fits([fit])):
            pass
        after = problem.tempered_loss(fit)
        is_kept, number = after < before * (1 - OLD_MARGIN), composing["n_composed"]
        return {
            "use": LEARNED if is_kept else f"uniform-{number}" if number else "none",
            "loss": finite_or_null(after),
            "loss_before": before,
        }

    # --- fresh trainings ----------------------------------------------------------------------------------------------

    def trainings(self, block: Block, book: Book) -> list[Training]:
        return [self.work.training(book.candidate(block.row), seed) for seed in block.seeds]


def measured(wanted: Sequence[Training]) -> list[Cell]:
    """Those of some trainings that are done."""
    kept = "accuracy", "balanced_accuracy", "seconds"
    found = records.read(wanted)
    return [{"row": one["name"], "seed": one["seed"]} | {key: one[key] for key in kept} for one in found if one]


def advance(bench: Bench, book: Book, block: Block, keep: Callable[[Book, list[Cell]], None]) -> None:
    """Measure a block; of trainings that are stopped, or of which some fail, those that are done are kept."""
    if block.row == AUTO:
        keep(book, [bench.search(block.seeds[0])])
        return
    wanted = bench.trainings(block, book)
    try:
        conduct(bench.work, wanted, is_announced=True)
    finally:
        keep(book, measured(wanted))


def origin(given: argparse.Namespace) -> dict[str, Any]:
    """Where cells of this call come from."""
    environment = provenance.environment()
    words = ["research/evidence.py", "--sets", ",".join(given.sets), "--preset", given.preset]
    words += [word for text in given.set for word in ("--set", text)]
    return {
        "hardware": environment["gpu"] or environment["machine"],
        "torch": environment["torch"],
        "commit": given.commit or environment["commit"],
        "beside": given.beside,
        "command": shlex.join(words),
        "date": datetime.date.today().isoformat(),
    }


@contextmanager
def stopped_after(minutes: float) -> Iterator[None]:
    """All that works here stops by a signal, and saves what it is at."""
    timer = threading.Timer(60 * minutes, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def collect(given: argparse.Namespace, console: Console) -> int:
    """The next missing cells, until none is missing or the time is over; the code to exit with."""
    device, threads = machine(given.device, given.threads)
    common = {"data": given.data, "scratch": given.scratch, "preset": given.preset, "assignments": given.set}
    place = {"device": device, "threads": threads, "console": console}
    benches = {name: Bench(name=name, **common, **place) for name in given.sets}
    books = {name: cells.opened(given.results, name, bench.settings) for name, bench in benches.items()}
    found_here = origin(given)

    def keep(book: Book, found: list[Cell]) -> None:
        if found:
            book.add(found, found_here)
            cells.save(given.results, book)

    failed: set[tuple[str, str]] = set()  # sets and rows
    last_search = time.monotonic() + 60 * (given.minutes - given.search_minutes)
    with signals() as caught, stopped_after(given.minutes):
        while not caught:
            passed = failed | {(name, AUTO) for name in given.sets if time.monotonic() > last_search}
            left = [block for block in cells.missing(books, given.searches) if block[:2] not in passed]
            if not left:
                break
            block = left[0]
            console.print(f"{datetime.datetime.now():%H:%M:%S} {block}", highlight=False, markup=False)
            try:
                advance(benches[block.set], books[block.set], block, keep)
            except Stopped:
                break
            except RuntimeError as error:  # of a training or search; the others go on
                failed.add(block[:2])
                console.print(f"{block}: {error}", highlight=False, markup=False)
    n_left = sum(len(block.seeds) for block in cells.missing(books, given.searches))
    console.print(f"{n_left} cells are missing; the same command continues" if n_left else "nothing is missing")
    return 130 if signal.SIGINT in caught else 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("prepare", "collect", "table"), default="collect")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(evidence_sets.SETS), metavar="A,B")
    parser.add_argument("--data", type=Path, default=Path(".gpu-data"), help="where the packed sets are")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the cells are")
    parser.add_argument("--shared", type=Path, help="where data/unpack.py is, to prepare the sets")
    parser.add_argument("--scratch", type=Path, default=Path(".gpu/evidence"), help="runs and trainings at work")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--search-minutes", type=float, default=0, help="with less left, no search is begun")
    parser.add_argument("--searches", type=int, default=1, help="of each set, with seeds from 0 on")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of searches")
    parser.add_argument("--device")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--beside", type=int, default=0, help="other calls on the same device, which make it slower")
    parser.add_argument("--commit", help="of this code, where there is no git")
    parser.add_argument("--out", type=Path, help="write the table to this file, too")
    given = parser.parse_args()
    if unknown := {*given.sets} - evidence_sets.SETS.keys():
        parser.error(f"--sets: unknown {', '.join(sorted(unknown))}; known: {', '.join(evidence_sets.SETS)}")
    if given.what == "prepare" and given.shared is None:
        parser.error("prepare needs --shared DIR")
    return given


def main() -> int:
    given = parse()
    if given.what == "prepare":
        evidence_sets.prepare(given.shared, given.data, given.sets)
        return 0
    if given.what == "table":
        text = evidence_table.table([cells.load(path) for path in sorted(given.results.glob("*.json"))])
        print(text)
        if given.out is not None:
            given.out.write_text(f"{text}\n")
        return 0
    return collect(given, Console(stderr=True))


if __name__ == "__main__":
    sys.exit(main())
