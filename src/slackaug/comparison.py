"""`slackaug.evaluate`: several policies under one protocol, with intervals, differences and one plain sentence."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from . import configuration, results, resuming, runs, settings, trial
from . import weights as start
from .backends import Backend, Job, get_backend
from .candidates import Candidate, PolicyLike, find_candidates, find_grid, with_choice, with_magnitudes
from .data import DataError, Dataset, count_duplicates
from .exits import Stopped
from .machine import machine
from .policy import Policy
from .progress import Jobs, Reading, duration
from .recipes import DataConfig, RunConfig
from .report import live
from .results import Results
from .runs import RunError
from .spaces import get_space
from .trial import Protocol, Trial

MAX_SEEDS = 10_000


def evaluate(
    data: str | os.PathLike[str],
    policies: Sequence[PolicyLike] = (),
    *,
    baselines: Sequence[str] = (),
    seeds: int = 4,
    out: str | os.PathLike[str] | None = None,
    preset: str | None = None,
    model: str | None = None,
    ops: str | None = None,
    magnitudes: str = "own",
    randaugment_grid: str | None = None,
    save_models: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    set: Sequence[str] = (),
    size: int | None = None,
    margin: bool = False,
    flip: bool | None = None,
    skip_bad: bool = False,
    group_by: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    device: str | None = None,
    threads: int | None = None,
    jobs: int | None = None,
    backend: str = "local",
    address: str | None = None,
    console: Console | None = None,
) -> Results:
    """Train with each policy and each seed under one protocol, and test the last epoch.

    `policies` are files of any known format, folders of runs, or policies; `baselines` are names such as none, uniform
    or trivialaugment-wide. Results go to `out`/eval, and what is there already is not done again.
    """
    console = console or Console(stderr=True)
    if isinstance(policies, str | os.PathLike | Policy) or isinstance(baselines, str) or isinstance(set, str):
        raise TypeError("policies, baselines and set take lists, such as ['uniform', 'trivialaugment-wide']")
    if seeds < 1:
        raise ValueError(f"--seeds {seeds}: expected at least 1")
    if seeds > MAX_SEEDS:
        raise ValueError(f"--seeds {seeds}: expected at most {MAX_SEEDS}")
    device, threads = machine(device, threads, is_here=address is None)
    candidates = with_magnitudes(find_candidates(policies, baselines), magnitudes)
    grid = find_grid(candidates, randaugment_grid)
    folder = results_folder(policies, out) / "eval"
    where = get_backend(backend, address=address, n_jobs=jobs, device=device, threads=threads)
    given = {"preset": preset, "model": model, "space": ops, "flip": flip}
    given |= {"weights": None if weights is None else os.fspath(weights)}
    source = DataConfig(
        source=os.fspath(data),
        size=size,
        margin=margin,
        skip_bad=skip_bad,
        group_by=group_by,
        cache=None if cache is None else os.fspath(cache),
    )
    stored = stored_config(policies) if config is None and preset is None else None
    trial.load_once.cache_clear()  # files may have changed since an earlier call
    source, dataset = load_as(stored if size is None else None, source, Reading(console))
    chosen = configure(dataset, given, stored, config, set)
    protocol = make_protocol(replace(source, fingerprint=dataset.fingerprint), dataset, chosen, chosen.model)
    models = None if save_models is None else Path(save_models)
    work = Work(protocol, folder, models, device, threads, where, console)
    if stored is not None and stored.data.group_by is not None and source.group_by is None:
        work.say(
            f"the policy's run had groups (--group-by {stored.data.group_by}); this is other data, and has none unless "
            "they are given"
        )
    check_candidates(work, dataset, [*candidates, *grid])
    with work.writing(), runs.held(folder):
        begin(folder, protocol, overwrite=overwrite)
        n_duplicates = announce(work, dataset)
        remarks: dict[str, Any] = {"duplicates": n_duplicates}
        if seeds == 1:
            work.say("1 seed: there will be no intervals, and no verdict; give --seeds 2 or more")
        if grid:
            best, remarks["randaugment_grid"] = choose(work, grid)
            candidates = with_choice(candidates, best)
        trials = [work.trial(candidate, seed) for seed in range(seeds) for candidate in candidates]
        names = [candidate.name for candidate in candidates]
        reference = next((c.name for c in candidates if c.is_baseline), None)
        subject = next((c.name for c in candidates if not c.is_baseline), names[-1])

        def summary() -> Results:
            found = finished(trials)
            rows = results.make_rows({name: found.get(name, []) for name in names}, reference)
            verdict = results.judge(rows, subject, reference) + results.reservations(rows, dataset, n_duplicates)
            return Results(protocol, dataset.class_names, reference, rows, verdict, remarks)

        conduct(work, trials, lambda: results.write(summary(), folder))
        final = summary()
        results.write(final, folder)
    console.print(results.table(final))
    work.say(final.verdict)
    work.say(f"all results are in {folder / 'results.json'} and {folder / 'results.csv'}")
    if stored is not None and folder.parent == run_folder(policies):
        is_its_own = stored.data.fingerprint == dataset.fingerprint
        if live.attempt(folder.parent, dataset if is_its_own else None, work.say):
            work.say(f"the report is {folder.parent / 'report.html'}")
    return final


def make_protocol(source: DataConfig, dataset: Dataset, config: RunConfig, model: str) -> Protocol:
    return Protocol(
        data=source,
        data_digest=trial.data_digest(dataset),
        model=model,
        space=config.space,
        exclude=config.exclude,
        flip=config.flip,
        weights=config.weights,
        weights_digest=start.digest(config.weights) if config.weights else None,
        fit=config.evaluate,
    )


class Work(NamedTuple):
    """What all trials of an evaluation share."""

    protocol: Protocol
    folder: Path
    models: Path | None
    device: str
    threads: int | None
    backend: Backend
    console: Console
    again: str = "give the same command again"
    follow: Callable[[], None] = lambda: None  # sees that jobs go on

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def writing(self) -> AbstractContextManager[None]:
        return runs.writing(self.folder, lambda: self.again)

    def trial(self, candidate: Candidate, seed: int, *, by_validation: bool = False) -> Trial:
        return Trial(
            protocol=self.protocol,
            name=candidate.name,
            augmentation=candidate.augmentation,
            digest=candidate.digest,
            uniform_magnitudes=candidate.uniform_magnitudes,
            seed=seed,
            by_validation=by_validation,
            folder=self.folder,
            models=None if by_validation else self.models,
            device=self.device,
            threads=self.threads,
        )


# --- settings ---------------------------------------------------------------------------------------------------------


def results_folder(policies: Sequence[PolicyLike], out: str | os.PathLike[str] | None) -> Path:
    """`out`, or the folder of the run that the first policy comes from."""
    if out is not None:
        return Path(out)
    folder = run_folder(policies)
    if folder is None:
        raise ValueError("give a folder for the results: -o runs/x (a policy of a run would use that run's folder)")
    return folder


def run_folder(policies: Sequence[PolicyLike]) -> Path | None:
    if not policies or isinstance(policies[0], Policy):
        return None
    path = Path(policies[0])
    folder = path if path.is_dir() else path.parent
    return folder if (folder / "config.yaml").is_file() else None


def load_as(stored: RunConfig | None, source: DataConfig, reading: Reading) -> tuple[DataConfig, Dataset]:
    """The data, at the size and with the groups of a policy's run if it is the data of that run."""
    if stored is not None:
        group_by = source.group_by or stored.data.group_by
        same = replace(source, size=stored.data.size, margin=stored.data.margin, group_by=group_by)
        try:
            dataset = trial.dataset(same, reading)
        except DataError:
            if group_by == source.group_by:
                raise
        else:  # other data may have no such groups
            if dataset.fingerprint == stored.data.fingerprint:
                return same, dataset
    return source, trial.dataset(source, reading)


def stored_config(policies: Sequence[PolicyLike]) -> RunConfig | None:
    """The settings of the run that the first policy comes from."""
    folder = run_folder(policies)
    return None if folder is None else resuming.read_config(folder)


def configure(
    dataset: Dataset,
    given: dict[str, Any],
    stored: RunConfig | None,
    config: str | os.PathLike[str] | None,
    assignments: Sequence[str],
) -> RunConfig:
    """The settings of the first policy's run, or of the preset, changed by the file, --set and the options."""
    given = {key: value for key, value in given.items() if value is not None}
    if stored is None:
        return configuration.configure(dataset, given, config, assignments)
    if "model" not in given and configuration.is_foreign(stored.model):  # a file alone may not name code to run
        raise RunError(
            f"the policy was learned with the network {stored.model}: give --model {stored.model}, or another"
        )
    before: dict[str, Any] = {"preset": stored.preset, "space": stored.space, "model": stored.model}
    before |= {"exclude": list(stored.exclude)} if given.get("space", stored.space) == stored.space else {}
    before |= {} if stored.flip is None else {"flip": stored.flip}
    given = before | given
    if given["model"] == stored.model:  # another network has settings of its own
        given = {"weights": stored.weights} | given if stored.weights else given
        fit = settings.to_dict(stored.evaluate)
        assignments = [*(f"evaluate.{key}={json.dumps(value)}" for key, value in fit.items()), *assignments]
    return configuration.configure(dataset, given, config, assignments)


def check_candidates(work: Work, dataset: Dataset, candidates: Sequence[Candidate]) -> None:
    """All of them, and the network, before the first is trained."""
    for candidate in candidates[:1]:
        trial.network(work.trial(candidate, 0), dataset)
    for candidate in candidates:
        method, _ = trial.method_and_data(work.trial(candidate, 0))
        if isinstance(candidate.augmentation, Policy):
            for remark in differences(candidate.augmentation, method.flip, work.protocol, dataset):
                work.say(f"{candidate.name}: {remark}")


def differences(policy: Policy, flips: bool, protocol: Protocol, dataset: Dataset) -> list[str]:
    """What a reader of the comparison must know about a policy; `flips`, whether it is trained with mirror flips."""
    found = []
    if policy.dataset not in (None, dataset.fingerprint):
        found.append("learned on other data; it is used with the mean and std of this data")
    if policy.space.name.rstrip("*") != protocol.space:
        found.append(
            f"its space is {policy.space.name}, that of the uniform baselines {protocol.space} (--ops changes that)"
        )
    else:
        other = {*policy.space.names} ^ ({*get_space(protocol.space).names} - {*protocol.exclude})
        if other:
            found.append(f"its space differs from that of the uniform baselines by {', '.join(sorted(other))}")
    if flips != policy.flip:
        found.append(f"trained {'with' if flips else 'without'} mirror flips, unlike what its file says")
    elif flips != (dataset.flip if protocol.flip is None else protocol.flip):
        found.append("trained without mirror flips, as its file says; the baselines have them (--no-flip is for all)")
    return found


# --- the work ---------------------------------------------------------------------------------------------------------


def begin(folder: Path, protocol: Protocol, *, overwrite: bool) -> None:
    """Results of another protocol are not mixed with these, and not thrown away unasked."""
    if overwrite:
        for own in ("results.json", "results.csv"):
            (folder / own).unlink(missing_ok=True)
        shutil.rmtree(folder / "trials", ignore_errors=True)
    try:
        before = flat(json.loads((folder / "results.json").read_bytes())["protocol"])
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RunError(f"{folder / 'results.json'}: is not a file of ours; choose another -o, or --overwrite") from None
    now = flat(settings.to_dict(protocol))
    for where in ("data.source", "data.cache", "weights"):
        before[where] = now[where]  # the same images may lie elsewhere
    differences = [f"{name} was {before.get(name)}, is {now[name]}" for name in now if before.get(name) != now[name]]
    if differences:
        raise RunError(
            f"{folder}: holds results of another protocol ({'; '.join(differences)}); choose another -o, or replace "
            "them with --overwrite"
        )


def flat(document: dict[str, Any], where: str = "") -> dict[str, Any]:
    """{"fit": {"lr": 0.1}} as {"fit.lr": 0.1}."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        found |= flat(value, f"{where}{key}.") if isinstance(value, dict) else {f"{where}{key}": value}
    return found


def announce(work: Work, dataset: Dataset) -> int:
    """What is about to be compared; the number of test images that are training images, too."""
    protocol, (height, width) = work.protocol, dataset.image_size
    n_test, epochs = len(dataset.test.labels), protocol.fit.epochs
    flip = dataset.flip if protocol.flip is None else protocol.flip
    work.say(
        f"{dataset.name}: {len(dataset.train.labels):,} training and {n_test:,} test images of {width} x {height} "
        f"pixels, {dataset.n_classes} classes; network {protocol.model}, {epochs} epoch{'s' * (epochs != 1)}, mirror "
        f"flips {'on' if flip else 'off'}, on {work.device}"
    )
    for note in dataset.notes:
        work.say(note)
    n_duplicates = count_duplicates(dataset)
    if n_duplicates:
        work.say(
            f"{n_duplicates:,} of {n_test:,} test images are exact copies of training images: accuracies will look "
            "better than they are"
        )
    return n_duplicates


def choose(work: Work, grid: Sequence[Candidate]) -> tuple[Candidate, dict[str, Any]]:
    """The candidate that does best on one half of the training images, trained on the other."""
    trials = [work.trial(choice, 0, by_validation=True) for choice in grid]
    work.say(f"RandAugment's grid: {len(trials)} trainings on one half of the training images, tested on the other")
    conduct(work, trials, lambda: None)
    accuracy = {name: found[0]["accuracy"] for name, found in finished(trials).items()}
    best = max(grid, key=lambda choice: accuracy[choice.name])
    work.say(f"RandAugment's grid: {best.name} is best with {100 * accuracy[best.name]:.2f} % on the validation half")
    return best, {"chosen": best.name, "accuracy": accuracy}


def finished(trials: Sequence[Trial]) -> dict[str, list[dict[str, Any]]]:
    """The results that are there, by policy."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in trials:
        result = trial.read_result(one)
        if result is not None:
            found.setdefault(one.name, []).append(result)
    return found


def conduct(work: Work, trials: Sequence[Trial], on_result: Callable[[], None]) -> None:
    """Do those that are not done yet."""
    left = [one for one in trials if trial.read_result(one) is None]
    if len(left) < len(trials):
        work.say(f"{len(trials) - len(left)} of {len(trials)} trainings are there already")
    if not left:
        return
    if not work.backend.is_elsewhere:
        say_cost(work, left)

    def done(index: int) -> str:
        on_result()
        result = trial.read_result(left[index])
        assert result is not None
        return (
            f"{left[index].name}, seed {left[index].seed}: {100 * result['accuracy']:.2f} % "
            f"({duration(result['seconds'])}, {result['images_per_second']:,.0f} images/s)"
        )

    names = [f"{one.name}, seed {one.seed}" for one in left]
    with Jobs(work.console, names, done, work.follow) as shown:
        run_jobs(work, [partial(trial.run, one) for one in left], names, shown)


def say_cost(work: Work, left: Sequence[Trial]) -> None:
    """Measured with the last, which is a policy where there is one; what others cost differs by their augmentation."""
    seconds = trial.seconds_of(left[-1])
    work.say(
        f"{len(left)} training{'s' * (len(left) != 1)} of about {duration(seconds)} each, measured over a few steps: "
        f"{duration(len(left) * seconds)} one after the other"
    )


def run_jobs(work: Work, jobs: Sequence[Job], names: Sequence[str], shown: Jobs) -> None:
    """On the backend; what ends the work early says how to go on."""
    try:
        work.backend.run(jobs, names, shown)
    except Stopped as error:
        raise Stopped(f"{error}. To go on: {work.again}", error.signal_number) from None
