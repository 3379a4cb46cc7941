"""The noise behind composites, out of torch's default stream."""

import torch

from .numbers import POLICY
from .one import Application, composite


def draw(n: int) -> list[list[Application]]:
    """The steps for each of n images. DataLoader seeds the stream per worker and epoch."""
    k = len(next(iter(POLICY.values())).p)
    choice, size = torch.rand((2, n, k), dtype=torch.float64, generator=None).tolist()
    normal = torch.randn((n, k), dtype=torch.float64, generator=None).tolist()
    u = torch.rand((n, k, 4), dtype=torch.float64, generator=None).tolist()
    flip = torch.rand(n, dtype=torch.float64, generator=None).tolist()
    return [composite(*noise) for noise in zip(choice, size, normal, u, flip, strict=True)]
