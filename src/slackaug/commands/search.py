"""`slackaug.search`: the command and the function are this one, with the same names."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from ..auto import learn
from ..auto.conduct import Opened, SearchResult, Session, begun, concluded, read_data, watching
from ..auto.resume import resumed
from ..config import parse, presets
from ..config.layers import configure, data_config
from ..config.presets import RunConfig
from ..data import Dataset
from ..data.sources import refuse_inside
from ..engine.ways import OutOfMemory
from ..machine import default_device, duration_seconds, machine
from ..messages import duration
from ..methods.slack_config import SearchConfig
from ..runs import ensemble, folders
from ..runs.folders import RunError

LEAST_BATCH, LEAST_COMPOSITES = 16, 2  # that a search makes do with by itself


def search(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    preset: str | None = None,
    model: str | None = None,
    ops: str | None = None,
    exclude: Sequence[str] = (),
    time_limit: float | str | None = None,
    config: str | os.PathLike[str] | None = None,
    set: Sequence[str] = (),
    seed: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    size: int | None = None,
    margin: bool | None = None,
    flip: bool | None = None,
    skip_bad: bool = False,
    group_by: str | None = None,
    balanced: bool | None = None,
    weights: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    device: str | None = None,
    threads: int | None = None,
    tensorboard: bool = False,
    engine: str = "compiled",
    estimate: bool = True,
    console: Console | None = None,
    watch: Callable[[float], None] | None = None,
) -> SearchResult | None:
    """Learn a policy for the images in `data` and write the run to the folder `out`.

    `data` is whatever the command takes: a folder of class folders, a file, a name. `time_limit` is in seconds, or a
    text such as 20min. Progress goes to stderr, or to `console`. Returns the policy and the folder; None after a dry
    run. With `resume`, all settings are those of the run. In processes of torchrun, their models are an ensemble.
    Without `estimate`, no steps are measured beforehand to say how long it will take, nor batches fitted to the GPU.
    """
    data, console = os.fspath(data), console or Console(stderr=True)
    if isinstance(exclude, str) or isinstance(set, str):
        raise TypeError("exclude and set take lists of texts, such as ['Invert', 'Solarize']")
    if isinstance(time_limit, str):
        time_limit = duration_seconds(time_limit)
    given = {
        "preset": preset,
        "model": model,
        "space": ops,
        "exclude": list(exclude) or None,
        "seed": seed,
        "flip": flip,
        "balanced": balanced,
        "weights": None if weights is None else os.fspath(weights),
    }
    given = {key: value for key, value in given.items() if value is not None}
    with ensemble.join(device or default_device()) as ranks:
        if not ranks.leads:
            console = Console(quiet=True)
        with ranks.together():
            where = machine(ranks.place(device or default_device()), threads)
            session = Session(data, Path(out), *where, time_limit, tensorboard, console, ranks, watch, engine)
            if resume and (
                given.keys() - {"model", "weights"}
                or config
                or set
                or overwrite
                or dry_run
                or size
                or margin is not None
                or skip_bad
                or group_by
                or cache
            ):
                raise RunError(
                    "--resume takes all settings from the run; give only the data, -o and --time-limit with it"
                )
            if tensorboard and not resume and find_spec("tensorboard") is None:
                raise RunError("--tensorboard needs TensorBoard: pip install 'slackaug[tensorboard]'")
            if ranks.leads and not resume and not dry_run:
                refuse_inside(data, session.folder)
                folders.refuse(session.folder, overwrite=overwrite)  # before the data is read, which may take long
        if resume:
            with resumed(session, model, None if weights is None else os.fspath(weights)) as opened:
                return opened if isinstance(opened, SearchResult) else worked(session, opened)
        with ranks.together():
            reading = {
                "size": size,
                "margin": margin,
                "skip_bad": skip_bad or None,
                "group_by": group_by,
                "cache": cache,
            }
            source = data_config(data, reading, config)
            dataset = read_data(session, source)
            source = replace(source, fingerprint=dataset.fingerprint)
            chosen = replace(configure(dataset, given, config, set, ranks.n_ranks), data=source)
            announce(session, dataset, chosen)
            if estimate:
                chosen = estimated(session, dataset, chosen, is_given=config is not None, assignments=set)
        if dry_run:
            session.say(parse.dump(chosen))
            return None
        with begun(session, chosen, dataset, overwrite=overwrite) as opened:
            return worked(session, opened)


def worked(session: Session, opened: Opened) -> SearchResult:
    with watching(session, opened) as watch:
        limit = math.inf if session.time_limit is None else opened.seconds + session.time_limit
        looks_on = watch.on_step, watch.on_stage, watch.should_stop
        ending = learn.learn(opened.search, opened.run, *looks_on, seconds_before=opened.seconds, time_limit=limit)
    return concluded(session, opened, ending, watch.caught)


def announce(session: Session, dataset: Dataset, config: RunConfig) -> None:
    """What is about to be done."""
    height, width = dataset.image_size
    flip = dataset.flip if config.flip is None else config.flip
    session.say(
        f"{dataset.name}: {len(dataset.train.labels):,} training images of {width} x {height} pixels, "
        f"{dataset.n_classes} classes; {len(dataset.test.labels):,} test images, which the search does not see"
    )
    for note in dataset.notes:
        session.say(note)
    session.say(
        f"mirror flips are {'on' if flip else 'off'} ({'--no-flip' if flip else '--flip'} changes that); "
        f"{basis(config, dataset)}, on {session.device}"
    )
    for line in choices(config, dataset):
        session.say(line)


def basis(config: RunConfig, dataset: Dataset, *, by_name: bool = True) -> str:
    """What a search chooses from, with which network, and where its other settings are from.

    `by_name`: it was the data's name that chose the row of `paper`.
    """
    without = f" without {', '.join(config.exclude)}" if config.exclude else ""
    row = f" (the row of {presets.paper_row(dataset)})" if config.preset == "paper" and by_name else ""
    return f"space {config.space}{without}, network {config.model}, preset {config.preset}{row}"


def choices(config: RunConfig, dataset: Dataset) -> list[str]:
    """How a search goes about it, in lines."""
    found = [describe(config.search, *map(len, dataset.half_indices(config.seed)))]
    if config.n_composed is None:
        found.append(
            "pre-training with 3 transformations in a composite, and with fewer or more, says how many do best"
        )
    if config.confirm:
        found.append("after the rounds a whole training decides whether the policy does better than pre-training did")
    if config.balanced:
        found.append("the validation loss counts all classes alike (--balanced)")
    if config.n_ranks > 1:
        found.append(
            f"an ensemble of {config.n_ranks} models, one in each process, learns one policy; "
            "the losses that are shown and stored are those of rank 0"
        )
    return found


def describe(search: SearchConfig, n_train: int, n_val: int) -> str:
    """The numbers that decide a search on so many images, and those that it will find by itself."""
    rate = f"re-training at rate {search.model_lr:g}"
    if search.calibrate:
        rate = f"the rate of re-training is found by trial, from {search.model_lr:g} on"
    speed = f"the policy's rate is {search.policy_lr:g}, its KL weight {search.kl_weight:g}"
    if search.kl_budget is not None:
        speed = f"a round moves the policy by a KL divergence of {search.kl_budget:g} per position"
    rounds = "1 round" if search.n_rounds == 1 else f"{search.n_rounds} rounds"
    steps = f"{rounds} of {search.n_retrain} + {search.n_unrolled} steps"
    images = f"{search.n_composites} composites of {min(search.batch, n_train)} images in each"
    shared = "; all positions of a composite have one distribution" if search.kl_budget is not None else ""
    return f"{steps}, {images}, and {min(search.n_val, n_val)} of validation; {rate}; {speed}{shared}"


def estimated(
    session: Session, dataset: Dataset, config: RunConfig, *, is_given: bool, assignments: Sequence[str]
) -> RunConfig:
    """Say what it will take; the configuration that fits on the GPU."""
    config, seconds = fitting(session, dataset, config, is_given=is_given, assignments=assignments)
    session.say(f"this search takes about {duration(seconds)} here, measured over a few steps")
    return config


def fitting(
    session: Session,
    dataset: Dataset,
    config: RunConfig,
    *,
    is_given: bool,
    assignments: Sequence[str],
) -> tuple[RunConfig, float]:
    """The configuration with batches that fit on the GPU, where they are not given or the paper's, and its seconds."""
    while True:
        try:
            return config, learn.search_seconds(config, dataset, session.device, session.engine)
        except OutOfMemory as error:
            found = smaller(config, error)
            is_fixed = is_given or {text.partition("=")[0] for text in assignments} & found.keys()
            if not found or is_fixed or config.preset == "paper":
                raise
            said = " and ".join(f"{setting}={value}" for setting, value in found.items())
            session.say(f"{error.what} do not fit on the GPU; going on with {said}")
        for setting, value in found.items():
            config = parse.update(config, parse.parse_assignment(f"{setting}={value}"))


def smaller(config: RunConfig, error: OutOfMemory) -> dict[str, int]:
    """The settings with which less has to fit: half of the batch, and of a search's composites when that is small."""
    search = config.search
    if error.batch >= LEAST_BATCH:
        found = {error.setting: error.batch}
    elif error.setting == "search.batch" and search.n_composites // 2 >= LEAST_COMPOSITES:
        found = {"search.n_composites": search.n_composites // 2}
    else:
        return {}
    if error.setting == "search.batch" and search.val_batch is not None:
        found["search.val_batch"] = max(search.val_batch // 2, 1)
    return found
