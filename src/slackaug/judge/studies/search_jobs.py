"""The searches of a study, each in a run folder of its own, as jobs for any process of any machine."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from ...augment.policy import Policy
from ...augment.stability import CHANCE
from ...config import layers
from ...exits import Stopped, signals
from ...files import read_note
from ...messages import studying
from ...messages.names import LEARNED
from ...messages.search import agreement as agreement_text
from ...messages.terminal import ENDLESS
from ...runs import folders
from ..answer import FILE
from ..backends.jobs import POLL_SECONDS, STOPPED, Tell
from ..candidates import Candidate, digest, from_name
from ..queue import Comparison, run_jobs
from .plan import Study

SearchFunction = Callable[..., object]  # `slackaug.search`, given by the command: how policies are made is not ours


class SearchJob(NamedTuple):
    """One search of a study, in plain values."""

    study: Study
    seed: int
    study_folder: Path
    device: str
    threads: int | None
    is_measured: bool  # by the study, on the machine where it runs

    @property
    def folder(self) -> Path:
        return self.study_folder / "searches" / str(self.seed)

    @property
    def log(self) -> Path:
        """What the search would have said on a terminal."""
        return self.folder.with_suffix(".log")

    def options(self) -> dict[str, Any]:
        """The options of `slackaug search`, in Python and on the command line, to begin or to resume."""
        data, search = self.study.data, self.study.search
        model = search.model if layers.is_foreign(search.model) else None  # which a file may not name
        found: dict[str, Any] = {"device": self.device, "threads": self.threads, "model": model}
        if (self.folder / "config.yaml").is_file():
            return found | {"resume": True}
        return found | {"config": self.study_folder / folders.SEARCHES, "seed": self.seed} | data.given()


def searches(study: Study, folder: Path, work: Comparison) -> list[SearchJob]:
    is_measured = not work.backend.is_elsewhere
    return [SearchJob(study, s, folder, work.device, work.threads, is_measured) for s in range(study.n_search)]


def search(function: SearchFunction, one: SearchJob, tell: Tell) -> None:
    """Begin or go on with a search; a finished one is left alone."""
    one.folder.parent.mkdir(parents=True, exist_ok=True)
    folders.refuse_links(one.folder.parent, one.log.name)
    if one.study.search.n_ranks > 1:
        search_ensemble(one)
        return
    with one.log.open("a", encoding="utf-8") as log:
        shown = {"watch": tell, "estimate": not one.is_measured}
        shown |= {"console": Console(file=log, width=ENDLESS), "verbose": True}
        try:
            function(one.study.data.source, one.folder, **one.options(), **shown)
        except Stopped as error:  # whose message says how to go on with this search alone
            raise Stopped(STOPPED, error.signal_number) from None


def search_ensemble(one: SearchJob) -> None:
    """The same by torchrun, with a process for each model; all of them share the GPU, if there is one for all.

    Ctrl-C in a terminal goes to a whole session: in one of their own, the models are told once, by us, and save.
    """
    n_ranks = str(one.study.search.n_ranks)
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", n_ranks]
    words += ["-m", "slackaug", "search", one.study.data.source, "-o", str(one.folder)]
    for name, value in one.options().items():
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    with one.log.open("a", encoding="utf-8") as log, signals() as caught:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        while process.poll() is None and not caught:
            time.sleep(POLL_SECONDS)
        if caught:
            process.terminate()
            process.wait()
            raise Stopped(STOPPED, caught[0])
    if process.returncode:
        raise RuntimeError(f"the ensemble ended with exit code {process.returncode}; see {one.log}")


def search_all(wanted: Sequence[SearchJob], work: Comparison, function: SearchFunction) -> list[Policy]:
    """The learned policies."""
    if not wanted:
        return []
    names = [f"search {one.seed}" for one in wanted]

    def done(index: int) -> str:
        folder = wanted[index].folder
        policy, agreement = Policy.load(folder / folders.POLICY), folders.agreement(folder)
        seconds = policy.learned.get("seconds")
        agreed = [] if agreement is None else [agreement_text(agreement, is_chance=agreement < CHANCE)]
        return studying.search_done(
            names[index],
            seconds if isinstance(seconds, int | float) else None,  # not in a policy that somebody put there
            policy.entropy().mean().item(),
            [*agreed, *remarks(folder)],
        )

    run_jobs(work, [partial(search, function, one) for one in wanted], names, done)
    return [Policy.load(one.folder / folders.POLICY) for one in wanted]


def result_of(folder: Path) -> Candidate:
    """What a search says to use: its policy, or a baseline that has won the race."""
    policy, use = Policy.load(folder / folders.POLICY), read_note(folder / FILE).get("use")
    if isinstance(use, str) and not use.startswith(LEARNED):
        return from_name(use)
    return Candidate(folders.POLICY, policy, digest(policy))


def remarks(folder: Path) -> list[str]:
    """What the notes of a search say that it did otherwise than planned, and its answer: few would look for that in
    its log."""
    notes = [read_note(path) for path in sorted(folder.glob("*.json"))]
    return [text for note in notes for key in ("remark", "sentence") if isinstance(text := note.get(key), str)]
