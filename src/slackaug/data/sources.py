"""From what a user types to a data set."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..foreign import ForeignError, is_reference
from ..schema import unknown
from . import layouts, packages, shapes
from .cache import silent
from .custom import custom
from .dataset import Dataset, with_margin
from .decode import NO_FILE
from .digits import digits, few_digits
from .folder import folder, list_folder
from .groups import with_groups
from .listing import Listing
from .npz import npz
from .options import DataConfig, DataError, Progress
from .table import list_table, table

DATASETS: dict[str, Callable[[DataConfig], Dataset]] = {
    "digits": digits,
    "digits:few": few_digits,
    "shapes": shapes.colour,
    "shapes:colour": shapes.colour,
    "shapes:angle": shapes.angle,
}
PACKAGES = {"torchvision": packages.torchvision, "hf": packages.hf}
PUBLISHED = {"imagenet100": layouts.imagenet100, "domainnet": layouts.domainnet}
LISTINGS = {"imagenet100": layouts.list_imagenet100, "domainnet": layouts.list_domainnet}
FILES = (".npz", ".csv")
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
    """
    source = config.source
    try:
        dataset = read_source(source, config, progress)
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


def find_listing(source: str, group_by: str | None = None) -> Listing | None:
    """The files of a source that is made of files, with their groups; None for all others."""
    found = list_files(source, group_by)
    return found if found is None or group_by is None else with_groups(found, group_by)


def list_files(source: str, column: str | None) -> Listing | None:
    """With what a csv has in this column, where it has one."""
    scheme, _, rest = source.partition(":")
    if scheme in LISTINGS and rest:
        return LISTINGS[scheme](rest)
    path = Path(source)
    if source in DATASETS or not source or not path.exists():
        return None
    if path.is_dir():
        return list_folder(source)
    return list_table(source, column) if path.suffix.lower() == ".csv" and path.is_file() else None


def own_preparation(source: str) -> tuple[int, bool] | None:
    """The size of a source that has one where none is given, and whether there is a margin around it."""
    scheme, _, rest = source.partition(":")
    return (layouts.SIZE, layouts.has_margin(scheme, rest)) if scheme in PUBLISHED and rest else None


def read_source(source: str, config: DataConfig, progress: Progress) -> Dataset:
    """By its loader. An embedded name wins over a folder of that name: write ./digits for the folder."""
    if source in DATASETS:
        return DATASETS[source](config)
    scheme, _, rest = source.partition(":")
    if scheme in PACKAGES and rest:
        return PACKAGES[scheme](rest, config)
    if scheme in PUBLISHED and rest:
        return PUBLISHED[scheme](rest, config, progress)
    path = Path(source)
    suffix = path.suffix.lower()
    if source and path.is_dir():
        return folder(source, config, progress)
    if suffix in FILES and path.is_file():
        return npz(source, config) if suffix == ".npz" else table(source, config, progress)
    if suffix in FILES and path.exists():
        raise DataError(f"{path}: {NO_FILE}")
    if source and path.exists():
        raise DataError(
            f"{path}: expected a folder, an npz file or a csv file, got a file that ends in {path.suffix!r}"
        )
    if suffix in FILES or "/" in source:
        raise DataError(f"{path}: no such file or folder")
    if is_reference(source) and scheme not in {name.partition(":")[0] for name in DATASETS}:
        return custom(source, config)
    raise DataError(
        unknown("data set", source, [*DATASETS, *FORMS]) + "; there is no file or folder of that name either"
    )
