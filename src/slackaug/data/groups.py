"""Which images belong together: by a column of a csv, or by what a regular expression finds in the path of each."""

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from .listing import Item, Listing, relative
from .options import DataError
from .options import listing as listed


def grouped(found: Listing, group_by: str) -> Listing:
    """Every item with its group; a csv's column has given it already."""
    items = found.items
    if any(item.group is None for item in items):
        items = by_path(found, group_by)
    train, test = ({item.group for item in items if item.part == part} for part in ("train", "test"))
    groups, both = train | test, train & test
    if len(groups) == len(items) or len(groups) == 1:
        what = "all images are of one group" if len(groups) == 1 else "every image is a group of its own"
        raise DataError(f"{found.name}: --group-by {group_by}: {what} ({min(map(str, groups))!r}, ...)")
    if both:
        raise DataError(
            f"{found.name}: --group-by {group_by}: groups in train and in test: {listed(sorted(map(str, both)))}; move "
            "each to one of them"
        )
    note = f"{len(groups)} groups by {group_by}: each stays on one side of a split"
    return found._replace(items=items, notes=[*found.notes, note])


def by_path(found: Listing, group_by: str) -> list[Item]:
    """The first part in brackets, or all that matches, in the path as it is shown."""
    try:
        pattern = re.compile(group_by)
    except re.error as error:
        raise DataError(
            f"--group-by {group_by}: neither a column of the data nor a regular expression ({error}); such as "
            "'(patient[0-9]+)'"
        ) from None
    items, without = [], []
    for item in found.items:
        name = relative(item.path, found.root)
        match = pattern.search(name)
        group = match and (match[1] if pattern.groups else match[0])
        if group:
            items.append(item._replace(group=group))
        else:  # brackets may be empty, or have no part in what matches
            without.append(name)
    if without:
        raise DataError(
            f"{found.name}: --group-by {group_by}: finds nothing in {len(without)} of {len(found.items)} paths: "
            f"{listed(without)}; it is a column of the csv or a regular expression such as '(patient[0-9]+)'"
        )
    return items


def group_numbers(items: Sequence[Item]) -> Tensor | None:
    """(B,), where there are groups."""
    if not items or items[0].group is None:
        return None
    number = {group: i for i, group in enumerate(sorted({str(item.group) for item in items}))}
    return torch.tensor([number[str(item.group)] for item in items])
