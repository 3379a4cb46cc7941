"""`slackaug.study`: several searches on different splits, several evaluations of each, beside the paper's numbers."""

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Annotated, Any

from rich.console import Console

from .. import messages
from ..augment.stability import consensus
from ..auto import timing
from ..config import parse
from ..config.layers import data_config
from ..config.options import FIRST, TRAINING, Given, Images, Json, Path, ReadAs, Settings, Workers, command
from ..config.run_config import Choices
from ..data import DataConfig, Dataset, held
from ..data.sources import refuse_inside
from ..files import write_atomically
from ..judge import intervals, protocols, queue, results, training
from ..judge.backends import get_backend
from ..judge.candidates import Candidate, from_name
from ..judge.queue import Comparison
from ..judge.results import Results
from ..judge.studies import assembly
from ..judge.studies import recipes as study_recipes
from ..judge.studies import results as study_results
from ..judge.studies.assembly import TableResults
from ..judge.studies.evaluations import evaluate_all
from ..judge.studies.plan import (
    Study,
    check_verdict,
    configure,
    fixed_candidates,
    found_again,
    left_out,
    read_study,
    unlike_the_paper,
)
from ..judge.studies.results import StudyResults
from ..judge.studies.search_jobs import search_all, searches
from ..judge.verdicts import Judgement, Terms
from ..messages import comparing, studying
from ..messages.terminal import terminal
from ..report import live
from ..runs import folders
from ..runs.folders import RunError
from ..runs.progress import Reading
from . import search as api
from . import whole_table

GROWING = {"n_search", "until"}  # what a study that is resumed may have more of


@command
def study(
    recipe: Annotated[str | None, "such as quick, cifar10-wrn-40-2, paper/sota; --list names all"] = None,
    out: Annotated[Path | None, "folder of the study, such as runs/study; of a table: of all of its studies"] = None,
    *,
    data: Annotated[
        Images | None,
        "the images, instead of the recipe's own; with --resume, where they are now; of a table: the folder that holds "
        "imagenet100, domainnet, and cifar10 and cifar100 unless torchvision loads them",
    ] = None,
    plan: Annotated[dict[str, Any], Given(Study, FIRST, only=("n_search", "n_eval", "until", "baselines", "policies"))],
    chosen: Annotated[dict[str, Any], Given(Choices, TRAINING, without=("preset", "space", "seed"))],
    set: Settings = (),
    resume: Annotated[bool, "go on with the study in this folder"] = False,
    overwrite: Annotated[bool, "replace the study in this folder"] = False,
    list: Annotated[
        bool, "name all recipes, and exit; of paper, or of paper/sota: what its tables need, cost and print"
    ] = False,
    json: Json = False,
    reading: ReadAs,
    where: Workers,
    test: Any = None,
    console: Console | None = None,
) -> StudyResults | TableResults | None:
    """Several searches and several evaluations of each: the paper's tables, or the same on your own data.

    With --resume, all settings are those of the study; but it may get more --searches, or another --until. A table of
    the paper, such as paper/sota, is several studies in one folder, which other tables share.

    Examples:
        slackaug study --list
        slackaug study quick -o runs/study --data pets/
        slackaug study -o runs/study --resume --searches 9
        slackaug study paper --list --data /data
        slackaug study paper/domainnet -o runs/paper --data /data
    """
    # In Python alone: `test` is the test set of data that is given as an object.
    if list:
        print("\n".join(named(recipe, data)))
        return None
    given: dict[str, Any] = {"plan": plan, "chosen": chosen, "set": [*set], "reading": reading}
    shared: dict[str, Any] = {"where": where, "console": console or terminal(stderr=True), "json": json}
    if recipe is not None and recipe.startswith(assembly.PREFIX):
        return whole_table.make(run, recipe, out, data, given, **shared, resume=resume, overwrite=overwrite)
    return run(recipe, out, data=data, **given, **shared, resume=resume, overwrite=overwrite, test=test)


def named(recipe: str | None, data: Images | None) -> list[str]:
    """What --list prints."""
    root = None if data is None else FilePath(data)
    if recipe is None:
        return [*study_recipes.STUDIES, *assembly.NAMES]
    if recipe == assembly.PREFIX.rstrip("/"):
        return assembly.listing(root)
    return assembly.details(assembly.label_of(recipe), root)


def run(
    recipe: str | None,
    out: Path | None,
    *,
    data: Images | None,
    plan: dict[str, Any],
    chosen: dict[str, Any],
    set: Settings,
    resume: bool,
    overwrite: bool,
    json: bool,
    reading: dict[str, Any],
    where: Workers,
    console: Console,
    test: Any = None,
    go_on_with: tuple[str, FilePath] | None = None,
) -> StudyResults:
    """One study, of a recipe; `go_on_with`, the table that it is for and the folder of that."""
    known = None if recipe is None else study_recipes.study(recipe)  # a wrong name is found first of all
    if out is None or (known is None and not resume):
        raise ValueError("expected a recipe and -o FOLDER, or -o FOLDER --resume; --list names the recipes")
    folder = FilePath(out)
    device, threads = where.ready()
    if resume:
        if recipe or plan.keys() - GROWING or chosen.keys() - {"model"} or set or overwrite or reading:
            raise RunError(
                "--resume takes all settings from the study; give only -o, where to run, --data if it has moved, and "
                "--searches or --until for a larger study"
            )
        found = grown(read_study(folder), plan)
        read_as = found.data
        check_model(found, chosen.get("model"))
    else:
        folders.refuse(folder, overwrite=overwrite, what="study", config=folders.STUDY)
        assert known is not None
        read_as = data_config("", reading, None, DataConfig(size=known.size, margin=known.margin))
    backend = get_backend(where.backend, address=where.address, n_jobs=where.jobs, device=device, threads=threads)
    place = None if data is None else held.file_of(data, test, folder, read_as, Reading(console), is_new=not resume)
    if resume:
        found = found_again(found, place, Reading(console))
    else:
        found = configure(recipe or "", place, reading, chosen, plan, set, Reading(console))  # reads the data
        refuse_inside(found.data.source, folder)
    here = {"data": place if resume and go_on_with is None else None, "model": found.foreign_model()}
    here |= {name: value for name, value in vars(where).items() if value != "local"}
    words = [word for name, value in here.items() if value is not None for word in (f"--{name}", str(value))]
    name, whole = go_on_with or (None, folder)
    again = shlex.join(["slackaug", "study", *([name] if name else []), "-o", str(whole), "--resume", *words])
    work = Comparison(found.protocol(), folder / "eval", None, device, threads, backend, console, again)
    dataset = protocols.dataset(found.data, Reading(console))
    fixed = fixed_candidates(found)
    queue.check_candidates(work, dataset, fixed)  # before anything is written or thrown away
    with work.writing(), folders.held(folder):
        if not resume:
            begin(folder)
        write_atomically(folder / folders.STUDY, parse.dump(found).encode())
        work.folder.mkdir(exist_ok=True)
        write_atomically(folder / folders.SEARCHES, parse.dump(found.search).encode())
        n_duplicates = announce(work, dataset, found, is_new=not resume)
        final = conduct(work, found, folder, fixed, dataset, n_duplicates)
        if json:
            print((folder / "study.json").read_text(encoding="utf-8"))
        return final


def check_model(chosen: Study, model: str | None) -> None:
    """A file alone may not name code to run."""
    if model != chosen.foreign_model():
        expected = f"give --model {chosen.foreign_model()}" if chosen.foreign_model() else "do not give --model"
        raise RunError(f"the network of this study is {chosen.search.model}; {expected} with --resume")


def grown(stored: Study, plan: dict[str, Any]) -> Study:
    """With more searches, or with evaluations until another certainty; what is there is kept."""
    if plan.get("n_search", stored.n_search) < stored.n_search:
        raise RunError(f"--searches {plan['n_search']}: the study has {stored.n_search} already; expected more")
    larger = replace(stored, **plan)
    check_verdict(larger)
    return larger


def begin(folder: FilePath) -> None:
    """What an earlier study has left goes first: nothing of it may be taken for this one's."""
    for own in ("searches", "eval"):
        shutil.rmtree(folder / own, ignore_errors=True)
    for name in ("study.json", "report.html", folders.POLICY):
        (folder / name).unlink(missing_ok=True)


def announce(work: Comparison, dataset: Dataset, chosen: Study, *, is_new: bool) -> int:
    """What is about to be done, and what it will cost, and how many test images are training images, too."""
    n_duplicates = queue.announce(work, dataset)
    n = chosen.n_search * chosen.n_eval + len(fixed_candidates(chosen)) * chosen.n_seeds
    work.say(studying.study_of(chosen.recipe, chosen.n_search, chosen.search.model, n))
    if missing := left_out(chosen):
        work.say(studying.left_out(missing))
    for line in search_lines(chosen, dataset) if chosen.n_search else ():
        work.say(studying.each_search(line))
    reason = unlike_the_paper(study_recipes.study(chosen.recipe), dataset, chosen.search)
    if reason is not None and not chosen.paper:
        work.say(studying.no_figures_of_the_paper(reason))
    if chosen.n_search:
        queue.warn_of_length(work, dataset, "a policy of these searches", chosen.search.preset)
    if is_new and not work.backend.is_elsewhere and chosen.n_search and chosen.search.n_ranks == 1:
        learning, race, _ = timing.search_seconds(chosen.search, dataset, work.device)
        each = training.seconds_of([work.training(from_name("uniform"), 0)] * queue.n_side_by_side(work))
        work.say(comparing.study_cost(chosen.n_search, learning + race, n, each))
    if 0 < chosen.n_search < intervals.LEAST:
        work.say(comparing.few(chosen.n_search, "search", f"--searches {intervals.LEAST} or more"))
    elif chosen.n_search and fixed_candidates(chosen):
        n_test = len(dataset.test.labels)
        noise = intervals.usual_noise(n_test)
        width = intervals.expected_half_width(noise, chosen.n_search, chosen.n_eval)
        if chosen.until is not None and chosen.n_search < queue.LEAST_SEEDS:
            work.say(comparing.narrow_by_chance(chosen.n_search, queue.LEAST_SEEDS))
        work.say(comparing.expected_of_study(chosen.n_search, chosen.n_eval, width, noise, n_test))
    return n_duplicates


def search_lines(chosen: Study, dataset: Dataset) -> list[str]:
    """What a search of its own would say first, but nothing about the trainings."""
    search, n_train = chosen.search, len(dataset.train.labels)
    is_own = chosen.recipe == search.preset  # else the recipe says which row of the paper it is
    found = [api.basis(search, dataset, by_name=is_own), *api.details(search, dataset), *api.choices(search, n_train)]
    if search.weights is not None and chosen.protocol().weights is None:  # which are not for another network
        found.append(queue.start_text(search.model, search.weights, dataset))
    return found


def conduct(
    work: Comparison, chosen: Study, folder: FilePath, fixed: Sequence[Candidate], dataset: Dataset, n_duplicates: int
) -> StudyResults:
    """report.html follows the work, and is written a last time when it ends, however it does."""
    names = [candidate.name for candidate in fixed]
    reference = next(iter(names), None)

    def write_results(found: queue.ByPolicy, judged: Judgement) -> None:
        rows, remarks = results.make_rows(found, reference), {"duplicates": n_duplicates}
        whole = Results(work.protocol, dataset.class_names, chosen.learned, reference, rows, *judged, remarks)
        results.write(whole, work.folder)

    page = live.Live(folder, None, work.say)
    page.update()
    followed = work._replace(follow=page.look)
    try:
        wanted = searches(chosen, folder, work)
        policies = search_all(wanted, followed, api.search)
        if policies:
            write_atomically(folder / folders.POLICY, consensus(policies).dumps().encode())
        found = evaluate_all(followed, chosen, fixed, wanted, lambda found, text: write_results(found, Judgement(text)))
        learned = [folders.learned(one.folder) for one in wanted]
        terms = Terms.of(chosen.search, dataset.test.labels)
        final = study_results.summarise(chosen, found, names, policies, learned, terms)
        write_results(found, Judgement(final.answer, final.use, final.verdict, final.others))
        write_atomically(folder / "study.json", study_results.to_json(chosen, final, n_duplicates).encode())
    finally:
        page.update(is_running=False)
    work.console.print(study_results.table(chosen, final))
    if (folder / "report.html").is_file():
        work.say(messages.report(str(folder / "report.html")))
    for text in (*study_results.remarks(final), *final.others):
        work.say(text)
    if len(policies) > 1:
        work.say(studying.one_policy(len(policies), str(folder / folders.POLICY)))
    work.say(messages.results(str(folder / "study.json")))
    work.say(final.answer)
    return final
