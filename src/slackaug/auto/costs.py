"""What a search would cost, measured on a stand-in: a data set of the same numbers and sizes without its images."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from ..config import presets
from ..data import Dataset, Split
from ..data.dataset import with_margin
from ..data.dividing import HOLD_OUT
from ..data.files import assembled
from ..data.options import DataConfig, listing
from ..data.rows import Rows
from ..data.survey import Survey
from ..messages import check as messages
from . import timing

DAY = 86_400  # seconds
N_STAND_IN = 256  # images that stand in for the data when the cost is measured


class Cost(NamedTuple):
    preset: str
    model: str
    learning: float  # seconds
    race: float
    needs_gpu: bool  # it takes days without one, and is not what is proposed


def stand_in_for(found: Survey, data: DataConfig) -> Dataset:
    """A data set of the same numbers and sizes, of which a few random images are all there is."""
    side = data.stored_size
    height, width = (side, side) if side else next(iter(found.sizes))
    noise = torch.randint(0, 256, (N_STAND_IN, 3, height, width), generator=torch.Generator(), dtype=torch.uint8)

    def split(part: str, share: float = 1.0) -> Split:
        counts = torch.tensor([max(round(share * parts.get(part, 0)), 2) for parts in found.classes.values()])
        labels = torch.arange(len(counts)).repeat_interleave(counts)
        return Split(Rows(noise, torch.arange(len(labels)) % N_STAND_IN), labels)

    dataset = Dataset(
        name=found.name,
        train=split("train", 1.0 if found.count("test") else 1 - HOLD_OUT),
        test=split("test"),
        class_names=tuple(found.classes),
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
        fingerprint="",
    )
    return with_margin(dataset, data) if data.margin else dataset


def without_images(found: Survey) -> Dataset:
    """What a search would have, with a black pixel for each image; a DataError where it would be refused."""
    if found.dataset is not None:
        dataset = found.dataset
    else:
        assert found.listing is not None
        n = len(found.readable)
        pixels = Rows(torch.zeros(1, 3, 1, 1, dtype=torch.uint8), torch.zeros(n, dtype=torch.int64))
        dataset = assembled(found.listing, pixels, found.readable)
    dataset.halves(0)
    return dataset


def split_by_groups(stand_in: Dataset, found: Survey, dataset: Dataset) -> tuple[Dataset, list[str]]:
    """The stand-in with the groups that a search would split, and what comes of it."""
    said, labels, n_test = [], dataset.train.labels, len(dataset.test.labels)
    counts = dataset.test.labels.bincount(minlength=len(found.classes)).tolist()
    untested = [name for name, n in zip(found.classes, counts, strict=True) if not n]
    if untested and not found.has_test:
        said.append(f"{messages.UNTESTED_GROUPS}: {listing(untested)}")
    images = stand_in.train.subset(torch.arange(len(labels)) % len(stand_in.train.labels)).images
    divided = replace(stand_in, train=Split(images, labels), groups=dataset.groups)
    train, val = (len(half.labels) for half in divided.halves(0))
    return divided, [*said, messages.split_by_groups(train, val, n_test)]


def measure(stand_in: Dataset, model: str | None, device: str) -> Iterator[Cost]:
    """A search with each preset, that which is proposed first."""
    proposed = presets.default_preset()
    for name in dict.fromkeys((proposed, *presets.PRESETS)):
        if name != "demo":
            config = presets.preset(name, stand_in, model)
            learning, race, _ = timing.search_seconds(config, stand_in, device)
            is_long = learning + race > DAY and not device.startswith("cuda")
            yield Cost(config.preset, config.model, learning, race, is_long and name != proposed)
