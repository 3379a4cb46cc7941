"""What `slackaug check` says of a data set. Lists of names come as they can be shown: short, without odd characters."""

from collections.abc import Sequence

from . import counted
from .search import parts

FLIP_QUESTION = (
    "Does a mirror image keep its label? slackaug does not guess. No for text, digits, signs, left and right hands or "
    "organs, arrows and all that is named after a direction: say --no-flip. Yes for most animals, food, plants, scenes "
    "and textures: nothing to do, flips are on. Unsure: mirror ten images of each class, and ask who labelled them."
)
FLIPS_ARE_OFF = "mirror flips are off for this data set"
MODES = {"1": "black and white", "L": "grey", "I;16": "grey, 16 bits", "I": "grey, 32 bits", "P": "palette",
         "RGB": "colour", "RGBA": "colour with transparency", "LA": "grey with transparency", "CMYK": "CMYK",
         "F": "floating point", "RGB;1": "colour, 1 bit", "RGB;16": "colour, 16 bits"}  # fmt: skip


NO_TRAINING_IMAGES = "classes in the test set that have no training images"
TOO_FEW_IMAGES = "classes with fewer than 2 training images that can be read"
UNTESTED = "classes that are not tested"
UNTESTED_GROUPS = "classes that are not tested, because too few groups have them"
ABOUT_FILES = {  # of one, of several, and what follows
    "misnamed": ("file is", "files are", " of another format than the name says; the content counts"),
    "across": ("test image is an exact copy of a training image", "test images are exact copies of training images",
               ", so accuracies will look better than they are"),
    "within": ("training image is an exact copy of another", "training images are exact copies of others",
               ", and a split may have an image on both sides; remove copies, or keep them together with --group-by"),
    "conflicts": ("image occurs", "images occur", " with different labels"),
    "mirrored": ("image is the mirror image", "images are mirror images",
                 " of one with another label, which speaks for --no-flip"),
}  # fmt: skip


def about_files(kind: str, n: int, names: str) -> str:
    one, several, rest = ABOUT_FILES[kind]
    return f"{n:,} {one if n == 1 else several}{rest}: {names}"


# --- what is there ----------------------------------------------------------------------------------------------------


YOUR_IMAGES = "your images"  # that a program holds
RUN = "runs/NAME"


def overview(name: str, n_classes: int, n_train: int, n_test: int) -> str:
    return f"{name}: {counted(n_classes, 'class')}, {n_train:,} training and {counted(n_test, 'test image')}"


def images_per(what: str, most: int, largest: str, least: int, smallest: str) -> str:
    """The largest and the smallest of classes or of groups."""
    span = f"{most:,} in each" if most == least else f"{most:,} ({largest}) to {least:,} ({smallest})"
    return f"images per {what}: {span}"


def sizes(common: Sequence[tuple[int, int, int]], n_more: int) -> str:
    """`common`: height, width and number of images."""
    more = f" and {n_more} more" if n_more else ""
    return f"sizes: {', '.join(f'{width} x {height} ({n:,})' for height, width, n in common)}{more}"


def channels(modes: Sequence[tuple[str, int]]) -> str:
    return f"channels: {', '.join(f'{MODES.get(mode, mode)} ({n:,})' for mode, n in modes)}"


def bad_file(name: str, reason: str) -> str:
    return f"cannot be read: {name}: {reason}"


# --- what is proposed -------------------------------------------------------------------------------------------------


def as_they_are(height: int, width: int) -> str:
    return f"images as they are, {width} x {height}"


def windows(stored_size: int, size: int) -> str:
    return f"the shorter side is made {stored_size} pixels, then random windows of {size} x {size} are taken"


def whole_image(size: int) -> str:
    return f"the whole image is squeezed into a square of {size} x {size}"


def loses_shape(size: int, share: str) -> str:
    return f"{whole_image(size)}, though {share} of the images are far from square: --size {size} --margin keeps shapes"


def proposed(space: str, model: str, preset: str, preparation: str) -> str:
    return f"proposed: space {space}, network {model}, preset {preset}; {preparation}"


def fix_first(problem: str) -> str:
    return f"fix first: {problem}"


def decide() -> str:
    return f"to decide: {FLIP_QUESTION}"


def command(words: str, *, is_next: bool) -> str:
    """`is_next`: nothing is to be fixed before."""
    return f"{'next' if is_next else 'then'}:\n  {words}"


def takes(preset: str, model: str, learning: float, race: float, needs_gpu: bool, *, is_verbose: bool) -> str:
    search, time = f"a search with preset {preset} ({model})", f"takes about {parts(learning, race)}"
    if not needs_gpu:
        return f"{search} {time}"
    return f"{search} needs a GPU{f': it {time}' if is_verbose else ''}"


def no_test_set(share: str) -> str:
    return f"no test set: a stratified {share} will be held out"


def split_by_groups(n_train: int, n_val: int, n_test: int) -> str:
    return f"whole groups give {n_train:,} images to learn on, {n_val:,} to validate with and {n_test:,} to test with"


# --- what is wrong, and what is to be known ---------------------------------------------------------------------------


def only_one_class(name: str) -> str:
    return f"only one class ({name}); a classifier needs at least two"


def unreadable(n: int) -> str:
    what = "file cannot be read: repair or remove it" if n == 1 else "files cannot be read: repair or remove them"
    return f"{n:,} {what}, or give --skip-bad"


def several_sizes(n: int, size: int, has_margin: bool) -> str:
    margin = " --margin, as many are far from square" if has_margin else ""
    return f"images of {n} sizes: give --size {size}{margin}"


def few_levels(n: int, highest: int, n_levels: int) -> str:
    have = f"{counted(n, 'image')} {'has' if n == 1 else 'have'} 16 bits, with values up to {highest:,} of 65,535"
    return f"{have}: of 256 levels at most {n_levels} are left; scale to 8 bits first"


def imbalanced(ratio: float) -> str:
    remedy = "with --balanced, all classes count alike in a search's validation loss"
    return f"the largest class has {ratio:.1f} times the images of the smallest; {remedy}"


def alike(classes: str) -> str:
    return f"classes that differ in capital letters alone: {classes}; if these are one class, give them one name"


def few_images(least: int, classes: str) -> str:
    return f"classes with fewer than {least} training images: {classes}"


def large_group(name: str, share: str) -> str:
    return f"the largest group, {name}, has {share} of the images, and goes to one side of a split as a whole"


def mixed_groups(n: int, n_groups: int, names: str) -> str:
    return f"{n} of {n_groups} groups {'has' if n == 1 else 'have'} images of several classes: {names}"
