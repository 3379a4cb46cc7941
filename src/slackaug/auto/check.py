"""`slackaug check`: what a data set is, what to fix, what a search would do and cost. Writes nothing."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..config import presets
from ..data import DataError, Dataset
from ..data.dataset import DIM, dim_note
from ..data.dividing import HOLD_OUT
from ..data.files import advised, check_memory, is_large, lose_shape, stacks_note
from ..data.listing import Groups, linked, same_but_for_case, shared
from ..data.options import N_EXAMPLES, DataConfig, Progress, counted, examples, listing, percent, printable
from ..data.sources import own_preparation
from ..data.survey import Survey, survey
from ..messages import check as messages
from .costs import Cost, measure, split_by_groups, stand_in_for, without_images

FEW = 20  # training images of a class: fewer tell little about it
IMBALANCED = 3.0  # the largest class against the smallest
LARGE_GROUP = 0.25  # of all images: whole groups of that size leave a split uneven


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

    def __repr__(self) -> str:
        found = counted(len(self.problems), "problem", "problems")
        return f"Findings({self.survey.name!r}: {self.survey.count('train')} training images, {found} to fix)"

    @property
    def exit_code(self) -> int:
        return 1 if self.problems else 0

    def as_dict(self) -> dict[str, Any]:
        """The same as one JSON object."""
        found, groups = self.survey, self.survey.groups
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
            "groups": None if groups is None else {
                "images": dict(groups.sizes.most_common()),
                "in_train_and_test": groups.on_both_sides,
                "of_several_classes": groups.of_several_classes,
            },
            "flip_question": messages.FLIP_QUESTION,
            "notes": list(found.notes),
            "problems": self.problems,
            "remarks": self.remarks,
            "proposal": None if self.proposal is None else self.proposal._asdict(),
            "costs": [cost._asdict() | {"seconds": cost.learning + cost.race} for cost in self.costs],
        }  # fmt: skip


def look(
    data: DataConfig,
    given: Sequence[str] = (),
    *,
    model: str | None,
    device: str,
    cost: bool,
    progress: Progress,
    on_found: Callable[[Findings], None],
    on_cost: Callable[[Cost], None],
) -> Findings:
    """Look at every image; with `cost`, measure what a search with each preset takes here. `on_found` is told all but
    these costs, which come one by one. `given` are the arguments of the call, where a program gave its own images."""
    own = own_preparation(data.source) if data.size is None else None
    prepared = data if own is None else replace(data, size=own[0], margin=own[1])
    found = survey(prepared, progress)
    found = replace(found, name=messages.YOUR_IMAGES) if given else found
    of_classes = class_problems(found)
    problems, said = [*of_classes, *file_problems(found, prepared)], remarks(found)
    if not found.sizes or len(found.classes) < 2:
        findings = Findings(found, problems, said, None, [])
        on_found(findings)
        return findings
    if prepared.size is None and len(found.sizes) > 1:
        size, margin = advised(found.sizes)
        data = prepared = replace(data, size=size, margin=margin)
    stand_in = stand_in_for(found, prepared)
    try:
        dataset = without_images(found)
    except DataError as error:  # a search would be refused; when that is fixed, it costs about the same
        problems += [] if of_classes else [str(error)]
    else:
        said += [] if found.has_test else [messages.no_test_set(percent(HOLD_OUT))]
        if found.groups is not None:
            stand_in, divided = split_by_groups(stand_in, found, dataset)
            said += divided
    command = search_command(replace(data, skip_bad=data.skip_bad or bool(found.bad)), given)
    findings = Findings(found, problems, said, proposed(found, prepared, stand_in, model, command), [])
    on_found(findings)
    for one in measure(stand_in, model, device) if cost else ():
        findings.costs.append(one)
        on_cost(one)
    return findings


def imbalance(found: Survey) -> float | None:
    """The largest class against the smallest, of training images."""
    counts = sorted(parts.get("train", 0) for parts in found.classes.values())
    return counts[-1] / counts[0] if counts and counts[0] else None


# --- what is wrong, and what is to be known ---------------------------------------------------------------------------


def class_problems(found: Survey) -> list[str]:
    """All that is wrong with classes, of which `without_images` would name the first."""
    strangers = [name for name, parts in found.classes.items() if "train" not in parts and "test" in parts]
    scarce = [name for name, parts in found.classes.items() if parts.get("train", 0) < 2 and name not in strangers]
    problems = [
        (len(found.classes) < 2, messages.only_one_class(listing([*found.classes]))),
        (strangers, f"{messages.NO_TRAINING_IMAGES}: {listing(strangers)}"),
        (scarce, f"{messages.TOO_FEW_IMAGES}: {listing(scarce)}"),
    ]
    return [text for holds, text in problems if holds]


def file_problems(found: Survey, options: DataConfig) -> list[str]:
    problems = []
    if found.bad and not options.skip_bad:
        problems.append(messages.unreadable(len(found.bad)))
    if found.links:
        problems.append(linked(found.links))
    if len(found.sizes) > 1 and options.size is None:
        problems.append(messages.several_sizes(len(found.sizes), *advised(found.sizes)))
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
    ratio = imbalance(found) or 0
    highest = max(found.deep, default=65535)
    level = round(highest / 257)
    said = [
        (level < DIM, messages.few_levels(len(found.deep), highest, level + 1)),
        (found.brightest < DIM <= level, dim_note(found.brightest)),
        (found.count("test") and untested, f"{messages.UNTESTED}: {listing(untested)}"),
        (ratio >= IMBALANCED, messages.imbalanced(ratio)),
        (alike, messages.alike(listing(alike, "; "))),
        (few, messages.few_images(FEW, listing(few))),
        (found.stacks, stacks_note(found.stacks)),
    ]
    files = {"misnamed": found.misnamed} | found.copies._asdict()
    said += [(names, messages.about_files(kind, len(names), examples(names))) for kind, names in files.items()]
    if found.groups is not None:
        ((name, most),), mixed = found.groups.sizes.most_common(1), found.groups.of_several_classes
        share, names = most / len(found.groups.items), examples([*map(printable, mixed)])
        said += [
            (share >= LARGE_GROUP, messages.large_group(printable(name), percent(share))),
            (mixed, messages.mixed_groups(len(mixed), len(found.groups.sizes), names)),
        ]
    return [text for holds, text in said if holds]


# --- what is proposed -------------------------------------------------------------------------------------------------


def proposed(found: Survey, prepared: DataConfig, stand_in: Dataset, model: str | None, command: str) -> Proposal:
    preset = presets.default_preset()
    config = presets.preset(preset, stand_in, model)
    return Proposal(prepared.size, preparation(found, prepared), config.space, config.model, preset, command)


def search_command(data: DataConfig, given: Sequence[str]) -> str:
    if given:
        options = [f"{name}={value!r}" for name, value in data.given().items()]
        return f"slackaug.search({', '.join([*given, 'out=' + repr(messages.RUN), *options])})"
    words = [word for option in data.options() for word in option]
    return shlex.join(["slackaug", "search", data.source, "-o", messages.RUN, *words])


def preparation(found: Survey, data: DataConfig) -> str:
    size, stored_size = data.size, data.stored_size
    if size is None or stored_size is None:
        ((height, width),) = found.sizes
        return messages.as_they_are(height, width)
    if data.margin:
        return messages.windows(stored_size, size)
    squeezed = lose_shape(found.sizes, size)
    return messages.loses_shape(size, percent(squeezed)) if squeezed else messages.whole_image(size)


# --- for people -------------------------------------------------------------------------------------------------------


def images_per(what: str, by_number: list[tuple[int, str]]) -> str:
    """The largest and the smallest; they come in this order."""
    (most, largest), (least, smallest) = by_number[0], by_number[-1]
    return messages.images_per(what, most, printable(largest), least, printable(smallest))


def lines(findings: Findings) -> list[str]:
    """All but the costs and what to do next."""
    found, proposal = findings.survey, findings.proposal
    counts = sorted((parts.get("train", 0), name) for name, parts in found.classes.items())[::-1]
    text = [
        messages.overview(printable(found.name), len(found.classes), found.count("train"), found.count("test")),
        images_per("class", counts),
    ]
    if found.groups is not None:
        text.append(images_per("group", [(n, name) for name, n in found.groups.sizes.most_common()]))
    if found.sizes:
        sizes = [(*size, n) for size, n in found.sizes.most_common(N_EXAMPLES)]
        text.append(messages.sizes(sizes, max(len(found.sizes) - N_EXAMPLES, 0)))
        text.append(messages.channels(found.modes.most_common()))
    text += [messages.bad_file(*one) for one in found.bad.items()]
    text += [*found.notes, *findings.remarks]
    is_off = found.dataset is not None and not found.dataset.flip
    text.append(messages.FLIPS_ARE_OFF if is_off else messages.decide())
    if proposal is not None:
        text.append(messages.proposed(proposal.space, proposal.model, proposal.preset, proposal.preparation))
    return text


def closing(findings: Findings) -> list[str]:
    """What to do next, at the end of all."""
    text = [messages.fix_first(problem) for problem in findings.problems]
    if findings.proposal is not None:
        text.append(messages.command(findings.proposal.command, is_next=not findings.problems))
    return text
