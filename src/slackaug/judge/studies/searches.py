"""The searches of a study, each in a run folder of its own, as jobs for any process of any machine."""

import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from ...augment.policy import Policy
from ...augment.stability import agreement_text
from ...auto import calibrate, confirm
from ...commands import search as api
from ...config import layers
from ...config.presets import DataConfig
from ...exits import Stopped, signals
from ...files import read_note
from ...runs import folders
from ...runs.progress import Jobs, duration
from ..backends import POLL_SECONDS, STOPPED
from ..queue import Work, run_jobs
from ..training import Report
from .plan import Study


class Search(NamedTuple):
    """One search of a study, in plain values."""

    data: DataConfig
    config: Path  # the file of its settings
    n_ranks: int
    model: str | None  # where it is a user's own code, which a file may not name
    seed: int
    folder: Path
    device: str
    threads: int | None
    is_measured: bool  # by the study, on the machine where it runs

    @property
    def log(self) -> Path:
        """What the search would have said on a terminal."""
        return self.folder.with_suffix(".log")


def searches(study: Study, folder: Path, device: str, threads: int | None, *, is_measured: bool) -> list[Search]:
    model = study.search.model if layers.is_foreign(study.search.model) else None
    return [
        Search(
            data=study.data,
            config=folder / folders.SEARCHES,
            n_ranks=study.search.n_ranks,
            model=model,
            seed=s,
            folder=folder / "searches" / str(s),
            device=device,
            threads=threads,
            is_measured=is_measured,
        )
        for s in range(study.n_search)
    ]


def search(one: Search, report: Report) -> None:
    """Begin or go on with a search; a finished one is left alone."""
    one.folder.parent.mkdir(parents=True, exist_ok=True)
    folders.refuse_links(one.folder.parent, one.log.name)
    if one.n_ranks > 1:
        search_ensemble(one)
        return
    options: dict[str, Any] = {"model": one.model, "device": one.device, "threads": one.threads, "watch": report}
    if (one.folder / "config.yaml").is_file():
        options["resume"] = True
    else:
        options |= {"config": one.config, "seed": one.seed, "estimate": not one.is_measured}
        options |= {"size": one.data.size, "margin": one.data.margin, "skip_bad": one.data.skip_bad}
        options |= {"group_by": one.data.group_by, "cache": one.data.cache}
    with one.log.open("a", encoding="utf-8") as log:
        try:
            api.search(one.data.source, one.folder, **options, console=Console(file=log, width=200))
        except Stopped as error:  # whose message says how to go on with this search alone
            raise Stopped(STOPPED, error.signal_number) from None


def search_ensemble(one: Search) -> None:
    """The same by torchrun, with a process for each model."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(one.n_ranks)]
    words += ["-m", "slackaug", "search", one.data.source, "-o", str(one.folder), "--device", one.device]
    if (one.folder / "config.yaml").is_file():
        words.append("--resume")
    else:
        words += ["--config", str(one.config), "--seed", str(one.seed)]
        words += [word for option in one.data.options() for word in option]
        words += ["--cache", one.data.cache] if one.data.cache else []
    words += ["--model", one.model] if one.model else []
    words += ["--threads", str(one.threads)] if one.threads else []
    with one.log.open("a", encoding="utf-8") as log, signals() as caught:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
        is_told = False
        while process.poll() is None:
            if caught and not is_told:
                process.terminate()
                is_told = True
            time.sleep(POLL_SECONDS)
    if caught:
        raise Stopped(STOPPED, caught[0])
    if process.returncode:
        raise RuntimeError(f"the ensemble ended with exit code {process.returncode}; see {one.log}")


def search_all(wanted: Sequence[Search], work: Work) -> list[Policy]:
    """The learned policies."""
    if not wanted:
        return []
    names = [f"search {one.seed}" for one in wanted]

    def done(index: int) -> str:
        policy = Policy.load(wanted[index].folder / folders.POLICY)
        entropy = policy.entropy().mean().item()
        seconds = policy.learned.get("seconds")  # not in a policy that somebody put there
        took = f"{duration(seconds)}, " if isinstance(seconds, int | float) else ""
        agreement = folders.agreement(wanted[index].folder)
        agrees = "" if agreement is None else f", {agreement_text(agreement)}"
        found = f"{names[index]}: {took}entropy {entropy:.3f}{agrees}"
        notes = [read_note(wanted[index].folder / name) for name in (calibrate.FILE, confirm.FILE)]
        said = [note.get("remark") for note in notes if note.get("is_kept") is not True]
        remarks = [remark for remark in said if isinstance(remark, str)]
        return "; ".join([found, *remarks])  # few would look for them in the log of a search

    with Jobs(work.console, names, done, work.follow) as shown:
        run_jobs(work, [partial(search, one) for one in wanted], names, shown)
    return [Policy.load(one.folder / folders.POLICY) for one in wanted]
