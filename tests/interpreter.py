"""Kernels for a GPU as Triton's interpreter executes them, on the CPU."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

MARKS = (
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="TRITON_INTERPRET=1 runs kernels on the CPU"),
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning"),  # by the interpreter
)


def interpreted(test: Callable[..., Any]) -> Callable[..., Any]:
    for mark in MARKS:
        test = mark(test)
    return test
