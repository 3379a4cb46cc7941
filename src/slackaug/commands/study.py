"""`slackaug.study`: several searches on different splits, several evaluations of each, beside the paper's numbers."""

import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from .. import messages
from ..augment.policy import Policy
from ..augment.stability import consensus
from ..auto import learn
from ..config import parse
from ..data import Dataset
from ..data.sources import refuse_inside
from ..files import write_atomically
from ..judge import queue, results, training
from ..judge.backends import get_backend
from ..judge.candidates import Candidate, from_name
from ..judge.queue import Comparison
from ..judge.results import Results
from ..judge.studies import recipes as study_recipes
from ..judge.studies import results as study_results
from ..judge.studies.plan import Study, configure, fixed_candidates, found_again, read_study, unlike_the_paper
from ..judge.studies.results import StudyResults
from ..judge.studies.search_jobs import search_all, searches
from ..machine import default_device, machine
from ..report import live
from ..runs import folders
from ..runs.folders import RunError
from ..runs.progress import Reading
from . import search as api


def study(
    recipe: str | None,
    out: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    policies: Sequence[str] = (),
    baselines: Sequence[str] | None = None,
    n_search: int | None = None,
    n_eval: int | None = None,
    model: str | None = None,
    exclude: Sequence[str] = (),
    flip: bool | None = None,
    balanced: bool | None = None,
    weights: str | os.PathLike[str] | None = None,
    set: Sequence[str] = (),
    size: int | None = None,
    margin: bool | None = None,
    skip_bad: bool = False,
    group_by: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    threads: int | None = None,
    jobs: int | None = None,
    backend: str = "local",
    address: str | None = None,
    console: Console | None = None,
) -> StudyResults:
    """Search on several splits, evaluate each policy several times, and compare with the baselines and the paper.

    `recipe` is a name of `study_recipes.STUDIES`; `policies` are NAME=FILE. With `resume`, all settings are those of
    the study in `out`, and `data` says where the same images are now.
    """
    console = console or Console(stderr=True)
    if any(isinstance(value, str) for value in (policies, baselines, exclude, set)):
        raise TypeError("policies, baselines, exclude and set take lists, such as ['uniform', 'trivialaugment-wide']")
    folder = Path(out)
    counts = {"n_search": n_search, "n_eval": n_eval}
    lists = {"baselines": None if baselines is None else list(baselines), "policies": list(policies) or None}
    given = {key: value for key, value in (counts | lists).items() if value is not None}
    place = None if data is None else os.fspath(data)
    source: dict[str, Any] = {"size": size, "margin": margin, "skip_bad": skip_bad or None}
    source |= {"group_by": group_by, "cache": cache}
    options: dict[str, Any] = {"exclude": list(exclude) or None, "flip": flip, "balanced": balanced}
    options |= {"weights": weights and os.fspath(weights)}
    options = {key: value for key, value in options.items() if value is not None}
    device, threads = machine(device, threads, is_here=address is None)
    if resume:
        if recipe or given or options or set or overwrite or any(value is not None for value in source.values()):
            raise RunError(
                "--resume takes all settings from the study; give only -o, where to run and, if it has moved, --data"
            )
        chosen = read_study(folder)
        check_model(chosen, model)
    else:
        folders.refuse(folder, overwrite=overwrite, what="study", config=folders.STUDY)
        study_recipes.study(recipe or "")  # a wrong name is found before a cluster is started
    where = get_backend(backend, address=address, n_jobs=jobs, device=device, threads=threads)
    if resume:
        chosen = found_again(chosen, place, Reading(console))
    else:
        options |= {"model": model} if model is not None else {}
        chosen = configure(recipe or "", place, source, options, given, set, Reading(console))  # reads the data
        refuse_inside(chosen.data.source, folder)
    here: dict[str, str | int | None]
    here = {"--data": place if resume else None, "--model": chosen.foreign_model()}
    here |= {"--device": device if device != default_device() else None, "--threads": threads, "--jobs": jobs}
    here |= {"--backend": backend if backend != "local" else None, "--address": address}
    words = [word for key, value in here.items() if value for word in (key, str(value))]
    again = shlex.join(["slackaug", "study", "-o", str(folder), "--resume", *words])
    work = Comparison(chosen.protocol(), folder / "eval", None, device, threads, where, console, again)
    dataset = training.dataset(chosen.data, Reading(console))
    fixed = fixed_candidates(chosen)
    queue.check_candidates(work, dataset, fixed)  # before anything is written or thrown away
    with work.writing(), folders.held(folder):
        if not resume:
            begin(folder, chosen)
        work.folder.mkdir(exist_ok=True)
        write_atomically(folder / folders.SEARCHES, parse.dump(chosen.search).encode())
        n_duplicates = announce(work, dataset, chosen, is_new=not resume)
        return conduct(work, chosen, folder, fixed, dataset, n_duplicates)


def check_model(chosen: Study, model: str | None) -> None:
    """A file alone may not name code to run."""
    if model != chosen.foreign_model():
        expected = f"give --model {chosen.foreign_model()}" if chosen.foreign_model() else "do not give --model"
        raise RunError(f"the network of this study is {chosen.search.model}; {expected} with --resume")


def begin(folder: Path, chosen: Study) -> None:
    """What an earlier study has left goes first: nothing of it may be taken for this one's."""
    for own in ("searches", "eval"):
        shutil.rmtree(folder / own, ignore_errors=True)
    for name in ("study.json", "report.html", folders.POLICY):
        (folder / name).unlink(missing_ok=True)
    write_atomically(folder / folders.STUDY, parse.dump(chosen).encode())


def announce(work: Comparison, dataset: Dataset, chosen: Study, *, is_new: bool) -> int:
    """What is about to be done, and what it will cost; the number of test images that are training images, too."""
    n_duplicates = queue.announce(work, dataset)
    n = chosen.n_search * chosen.n_eval + len(fixed_candidates(chosen)) * chosen.n_seeds
    work.say(messages.study_of(chosen.recipe, chosen.n_search, chosen.search.model, n))
    for line in search_lines(chosen, dataset) if chosen.n_search else ():
        work.say(f"each search: {line}")
    reason = unlike_the_paper(study_recipes.study(chosen.recipe), dataset, chosen.search)
    if reason is not None and not chosen.paper:
        work.say(f"the paper's figures are left out: {reason}")
    if chosen.n_search:
        queue.warn_of_length(work, dataset, "a policy of these searches", chosen.search.preset)
    if is_new and not work.backend.is_elsewhere and chosen.n_search and chosen.search.n_ranks == 1:
        search = learn.search_seconds(chosen.search, dataset, work.device)
        each = training.seconds_of(work.training(from_name("uniform"), 0))
        work.say(messages.study_cost(chosen.n_search, search, n, each))
    return n_duplicates


def search_lines(chosen: Study, dataset: Dataset) -> list[str]:
    """What a search of its own would say first, but for what is said of the trainings."""
    search = chosen.search
    is_own = chosen.recipe == search.preset  # else the recipe says which row of the paper it is
    found = [api.basis(search, dataset, by_name=is_own), *api.choices(search, dataset)]
    if search.weights is not None and chosen.protocol().weights is None:  # which are not for another network
        found.append(queue.start_text(search.model, search.weights, dataset))
    return found


def conduct(
    work: Comparison, chosen: Study, folder: Path, fixed: Sequence[Candidate], dataset: Dataset, n_duplicates: int
) -> StudyResults:
    names = [candidate.name for candidate in fixed]
    reference = next(iter(names), None)

    def write_results(found: study_results.Found, verdict: str) -> None:
        rows, remarks = results.make_rows(found, reference), {"duplicates": n_duplicates}
        results.write(Results(work.protocol, dataset.class_names, reference, rows, verdict, remarks), work.folder)

    with reporting(work, folder) as followed:
        is_measured = not work.backend.is_elsewhere
        wanted = searches(chosen, folder, work.device, work.threads, is_measured=is_measured)
        policies = search_all(wanted, followed, api.search)
        if policies:
            write_atomically(folder / folders.POLICY, consensus(policies).dumps().encode())
        found = evaluate_all(followed, chosen, fixed, policies, write_results)
        learned = [folders.learned(one.folder) for one in wanted]
        final = study_results.summarise(chosen, found, names, policies, learned)
        write_results(found, final.verdict)
        write_atomically(folder / "study.json", study_results.to_json(chosen, final, n_duplicates).encode())
    work.console.print(study_results.table(chosen, final))
    if (folder / "report.html").is_file():
        work.say(f"the report is {folder / 'report.html'}")
    for text in (*study_results.remarks(final), final.verdict, *final.others):
        work.say(text)
    if len(policies) > 1:
        work.say(f"one policy for all {len(policies)} searches is {folder / folders.POLICY}")
    work.say(f"all results are in {folder / 'study.json'}")
    return final


@contextmanager
def reporting(work: Comparison, folder: Path) -> Iterator[Comparison]:
    """report.html follows the work, and is written a last time when it ends, however it does."""
    page = live.Live(folder, None, work.say)
    page.update()
    try:
        yield work._replace(follow=page.look)
    finally:
        page.update(is_running=False)


def evaluate_all(
    work: Comparison,
    study: Study,
    fixed: Sequence[Candidate],
    policies: Sequence[Policy],
    write_results: Callable[[study_results.Found, str], None],
) -> study_results.Found:
    """Baselines and files with all seeds, each learned policy with its own."""
    wanted = [work.training(candidate, seed) for candidate in fixed for seed in range(study.n_seeds)]
    for s, policy in enumerate(policies):
        candidate = Candidate(study.search_name(s), policy, training.digest(policy))
        wanted += [work.training(candidate, seed) for seed in study.seeds(s)]

    def on_result() -> None:
        found = queue.finished(wanted)
        n_done = sum(map(len, found.values()))
        write_results(found, messages.no_verdict_yet(n_done, len(wanted)))

    queue.conduct(work, wanted, on_result)
    return queue.finished(wanted)
