"""Which way steps are executed: the fast one on a CUDA device where it works, the plain one everywhere else."""

import logging
from typing import Any

import torch
from torch import nn

from ..methods import slack
from ..methods.slack import SearchConfig
from ..schema import unknown
from .fit import Fit
from .gpu.fast import Fast, FastFit
from .gpu.graphs import NotCaptured
from .passes import Plain

ENGINES = ("compiled", "plain")  # of a search; a training is always tried in the fast way first
log = logging.getLogger("slackaug")  # a warning is a line on stderr, unless a program decides otherwise


def precision() -> torch.dtype:
    return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32


def is_eligible(model: nn.Module, device: torch.device) -> bool:
    """On a GPU, and nothing in the model draws at random: a captured step would not know the model's stream."""
    draws = any(isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0 for module in model.modules())
    if device.type == "cuda" and draws:
        log.warning("slackaug: the model has dropout, so steps are not captured; they are slower")
    return device.type == "cuda" and not draws


def make_fit(part: str, model: nn.Module, *arguments: Any) -> Fit:
    """A training, fast if it can be: tried with a first step, which is then taken back. `part` names its settings."""
    if not is_eligible(model, next(model.parameters()).device):
        return Fit(model, *arguments)
    fit: Fit = FastFit(model, *arguments, precision=precision())
    before = fit.get_state()
    try:
        fit.step()
    except NotCaptured as error:
        fall_back(error)
        fit = Fit(model, *arguments)
    except torch.OutOfMemoryError:
        images = f"batches of {fit.batches.batch} images"
        raise OutOfMemory(images, f"{part}.batch", fit.batches.batch) from None
    fit.set_state(before)
    return fit


def way(fit: Fit) -> str:
    """How a training is executed: results of different ways differ by rounding."""
    device = fit.theta.device.type
    if not isinstance(fit, FastFit):
        return f"{device}, plain"
    return f"{device}, captured, {str(fit.passes.precision).removeprefix('torch.')}"


def make_engine(name: str, search: SearchConfig, model: nn.Module, phi: Any, *arguments: Any) -> Plain:
    """The engine of a search. The fast one is tried with a step of each kind, which are then taken back."""
    if name not in ENGINES:
        raise ValueError(unknown("engine", name, list(ENGINES)))
    if name == "plain" or not is_eligible(model, next(model.parameters()).device):
        return Plain(model, phi, *arguments)
    engine: Plain = Fast(model, phi, *arguments, precision=precision())
    before = engine.get_state()
    try:
        for step in dict.fromkeys((0, search.n_retrain)):  # one where nothing is re-trained
            engine.execute(slack.take_step, slack.start(phi, engine)._replace(step=step), search)
    except NotCaptured as error:
        fall_back(error)
        engine.set_state(before)  # first: a step of the other kind may have moved the model, and this is theta_0
        engine = Plain(model, phi, *arguments)
    except torch.OutOfMemoryError:
        raise too_large(engine, search, step) from None
    engine.set_state(before)
    return engine


def too_large(engine: Plain, search: SearchConfig, step: int) -> "OutOfMemory":
    """By the larger part of the step that did not fit."""
    n = engine.train_batches.batch
    if engine.own_batches is not None:
        n_own = engine.own_batches.batch
        if step < search.n_retrain or n_own > search.n_composites * n:
            return OutOfMemory(f"batches of {n_own} images", "search.train_batch", n_own)
    return OutOfMemory(f"{search.n_composites} x {n} images", "search.batch", n)


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
