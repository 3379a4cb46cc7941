"""Configurations as plain dictionaries, YAML files and `--set a.b=c`, checked against the dataclasses' fields."""

import dataclasses
import os
import types
import typing
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ..schema import describe, unknown

C = TypeVar("C")
MAX_BYTES = 100_000  # a run's has two thousand
MAX_DEPTH = 50


class SettingError(ValueError):
    """A setting is unknown, or has a value of the wrong kind."""


class Plain(yaml.SafeLoader):
    """YAML as configurations need it: without what makes a short text large or slow.

    An alias stands for a whole part of the document, and merged again and again a few lines take all memory. 1:30 is
    a number to the base of 60, whose value takes minutes where there are enough colons; here it is a text. Brackets
    within brackets take the square of their number.
    """

    def fetch_flow_collection_start(self, token: Any) -> None:
        if self.flow_level >= MAX_DEPTH:
            raise yaml.YAMLError("nested too deeply")
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not read")
        return super().compose_node(parent, index)


def number(loader: Plain, node: yaml.ScalarNode) -> Any:
    text = str(loader.construct_scalar(node))
    if ":" in text:
        return text
    kind = node.tag.rpartition(":")[2]
    return loader.construct_yaml_int(node) if kind == "int" else loader.construct_yaml_float(node)


for kind in ("int", "float"):
    Plain.add_constructor(f"tag:yaml.org,2002:{kind}", number)


def parse(text: str | bytes) -> Any:
    """What a YAML text says; a ValueError where it says nothing."""
    try:
        return yaml.load(text, Plain)
    except Exception as error:  # on `!!int ''` and the like, PyYAML raises nearly anything
        raise ValueError((str(error).splitlines() or [type(error).__name__])[0]) from error


def to_dict(config: Any) -> dict[str, Any]:
    """Nested dictionaries of plain values."""
    return dataclasses.asdict(config, dict_factory=lambda items: {
        name: list(value) if isinstance(value, tuple) else value for name, value in items
    })  # fmt: skip


def flat(document: dict[str, Any], where: str = "") -> dict[str, Any]:
    """{"fit": {"lr": 0.1}} as {"fit.lr": 0.1}."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        found |= flat(value, f"{where}{key}.") if isinstance(value, dict) else {f"{where}{key}": value}
    return found


def update(config: C, changes: dict[str, Any], where: str = "") -> C:
    """The configuration with the changes of a nested dictionary."""
    kinds = typing.get_type_hints(type(config))
    new: dict[str, Any] = {}
    for key, value in changes.items():
        path = f"{where}{key}"
        if key not in kinds:
            raise SettingError(unknown("setting", path, [f"{where}{name}" for name in kinds]))
        old = getattr(config, key)
        if not dataclasses.is_dataclass(old):
            new[key] = checked(value, kinds[key], path)
        elif isinstance(value, dict):
            new[key] = update(old, value, f"{path}.")
        else:
            raise SettingError(f"{path}: expected settings of its own, such as {path}.{next(iter(vars(old)))}")
    try:
        return dataclasses.replace(config, **new)  # type: ignore[type-var]
    except SettingError:
        raise
    except ValueError as error:
        is_of_a_field = str(error).split(" ", 1)[0] in kinds
        raise SettingError(f"{where}{error}" if is_of_a_field else str(error)) from None


def checked(value: Any, kind: Any, where: str) -> Any:
    """The value, if it is of that kind: bool, int, float, str, a tuple of texts, or one of several."""
    for k in several(kind):
        if k is types.NoneType and value is None:
            return None
        if k is float and isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
            return float(value)
        if k in (bool, int, str) and type(value) is k:
            return value
        if typing.get_origin(k) is tuple and isinstance(value, list) and all(isinstance(v, str) for v in value):
            return tuple(value)
    raise SettingError(f"{where}: expected {kind_name(kind)}, got {describe(value)}")


def several(kind: Any) -> tuple[Any, ...]:
    """The kinds of which a value may be any."""
    return typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)


def kind_name(kind: Any) -> str:
    """How people read it, such as `int or null`."""
    special = {types.NoneType: "null", tuple: "a list of texts"}
    return " or ".join(special.get(typing.get_origin(k) or k, getattr(k, "__name__", str(k))) for k in several(kind))


def read_yaml(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: no file can have such a name
        raise SettingError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if len(text) > MAX_BYTES:
        raise SettingError(f"{path}: larger than {MAX_BYTES // 1000} kB, so it is no configuration")
    try:
        document = parse(text)
    except ValueError as error:
        raise SettingError(f"{path}: not valid YAML ({error})") from error
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise SettingError(f"{path}: expected settings such as `search: {{n_rounds: 5}}`")
    return document


def parse_assignment(text: str) -> dict[str, Any]:
    """`search.n_rounds=5` as {"search": {"n_rounds": 5}}."""
    path, separator, value = text.partition("=")
    if not separator or not all(path.split(".")):
        raise SettingError(f"--set {text}: expected NAME=VALUE, such as search.n_rounds=5")
    try:
        nested = parse(value)
    except ValueError:
        nested = value
    with suppress(ValueError):  # YAML reads 1e-4 as a text; people mean the number
        nested = float(nested) if isinstance(nested, str) else nested
    for name in reversed(path.split(".")):
        nested = {name: nested}
    return typing.cast(dict[str, Any], nested)


def dump(config: Any) -> str:
    return yaml.safe_dump(to_dict(config), sort_keys=False)
