"""`slackaug.evaluate`: several policies under one protocol, with intervals, differences and one plain sentence."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any

from rich.console import Console

from .. import messages
from ..augment.formats.published import policy_file
from ..augment.policy import Policy
from ..config import layers, parse
from ..config.layers import data_config
from ..config.options import (
    SETTING,
    TRAINING,
    ConfigFile,
    Given,
    Json,
    Path,
    ReadAs,
    Settings,
    Source,
    Workers,
    command,
)
from ..config.run_config import Choices, RunConfig
from ..data import DataError, Dataset, held
from ..data.options import DataConfig
from ..data.sources import refuse_inside
from ..judge import intervals, protocols, results
from ..judge.backends import get_backend
from ..judge.candidates import Candidate, PolicyLike, find_candidates, find_grid, with_choice, with_magnitudes
from ..judge.protocols import Protocol
from ..judge.queue import (
    LEAST_SEEDS,
    MAX_SEEDS,
    ByPolicy,
    Comparison,
    announce,
    check_candidates,
    choose,
    conduct_until,
    seeds_needed,
    warn_of_length,
    with_seeds,
)
from ..judge.results import Results
from ..judge.verdicts import Terms
from ..messages import comparing
from ..messages.terminal import terminal
from ..report import live
from ..report.policy_table import of_the_race
from ..runs import folders
from ..runs.folders import RunError
from ..runs.progress import Reading

OF_A_SEARCH = dict.fromkeys(
    ("search", "pretrain", "balanced", "seed", "n_ranks"),
    "is a setting of a search, which a training does not have; those of a training are evaluate.*, space, exclude, "
    "flip, model and weights",
)


@command
def evaluate(
    data: Source,
    policies: Annotated[Sequence[PolicyLike], "a policy file, or the folder of a run; may be repeated"] = (),
    *,
    baselines: Annotated[
        Sequence[str], "such as none,uniform (a wrong name lists all); all are compared with the first"
    ] = (),
    seeds: Annotated[int, "trainings of each policy"] = 4,
    until: Annotated[
        float | None, "add seeds until the verdict's interval reaches no further than this many points, such as 0.5"
    ] = None,
    out: Annotated[Path | None, "folder; results go to its eval/; the default is the policy's run"] = None,
    chosen: Annotated[dict[str, Any], Given(Choices, TRAINING, without=("exclude", "balanced", "seed"))],
    magnitudes: Annotated[str, "magnitudes of policies: own, uniform over their ranges, or both", SETTING] = "own",
    randaugment_grid: Annotated[str | None, "choose randaugment's N and M by validation: 1,2x5,9,14", SETTING] = None,
    save_models: Annotated[Path | None, "folder for the trained weights (safetensors)", SETTING] = None,
    config: ConfigFile = None,
    set: Settings = (),
    overwrite: Annotated[bool, "replace the results in this folder"] = False,
    json: Json = False,
    reading: ReadAs,
    where: Workers,
    test: Any = None,
    console: Console | None = None,
) -> Results:
    """Train with policies and baselines under one protocol, and say whether a policy helps.

    Give the same command again, and it continues where it stopped.

    Examples:
        slackaug evaluate pets/ -p runs/pets --baselines trivialaugment-wide,uniform-2
        slackaug evaluate pets/ -o runs/compare --baselines none,trivialaugment-wide --until 0.5
    """
    # In Python alone: `test` is the test set of data that is given as an object.
    console = console or terminal(stderr=True)
    if not 1 <= seeds <= MAX_SEEDS:
        raise ValueError(f"--seeds {seeds}: expected at {'least 1' if seeds < 1 else f'most {MAX_SEEDS}'}")
    intervals.check_until(until)
    device, threads = where.ready()
    candidates = with_magnitudes(find_candidates(policies, baselines), magnitudes)
    if until is not None and not is_comparison(candidates):
        raise ValueError("--until needs two to compare: a policy and a baseline, or two baselines")
    grid = find_grid(candidates, randaugment_grid)
    refuse_running(policies)
    run, stored = origin(policies)
    if out is not None and (FilePath(out) / folders.STUDY).is_file():
        raise RunError(f"{out}: holds a study, which has results of its own; choose another -o")
    home = run if out is None else FilePath(out)
    if home is None:
        raise ValueError("give a folder for the results: -o runs/x (a policy of a run would use that run's folder)")
    folder = home / "eval"
    refuse_inside(data, home)
    refuse_inside(data, save_models, "--save-models")
    backend = get_backend(where.backend, address=where.address, n_jobs=where.jobs, device=device, threads=threads)
    protocols.load_once.cache_clear()  # files may have changed since an earlier call
    before = None if stored is None else stored.data
    place = held.file_of(data, test, home, data_config("", reading, config, before), Reading(console))
    source, dataset, lost = load_as(stored, place, reading, config, Reading(console))
    settings = configure(dataset, chosen, stored, config, set)
    source = replace(source, fingerprint=dataset.fingerprint)
    protocol = Protocol.of(settings, source, protocols.data_digest(dataset), settings.model)
    models = None if save_models is None else FilePath(save_models)
    work = Comparison(protocol, folder, models, device, threads, backend, console)
    if lost:
        work.say(comparing.read_without(" ".join(lost)))
    twins = check_candidates(work, dataset, [*candidates, *grid])
    candidates = [candidate for candidate in candidates if candidate.name not in twins]
    if twins and len(candidates) == 1:
        raise ValueError(comparing.compared_with_itself(*twins.popitem(), learned_file(run)))
    with work.writing(), folders.held(folder):
        begin(folder, protocol, overwrite=overwrite)
        n_duplicates = announce(work, dataset)
        own = {c.name: c.digest for c in candidates if not c.is_baseline and not c.uniform_magnitudes}
        remarks: dict[str, Any] = {"duplicates": n_duplicates, "digests": own}
        known_as = [comparing.known_as(*names) for names in twins.items()]
        not_answers = [f"{c.name}: {one}" for c in candidates for one in remarks_of(c)]
        for text in (*known_as, *not_answers):
            work.say(text)
        n_test = len(dataset.test.labels)
        n_first = seeds if until is None else max(seeds, LEAST_SEEDS)
        if not is_comparison(candidates):
            work.say(comparing.NOTHING_TO_COMPARE)
        elif n_first < intervals.LEAST:
            work.say(comparing.few(seeds, "seed", "--seeds 8, or --until 0.5 for a narrow interval"))
        else:
            noise = intervals.usual_noise(n_test)
            work.say(comparing.expected(n_first, intervals.expected_half_width(noise, n_first), noise, n_test))
        for candidate in candidates:
            if isinstance(candidate.augmentation, Policy):
                warn_of_length(work, dataset, candidate.name, candidate.augmentation.learned.get("preset"))
        if grid:
            best, remarks["randaugment_grid"] = choose(work, grid)
            candidates = with_choice(candidates, best)
        names = [candidate.name for candidate in candidates]
        reference = next((c.name for c in candidates if c.is_baseline), None)
        subject = next((c.name for c in candidates if not c.is_baseline), names[-1])
        terms = Terms.of(settings, dataset.test.labels, learns=False)

        def summary(found: ByPolicy) -> Results:
            rows = results.make_rows({name: found.get(name, []) for name in names}, reference)
            judged = results.judge(rows, subject, reference, terms)
            answer = " ".join([judged.answer + results.reservations(rows, n_test, n_duplicates), *known_as])
            judged = judged._replace(answer=answer)
            return Results(protocol, dataset.class_names, subject, reference, rows, *judged, remarks)

        wanted = partial(with_seeds, work, candidates, (subject, reference), seeds)

        def needed(found: ByPolicy, n: int) -> int | None:
            if until is None or reference is None:
                return None
            return seeds_needed(work, (subject, reference), until / 100, found, n)

        def on_result(found: ByPolicy, _: int) -> None:
            results.write(summary(found), folder)

        final = summary(conduct_until(work, wanted, n_first, needed, on_result))
        results.write(final, folder)
    console.print(results.table(final, console.width))
    for line in results.seen(next((row.difference for row in final.rows if row.name == subject), None), final.verdict):
        work.say(line)
    work.say(messages.results(*(str(folder / name) for name in ("results.json", "results.csv"))))
    if stored is not None and home == run:
        is_its_own = stored.data.fingerprint == dataset.fingerprint
        if live.attempt(home, dataset if is_its_own else None, work.say):
            work.say(messages.report(str(home / "report.html")))
    work.say(final.answer)
    if json:
        print((folder / "results.json").read_text(encoding="utf-8"))
    return final


def is_comparison(candidates: Sequence[Candidate]) -> bool:
    return len(candidates) > 1 and any(one.is_baseline for one in candidates)


def remarks_of(candidate: Candidate) -> list[str]:
    """What the race of its run says of a policy; nothing of a baseline."""
    return [] if isinstance(candidate.augmentation, str) else of_the_race(candidate.augmentation)


def refuse_running(policies: Sequence[PolicyLike]) -> None:
    """The policy so far of a search that is still at work is not its answer, and nobody would see that later."""
    for path in (policy_file(policy) for policy in policies if not isinstance(policy, Policy)):
        run = path.parent
        if path.name == folders.POLICY and folders.is_held(run):
            learned = learned_file(run)
            now = "" if learned is None else f", or take the policy of its last finished round: -p {learned} -o OTHER"
            raise RunError(f"{run}: is still being searched, so it has no answer yet. Wait for it{now}")


def learned_file(run: FilePath | None) -> FilePath | None:
    """The policy of a run's last finished round."""
    return None if run is None else next(reversed(folders.round_files(run)), None)


def origin(policies: Sequence[PolicyLike]) -> tuple[FilePath | None, RunConfig | None]:
    """The folder of the run that the first policy comes from, and its settings, or those of all searches of a study."""
    if not policies or isinstance(policies[0], Policy):
        return None, None
    path = FilePath(policies[0])
    folder = path if path.is_dir() else path.parent
    if (folder / "config.yaml").is_file():
        return folder, layers.read(folder / "config.yaml")
    if folder.name == folders.ROUNDS and (folder.parent / "config.yaml").is_file():
        return None, layers.read(folder.parent / "config.yaml")  # the run's own results are of its answer
    if not (folder / folders.STUDY).is_file():
        return None, None
    searches, model = layers.read(folder / folders.SEARCHES), parse.read_yaml(folder / folders.STUDY).get("model")
    if model != searches.model:  # it evaluates another network
        searches = replace(searches, model=str(model), weights=None, weights_digest=None)
    return None, searches


def load_as(
    stored: RunConfig | None, source: str, given: dict[str, Any], config: Path | None, reading: Reading
) -> tuple[DataConfig, Dataset, list[str]]:
    """The data, read as the first policy's run has read it, but for what is given; where it has changed since, too.

    Other data is read as it is, but that groups are kept wherever it has them: without them, images of one group are
    trained on and tested with. Then the options of the run that do not count come with it.
    """
    run = None if stored is None else stored.data
    as_run = data_config(source, given, config, run)
    if run is None or is_same_place(source, run.source):
        return as_run, protocols.dataset(as_run, reading), []
    own = replace(data_config(source, given, config), cache=as_run.cache)
    grouped = replace(own, group_by=as_run.group_by)
    exact = data_config(source, {}, None, run)  # by which it is known again where it has moved
    reasons = []
    for choice in dict.fromkeys((exact, grouped, own)):
        try:
            dataset = protocols.dataset(choice, reading)
        except DataError as error:  # other data may have no such groups
            reasons.append(str(error))
            continue
        if dataset.fingerprint == run.fingerprint:
            return as_run, protocols.dataset(as_run, reading), []
        if choice in (grouped, own):
            lost = [option for option in as_run.options() if option not in choice.options()]
            return choice, dataset, [" ".join(option) for option in lost]
    raise DataError("; and without the options of the policy's run: ".join(dict.fromkeys(reasons)))


def is_same_place(source: str, stored: str) -> bool:
    if not os.path.exists(source):
        return source == stored  # a name
    return os.path.exists(stored) and os.path.samefile(source, stored)


def configure(
    dataset: Dataset, given: dict[str, Any], stored: RunConfig | None, config: Path | None, assignments: Sequence[str]
) -> RunConfig:
    """The settings of the first policy's run, or of the preset or the file, changed by --set and the options."""
    asked = layers.read_assignments(assignments, OF_A_SEARCH) | given
    if stored is None or "preset" in given or config is not None:  # another protocol on the data of the run
        own = layers.configure(dataset, given, config, assignments)
        before = {} if stored is None else of_data(stored, own)
        return layers.configure(dataset, given, config, assignments, before=before) if before else own
    if "model" not in asked and layers.is_foreign(stored.model):  # a file alone may not name code to run
        raise RunError(
            f"the policy was learned with the network {stored.model}: give --model {stored.model}, or another"
        )
    wanted = replace(stored, space=asked.get("space", stored.space), model=asked.get("model", stored.model))
    before = {"preset": stored.preset, "space": stored.space, "model": stored.model} | of_data(stored, wanted)
    if wanted.model == stored.model:  # another network has settings of its own
        before["evaluate"] = parse.to_dict(stored.evaluate)
    return layers.configure(dataset, given, None, assignments, before=before)


def of_data(stored: RunConfig, wanted: RunConfig) -> dict[str, Any]:
    """What a run has settled about its images, whatever the protocol: flips; what is left out, where the space is the
    same; and the weights that training starts from, where the network is."""
    found: dict[str, Any] = {} if stored.flip is None else {"flip": stored.flip}
    found |= {"exclude": list(stored.exclude)} if wanted.space == stored.space else {}
    if wanted.model == stored.model:
        found |= {"weights": stored.weights, "weights_digest": stored.weights_digest}
    return found


def begin(folder: FilePath, protocol: Protocol, *, overwrite: bool) -> None:
    """Results of another protocol are not mixed with these, and not thrown away unasked."""
    if overwrite:
        for own in ("results.json", "results.csv"):
            (folder / own).unlink(missing_ok=True)
        shutil.rmtree(folder / "trials", ignore_errors=True)
    try:
        before = parse.flat(json.loads((folder / "results.json").read_bytes())["protocol"])
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RunError(f"{folder / 'results.json'}: is not a file of ours; choose another -o, or --overwrite") from None
    now = parse.flat(parse.to_dict(protocol))
    for where in ("data.source", "data.cache", "weights"):
        before[where] = now[where]  # the same images may lie elsewhere
    differences = [
        f"{name.replace('fit.', 'evaluate.')} was {before.get(name)}, is {value}"
        for name, value in now.items()
        if before.get(name) != value
    ]
    if differences:
        raise RunError(
            f"{folder}: holds results of another protocol ({'; '.join(differences)}); choose another -o, or replace "
            "them with --overwrite"
        )
