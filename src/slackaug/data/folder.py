"""A folder of class folders, with or without train/, val/ and test/ above them (in any case; training/ and so on too).

A layout that could put test images into training is refused: parts without classes, and parts inside of classes.
"""

import os
from collections import Counter
from collections.abc import Container, Iterable
from pathlib import Path
from typing import NamedTuple

from .dataset import Dataset
from .decode import SUFFIXES
from .files import checked, from_files, part_of, real, refuse_outside, split_of
from .listing import Item, Listing, label_of
from .options import DataConfig, DataError, Progress, counted, examples, listing, printable

LITTER = {"__macosx", "__pycache__", "@eadir", "thumbs.db", "ehthumbs.db", "desktop.ini"}  # left behind by systems
# What slackaug writes, wherever it is told to: docs/reference/files.md. A folder of images has neither of these.
LOCK = ".lock"  # in a run, a study, an evaluation and a cache
BESIDE_LOCK = {"config.yaml", "study.yaml", "trials", "results.json", "images.u8"}  # unless it has not begun


def folder(location: str, options: DataConfig, progress: Progress) -> Dataset:
    return from_files(list_folder(location), options, progress)


def list_folder(location: str) -> Listing:
    """The names of the class folders are the labels; images may lie deeper inside them."""
    root = Path(location)
    notes: list[str] = []
    links: list[str] = []
    parts = find_parts(root, notes)
    items: list[Item] = []
    for path, split in parts.items():
        found = items_in(path, split, notes, links)
        if not found and path != root:
            notes.append(f"{path.name}/ has no images and is taken for missing; if it should have some, fetch it again")
        items += found
    refuse_outside(str(root), root, items)
    if items and root in parts:
        refuse_folder_above(root)
    return checked(Listing(str(root), root, items, notes, links))


def find_parts(root: Path, notes: list[str]) -> dict[Path, str]:
    """The folders that hold class folders, and whether they go to train or to test."""
    every, found = visible(root), folders(root)
    parts = [path for path in found if part_of(path.name)]
    if any(part_of(path.name) == "train" and holds_classes(path) for path in parts):
        counts = Counter(part_of(path.name) for path in parts)
        if max(counts.values()) > 1:
            raise DataError(f"{root}: several folders for one part ({names(parts)}); join them or move one elsewhere")
        others = [path for path in every if path not in parts]
        if others:
            notes.append(f"folders beside train/ and test/ are not read: {names(others)}")
        joined = [path.name for path in parts if part_of(path.name) == "val"]
        if joined:
            notes.append(f"{' and '.join(joined)} joined train: a search splits it anew")
        return {path: split_of(path.name) for path in parts}
    for path in parts:
        if part_of(path.name) == "test" and folders(path):
            raise DataError(
                f"{root}: has {path.name}/ with class folders, but no train/ with class folders; add it, and leave no "
                "images directly in it"
            )
    if parts and parts == found:
        raise DataError(
            f"{root}: labels missing: its folders are named like parts of a data set ({names(parts)}), not like "
            f"classes. Put every image into a class folder inside of its part: {parts[0] / 'CLASS' / 'image.png'}; or "
            "list the images in a csv with the columns path,label,split"
        )
    return {root: "train"}


def refuse_nested_parts(root: Path, items: list[Item]) -> None:
    """train/ and test/ inside of class folders would all be read as one."""
    above: dict[Path, bool] = {}  # the folders that hold train/ or test/, and whether there are class folders in these
    for item in items:
        inner = item.path.relative_to(root).parts  # class, ..., file
        depth = next((i for i in range(1, len(inner) - 1) if part_of(inner[i]) in ("train", "test")), None)
        if depth is not None:
            path = root.joinpath(*inner[:depth])
            above[path] = above.get(path, False) or len(inner) > depth + 2
    data_sets = [str(path) for path, has_classes in sorted(above.items()) if has_classes]
    if data_sets:
        several = "several data sets; give one of them" if len(data_sets) > 1 else "a folder above a data set; give"
        raise DataError(
            f"{root}: train/ or test/ lies inside of what would be a class folder. This looks like {several}: "
            f"{listing(data_sets)}"
        )
    if above:
        raise DataError(
            f"{root}: the class folders are divided into train and test ({listing([str(p) for p in sorted(above)])}); "
            f"put the parts above the classes, {root / 'train' / 'CLASS'} and {root / 'test' / 'CLASS'}, or list the "
            "images in a csv with the columns path,label,split"
        )


def refuse_folder_above(root: Path) -> None:
    """A single folder with folders inside is often an archive's own folder, one level above the classes."""
    found = folders(root)
    if len(found) == 1 and holds_classes(found[0]):
        raise DataError(
            f"{root}: only one class ({found[0].name!r}); a classifier needs at least two. That folder holds folders "
            f"itself; if these are the classes, give {printable(str(found[0]))}"
        )


def holds_classes(path: Path) -> bool:
    """Whether there are folders and no images in it; train/ with images is a class of its own (of trains, say)."""
    return bool(folders(path)) and not any(is_image(file) for file in path.iterdir())


def items_in(
    root: Path, split: str, notes: list[str], links: list[str], only: Container[str] | None = None
) -> list[Item]:
    """The images of the class folders in a folder, or of some of these alone."""
    every = visible(root)
    own = [path for path in every if is_own(path)]
    classes = [path for path in every if path not in own and (only is None or label_of(path.name) in only)]
    refuse_same_names(root, classes)
    stray = [path for path in root.iterdir() if is_image(path)]
    if stray and not classes:
        lie = counted(len(stray), "image lies", "images lie")
        raise DataError(
            f"{root}: labels missing: {lie} directly in the folder; put each into a folder with the name of its class, "
            "or list them in a csv with the columns path,label"
        )
    if stray:
        n_stray = counted(len(stray), "image", "images")
        notes.append(f"outside of the class folders, and not read: {n_stray} in {root.name}")
    items, empty = [], []
    ignored: Counter[str] = Counter()  # files by their ending
    for path in classes:
        files, linked, own_inside = files_in(path)
        images = [file for file in files if has_image_name(file.name)]
        label = label_of(path.name)
        items += [Item(file, label, split) for file in images]
        ignored.update(ending(file.name) or "no ending" for file in files if not has_image_name(file.name))
        links += map(str, linked)
        own += own_inside
        if not images and not linked:
            empty.append(path.name)
    refuse_nested_parts(root, items)
    if items and empty:
        raise DataError(f"{root}: class folders without images: {listing(empty)}; fill them or remove them")
    if own:
        notes.append(f"folders that slackaug has written are not read: {listing([str(path) for path in own])}")
    if ignored:
        notes.append(ignored_note(root, ignored))
    return items


def ignored_note(root: Path, endings: Counter[str]) -> str:
    n_files = counted(endings.total(), "file", "files")
    kinds = examples([f"{printable(kind)} {n:,}" for kind, n in endings.most_common()])
    return f"not images by their names, and not read: {n_files} in {root.name} ({kinds})"


def refuse_same_names(root: Path, classes: list[Path]) -> None:
    by_label: dict[str, list[str]] = {}
    for path in classes:
        by_label.setdefault(label_of(path.name), []).append(ascii(path.name))  # which shows how they differ
    same = [" and ".join(several) for several in by_label.values() if len(several) > 1]
    if same:
        raise DataError(
            f"{root}: class folders of the same name, whose accents are stored in two ways; join them, or rename one: "
            f"{listing(same, '; ')}"
        )


def folders(root: Path) -> list[Path]:
    """Those that may hold images."""
    return [path for path in visible(root) if not is_own(path)]


def visible(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not is_litter(path.name))


def names(paths: list[Path]) -> str:
    return listing([path.name for path in paths])


def is_image(path: Path) -> bool:
    """By its name. A broken link counts, and is then found to be unreadable."""
    return has_image_name(path.name) and not path.is_dir()


def has_image_name(name: str) -> bool:
    return ending(name) in SUFFIXES and not is_litter(name)


def ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()


class Below(NamedTuple):
    """What there is below a folder, in order."""

    files: list[Path]
    links: list[Path]  # to folders elsewhere; none is followed, and one that leads back into the folder hides nothing
    own: list[Path]  # what is in them is not among the files


def files_in(root: Path) -> Below:
    files: list[tuple[str, ...]] = []  # the parts of each path below the root, by which paths are sorted
    links: list[tuple[str, ...]] = []
    own: list[tuple[str, ...]] = []
    for place, inner, names in os.walk(root, onerror=refuse):
        folders_here = [name for name in inner if not is_litter(name)]
        linked = [name for name in folders_here if os.path.islink(os.path.join(place, name))]
        away = [name for name in linked if not real(Path(place, name)).is_relative_to(real(root))]
        owned = [name for name in folders_here if name not in linked and is_own(Path(place, name))]
        inner[:] = [name for name in folders_here if name not in owned]
        below = tuple(Path(place).relative_to(root).parts)
        for found, some in ((files, names), (links, away), (own, owned)):
            found += [(*below, name) for name in some if not is_litter(name)]
    return Below(*([root.joinpath(*parts) for parts in sorted(found)] for found in (files, links, own)))


def is_own(path: Path) -> bool:
    """A run, a study, an evaluation or a cache of slackaug, by its files; or a folder that holds such folders and no
    images, as runs/ does."""
    try:
        if (path / LOCK).is_file():
            shown = {name for name in os.listdir(path) if not is_litter(name)}
            return not shown or not shown.isdisjoint(BESIDE_LOCK)
        with os.scandir(path) as entries:
            return holds_own_alone(entries)
    except OSError:  # lost+found, say; who reads it finds out
        return False


def holds_own_alone(entries: Iterable[os.DirEntry[str]]) -> bool:
    """Folders of slackaug's and no images; a link to a folder may hide some."""
    found = False
    for entry in entries:
        if is_litter(entry.name):
            continue
        if has_image_name(entry.name) or (entry.is_dir() and (entry.is_symlink() or not is_own(Path(entry)))):
            return False
        found = found or entry.is_dir()
    return found


def refuse(error: OSError) -> None:
    """A folder that cannot be read must not be left out in silence."""
    raise error


def is_litter(name: str) -> bool:
    """Hidden, or what systems leave behind: .DS_Store, __MACOSX, Thumbs.db."""
    return name.startswith(".") or name.lower() in LITTER
