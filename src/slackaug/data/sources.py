"""From what a user types to a data set."""

import os
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..augment.policy import IMAGENET
from ..foreign import ForeignError, is_reference
from . import embedded, layouts, packages
from .arrays import npz
from .class_folders import list_folder
from .dataset import Dataset, with_margin
from .decode import NO_FILE
from .files import from_files
from .listing import Listing, real, with_groups
from .options import DataConfig, DataError, Progress, is_path, silent
from .table import list_table

DATASETS: dict[str, Callable[[DataConfig], Dataset]] = {
    "digits": embedded.digits,
    "digits:few": embedded.few_digits,
    "shapes": embedded.colour,
    "shapes:colour": embedded.colour,
    "shapes:angle": embedded.angle,
}
PACKAGES = {"torchvision": packages.torchvision, "hf": packages.hf}
PUBLISHED = {"imagenet100": layouts.list_imagenet100, "domainnet": layouts.list_domainnet}
SUFFIXES = (".npz", ".csv")
FORMS = ["FOLDER", "FILE.npz", "FILE.csv", "torchvision:NAME", "hf:NAME", "imagenet100:ROOT", "domainnet:ROOT/DOMAIN",
         "module:callable"]  # fmt: skip


def load(source: str | os.PathLike[str], *, progress: Progress = silent, **options: Any) -> Dataset:
    """Read a data set: a name in DATASETS, a folder, an npz or csv file, or one of the other FORMS.

    The options are the fields of `DataConfig`, such as size=32.
    """
    return read(DataConfig(source=os.fspath(source), **options), progress)


def read(config: DataConfig, progress: Progress = silent) -> Dataset:
    """The images that `config` names, read as it says; `progress` is told what long reading does.

    With a margin, the shorter side becomes 8/7 of the size, and the centre square is kept for training on random
    windows of the size. Image files are decoded once, by all cores, into a cache; small sets are decoded in memory.
    What was published is prepared as the paper has it, unless the user says a size.
    """
    source, own = config.source, own_preparation(config.source)
    if own is not None and config.size is None:
        config = replace(config, size=own[0], margin=own[1])
    refuse_inside(source, config.cache, "--cache")
    try:
        found = find_listing(source, config.group_by, config.columns)
        if found is not None:
            dataset = from_files(found, config, progress, None if own is None else IMAGENET)
        else:
            dataset = find(source)(config)
    except ForeignError as error:
        raise DataError(str(error)) from error
    except OSError as error:
        raise DataError(f"{error.filename or source}: cannot be read ({error.strerror or error})") from error
    if config.group_by is not None and dataset.groups is None:
        raise DataError(f"{source}: --group-by {config.group_by}: groups are for image files: a folder or a csv")
    return with_margin(dataset, config) if config.margin else dataset


def located(source: str) -> str:
    """A path that is the same wherever the next command is given; names stay as they are."""
    return os.path.abspath(source) if source not in DATASETS and os.path.exists(source) else source


def refuse_inside(data: Any, place: str | os.PathLike[str] | None, option: str = "-o") -> None:
    """Nothing is written among the images: in a folder of class folders it would be taken for a class."""
    source = os.fspath(data) if is_path(data) else ""
    scheme, _, rest = source.partition(":")
    root = Path(rest if scheme in PUBLISHED else source)
    if place is None or not source or source in DATASETS or not root.is_dir():
        return
    if real(Path(place)).is_relative_to(real(root)):
        raise DataError(f"{option} {place}: is inside of {root}, among the images; choose a folder outside of it")


def find_listing(source: str, group_by: str | None = None, columns: str | None = None) -> Listing | None:
    """The files of a source that is made of files, with their groups; None for all others."""
    scheme, _, rest = source.partition(":")
    path = Path(source)
    if source in DATASETS or not source:  # an embedded name wins over a folder of that name: ./digits is the folder
        return None
    if scheme in PUBLISHED and rest:
        found = PUBLISHED[scheme](rest)
    elif path.is_dir():
        found = list_folder(source)
    elif path.suffix.lower() == ".csv" and path.is_file():
        found = list_table(source, group_by, columns)
    else:
        return None
    return found if group_by is None else with_groups(found, group_by)


def own_preparation(source: str) -> tuple[int, bool] | None:
    """The size of a source that has one where none is given, and whether there is a margin around it."""
    scheme, _, rest = source.partition(":")
    return (layouts.SIZE, layouts.has_margin(scheme, rest)) if scheme in PUBLISHED and rest else None


def find(source: str) -> Callable[[DataConfig], Dataset]:
    """The loader of a source that is not made of files."""
    if source in DATASETS:
        return DATASETS[source]
    scheme, _, rest = source.partition(":")
    if scheme in PACKAGES and rest:
        return lambda options: PACKAGES[scheme](rest, options)
    path = Path(source)
    is_known = path.suffix.lower() in SUFFIXES
    if is_known and path.is_file():
        return lambda options: npz(source, options)
    if is_known and path.exists():
        raise DataError(f"{path}: {NO_FILE}")
    if source and path.exists():
        raise DataError(
            f"{path}: expected a folder, an npz file or a csv file, got a file that ends in {path.suffix!r}"
        )
    if is_known or "/" in source:
        raise missing(source)
    if is_reference(source) and scheme not in {name.partition(":")[0] for name in DATASETS}:
        return lambda options: packages.custom(source, options)
    raise missing(source)


def missing(source: str) -> DataError:
    """A place where nothing is, with the nearest that is beside it; a name of ours may be meant, too."""
    path = Path(source)
    there = {entry.name: str(entry) for entry in path.parent.iterdir()} if path.parent.is_dir() else {}
    names = there | ({} if "/" in source else {name: name for name in DATASETS})
    near = get_close_matches(path.name, names, n=1, cutoff=0.5)
    wrong = f"{source or 'DATA'}: there is no such file or folder"
    if near:
        return DataError(f"{wrong}; did you mean {names[near[0]]}?")
    return DataError(wrong if "/" in source else f"{wrong}; expected {', '.join([*DATASETS, *FORMS])}")
