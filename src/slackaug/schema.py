"""Reading plain values out of a user's JSON: every complaint says where, what was expected and what came."""

import json
import math
import os
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

MAX_BYTES = 10_000_000  # a policy has a few thousand; the largest published schedule a hundred thousand
T = TypeVar("T")


class PolicyError(ValueError):
    """A policy, or a file that should hold one, is not what it must be."""


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON object in a file."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        hint = f"; try {path / 'policy.json'}" if (path / "policy.json").is_file() else ""
        raise PolicyError(f"{path}: is a folder, expected a JSON file{hint}") from None
    except (OSError, ValueError) as error:  # ValueError: no file can have such a name
        raise PolicyError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if len(text) > MAX_BYTES:
        raise PolicyError(f"{path}: larger than {MAX_BYTES // 10**6} MB, so it is not a policy (those have a few kB)")
    try:
        document = json.loads(
            text, parse_constant=refuse_constant, parse_float=finite, object_pairs_hook=refuse_duplicates
        )
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:  # not JSON, not text, or nested without end
        raise PolicyError(f"{path}: not valid JSON, or cut off ({error})") from error
    if not isinstance(document, dict):
        raise PolicyError(f"{path}: expected a JSON object {{...}}, got {describe(document)}")
    return document


def refuse_constant(name: str) -> None:
    raise PolicyError(f"holds {name}, expected finite numbers only")


def finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        refuse_constant(text[:40])
    return number


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, value in pairs:
        if key in document:
            raise PolicyError(f"the key {describe(key)} appears more than once in one object")
        document[key] = value
    return document


def check_keys(document: Mapping[str, Any], required: Iterable[str], optional: Iterable[str] = ()) -> None:
    known = [*required, *optional]
    for key in document:
        if key not in known:
            raise PolicyError(unknown("key", str(key)[:80], known))
    for key in required:
        if key not in document:
            raise PolicyError(f"{key}: missing")


def unknown(what: str, name: str, known: list[str]) -> str:
    """The message for a name that is not known, with the first one that begins with it, or the nearest one; a variant
    stands behind a hyphen, and may be left out."""
    longer = [one for one in known if name and one.startswith(name)]
    stems = {one.partition("-")[0]: one for one in reversed(known)} if "-" not in name else {}
    near = longer or [stems[one] for one in get_close_matches(name, stems, n=1, cutoff=0.8)]
    near = near or get_close_matches(name, known, n=1, cutoff=0.5)
    return f"unknown {what} {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")


def describe(value: object) -> str:
    """A value for an error message, never longer than a line."""
    if isinstance(value, int) and abs(value) > 1 << 200:
        return "a very large integer"  # which Python may refuse to print
    text = {dict: "an object", list: "a list", type(None): "null"}.get(type(value)) or json.dumps(value, default=repr)
    return text if len(text) <= 60 else text[:57] + "..."


def expect(condition: bool, where: str, expected: str, got: object) -> None:
    if not condition:
        raise PolicyError(f"{where}: expected {expected}, got {describe(got)}")


def number(value: object, where: str, low: float = -math.inf, high: float = math.inf) -> float:
    expected = "a finite number" + ("" if math.isinf(low) and math.isinf(high) else f" from {low:g} to {high:g}")
    # Compared before it is converted: an integer may be too large for a float.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300
    expect(is_number and low <= typing.cast(float, value) <= high, where, expected, value)
    return float(typing.cast(float, value))


def integer(value: object, where: str, low: int, high: int) -> int:
    is_integer = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    expect(is_integer, where, f"an integer from {low} to {high}", value)
    return typing.cast(int, value)


def boolean(value: object, where: str) -> bool:
    expect(isinstance(value, bool), where, "true or false", value)
    return bool(value)


def string(value: object, where: str, most: int = 200) -> str:
    expect(isinstance(value, str) and 0 < len(value) <= most, where, f"a text of 1 to {most} characters", value)
    return str(value)


def sequence(value: object, where: str, item: Callable[[object, str], T], low: int = 1, high: int = 1000) -> list[T]:
    """A list of `low` to `high` items, each read by `item(value, where)`."""
    expect(isinstance(value, list), where, "a list", value)
    assert isinstance(value, list)
    if not low <= len(value) <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise PolicyError(f"{where}: expected a list of {wanted} items, got {len(value)}")
    return [item(entry, f"{where}[{i}]") for i, entry in enumerate(value)]


def record(value: object, where: str, kind: type[T]) -> T:
    """An object as a named tuple of this type, whose fields say what must be there; other keys do not matter."""
    expect(isinstance(value, dict), where or "the file", "an object", value)
    found, optional = typing.cast(dict[str, object], value), getattr(kind, "_field_defaults", {})
    fields = {}
    for name, hint in hints(kind).items():
        place = f"{where}.{name}".lstrip(".")
        if name in found:
            fields[name] = typed(found[name], place, hint)
        elif name not in optional:
            raise PolicyError(f"{place} is missing; is it a file of slackaug?")
    return kind(**fields)


hints: Callable[[Any], dict[str, Any]] = lru_cache(typing.get_type_hints)


def typed(value: object, where: str, hint: Any) -> Any:
    """What a field of a named tuple may hold: plain values, None, sequences of one type, and named tuples."""
    inside = typing.get_args(hint)
    if type(None) in inside:
        return None if value is None else typed(value, where, inside[0])
    if hint in PLAIN:
        return PLAIN[hint](value, where)
    if typing.get_origin(hint) is dict:
        expect(isinstance(value, dict), where, "an object", value)
        return value
    if not inside:
        return record(value, where, hint)
    n = len(inside) if typing.get_origin(hint) is tuple else None  # tuple[float, float]: two; list[float]: any number
    found = sequence(value, where, lambda one, place: typed(one, place, inside[0]), n or 0, n or 1000)
    return tuple(found) if n else found


PLAIN: dict[type, Callable[[object, str], Any]] = {
    float: number,
    int: partial(integer, low=0, high=2**63),
    bool: boolean,
    str: partial(string, most=1000),
}


def check_bounds(config: object, prefix: str = "", **names: Sequence[str]) -> None:
    """Refuse a config with a number out of bounds; `names` are fields by the bound that they have. Null has none."""
    for bound, (is_within, expected) in BOUNDS.items():
        for name in names.get(bound, ()):
            value = getattr(config, name)
            if value is not None and not is_within(value):
                is_optional = type(None) in typing.get_args(typing.get_type_hints(type(config))[name])
                raise ValueError(f"{prefix}{name} must {expected}{', or null' * is_optional}, got {value}")


BOUNDS: dict[str, tuple[Callable[[float], bool], str]] = {
    "at_least_1": (lambda value: value >= 1, "be at least 1"),
    "not_negative": (lambda value: 0 <= value < math.inf, "not be negative"),
    "positive": (lambda value: 0 < value < math.inf, "be positive"),
}
