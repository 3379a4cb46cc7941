"""One seed, many independent streams of random numbers: one named generator for each purpose."""

import hashlib
import operator

import torch
from torch import Generator, Tensor

# Order of the images; draws of tau; directions, crops, boxes and flips; what layers such as dropout draw.
PURPOSES = ("train data", "val data", "policy", "transform", "model")


def generator(seed: int, *purpose: str | int) -> Generator:
    """A CPU generator that depends on the seed and on what it is for, and on nothing else."""
    digest = hashlib.sha256(repr((operator.index(seed), *purpose)).encode()).digest()
    return Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))


def streams(seed: int, *stage: str | int) -> dict[str, Generator]:
    """One generator per purpose, so that drawing more for one never shifts another."""
    return {purpose: generator(seed, *stage, purpose) for purpose in PURPOSES}


def get_state(streams: dict[str, Generator]) -> dict[str, Tensor]:
    return {purpose: stream.get_state() for purpose, stream in streams.items()}


def set_state(streams: dict[str, Generator], state: dict[str, Tensor]) -> None:
    if streams.keys() != state.keys():
        raise ValueError(f"the state is for the streams {sorted(state)}, expected {sorted(streams)}")
    for purpose, stream in streams.items():
        stream.set_state(state[purpose])


def uniform(shape: tuple[int, ...], generator: Generator | None) -> Tensor:
    """Float64 uniforms in [0, 1) on the CPU; None means torch's default stream, which DataLoader seeds per worker."""
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def normal(shape: tuple[int, ...], generator: Generator | None) -> Tensor:
    """Float64 standard normals on the CPU."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)
