"""`slackaug.search`: learn a policy for some images."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Annotated, Any

from rich.console import Console

from ..auto import learn, race, timing
from ..auto.conduct import SearchResult, Session, begun, concluded, read_data, watching
from ..auto.learn import Ending
from ..auto.resume import read_config, resumed
from ..auto.timing import Seconds
from ..config import paper, parse
from ..config.layers import configure, data_config
from ..config.options import (
    SETTING,
    TRAINING,
    ConfigFile,
    Given,
    Machine,
    Path,
    ReadAs,
    Settings,
    Source,
    Verbose,
    command,
)
from ..config.run_config import Choices, RunConfig
from ..data import DataConfig, Dataset, held
from ..data.sources import refuse_inside
from ..engine.ways import OutOfMemory
from ..machine import default_device, duration_seconds, machine
from ..messages import search as messages
from ..messages.terminal import terminal
from ..methods.budget import SearchConfig
from ..runs import ensemble, folders
from ..runs.folders import RunError
from ..runs.loggers import Logger, check
from ..runs.progress import Reading

LEAST_BATCH, LEAST_COMPOSITES = 16, 2  # that a search makes do with by itself


@command
def search(
    data: Source,
    out: Annotated[Path, "folder of the run, such as runs/pets"],
    *,
    chosen: Annotated[dict[str, Any], Given(Choices, TRAINING)],
    time_limit: Annotated[
        float | str | None,
        "such as 90s, 20min or 2h: half of it for learning, or more where the race needs less. Starting up and writing "
        "the answer take a few seconds more",
    ] = None,
    config: ConfigFile = None,
    set: Settings = (),
    resume: Annotated[bool, "go on with the run in this folder"] = False,
    overwrite: Annotated[bool, "replace the run in this folder"] = False,
    dry_run: Annotated[bool, "print the settings and the cost, and write no run"] = False,
    reading: ReadAs,
    where: Machine,
    log: Annotated[
        Sequence[str | Logger], "where losses and the policy go, too: tensorboard, wandb or mlflow", SETTING
    ] = (),
    engine: Annotated[
        str, "how the rounds of a search are executed on a GPU: compiled, where they can be, or plain", SETTING
    ] = "compiled",
    verbose: Verbose = False,
    test: Any = None,
    estimate: bool = True,
    console: Console | None = None,
    watch: Callable[[float], None] | None = None,
) -> SearchResult | None:
    """Learn an augmentation policy for your images. Test images are never looked at.

    With --resume, all settings are those of the run, and others are refused. In processes of torchrun, their models are
    an ensemble.

    Examples:
        slackaug search pets/ -o runs/pets
        slackaug search pets/ -o runs/pets --time-limit 20min --size 64 --exclude Invert,Solarize
        slackaug search pets/ -o runs/pets --set evaluate.epochs=60
        slackaug search pets/ -o runs/pets --resume
    """
    # In Python alone: `log` takes functions of (numbers, step), too; `test` is the test set of data that is given as an
    # object; `console` is told the progress, else stderr is; `watch` the share that is done; without `estimate`, no
    # steps are measured to say how long it will take, nor batches fitted to the GPU.
    limit, began = duration_seconds(time_limit) if isinstance(time_limit, str) else time_limit, time.monotonic()
    folder = FilePath(out)

    def how_to_read() -> DataConfig:
        return read_config(folder).data if resume else data_config("", reading, config)

    home = held.for_a_look(data) if dry_run else nullcontext(folder)
    with ensemble.join(where.device or default_device()) as ranks, home as place_of_images:
        console = (console or terminal(stderr=True)) if ranks.leads else Console(quiet=True)
        with ranks.together():
            place = machine(ranks.place(where.device or default_device()), where.threads)
            if resume and (config or overwrite or dry_run):
                raise RunError(
                    "--resume takes all settings from the run; do not give --config, --overwrite or --dry-run with it"
                )
            check(log)
            if ranks.leads and not resume and not dry_run:
                refuse_inside(data, folder)
                folders.refuse(folder, overwrite=overwrite)  # before the data is read, which may take long
        told = Reading(console)
        source = ranks.lead(lambda: held.file_of(data, test, place_of_images, how_to_read(), told, is_new=not resume))
        session = Session(source, folder, *place, limit, log, console, ranks, watch, engine, verbose, began)
        if resume:
            opening: Any = resumed(session, chosen, reading, set)
        else:
            with ranks.together():
                dataset, settings, takes = settled(session, chosen, reading, config, set, estimate=estimate)
            if dry_run:
                console.print(parse.dump(settings), highlight=False, markup=False, soft_wrap=True)
                return None
            opening = begun(session, settings, dataset, takes, overwrite=overwrite)
        with opening as opened:
            if isinstance(opened, SearchResult):
                return opened
            with watching(session, opened) as watch_it:
                n_train = len(opened.dataset.train.labels)
                to_learn = race.time_to_learn(opened.config, n_train, session.left(), opened.takes)
                ending = learn.learn(opened.search, opened.run, watch_it, opened.seconds, to_learn)
                answer = None
                if ending is not Ending.STOPPED:
                    answer = race.hold(session, opened, watch_it.bar)
            return concluded(session, opened, ending, watch_it, answer)


def settled(
    session: Session,
    chosen: dict[str, Any],
    reading: dict[str, Any],
    config: Path | None,
    assignments: Sequence[str],
    *,
    estimate: bool,
) -> tuple[Dataset, RunConfig, Seconds | None]:
    """The images and all settings of a new run, announced; and what it takes, if estimated."""
    source = data_config(session.data, reading, config)
    dataset = read_data(session, source)
    settings = configure(dataset, chosen, config, assignments, session.ensemble.n_ranks)
    settings = replace(settings, data=replace(source, fingerprint=dataset.fingerprint))
    race.check(settings, dataset)
    announce(session, dataset, settings)
    if not estimate:
        return dataset, settings, None
    return dataset, *fitting(session, dataset, settings, is_given=config is not None, assignments=assignments)


def announce(session: Session, dataset: Dataset, config: RunConfig) -> None:
    """What is about to be done."""
    n_train, n_test = len(dataset.train.labels), len(dataset.test.labels)
    is_on = dataset.flip if config.flip is None else config.flip
    for line in (
        messages.images(dataset.name, n_train, n_test, dataset.image_size, dataset.n_classes),
        *dataset.notes,
        messages.flips(is_on=is_on),
        basis(config, dataset, device=session.device),
        *choices(config, n_train),
    ):
        session.say(line)
    for line in details(config, dataset):
        session.detail(line)


def basis(config: RunConfig, dataset: Dataset, *, by_name: bool = True, device: str | None = None) -> str:
    """What a search chooses from, with which network, and where its other settings are from.

    `by_name`: it was the data's name that chose the row of `paper`.
    """
    row = paper.paper_row(dataset) if config.preset == "paper" and by_name else None
    return messages.basis(config.space, config.exclude, config.model, config.preset, row, device)


def details(config: RunConfig, dataset: Dataset) -> list[str]:
    """The numbers that decide a search, in lines."""
    found = [describe(config.search, *map(len, dataset.half_indices(config.seed)))]
    return [*found, messages.COUNTS_NUMBERS] if config.n_composed is None else found


def choices(config: RunConfig, n_train: int) -> list[str]:
    """How a search goes about it, in lines."""
    found = []
    if timing.has_race(config, n_train):
        found.append(messages.RACES)
    if config.balanced:
        found.append(messages.BALANCED)
    if config.n_ranks > 1:
        found.append(messages.ensemble(config.n_ranks))
    return found


def describe(search: SearchConfig, n_train: int, n_val: int) -> str:
    """The numbers that decide a search on so many images, and those that it will find by itself."""
    n_steps, images = (search.n_retrain, search.n_unrolled), (min(search.batch, n_train), min(search.n_val, n_val))
    said = [
        messages.rounds(search.n_rounds, *n_steps, search.n_composites, *images),
        messages.rate_of_retraining(search.model_lr, is_tried=search.calibrate),
        messages.by_rate(search.policy_lr, search.kl_weight)
        if search.kl_budget is None
        else messages.by_budget(search.kl_budget),
    ]
    return " ".join(said)


def fitting(
    session: Session, dataset: Dataset, config: RunConfig, *, is_given: bool, assignments: Sequence[str]
) -> tuple[RunConfig, Seconds]:
    """Say how long it will take, with batches that fit on the GPU, where they are not given or the paper's."""
    while True:
        try:
            takes = timing.search_seconds(config, dataset, session.device, session.engine)
        except OutOfMemory as error:
            found = smaller(config, error)
            is_fixed = is_given or {text.partition("=")[0] for text in assignments} & found.keys()
            if not found or is_fixed or config.preset == "paper":
                raise
            session.say(messages.does_not_fit(error.what, found))
            for setting, value in found.items():
                config = parse.update(config, parse.parse_assignment(f"{setting}={value}"))
        else:
            says = messages.takes(takes.learning, takes.race)
            if (limit := session.time_limit) is not None:
                left = session.left()
                to_learn = race.time_to_learn(config, len(dataset.train.labels), left, takes)
                least = limit - left + race.least_time(takes)
                says += f" {messages.limited(limit, left, *takes, to_learn, least)}"
            session.say(says)
            return config, takes


def smaller(config: RunConfig, error: OutOfMemory) -> dict[str, int]:
    """The settings with which less has to fit: half of the batch, and of a search's composites when that is small."""
    search, is_of_rounds, found = config.search, error.setting == "search.batch", {}
    if error.batch >= LEAST_BATCH:
        found = {error.setting: error.batch}
    elif is_of_rounds and search.n_composites // 2 >= LEAST_COMPOSITES:
        found = {"search.n_composites": search.n_composites // 2}
    if found and is_of_rounds and search.val_batch is not None:
        found["search.val_batch"] = max(search.val_batch // 2, 1)
    return found
