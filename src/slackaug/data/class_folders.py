"""A folder of class folders, with or without train/, val/ and test/ above them (in any case; training/ and so on too).

A layout that could put test images into training is refused: parts without classes, and parts inside of classes.
"""

import os
from collections import Counter
from collections.abc import Container, Iterable
from pathlib import Path

from .decode import SUFFIXES
from .listing import Item, Listing, checked, joined_note, label_of, part_of, real, split_of
from .options import DataError, counted, examples, listing, printable

LITTER = {"__macosx", "__pycache__", "@eadir", "thumbs.db", "ehthumbs.db", "desktop.ini"}  # left behind by systems


def list_folder(location: str) -> Listing:
    """The names of the class folders are the labels; images may lie deeper inside them."""
    root = Path(location)
    found = Listing(str(root), root, [], [], [])
    parts = find_parts(root, found.notes)
    for path, split in parts.items():
        inside = classes_in(path, split)
        if not inside.items and path != root:
            what = f"{path.name}/ has no images and is taken for missing; if it should have some, fetch it again"
            inside.notes.append(what)
        found.items.extend(inside.items)
        found.notes.extend(inside.notes)
        found.links.extend(inside.links)
    inner = folders(root)
    if found.items and root in parts and len(inner) == 1 and holds_classes(inner[0]):
        # often an archive's own folder, one level above the classes
        raise DataError(
            f"{root}: only one class ({inner[0].name!r}); a classifier needs at least two. That folder holds folders "
            f"itself; if these are the classes, give {printable(str(inner[0]))}"
        )
    return checked(found)


def find_parts(root: Path, notes: list[str]) -> dict[Path, str]:
    """The folders that hold class folders, and whether they go to train or to test."""
    found = folders(root)
    parts = {path: part_of(path.name) for path in found if part_of(path.name)}
    if any(part == "train" and holds_classes(path) for path, part in parts.items()):
        if len({*parts.values()}) < len(parts):
            raise DataError(f"{root}: several folders for one part ({names(parts)}); join them or move one elsewhere")
        others = [path for path in found if path not in parts]
        if others:
            notes.append(f"folders beside train/ and test/ are not read: {names(others)}")
        notes += joined_note([path.name for path in parts])
        return {path: split_of(path.name) for path in parts}
    for path, part in parts.items():
        if part == "test" and folders(path):
            raise DataError(
                f"{root}: has {path.name}/ with class folders, but no train/ with class folders; add it, and leave no "
                "images directly in it"
            )
    if parts and [*parts] == found:
        raise DataError(
            f"{root}: labels missing: its folders are named like parts of a data set ({names(parts)}), not like "
            f"classes. Put every image into a class folder inside of its part: {found[0] / 'CLASS' / 'image.png'}; or "
            "list the images in a csv with the columns path,label,split"
        )
    return {root: "train"}


def classes_in(root: Path, split: str, only: Container[str] | None = None) -> Listing:
    """The images of the class folders in a folder, or of some of these alone; not checked yet."""
    classes = [path for path in folders(root) if only is None or label_of(path.name) in only]
    items: list[Item] = []
    notes: list[str] = []
    links: list[str] = []
    n_stray = sum(map(is_image, root.iterdir()))
    if n_stray and not classes:
        lie = counted(n_stray, "image lies", "images lie")
        raise DataError(
            f"{root}: labels missing: {lie} directly in the folder; put each into a folder with the name of its class, "
            "or list them in a csv with the columns path,label"
        )
    if n_stray:
        stray = counted(n_stray, "image", "images")
        notes.append(f"outside of the class folders, and not read: {stray} in {root.name}")
    empty = []
    ignored: Counter[str] = Counter()  # files by their ending
    for path in classes:
        files, linked = files_in(path)
        images = [file for file in files if file.suffix.lower() in SUFFIXES]
        items += [Item(file, label_of(path.name), split) for file in images]
        ignored.update(file.suffix.lower() or "no ending" for file in files if file.suffix.lower() not in SUFFIXES)
        links += map(str, linked)
        if not images and not linked:
            empty.append(path)
    refuse_nested_parts(root, items)
    if items and empty:
        raise DataError(f"{root}: class folders without images: {names(empty)}; fill them or remove them")
    if ignored:
        n_files = counted(ignored.total(), "file", "files")
        kinds = examples([f"{printable(kind)} {n:,}" for kind, n in ignored.most_common()])
        notes.append(f"not images by their names, and not read: {n_files} in {root.name} ({kinds})")
    return Listing(str(root), root, items, notes, links)


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


# --- what lies in a folder --------------------------------------------------------------------------------------------


def folders(root: Path) -> list[Path]:
    """Those that may hold images."""
    return sorted(path for path in root.iterdir() if path.is_dir() and not is_litter(path.name))


def names(paths: Iterable[Path]) -> str:
    return listing([path.name for path in paths])


def holds_classes(path: Path) -> bool:
    """Whether there are folders and no images in it; train/ with images is a class of its own (of trains, say)."""
    return bool(folders(path)) and not any(map(is_image, path.iterdir()))


def is_image(path: Path) -> bool:
    """By its name. A broken link counts, and is then found to be unreadable."""
    return path.suffix.lower() in SUFFIXES and not is_litter(path.name) and not path.is_dir()


def is_litter(name: str) -> bool:
    """Hidden, or what systems leave behind: .DS_Store, __MACOSX, Thumbs.db."""
    return name.startswith(".") or name.lower() in LITTER


def files_in(root: Path) -> tuple[list[Path], list[Path]]:
    """The files below a folder, in order, and its links to folders elsewhere, of which none is followed.

    A link that leads back into the folder hides nothing.
    """
    files: list[Path] = []
    links: list[Path] = []
    for place, inner, found in os.walk(root, onerror=refuse):
        inner[:] = [name for name in inner if not is_litter(name)]
        files += [Path(place, name) for name in found if not is_litter(name)]
        linked = [path for path in (Path(place, name) for name in inner) if path.is_symlink()]
        links += [path for path in linked if not real(path).is_relative_to(real(root))]
    return sorted(files), sorted(links)


def refuse(error: OSError) -> None:
    """A folder that cannot be read must not be left out in silence."""
    raise error
