"""The ways that kernels are tested: as they are written, on a GPU, and on the CPU as Triton's interpreter runs them."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch

MARKS = (
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="TRITON_INTERPRET=1 runs kernels on the CPU"),
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning"),  # by the interpreter
)


SHAPES = [
    (1, 4, 32, 8),
    (3, 5, 16, 6),
    (2, 3, 160, 4),
    (2, 2, 3, 5),
    (2, 2, 100, 3),
    (1, 40, 8, 20),
]  # groups, images, channels, side


def channels_last(x: torch.Tensor, *to: Any) -> torch.Tensor:
    return x.to(*to).contiguous(memory_format=torch.channels_last)


class Way(NamedTuple):
    device: str
    dtype: torch.dtype
    bound: float  # on the relative error
    by_kernel: bool = True

    def take(self, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        """The interpreter has no GPU, which `module` would ask for."""
        if self.by_kernel and self.device == "cpu":
            for question in {"is_suited", "can_run"} & vars(module).keys():
                monkeypatch.setattr(module, question, lambda *_: True)


def with_shapes(ways: Sequence[Way], shapes: Sequence[Any], large: Sequence[Any] = ()) -> Any:
    """Parametrises a test by `way` and `shape`: the large ones on a GPU alone."""
    runs = []
    for way in ways:
        marks = pytest.mark.gpu if way.device == "cuda" else MARKS if way.by_kernel else ()
        name = "as written" if not way.by_kernel else way.dtype if way.device == "cuda" else "interpreted"
        on_way = [*shapes, *large] if way.device == "cuda" else shapes
        runs += [pytest.param(way, shape, marks=marks, id=f"{name}-{shape}") for shape in on_way]
    return pytest.mark.parametrize(("way", "shape"), runs)
