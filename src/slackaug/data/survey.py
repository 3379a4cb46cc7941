"""What there is to know about a source before anything is learned from it. Every image is decoded; nothing is written.

An image is known by a digest of its pixels, so that copies are found whatever their files are called.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from .dataset import Dataset, Kind
from .listing import Groups, Item, Listing, shown
from .options import DataConfig, Progress, printable, silent
from .pool import Pool
from .rows import chunks
from .sources import find_listing, read
from .worker import digest

Size = tuple[int, int]  # height and width


class Copies(NamedTuple):
    """Each described in a few words."""

    across: list[str]  # test images that are equal to a training image
    conflicts: list[str]  # equal images with different labels
    mirrored: list[str]  # images that are the mirror image of one with another label
    within: list[str]  # training images that are equal to an earlier one, of another group where there are groups


@dataclass(frozen=True, kw_only=True)
class Survey:
    name: str
    classes: dict[str, dict[str, int]]  # images that can be read, by class and part (train or test)
    sizes: Counter[Size]  # as they come, whatever --size makes of them
    modes: Counter[str]  # as Pillow names them
    bad: dict[str, str] = field(default_factory=dict)  # files that cannot be read, and why
    misnamed: list[str] = field(default_factory=list)  # files of another format than their name says
    stacks: list[str] = field(default_factory=list)  # of several frames or pages, of which the first is read
    deep: list[int] = field(default_factory=list)  # the highest value in each image of 16 bits
    brightest: int = 255  # level in the training images, at 8 bits
    links: list[str] = field(default_factory=list)  # to folders, which are not followed
    copies: Copies
    notes: tuple[str, ...] = ()
    groups: Groups | None = None  # of the images that can be read, where they were asked for
    listing: Listing | None = None  # all files, where the source is made of files
    readable: list[Item] = field(default_factory=list)  # those of them that can be read
    dataset: Dataset | None = None  # where the source had to be read as a whole

    @property
    def has_test(self) -> bool:
        """Whether there is a test set, be it one of which nothing can be read."""
        return self.listing is None or any(item.part == "test" for item in self.listing.items)

    def count(self, part: str) -> int:
        return sum(parts.get(part, 0) for parts in self.classes.values())


class Seen(NamedTuple):
    """One image."""

    name: str
    label: str
    part: str
    digest: str
    mirrored: str
    group: str | None = None


def survey(options: DataConfig, progress: Progress = silent) -> Survey:
    found = find_listing(options.source, options.group_by, options.columns)
    return survey_dataset(read(options)) if found is None else survey_files(found, options, progress)


def survey_files(found: Listing, options: DataConfig, progress: Progress) -> Survey:
    """By all cores."""
    answers: dict[str, dict[str, Any]] = {}
    with Pool({"size": options.size, "margin": options.margin}, len(found.items)) as pool:
        for path, answer in pool.map("look", (str(item.path) for item in found.items)):
            answers[path] = answer
            progress("looking at images", len(answers), len(found.items))
    every = [(item, shown(item.path, found.root), answers[str(item.path)]) for item in found.items]
    good = [one for one in every if "bad" not in one[2]]
    readable = [item for item, _, _ in good]
    seen = [
        Seen(name, item.label, item.part, about["digest"], about["mirrored"], item.group) for item, name, about in good
    ]
    return Survey(
        name=found.name,
        classes=by_class(sorted({item.label for item in found.items}), seen),
        sizes=Counter((about["size"][0], about["size"][1]) for _, _, about in good),
        modes=Counter(about["mode"] for _, _, about in good),
        bad={name: about["bad"] for _, name, about in every if "bad" in about},
        misnamed=[name for item, name, about in good if is_misnamed(item.path, about["format"])],
        stacks=[name for _, name, about in good if about["is_stack"]],
        deep=[about["highest"] for _, _, about in good if "highest" in about],
        brightest=max((about["brightest"] for item, _, about in good if item.part == "train"), default=255),
        links=list(found.links),
        notes=tuple(found.notes),
        copies=find_copies(seen),
        groups=None if options.group_by is None or not readable else Groups(readable),
        listing=found,
        readable=readable,
    )


def by_class(names: Iterable[str], seen: Iterable[Seen]) -> dict[str, dict[str, int]]:
    """How many images each class has in each part."""
    n = Counter((image.label, image.part) for image in seen)
    return {name: {part: n[name, part] for part in ("train", "test") if n[name, part]} for name in names}


def is_misnamed(path: Path, format: str) -> bool:
    """JPEG in a file called .png, say; it is read as what it is."""
    named = Image.registered_extensions().get(path.suffix.lower())
    return named is not None and {named, format} not in ({format}, {"JPEG", "MPO"})


def survey_dataset(dataset: Dataset) -> Survey:
    """Look at images that are in memory already."""
    seen = []
    for part, split in (("train", dataset.train), ("test", dataset.test)):
        every = (image for chunk in chunks(split.images) for image in chunk)
        for i, (image, label) in enumerate(zip(every, split.labels.tolist(), strict=True)):
            pixels = image.permute(1, 2, 0).contiguous()  # (H, W, 3)
            digests = digest(pixels.numpy()), digest(pixels.flip(1).numpy())
            seen.append(Seen(f"{part} image {i}", dataset.class_names[label], part, *digests))
    height, width = dataset.train.images.shape[2:]
    sizes: Counter[Size] = Counter()
    modes: Counter[str] = Counter()
    for kind, n in (dataset.kinds or {Kind(height, width, "RGB"): len(seen)}).items():
        sizes[kind.height, kind.width] += n
        modes[kind.mode] += n
    return Survey(
        name=dataset.name,
        classes=by_class(dataset.class_names, seen),
        sizes=sizes,
        modes=modes,
        notes=dataset.notes,
        dataset=dataset,
        copies=find_copies(seen),
    )


def labelled(image: Seen) -> str:
    return f"{image.name} ({printable(image.label)})"


def find_copies(seen: Iterable[Seen]) -> Copies:
    by_digest: dict[str, list[Seen]] = defaultdict(list)
    for image in seen:
        by_digest[image.digest].append(image)
    across, conflicts, mirrored, within = [], [], [], []
    for same in by_digest.values():
        train = [image for image in same if image.part == "train"]
        across += [f"{image.name} = {train[0].name}" for image in same if image.part == "test" and train]
        apart = [image for image in train[1:] if image.group is None or image.group != train[0].group]
        within += [f"{image.name} = {train[0].name}" for image in apart]
        other = next((image for image in same if image.label != same[0].label), None)
        if other is not None:
            conflicts.append(f"{labelled(same[0])} = {labelled(other)}")
        for image in same:
            reflected = by_digest.get(image.mirrored, ()) if image.mirrored != image.digest else ()
            twin = next((candidate for candidate in reflected if candidate.label != image.label), None)
            if twin is not None:
                mirrored.append(f"{labelled(image)} mirrors {labelled(twin)}")
    return Copies(across, conflicts, mirrored, within)
