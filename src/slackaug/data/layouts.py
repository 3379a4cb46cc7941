"""Data sets in the layout that they are published in: `imagenet100:ROOT` and `domainnet:ROOT/DOMAIN`.

ImageNet-100 is ImageNet's train/ and val/ with the 100 classes that ROOT/imagenet100.txt names, one on each line (the
list of Tian et al., CMC); its val/ is the test set. DomainNet is ROOT/DOMAIN/CLASS/FILE, and where the lists
DOMAIN_train.txt and DOMAIN_test.txt are there (lines such as `clipart/ant/clipart_009_000001.jpg 8`), only the files
that they name. The split is like the paper's: 20 % of each class are held out; of real and quickdraw, 50,000 images are
trained on and the rest is tested. It depends on the names of the files alone. Where SLACK's authors' own lists are
there, DOMAIN_train.npz and DOMAIN_test.npz (for each class an array of file names), it is the paper's.
"""

from pathlib import Path

from . import dividing
from .arrays import unpacked
from .class_folders import classes_in, folders, is_image
from .files import numbered
from .listing import Item, Listing, checked, label_of
from .options import DataError, counted, listing, percent

SIZE = 224
WITH_MARGIN = ("painting", "infograph", "real")  # Resize(256) + RandomCrop(224); the others Resize((224, 224))
DOMAINS = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
REDUCED = ("real", "quickdraw")
N_REDUCED = 50_000  # training images of these
N_CLASSES = {"imagenet100": 100, "domainnet": 345}
CLASS_LIST = "imagenet100.txt"


def has_margin(scheme: str, location: str) -> bool:
    """Whether the paper takes random windows of 224 out of its images, or all of each."""
    return scheme == "imagenet100" or domain_of(location) in WITH_MARGIN


# --- ImageNet-100 -----------------------------------------------------------------------------------------------------


def list_imagenet100(location: str) -> Listing:
    root, name = Path(location), f"imagenet100:{location}"
    for part in ("train", "val"):
        if not (root / part).is_dir() or not folders(root / part):
            raise DataError(
                f"{name}: {root / part} with class folders is missing; expected train/CLASS/*.JPEG and "
                "val/CLASS/*.JPEG, the validation images sorted into class folders"
            )
    wanted = class_list(root, name)
    found = Listing(name, root, [], ["val is the test set"], [])
    for part, split in (("train", "train"), ("val", "test")):
        there = {label_of(path.name) for path in folders(root / part)}
        missing = [label for label in wanted if label not in there]
        if missing:
            raise DataError(f"{name}: no folder in {root / part} for {listing(missing)}, which {CLASS_LIST} names")
        inside = classes_in(root / part, split, only={*wanted})
        found.items.extend(inside.items)
        found.links.extend(inside.links)
    return checked(found)


def class_list(root: Path, name: str) -> list[str]:
    path, there = root / CLASS_LIST, [label_of(folder.name) for folder in folders(root / "train")]
    if path.is_file():
        wanted = [label_of(line.strip()) for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        if not wanted:
            raise DataError(f"{path}: no classes; expected one on each line, such as n01558993")
        return wanted
    if len(there) > N_CLASSES["imagenet100"]:
        raise DataError(
            f"{name}: {len(there)} classes in train and no {path}; put the list of the 100 classes there, one on each "
            "line (imagenet100.txt of Tian et al., CMC)"
        )
    return there


# --- DomainNet --------------------------------------------------------------------------------------------------------


def domain_of(location: str) -> str:
    if (domain := Path(location).name) not in DOMAINS:
        raise DataError(f"domainnet:{location}: expected domainnet:ROOT/DOMAIN with a domain of {', '.join(DOMAINS)}")
    return domain


def list_domainnet(location: str) -> Listing:
    root, domain, name = Path(location).parent, domain_of(location), f"domainnet:{location}"
    links: list[str] = []
    lists, split = ({part: root / f"{domain}_{part}.{end}" for part in ("train", "test")} for end in ("txt", "npz"))
    has_split = any(path.is_file() for path in split.values())
    if not has_split and all(path.is_file() for path in lists.values()):
        named = (item for path in lists.values() for item in listed(root, domain, path))
        items = [*dict.fromkeys(named)]  # a line may be there twice: a split would have one file on both sides
        notes = [f"the files of {lists['train'].name} and {lists['test'].name}"]
    elif (root / domain).is_dir():
        _, _, items, _, links = classes_in(root / domain, "train")
        notes = [] if has_split else [f"no {lists['train'].name}: all files of {domain}"]
    else:
        raise DataError(f"{name}: no folder {root / domain}; expected {domain}/CLASS/*.jpg in {root}")
    found = checked(Listing(name, root, items, notes, links))
    n_classes = len({item.label for item in items})
    items, note = as_published(items, split) if has_split else divided(items, domain)
    notes.append(note)
    if n_classes != N_CLASSES["domainnet"]:
        notes.append(f"{n_classes} classes, of the {N_CLASSES['domainnet']} that DomainNet has")
    return found._replace(items=items)


def listed(root: Path, domain: str, path: Path) -> list[Item]:
    """The files that the lines of a list name, all of them as training images."""
    items, problems = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        file = Path(line.rpartition(" ")[0] or line)
        if not line.strip():
            continue
        if len(file.parts) != 3 or file.parts[0] != domain or not is_image(file):
            problems.append(f"line {number}: {line!r}")
        else:
            items.append(Item(root / file, label_of(file.parts[1]), "train"))
    if problems:
        raise DataError(f"{path}: expected lines such as '{domain}/CLASS/FILE.jpg 0': {listing(problems, '; ')}")
    return items


def as_published(items: list[Item], lists: dict[str, Path]) -> tuple[list[Item], str]:
    """The split of the authors' lists, each with the names of files by class, and what it is."""
    if missing := [str(path) for path in lists.values() if not path.is_file()]:
        raise DataError(f"{listing(missing)}: missing; the published split is in two lists: give both, or neither")
    parts: dict[tuple[str, str], str] = {}  # by class and name
    twice = []
    for part, path in lists.items():
        for label, names in unpacked(path).items():
            if names.ndim != 1 or names.dtype.kind != "U":
                raise DataError(f"{path}: {label}: expected a vector of file names, got {names.dtype} {names.shape}")
            for file in names.tolist():
                twice += [f"{label}/{file}"] if (label_of(label), file) in parts else []
                parts[label_of(label), file] = part
    both = " and ".join(path.name for path in lists.values())
    if twice:
        raise DataError(f"{both}: {counted(len(twice), 'file is', 'files are')} named more than once: {listing(twice)}")
    there = {(item.label, item.path.name): item for item in sorted(items, key=lambda item: item.path)}
    if unknown := [f"{label}/{file}" for label, file in parts if (label, file) not in there]:
        n = counted(len(unknown), "file", "files")
        raise DataError(
            f"{both}: {n} of {len(parts):,} not in the folder of the domain: {listing(unknown)}; the lists are for "
            "DomainNet as DomainBed downloads it"
        )
    used = [item._replace(part=parts[key]) for key, item in there.items() if key in parts]
    n_train, n_other = sum(item.part == "train" for item in used), len(items) - len(used)
    note = f"the published split, {both}: {n_train:,} training images, {len(used) - n_train:,} test images"
    return used, note + (f"; {counted(n_other, 'file', 'files')} in neither list" if n_other else "")


def divided(items: list[Item], domain: str) -> tuple[list[Item], str]:
    """A split like the paper's, and what it is."""
    items = sorted(items, key=lambda item: item.path)
    names = [item.label for item in items]
    labels = numbered(names, names)
    if domain in REDUCED and len(items) > N_REDUCED:
        _, test = dividing.train_on(labels, N_REDUCED)
        note = f"{N_REDUCED:,} training images, the rest is tested (seed {dividing.HOLD_OUT_SEED})"
    else:
        _, test = dividing.hold_out(labels)
        note = f"held out a stratified {percent(dividing.HOLD_OUT)} (seed {dividing.HOLD_OUT_SEED})"
    is_test = {*test.tolist()}
    return [item._replace(part="test" if i in is_test else "train") for i, item in enumerate(items)], note
