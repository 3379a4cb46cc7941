"""Which way steps are executed, and how long they take.

As they are written, on a CPU. On a GPU a step is captured, if that works: a training's (`captured`), or a search's
(`make_passes`). Trainings that are wanted at the same time go together there (`side_by_side`): those alike, all in one
captured step if it is faster. So a job of judge/training.py runs like this, the last two in gpu/stacked.py:

    side_by_side    who goes together; as many as memory takes
    StackedFits     their steps as one: each draws, and is augmented, by itself
    Stacked         their networks in one pass: the layers of gpu/grouped.py, in which each group of images finds
                    parameters of its own; gpu/convolve_each.py convolves such groups
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import nn

from ..data import Split
from ..rng import streams
from ..schema import unknown
from .fit import Fit, Fits
from .gpu.captured import CapturedFit, CapturedPasses, CompiledModel
from .gpu.graphs import NotCaptured
from .gpu.stacked import StackedFits, is_stackable
from .passes import Passes, PlainModel
from .trying import draws, first_images

ENGINES = ("compiled", "plain")  # of a search; a training is always tried in the compiled way first
N_TRIED = 6  # images of a pass that is to show whether a model draws
AT_A_TIME, MOST_AT_A_TIME = 0.1, 20  # seconds and steps that are timed together
log = logging.getLogger("slackaug")  # a warning is a line on stderr, unless a program decides otherwise


def precision() -> torch.dtype:
    return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32


def is_eligible(way: PlainModel, train: Split, device: torch.device) -> bool:
    """Whether steps can be captured: on a GPU, if nothing in the model draws at random, as a graph has no stream.

    That is tried with a pass: layers do not show what `forward` does.
    """
    if device.type != "cuda":
        return False
    if is_random := draws(way, first_images(train, N_TRIED, train.labels.device)[0]):
        log.warning("slackaug: the model draws at random (dropout?), so steps are not captured; they are slower")
    return not is_random


def captured(part: str, plain: Fit) -> Fit:
    """The training, captured if it can be: tried with a step, which is then taken back. `part` names its settings."""
    if not is_eligible(plain.way, plain.train, plain.theta.device):
        return plain
    before = plain.get_state()
    fit: Fit = CapturedFit(*parts_of(plain), precision=precision())
    try:
        fit.step()
    except NotCaptured as error:
        fall_back(error)
        fit = Fit(*parts_of(plain))
    except torch.OutOfMemoryError:
        images = f"batches of {fit.feed.batches.batch} images"
        raise OutOfMemory(images, f"{part}.batch", fit.feed.batches.batch) from None
    fit.set_state(before)
    return fit


def parts_of(fit: Fit) -> tuple[Any, ...]:
    """What it was made of."""
    return fit.model, fit.policy, fit.train, fit.config, fit.streams, fit.feed.preparation


def side_by_side(part: str, fits: Sequence[Fit]) -> Iterator[tuple[Sequence[int], Fits]]:
    """Which of the trainings go on together: those that are alike where that works and is faster, fewer at a time where
    memory is short, and else each alone. The next are captured when these are done."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    for i, fit in enumerate(fits):
        alike.setdefault(likeness(fit), []).append(i)
    for members in alike.values():
        yield from as_memory_allows(part, fits, members)


def step_seconds(part: str, fits: Sequence[Fit]) -> float:
    """What a step of one of these trainings takes, where they may go on together."""
    members, some = next(side_by_side(part, fits))
    return timed(some.step) / len(members)


def likeness(fit: Fit) -> tuple[Any, ...]:
    """What trainings have in common that can be one pass, and end together."""
    network, policy = (type(fit.model), fit.theta.shape), (fit.policy.mean, fit.policy.std, fit.policy.fill)
    return *network, *policy, fit.feed.preparation.size, fit.feed.batches.batch, fit.config, fit.n_steps - fit.done


def as_memory_allows(part: str, fits: Sequence[Fit], members: Sequence[int]) -> Iterator[tuple[Sequence[int], Fits]]:
    try:
        all_at_once, is_too_large = stacked(part, [fits[i] for i in members]), False
    except (torch.OutOfMemoryError, OutOfMemory):
        is_too_large = True  # and this block ends first: the error holds what it has filled the memory with
    if is_too_large:
        half = len(members) // 2
        yield from as_memory_allows(part, fits, members[:half])
        yield from as_memory_allows(part, fits, members[half:])
    elif all_at_once is None:
        for i in members:
            yield [i], Fits([captured(part, fits[i])])
    else:
        yield members, all_at_once


def stacked(part: str, fits: Sequence[Fit]) -> StackedFits | None:
    """Tried with steps, which are then taken back."""
    first = fits[0]
    if len(fits) == 1 or not (is_stackable(first.model) and is_eligible(first.way, first.train, first.theta.device)):
        return None
    before = [fit.get_state() for fit in fits]
    try:
        found = StackedFits(fits, precision=precision())
        is_better = is_faster(part, found)
    except NotCaptured as error:
        fall_back(error)
        is_better = False
    finally:
        for fit, state in zip(fits, before, strict=True):
            fit.set_state(state)
    if not is_better:
        return None
    found.gather()
    return found


FASTER: dict[tuple[Any, ...], bool] = {}  # as measured in this process, for the first number of trainings that came


def is_faster(part: str, found: StackedFits) -> bool:
    """Whether a step of all takes less time than one of each."""
    found.step()
    first, n = found.fits[0], len(found.fits)
    about = type(first.model), first.theta.shape, first.train.images.shape[1:], first.feed.batches.batch
    if about not in FASTER:
        _, policy, train, config, _, preparation = parts_of(first)
        alone = captured(part, Fit(deepcopy(first.model), policy, train, config, streams(0, "measured"), preparation))
        FASTER[about] = timed(found.step) < n * timed(alone.step)
    return FASTER[about]


def way(fits: Fits) -> str:
    """How trainings are executed: results of different ways differ by rounding."""
    device = fits.fits[0].theta.device.type
    if not isinstance(fits.way, CompiledModel):
        return f"{device}, plain"
    return f"{device}, captured, {str(fits.way.precision).removeprefix('torch.')}"


def make_passes(name: str, try_out: Callable[[Passes], None], model: nn.Module, *arguments: Any) -> Passes:
    """The passes of a search from the model as it is. `try_out` takes a step of each kind, which moves the model; that
    is taken back, and whether the compiled way works is known."""
    if name not in ENGINES:
        raise ValueError(unknown("engine", name, list(ENGINES)))
    plain = Passes(model, *arguments)
    if name == "plain" or not is_eligible(plain.way, plain.train, plain.theta.device):
        return plain
    del plain  # what the model learns moves into a theta of the captured passes
    passes: Passes = CapturedPasses(model, *arguments, precision=precision())
    try:
        try_out(passes)
    except NotCaptured as error:
        fall_back(error)
        passes.cold_start()  # first: a step of the other kind may have moved the model, and this is theta_0
        return Passes(model, *arguments)
    passes.cold_start()
    return passes


def fall_back(error: NotCaptured) -> None:
    log.warning("slackaug: steps cannot be compiled and captured here, so they are slower (%s)", error)


class OutOfMemory(RuntimeError):
    """Batches do not fit on the GPU; `setting` is to become `batch`."""

    def __init__(self, what: str, setting: str, batch: int):
        free, total = torch.cuda.mem_get_info()
        self.what, self.setting, self.batch = what, setting, max(batch // 2, 1)
        super().__init__(
            f"{what} do not fit on the GPU ({total / 1e9:.0f} GB, {free / 1e9:.0f} GB of it free); "
            f"try half of it: --set {setting}={self.batch}"
        )


def timed(step: Callable[[], object]) -> float:
    """Seconds of one step after a warm-up: a few steps where they are slow, some hundred where they are not. A quarter
    of them are faster: what other programs do meanwhile lengthens some, and shortens none.

    On a GPU several at a time, as steps follow one another there: waiting after each makes a short one longer.
    """
    times: list[float] = []
    spent, n = 0.0, 1
    while len(times) < 4 or (spent < 1 and len(times) < 200):
        start = time.perf_counter()
        try:
            for _ in range(n):
                step()
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise ValueError(
                "with a batch of one image, this network's batch-norm has a single value to normalise; give batches of "
                "at least 2: pretrain.batch, search.batch or evaluate.batch"
            ) from None
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        times.append(seconds / n)
        spent += seconds
        if spent > 5:
            break
        if torch.cuda.is_available():
            n = min(max(round(AT_A_TIME / times[-1]), 1), MOST_AT_A_TIME)
    warm = sorted(times[len(times) // 2 :])
    return warm[len(warm) // 4]
