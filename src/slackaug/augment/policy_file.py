"""A policy as a JSON object in a file: what `Policy.to_dict`, `from_dict`, `load` and `save` do.

A policy stands here as its fields, by name. Reading checks everything.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .. import schema
from .._version import __version__
from ..schema import PolicyError, expect, unknown
from .space import Space, Transform
from .transforms import SPACES, TRANSFORMS, custom

SCHEMA_VERSION = 1
MAX_COMPOSED = 16
MU_START = 0.75
MU_FILE_MIN = 1e-3  # below it the density of a magnitude has no meaning
SIGMA_MIN, SIGMA_MAX = 1e-3, 1.0
RGB = tuple[float, float, float]
REQUIRED_KEYS = (
    "schema_version", "space", "transformations", "pi", "mu", "ranges", "sigma", "flip", "fill", "mean", "std"
)  # fmt: skip
OPTIONAL_KEYS = ("library_version", "signed", "dataset", "learned")


def to_document(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object that describes a policy of these fields."""
    space: Space = fields["space"]
    return {
        "schema_version": SCHEMA_VERSION,
        "library_version": __version__,
        "space": space.name,
        "transformations": space.names,
        "pi": fields["pi"].softmax(1).tolist(),
        "mu": [m if t.span else None for m, t in zip(fields["mu"].tolist(), space, strict=True)],
        "ranges": {t.name: list(t.span) if t.span else None for t in space},
        "signed": [t.name for t in space if t.signed],
        **{key: fields[key] for key in ("sigma", "flip")},
        **{key: list(fields[key]) for key in ("fill", "mean", "std")},
        **{key: fields[key] for key in ("dataset", "learned")},
    }


def to_fields(document: Mapping[str, Any], transforms: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the policy that a JSON object describes; `transforms` as in `Policy.from_dict`."""
    expect(isinstance(document, Mapping), "policy", "an object", document)
    check_keys(document)
    space = read_space(document, transforms)
    dataset, learned = document.get("dataset"), document.get("learned", {})
    expect(isinstance(learned, dict), "learned", "an object", learned)
    return {
        "space": space,
        "pi": read_pi(document["pi"], len(space)),
        "mu": read_mu(document["mu"], space),
        "sigma": schema.number(document["sigma"], "sigma", SIGMA_MIN, SIGMA_MAX),
        "flip": schema.boolean(document["flip"], "flip"),
        "fill": tuple(schema.sequence(document["fill"], "fill", partial(schema.integer, low=0, high=255), 3, 3)),
        "mean": read_rgb(document["mean"], "mean", 0, 1),
        "std": read_rgb(document["std"], "std", 1e-6, 10),
        "dataset": None if dataset is None else schema.string(dataset, "dataset"),
        "learned": learned,
    }


@contextmanager
def placed(where: object) -> Iterator[None]:
    """What is refused inside is refused as a policy, with the place where it stands."""
    try:
        yield
    except ValueError as error:
        raise PolicyError(f"{where}: {error}") from None


def check_keys(document: Mapping[str, Any]) -> None:
    """The version first, for another version may have other keys."""
    if "schema_version" not in document:
        other = {"format", "kind"} & document.keys()
        hint = "it looks like a published policy, which slackaug.load reads" if other else "is it a slackaug policy?"
        raise PolicyError(f"schema_version: missing; {hint}")
    version = schema.integer(document["schema_version"], "schema_version", 1, 10**9)
    if version > SCHEMA_VERSION:
        raise PolicyError(
            f"schema_version: the file has version {version}, this slackaug ({__version__}) reads up to "
            f"{SCHEMA_VERSION}; update slackaug"
        )
    schema.check_keys(document, REQUIRED_KEYS, OPTIONAL_KEYS)


def read_space(document: Mapping[str, Any], transforms: Mapping[str, Any]) -> Space:
    names = schema.sequence(document["transformations"], "transformations", schema.string)
    ranges = document["ranges"]
    expect(isinstance(ranges, dict) and ranges.keys() == set(names), "ranges", "one entry per transformation", ranges)
    signed = schema.sequence(document["signed"], "signed", schema.string, 0) if "signed" in document else None
    for name in signed or ():
        expect(name in names, "signed", "names of transformations", name)
    candidates = []
    for i, name in enumerate(names):
        base = transforms.get(name) or TRANSFORMS.get(name)
        if base is None:
            wrong = unknown("transformation", name, [*TRANSFORMS, *transforms])
            raise PolicyError(f"transformations[{i}]: {wrong} (your own go into transforms={{...}})")
        candidates.append(read_transform(base, name, ranges[name], signed))
    name = schema.string(document["space"], "space")
    with placed("transformations"):
        space = Space(name, tuple(candidates))
    ours = SPACES.get(name)
    return ours if ours == space else space  # one object: what was compiled for it serves this policy, too


def read_transform(base: Any, name: str, span: object, signed: list[str] | None) -> Transform:
    """A transformation of ours or a user's, or a user's kernel, with name, range and direction out of the file."""
    if isinstance(base, Transform):
        own: Transform = base
    else:  # a kernel, which has a magnitude where the file gives it a range
        own = custom(name, base) if span else custom(name, base, span=None)
    where = f"ranges[{name!r}]"
    found = read_span(span, where, own)
    with placed(where):
        return replace(own, name=name, span=found, signed=own.signed if signed is None else name in signed)


def read_span(value: object, where: str, transform: Transform) -> tuple[float, float] | None:
    if transform.span is None:
        expect(value is None, where, "null, for it has no magnitude", value)
        return None
    start, end = schema.sequence(value, where, schema.number, 2, 2)
    return start, end


def read_pi(value: object, n: int) -> Tensor:
    """K rows of n probabilities, as logits."""

    def row(value: object, where: str) -> list[float]:
        probabilities = schema.sequence(value, where, partial(schema.number, low=0, high=1), n, n)
        total = math.fsum(probabilities)
        if not math.isclose(total, 1, abs_tol=1e-6):
            raise PolicyError(f"{where}: the probabilities sum to {total:.6f}, expected 1")
        return probabilities

    pi = torch.tensor(schema.sequence(value, "pi", row, 1, MAX_COMPOSED), dtype=torch.float64)
    return pi.clamp(min=1e-300).log()  # zero stays zero to all purposes, with a finite logit


def read_mu(value: object, space: Space, *, null_without: bool = True) -> Tensor:
    """The bounds. Where a transformation has no magnitude the file has null, or in some formats any number."""
    bounds = schema.sequence(value, "mu", lambda entry, where: entry, len(space), len(space))
    mu = []
    for i, (bound, transform) in enumerate(zip(bounds, space, strict=True)):
        where = f"mu[{i}] ({transform.name})"
        if transform.span is None and null_without:
            expect(bound is None, where, "null, for it has no magnitude", bound)
        mu.append(MU_START if transform.span is None else schema.number(bound, where, MU_FILE_MIN, 1))
    return torch.tensor(mu, dtype=torch.float64)


def read_rgb(value: object, where: str, low: float, high: float) -> RGB:
    red, green, blue = schema.sequence(value, where, partial(schema.number, low=low, high=high), 3, 3)
    return red, green, blue


def dumps(document: dict[str, Any]) -> str:
    """JSON with one line per entry and, in `pi`, per position: to be read by people and by `diff`."""

    def line(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], list):
            return "[\n  " + ",\n  ".join(line(row) for row in value) + "\n ]"
        return json.dumps(value, allow_nan=False)

    return "{\n " + ",\n ".join(f"{json.dumps(key)}: {line(value)}" for key, value in document.items()) + "\n}\n"
