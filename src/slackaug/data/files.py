"""Image files with labels, listed by a folder or a csv, into a data set; all bad files are found before a complaint."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..augment.prepare import SMALL_IMAGE
from . import cache, decode
from .cache import Decoded
from .dataset import RGB, Dataset, build, classes_note
from .decode import Array
from .listing import Groups, Item, Listing, refuse_links, shared, shown
from .options import DataConfig, DataError, Progress, counted, examples
from .options import listing as listed
from .rows import Images
from .split import Split

ELONGATED = 1.25  # the longer side against the shorter, from which squeezing into a square changes shapes
MANY = 0.1  # of the images
LARGEST = 224  # pixels; the size of networks for photographs
MAX_BYTES = 32 * 1024**3  # of decoded images in memory
CACHE_FILES, CACHE_BYTES = 5_000, 64 * 1024**2  # so many or such large files are worth a cache: seconds of decoding


def from_files(
    found: Listing, options: DataConfig, progress: Progress, statistics: tuple[RGB, RGB] | None = None
) -> Dataset:
    """Decode the files; `statistics` as in `build`."""
    refuse_links(found)
    name, root, items, notes = *found[:3], [*found.notes]
    both = [] if options.group_by is None else Groups(items).on_both_sides
    if both:
        raise DataError(f"{name}: --group-by {options.group_by}: {shared(both)}")
    if options.cache is not None or is_large(items):
        shape = (options.stored_size,) * 2 if options.stored_size else first_size(items)
        folder = cache.folder_for(root, *shape, options)
        images, readable, bad, stacks = cached_images(found, folder, shape, options, progress)
        notes.append(f"decoded images are kept in {folder}, and read from there")
    else:
        images, readable, bad, stacks = decode_all(name, items, options)
    if stacks:
        notes.append(stacks_note([shown(path, root) for path in stacks]))
    if bad:
        lines = [f"{shown(path, root)}: {reason}" for path, reason in bad.items()]
        if not options.skip_bad:
            every_one = "\n  ".join(lines)  # all of them: who repairs files needs the whole list
            raise DataError(
                f"{name}: {len(bad)} of {len(items)} files cannot be read; repair or remove them, or leave them out "
                f"with skip_bad (--skip-bad):\n  {every_one}"
            )
        if not readable:
            raise DataError(f"{name}: none of the {len(items)} files can be read, for example {lines[0]}")
        notes.append(f"left out {len(bad)} of {len(items)} files that cannot be read, for example {lines[0]}")
    return assembled(found._replace(notes=notes), images, readable, statistics)


def assembled(
    found: Listing, images: Images, readable: Sequence[Item], statistics: tuple[RGB, RGB] | None = None
) -> Dataset:
    """The data set of the files that can be read, `images` being theirs; what no search can learn from is refused."""
    name, items, notes = found.name, found.items, [*found.notes]
    class_names = sorted({item.label for item in items})  # of all files: a class must not vanish with its bad ones
    strangers = sorted(set(class_names) - {item.label for item in items if item.part == "train"})
    if strangers:
        raise DataError(f"{name}: classes in the test set that have no training images: {listed(strangers)}")
    notes.insert(0, classes_note(class_names))
    tested = {item.label for item in items if item.part == "test"}
    if tested and tested != {*class_names}:
        notes.append(f"classes that are not tested: {listed([c for c in class_names if c not in tested])}")
    labels = numbered([item.label for item in readable], class_names)
    named = [item.group for item in readable if item.group is not None]  # of all images, or of none
    groups = numbered(named, named) if named else None
    is_test = torch.tensor([item.part == "test" for item in readable])
    every = Split(images, labels)
    if not any(item.part == "test" for item in items):
        return build(name, every, None, class_names, notes=notes, statistics=statistics, groups=groups)
    train, test = (where.nonzero().flatten() for where in (~is_test, is_test))
    groups = None if groups is None else groups[train]
    splits = every.subset(train), every.subset(test)
    return build(name, *splits, class_names, notes=notes, statistics=statistics, groups=groups)


def numbered(names: Sequence[str], known: Iterable[str]) -> Tensor:
    """The place of each among the sorted names that are known, (B,)."""
    number = {name: i for i, name in enumerate(sorted({*known}))}
    return torch.tensor([number[name] for name in names], dtype=torch.int64)


def stacks_note(names: Sequence[str]) -> str:
    """Of an animation little is lost, of a microscope's or a scanner's stack nearly all."""
    have = counted(len(names), "file has", "files have")
    return f"{have} several frames or pages; the first is read, and no other: {examples(names)}"


def is_large(items: Sequence[Item]) -> bool:
    if len(items) > CACHE_FILES:
        return True
    return sum(item.path.stat().st_size for item in items if item.path.is_file()) > CACHE_BYTES


def first_size(items: Sequence[Item]) -> tuple[int, int]:
    """Height and width of the first image that can be read to its end: the header of a damaged one may say anything."""
    for item in items:
        with suppress(DataError):
            height, width, _ = decode.read(item.path, DataConfig()).shape
            return height, width
    return 1, 1  # none can be read: the error comes later, with all the files


def decode_all(name: str, items: Sequence[Item], options: DataConfig) -> Decoded:
    """Images (B, 3, H, W) uint8 in memory."""
    images, readable, bad, stacks = SameSize(name, len(items)), [], {}, []
    for item in items:
        try:
            with decode.opened(item.path) as image:
                pixels = decode.pixels(image, options)  # (H, W, 3)
                stacks.extend([item.path] * decode.is_stack(image))
        except DataError as error:
            bad[item.path] = str(error)
            continue
        images.add(pixels.transpose(2, 0, 1), *pixels.shape[:2])
        readable.append(item)
    return Decoded(torch.from_numpy(images.checked()), readable, bad, stacks)


def cached_images(
    found: Listing, folder: Path, shape: tuple[int, int], options: DataConfig, progress: Progress
) -> Decoded:
    """As `decode_all`, by all cores and from a file on disk: nothing but the list of files is held in memory."""
    try:
        return cache.Filling(folder, found.root, found.items, shape, options, progress).fill()
    except cache.OddSize:
        sizes: Counter[tuple[int, int]] = Counter()
        for item in found.items:
            with suppress(DataError):
                sizes[decode.size_of(item.path)] += 1
        one_size(found.name, sizes)  # says which there are
        change = "its files change while they are read; try again when they are all there"
        raise DataError(f"{found.name}: {change}") from None


class SameSize:
    """Images in memory, all of one size; of other sizes it is counted how many there are, for the complaint."""

    def __init__(self, name: str, n: int):
        self.name, self.n, self.sizes = name, n, Counter[tuple[int, int]]()
        self.images: Array = np.empty(0, np.uint8)

    def add(self, pixels: Array, height: int, width: int) -> None:
        """The next of n."""
        if not self.sizes:
            check_memory(self.name, self.n, height, width)
            self.images = np.empty((self.n, *pixels.shape), np.uint8)
        self.sizes[height, width] += 1
        if len(self.sizes) == 1:
            self.images[self.sizes.total() - 1] = pixels

    def checked(self) -> Array:
        one_size(self.name, self.sizes)
        return self.images[: self.sizes.total()]


def one_size(name: str, sizes: Counter[tuple[int, int]]) -> None:
    """All images share one height and width."""
    if len(sizes) > 1:
        found = [f"{width} x {height} ({count})" for (height, width), count in sizes.most_common()]
        size, has_margin = advised(sizes)
        words, how = f"--size {size} (in Python size={size})", "every image is resized to that square"
        if has_margin:
            words = f"--size {size} --margin (in Python size={size}, margin=True)"
            how = "every image keeps its shape; without the margin it is squeezed into that square"
        raise DataError(
            f"{name}: images of different sizes: {listed(found)}. Give a size, for example {words}, and {how}"
        )


def advised(sizes: Counter[tuple[int, int]]) -> tuple[int, bool]:
    """The shorter side of most images, or what networks for photographs take; and whether with a margin."""
    shorter = sorted(min(size) for size in sizes.elements())
    size = min(LARGEST, shorter[len(shorter) // 2])
    return size, lose_shape(sizes, size) > 0


def lose_shape(sizes: Counter[tuple[int, int]], size: int) -> float:
    """The share of images that a square of this size would squeeze; 0 where they are few, or the square is so small
    that shapes hardly show."""
    share = sum(n for one, n in sizes.items() if max(one) > ELONGATED * min(one)) / sizes.total()
    return share if size > SMALL_IMAGE and share >= MANY else 0.0


def check_memory(name: str, n: int, height: int, width: int) -> None:
    n_bytes = 3 * n * height * width
    if n_bytes > MAX_BYTES:
        raise DataError(
            f"{name}: {n} images of {width} x {height} pixels take {n_bytes / 1024**3:.0f} GiB of memory, the limit is "
            f"{MAX_BYTES // 1024**3}; give a smaller size (--size)"
        )
