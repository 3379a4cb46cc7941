"""Which images belong together: by a column of a csv, or by what a regular expression finds in the path of each."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .listing import Item, Listing, relative
from .options import DataError
from .options import listing as listed


class Groups(NamedTuple):
    """How images are distributed over groups."""

    items: list[Item]  # each with its group

    @property
    def sizes(self) -> Counter[str]:
        """Images of each group."""
        return Counter(str(item.group) for item in self.items)

    @property
    def on_both_sides(self) -> list[str]:
        """Groups in train and in test, so that a network is tested on what it has nearly seen."""
        train, test = ({str(item.group) for item in self.items if item.part == part} for part in ("train", "test"))
        return sorted(train & test)

    @property
    def of_several_classes(self) -> list[str]:
        labels = {(str(item.group), item.label) for item in self.items}
        return sorted(group for group, n in Counter(group for group, _ in labels).items() if n > 1)


def shared(groups: Sequence[str]) -> str:
    return f"groups in train and in test: {listed(groups)}; move each to one of them"


def with_groups(found: Listing, group_by: str) -> Listing:
    """Every item with its group, wherever it is; a csv's column has given it already."""
    items = found.items
    if any(item.group is None for item in items):
        items = by_path(found, group_by)
    n_groups = len({item.group for item in items})
    if n_groups in (1, len(items)):
        what = "all images are of one group" if n_groups == 1 else "every image is a group of its own"
        first = min(str(item.group) for item in items)
        raise DataError(f"{found.name}: --group-by {group_by}: {what} ({first!r}, ...)")
    note = f"{n_groups} groups by {group_by}: each stays on one side of a split"
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
            f"{listed(without)}; it is a column of the csv or a regular expression such as '(patient[0-9]+)', "
            "or empty for no groups"
        )
    return items


def group_numbers(items: Sequence[Item]) -> Tensor | None:
    """(B,), where there are groups."""
    if not items or items[0].group is None:
        return None
    number = {group: i for i, group in enumerate(sorted({str(item.group) for item in items}))}
    return torch.tensor([number[str(item.group)] for item in items])
