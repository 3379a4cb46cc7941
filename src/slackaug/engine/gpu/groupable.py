"""Whether a model can take several groups of images in one pass, as if each had gone through it alone."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ... import models
from ...data import Split
from ..passes import Normalise, gradient, unchanged_buffers
from ..trying import first_images
from .grouped import LAYERS, Grouped, swapped

TOLERANCE = 1e-2  # of what groups at once may differ from one by one: far more than rounding, far less than a mixture


def takes_groups(model: nn.Module, theta: Tensor, normalise: Normalise, train: Split) -> bool:
    """Look at its layers, and try a model that is not ours with two groups of three images."""
    if not is_groupable(model):
        return False
    if type(model).__module__ == models.__name__:
        return True
    images, labels = first_images(train, 6, theta.device)
    return keeps_apart(model, theta, normalise(images).contiguous(memory_format=torch.channels_last), labels[:3])


def is_groupable(model: nn.Module) -> bool:
    """Whether all that a model, in train mode, learns and all that mixes images is in layers that are known here."""
    return all(is_known(module) for module in model.modules())


def is_known(module: nn.Module) -> bool:
    has_kind = type(module) in LAYERS
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return has_kind and module.momentum is not None and module.training
    if isinstance(module, nn.Conv2d):
        return has_kind and not isinstance(module.padding, str) and module.padding_mode == "zeros"
    learns = any(True for _ in module.parameters(recurse=False)) or getattr(module, "track_running_stats", False)
    return has_kind or not learns


def keeps_apart(model: nn.Module, theta: Tensor, x: Tensor, labels: Tensor) -> bool:
    """Whether groups that go through the model at once have the gradients, and leave the statistics, of one by one.

    What a user's `forward` does with a batch is not seen in its layers.
    """
    passes, n_groups = Grouped(model, theta, x.dtype), len(x) // len(labels)

    def one_by_one() -> Tensor:
        parts = x.split(len(labels))
        return torch.stack([gradient(cross_entropy(model(part), labels), model) for part in parts])

    def at_once() -> Tensor:
        passes.prepare(n_groups)
        with swapped(dict(passes.layers)):
            parameters = passes.parameters(n_groups)
            return passes.gradients(passes.losses(parameters, x, labels), parameters)

    def traces(way: Callable[[], Tensor]) -> list[Tensor]:
        with unchanged_buffers(model):
            g = way()
            return [g, *(buffer.to(g, copy=True) for buffer in model.buffers())]

    expected = traces(one_by_one)
    try:
        found = traces(at_once)
    except Exception:  # a user's model can fail in any way
        return False
    return all((a - b).norm() <= TOLERANCE * a.norm() for a, b in zip(expected, found, strict=True))
