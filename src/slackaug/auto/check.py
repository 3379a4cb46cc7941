"""`slackaug check`: what a data set is, what must be mended, what a search would do and cost. Writes nothing."""

import os
import shlex
from dataclasses import replace
from typing import Any, NamedTuple

from rich.console import Console

from ..augment.prepare import SMALL_IMAGE
from ..config import presets
from ..data import DataError, Dataset
from ..data.dataset import DIM, dim_note
from ..data.dividing import HOLD_OUT
from ..data.files import check_memory, is_large, stacks_note
from ..data.groups import Groups, shared
from ..data.listing import linked, same_but_for_case
from ..data.options import N_EXAMPLES, Options, counted, examples, listing, percent, printable
from ..data.sources import own_preparation
from ..data.survey import Survey, survey
from ..machine import machine
from ..runs.progress import Reading, duration
from .costs import Cost, measure, proposed_size, split_by_groups, stand_in_for, without_images

FEW = 20  # training images of a class: fewer tell little about it
IMBALANCED = 3.0  # the largest class against the smallest
LARGE_GROUP = 0.25  # of all images: whole groups of that size leave a split uneven
ELONGATED = 1.25  # the longer side against the shorter, from which squeezing into a square changes shapes
FLIP_QUESTION = (
    "Does a mirror image keep its label? slackaug does not guess. No for text, digits, signs, left and right hands or "
    "organs, arrows and all that is named after a direction: say --no-flip. Yes for most animals, food, plants, scenes "
    "and textures: nothing to do, flips are on. Unsure: mirror ten images of each class, and ask who labelled them."
)
MODES = {"1": "black and white", "L": "grey", "I;16": "grey, 16 bits", "I": "grey, 32 bits", "P": "palette",
         "RGB": "colour", "RGBA": "colour with transparency", "LA": "grey with transparency", "CMYK": "CMYK",
         "F": "floating point", "RGB;1": "colour, 1 bit", "RGB;16": "colour, 16 bits"}  # fmt: skip


class Proposal(NamedTuple):
    size: int | None  # None: the images are of one size, which stays
    preparation: str
    space: str
    model: str
    preset: str
    command: str


class Findings(NamedTuple):
    survey: Survey
    problems: list[str]  # that keep a search from starting
    remarks: list[str]  # to be known
    proposal: Proposal | None
    costs: list[Cost]

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        found = self.survey
        return {
            "name": found.name,
            "classes": found.classes,
            "train": found.count("train"),
            "test": found.count("test"),
            "imbalance": imbalance(found),
            "sizes": [{"width": w, "height": h, "images": n} for (h, w), n in found.sizes.most_common()],
            "channels": dict(found.modes.most_common()),
            "unreadable": found.bad,
            "misnamed": found.misnamed,
            "several_frames": found.stacks,
            "duplicates_across_splits": found.copies.across,
            "duplicates_in_training": found.copies.within,
            "same_image_different_labels": found.copies.conflicts,
            "mirror_images_with_other_labels": found.copies.mirrored,
            "groups": None if found.groups is None else groups_as_dict(found.groups),
            "flip_question": FLIP_QUESTION,
            "notes": list(found.notes),
            "problems": self.problems,
            "remarks": self.remarks,
            "proposal": None if self.proposal is None else self.proposal._asdict(),
            "costs": [cost._asdict() for cost in self.costs],
        }


def check(
    data: str | os.PathLike[str],
    *,
    size: int | None = None,
    margin: bool = False,
    skip_bad: bool = False,
    group_by: str | None = None,
    model: str | None = None,
    cost: bool = True,
    device: str | None = None,
    threads: int | None = None,
    console: Console | None = None,
) -> Findings:
    """Look at every image of `data`; with `cost`, measure for each preset what a search takes on this machine."""
    device, threads = machine(device, threads)
    source = os.fspath(data)
    options = Options(size=size, margin=margin, skip_bad=skip_bad, group_by=group_by, progress=Reading(console))
    own = own_preparation(source) if size is None else None
    size, margin = own or (size, margin)
    options = replace(options, size=size, margin=margin)
    found = survey(source, options)
    of_classes = class_problems(found)
    problems, said = [*of_classes, *file_problems(found, options)], remarks(found)
    if not found.sizes or len(found.classes) < 2:
        return Findings(found, problems, said, None, [])
    stand_in = stand_in_for(found, size, margin=margin)
    try:
        dataset = without_images(found)
    except DataError as error:  # a search would be refused; mended, it costs about the same
        problems += [] if of_classes else [str(error)]
    else:
        said += [] if found.has_test else [f"no test set: a stratified {percent(HOLD_OUT)} will be held out"]
        if found.groups is not None:
            stand_in, divided = split_by_groups(stand_in, found, dataset)
            said += divided
    skips = skip_bad or bool(found.bad)
    proposal = propose(source, found, stand_in, size, margin=margin, skip_bad=skips, group_by=group_by, model=model)
    if own is not None:
        proposal = proposal._replace(command=command(source, None, margin=False, skip_bad=skips, group_by=group_by))
    costs = measure(stand_in, model, device) if cost else []
    return Findings(found, problems, said, proposal, costs)


def imbalance(found: Survey) -> float | None:
    """The largest class against the smallest, of training images."""
    counts = sorted(parts.get("train", 0) for parts in found.classes.values())
    return counts[-1] / counts[0] if counts and counts[0] else None


# --- what is wrong, and what is to be known ---------------------------------------------------------------------------


def class_problems(found: Survey) -> list[str]:
    """All that is wrong with classes, of which `without_images` would name the first."""
    problems = []
    if len(found.classes) < 2:
        problems.append(f"only one class ({listing([*found.classes])}); a classifier needs at least two")
    strangers = [name for name, parts in found.classes.items() if "train" not in parts and "test" in parts]
    if strangers:
        problems.append(f"classes in the test set that have no training images: {listing(strangers)}")
    scarce = [name for name, parts in found.classes.items() if parts.get("train", 0) < 2 and name not in strangers]
    if scarce:
        problems.append(f"classes with fewer than 2 training images that can be read: {listing(scarce)}")
    return problems


def file_problems(found: Survey, options: Options) -> list[str]:
    problems = []
    if found.bad and not options.skip_bad:
        one, many = "file cannot be read: repair or remove it", "files cannot be read: repair or remove them"
        problems.append(f"{counted(len(found.bad), one, many)}, or give --skip-bad")
    if found.links:
        problems.append(linked(found.links))
    if len(found.sizes) > 1 and options.size is None:
        problems.append(f"images of {len(found.sizes)} sizes: give --size {proposed_size(found)}")
    if found.listing is not None:
        items, side = found.listing.items, options.stored_size
        both = [] if options.group_by is None else Groups(items).on_both_sides
        problems += [shared(both)] if both else []
        height, width = (side, side) if side else max(found.sizes, default=(1, 1))
        if not is_large(items):  # those are decoded into a cache
            try:
                check_memory(found.name, len(items), height, width)
            except DataError as error:
                problems.append(str(error))
    return problems


def remarks(found: Survey) -> list[str]:
    counts = {name: parts.get("train", 0) for name, parts in found.classes.items()}
    few = [f"{name} ({n})" for name, n in counts.items() if 2 <= n < FEW]
    untested = [name for name, parts in found.classes.items() if "test" not in parts]
    alike = [" and ".join(names) for names in same_but_for_case(found.classes)]
    ratio = imbalance(found)
    across, conflicts, mirrored, within = found.copies
    highest = max(found.deep, default=65535)
    level = round(highest / 257)
    said = [
        (level < DIM, f"{counted(len(found.deep), 'image has', 'images have')} 16 bits, with values up to {highest:,} "
                      f"of 65,535: of 256 levels at most {level + 1} are left; scale to 8 bits first"),
        (found.brightest < DIM <= level, dim_note(found.brightest)),
        (found.count("test") and untested, f"classes that are not tested: {listing(untested)}"),
        (ratio and ratio >= IMBALANCED, f"the largest class has {ratio or 0:.1f} times the images of the smallest; "
                                        "with --balanced, all classes count alike in a search's validation loss"),
        (alike, f"classes that differ in capital letters alone: {listing(alike, '; ')}; if these are one class, give "
                "them one name"),
        (few, f"classes with fewer than {FEW} training images: {listing(few)}"),
        (found.misnamed, f"{counted(len(found.misnamed), 'file is', 'files are')} of another format than the name "
                         f"says; the content counts: {examples(found.misnamed)}"),
        (found.stacks, stacks_note(found.stacks)),
        (across, counted(len(across), "test image is an exact copy of a training image",
                         "test images are exact copies of training images")
                 + f", so that accuracies will look better than they are: {examples(across)}"),
        (within, counted(len(within), "training image is an exact copy of another",
                         "training images are exact copies of others")
                 + ", and a split may have an image on both sides; remove copies, or keep them together with "
                 + f"--group-by: {examples(within)}"),
        (conflicts, f"{counted(len(conflicts), 'image occurs', 'images occur')} with different labels: "
                    f"{examples(conflicts)}"),
        (mirrored, f"{counted(len(mirrored), 'image is the mirror image', 'images are mirror images')} of one with "
                   f"another label, which speaks for --no-flip: {examples(mirrored)}"),
    ]  # fmt: skip
    more = [] if found.groups is None else group_remarks(found.groups)
    return [text for holds, text in said if holds] + more


def group_remarks(groups: Groups) -> list[str]:
    ((name, most),), mixed = groups.sizes.most_common(1), groups.of_several_classes
    share = most / len(groups.items)
    said = [
        (share >= LARGE_GROUP, f"the largest group, {printable(name)}, has {percent(share)} of the images, and goes to "
                               "one side of a split as a whole"),
        (mixed, f"{len(mixed)} of {len(groups.sizes)} groups {'has' if len(mixed) == 1 else 'have'} images of several "
                f"classes: {examples([*map(printable, mixed)])}"),
    ]  # fmt: skip
    return [text for holds, text in said if holds]


def groups_as_dict(groups: Groups) -> dict[str, Any]:
    return {
        "images": dict(groups.sizes.most_common()),
        "in_train_and_test": groups.on_both_sides,
        "of_several_classes": groups.of_several_classes,
    }


# --- what is proposed -------------------------------------------------------------------------------------------------


def propose(
    source: str,
    found: Survey,
    stand_in: Dataset,
    size: int | None,
    *,
    margin: bool,
    skip_bad: bool,
    group_by: str | None,
    model: str | None,
) -> Proposal:
    preset = presets.default_preset()
    config = presets.preset(preset, stand_in, model)
    wanted = size if size is not None else proposed_size(found) if len(found.sizes) > 1 else None
    text = command(source, wanted, margin=margin, skip_bad=skip_bad, group_by=group_by)
    return Proposal(wanted, preparation(found, wanted, margin=margin), config.space, config.model, preset, text)


def command(source: str, size: int | None, *, margin: bool, skip_bad: bool, group_by: str | None) -> str:
    words = ["slackaug", "search", source, "-o", "runs/NAME"]
    words += [] if size is None else ["--size", str(size)]
    words += ["--margin"] * margin + ["--skip-bad"] * skip_bad
    return shlex.join(words if group_by is None else [*words, "--group-by", group_by])


def preparation(found: Survey, size: int | None, *, margin: bool) -> str:
    if size is None:
        ((height, width),) = found.sizes
        return f"images as they are, {width} x {height}"
    if margin:
        return f"the shorter side {Options(size=size, margin=True).stored_size}, then random windows of {size} x {size}"
    whole = f"the whole image in a square of {size} x {size}"
    elongated = sum(n for s, n in found.sizes.items() if max(s) > ELONGATED * min(s)) / found.sizes.total()
    if size <= SMALL_IMAGE or elongated < 0.1:
        return whole
    return (
        f"{whole}; {percent(elongated)} of the images are far from square, and --margin would keep their shape (random "
        f"windows): search with --size {size}, and with --size {size} --margin, and compare both"
    )


# --- for people -------------------------------------------------------------------------------------------------------


def span(most: int, largest: str, least: int, smallest: str) -> str:
    if most == least:
        return f"{most:,} in each"
    return f"{most:,} ({printable(largest)}) to {least:,} ({printable(smallest)})"


def lines(findings: Findings) -> list[str]:
    found, proposal = findings.survey, findings.proposal
    counts = sorted(((parts.get("train", 0), name) for name, parts in found.classes.items()), reverse=True)
    text = [f"{printable(found.name)}: {counted(len(found.classes), 'class', 'classes')}, {found.count('train'):,} "
            f"training and {found.count('test'):,} test images"]  # fmt: skip
    text.append(f"images per class: {span(*counts[0], *counts[-1])}")
    if found.groups is not None:
        by_size = [(n, name) for name, n in found.groups.sizes.most_common()]
        text.append(f"images per group: {span(*by_size[0], *by_size[-1])}")
    if found.sizes:
        sizes = [f"{width} x {height} ({n:,})" for (height, width), n in found.sizes.most_common(N_EXAMPLES)]
        more = f" and {len(found.sizes) - N_EXAMPLES} more" if len(found.sizes) > N_EXAMPLES else ""
        text.append(f"sizes: {', '.join(sizes)}{more}")
        text.append(f"channels: {', '.join(f'{MODES.get(m, m)} ({n:,})' for m, n in found.modes.most_common())}")
    text += [f"cannot be read: {name}: {reason}" for name, reason in found.bad.items()]
    text += [*found.notes, *findings.remarks]
    is_off = found.dataset is not None and not found.dataset.flip
    text.append("mirror flips are off for this data set" if is_off else f"to decide: {FLIP_QUESTION}")
    if proposal is not None:
        text.append(f"proposed: space {proposal.space}, network {proposal.model}, preset {proposal.preset}; "
                    f"{proposal.preparation}")  # fmt: skip
        text += [f"a search with preset {cost.preset} ({cost.model}) takes about {duration(cost.seconds)} here"
                 for cost in findings.costs]  # fmt: skip
    text += [f"to mend first: {problem}" for problem in findings.problems]
    if proposal is not None:
        text.append(f"then: {proposal.command}" if findings.problems else f"next: {proposal.command}")
    return text
