"""Images, and draws of transformations for them, at random."""

import torch
from torch import Tensor

from slackaug.augment import apply
from slackaug.augment.apply import Composites, Parameters
from slackaug.augment.space import Space

FILL = (125, 200, 3)


def random_parameters(space: Space, n: int, length: int, seed: int) -> Parameters:
    """Any transformation, any magnitude from -0.2 to 1.2, one position in five inactive."""
    generator = torch.Generator().manual_seed(seed)
    op = torch.randint(0, len(space), (n, length), generator=generator)
    magnitude = torch.rand(n, length, generator=generator, dtype=torch.float64) * 1.4 - 0.2
    active = torch.rand(n, length, generator=generator) < 0.8
    return apply.draw(Composites(op, magnitude, active, space), generator, flip=True)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
