"""What a model does is not seen in its layers, so it is tried with a few images."""

import torch
from torch import Tensor

from .. import rng
from ..data import Split
from .passes import PlainModel, drawing_from, look_up, unchanged_buffers


def first_images(split: Split, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """So many images with their labels, to try something with; the first again where there are fewer."""
    index = torch.arange(n) % len(split.labels)
    ahead = split.read_ahead(index)
    return look_up(split, index.to(device), None if ahead is None else ahead.to(device))


@torch.no_grad()
def draws(way: PlainModel, images: Tensor) -> bool:
    """Whether a pass takes numbers from torch's default streams, as dropout does, in layers or in `forward`."""
    way.model.train()
    with unchanged_buffers(way.model), drawing_from(rng.generator(0, "a try"), images.device):
        before = default_streams(images.device)
        way.model(way.normalise(images))
        after = default_streams(images.device)
    return not all(map(torch.equal, before, after))


def default_streams(device: torch.device) -> list[Tensor]:
    """The states of the CPU's, and of the device's."""
    others = [] if device.type == "cpu" else [torch.get_device_module(device).get_rng_state(device)]
    return [torch.get_rng_state(), *others]
