"""A folder of class folders, with or without train/, val/ and test/ above them."""

from pathlib import Path

from .dataset import DataError, Dataset, Options, listing
from .decode import SUFFIXES
from .files import PARTS, Item, from_files


def folder(location: str, options: Options) -> Dataset:
    """The names of the class folders are the labels; images may lie deeper inside them."""
    root = Path(location)
    notes: list[str] = []
    parts = {root: "train"}
    if is_split(root):
        parts = {path: PARTS[path.name] for path in folders(root) if path.name in PARTS}
        others = [path.name for path in folders(root) if path.name not in PARTS]
        if others:
            notes.append(f"folders beside train/ and test/ are not read: {listing(others)}")
        joined = [path.name for path in parts if PARTS[path.name] != path.name]
        if joined:
            notes.append(f"{' and '.join(joined)} joined train: a search splits it anew")
    elif any(path.name == "test" and folders(path) for path in folders(root)):
        raise DataError(f"{root}: has test/ with class folders, but no train/ with class folders")
    items = [item for path, part in parts.items() for item in items_in(path, part, notes)]
    return from_files(str(root), root, items, options, notes)


def is_split(root: Path) -> bool:
    """Whether train/ holds class folders; if it holds images, it is a class of its own (of trains, say)."""
    train = root / "train"
    return train.is_dir() and bool(folders(train)) and not any(is_image(path) for path in train.iterdir())


def items_in(root: Path, part: str, notes: list[str]) -> list[Item]:
    classes = folders(root)
    stray = [path for path in root.iterdir() if is_image(path)]
    if stray and not classes:
        raise DataError(
            f"{root}: labels missing: {len(stray)} images lie directly in the folder; put each into a folder with the "
            "name of its class, or list them in a csv with the columns path,label"
        )
    if stray:
        notes.append(f"{len(stray)} images in {root.name} lie outside of the class folders and are not read")
    items, n_ignored, empty = [], 0, []
    for path in classes:
        files = sorted(
            file for file in path.rglob("*") if (file.is_symlink() or not file.is_dir()) and not hidden(file, path)
        )
        images = [file for file in files if is_image(file)]
        items += [Item(file, path.name, part) for file in images]
        n_ignored += len(files) - len(images)
        if not images:
            empty.append(path.name)
    if items and empty:
        raise DataError(f"{root}: class folders without images: {listing(empty)}; fill them or remove them")
    if n_ignored:
        notes.append(f"{n_ignored} files in {root.name} are not images by their names and are not read")
    return items


def folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def is_image(path: Path) -> bool:
    """By its name. A broken link counts, and is then found to be unreadable."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and not path.is_dir()


def hidden(file: Path, root: Path) -> bool:
    """What systems leave behind: .DS_Store, __MACOSX."""
    return any(part.startswith((".", "__MACOSX")) for part in file.relative_to(root).parts)
