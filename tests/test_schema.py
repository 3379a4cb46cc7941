"""Policy files: what is saved comes back, and whatever else a file holds is refused with what, where and what to do."""

import copy
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from slackaug import schema
from slackaug.augment.policy import Policy, PolicyError
from slackaug.augment.space import Space
from slackaug.augment.transforms import SPACES, custom
from slackaug.rng import generator

DOCUMENT = Policy.uniform("cifar").to_dict()


def learned_policy(space: Space | str = "domainnet") -> Policy:
    policy, stream = Policy.uniform(space), generator(0, "test")
    pi = 3 * torch.randn(policy.pi.shape, generator=stream, dtype=torch.float64)
    mu = torch.where(policy.space.has_magnitude, 0.1 + 0.9 * torch.rand(len(policy.space), generator=stream), 0.75)
    return replace(policy, pi=pi, mu=mu.double(), dataset="sha256:0f", learned={"epochs": 3, "note": "ü"}, flip=False)


def assert_same(a: Policy, b: Policy) -> None:
    assert (a.probabilities - b.probabilities).abs().max() < 1e-15
    assert torch.equal(a.mu, b.mu)
    for name in ("sigma", "flip", "fill", "mean", "std", "dataset", "learned"):
        assert getattr(a, name) == getattr(b, name), name
    assert a.space == b.space


# --- round trips ------------------------------------------------------------------------------------------------------


RERANGED = SPACES["cifar"].exclude("Invert").rerange(Rotate=(0, 30), Solarize=(256, 128))


@pytest.mark.parametrize("space", [*SPACES.values(), RERANGED], ids=lambda space: space.name)
def test_save_and_load(tmp_path, space):
    """Saved again it is the same, within rounding of the probabilities; names, bounds and the rest to the letter."""
    policy = learned_policy(space)
    policy.save(tmp_path / "a.json")
    loaded = Policy.load(tmp_path / "a.json")
    assert_same(loaded, policy)
    assert (loaded.space is space) == (space is not RERANGED)  # what was compiled for it is not compiled again
    a, b = (json.loads(text) for text in ((tmp_path / "a.json").read_text(), loaded.dumps()))
    assert torch.allclose(torch.tensor(a.pop("pi")), torch.tensor(b.pop("pi")), rtol=0, atol=1e-15)
    assert a == b


def test_the_file_has_a_line_per_entry_and_position():
    text = learned_policy().dumps()
    assert len(text.splitlines()) == 2 + len(DOCUMENT) + 3 + 1  # braces, entries, and pi on three lines of its own
    assert json.loads(text).keys() == DOCUMENT.keys()
    assert text.isascii()


def test_parameter_free_bounds_are_null():
    bounds = dict(zip(DOCUMENT["transformations"], DOCUMENT["mu"], strict=True))
    assert [name for name, mu in bounds.items() if mu is None] == ["AutoContrast", "Invert", "Equalize", "Identity"]
    assert [name for name, span in DOCUMENT["ranges"].items() if span is None] == [
        "AutoContrast", "Invert", "Equalize", "Identity"]  # fmt: skip
    assert DOCUMENT["ranges"]["Rotate"] == [0, 90]


def darken(images, value):
    return images // 2


def grey_out(image, value):
    return image


OWN = {
    "callable": lambda span: darken,
    "record": lambda span: custom("Other", darken, span=span and (0, 1)),
    "pil": lambda span: custom("Darken", pil_function=grey_out, span=span),
}


@pytest.mark.parametrize("span", [None, (2.0, 5.0)])
@pytest.mark.parametrize("own", OWN)
def test_own_transformations_are_supplied_by_the_caller(tmp_path, own, span):
    """And take name, range and direction from the file."""
    supplied = OWN[own](span)
    added = custom("Darken", darken, span=span, signed=own == "callable") if own != "pil" else supplied
    Policy.uniform(SPACES["cifar"].add(added)).save(tmp_path / "policy.json")
    loaded = Policy.load(tmp_path / "policy.json", transforms={"Darken": supplied}).space["Darken"]
    assert (loaded.kernel, loaded.pil) == (added.kernel, loaded.pil if own != "pil" else grey_out)
    assert (loaded.span, loaded.signed) == (added.span, added.signed)
    with pytest.raises(
        PolicyError, match=r"transformations\[17\]: unknown transformation 'Darken'.*transforms=\{\.\.\.\}"
    ):
        Policy.load(tmp_path / "policy.json")


@pytest.mark.parametrize("key", ["library_version", "signed", "dataset", "learned"])
def test_optional_keys_may_be_missing(key):
    document = {k: v for k, v in DOCUMENT.items() if k != key}
    assert_same(Policy.from_dict(document), Policy.uniform("cifar"))


def test_one_position_in_a_space_without_directions_comes_back():
    policy = Policy.uniform(Space("free", (SPACES["cifar"]["Invert"], SPACES["cifar"]["Posterize"])), n_composed=1)
    document = json.loads(policy.dumps())
    assert document["signed"] == []
    found = Policy.from_dict(document)
    assert_same(found, policy)
    assert found.mu.dtype == torch.float64


def test_probabilities_may_be_rounded_and_loading_leaves_the_document_alone():
    rounded = [[round(1 / 17, 7)] * 17]
    document = with_(pi=rounded)
    assert_same(Policy.from_dict(document), Policy.uniform("cifar", n_composed=1))
    assert document == with_(pi=rounded)


# --- files that are no policy -----------------------------------------------------------------------------------------


def write(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(200_000_000)


TEXT = json.dumps(DOCUMENT).encode()
NO_JSON = "not valid JSON, or cut off"
NOT_POLICIES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda path: None, "No such file"),
    "folder": (lambda path: path.mkdir(), "folder"),
    "empty": (write(b""), NO_JSON),
    "truncated": (write(TEXT[: len(TEXT) // 2]), NO_JSON),
    "one brace short": (write(TEXT[:-1]), NO_JSON),
    "text": (write(b"pi = 3"), "line 1 column 1"),
    "binary": (write(bytes(range(256)) * 4), NO_JSON),
    "not utf-8": (write(TEXT.replace(b"ShearX", b"Shear\xff")), NO_JSON),
    "pickle": (write(b"\x80\x04\x95\x0b\x00\x00\x00"), NO_JSON),
    "200 MB": (sparse, "10 MB"),
    "a list": (write(b"[1, 2]"), "expected a JSON object {...}, got a list"),
    "a number": (write(b"3"), "got 3"),
    "null": (write(b"null"), "got null"),
    "deep lists": (write(b"[" * 100_000), NO_JSON),
    "deep objects": (write(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), NO_JSON),
    "digits without end": (write(b'{"schema_version": ' + b"1" * 5000 + b"}"), NO_JSON),
    "NaN": (write(TEXT.replace(b"0.75", b"NaN", 1)), "holds NaN, expected finite numbers only"),
    "Infinity": (write(TEXT.replace(b"0.75", b"-Infinity", 1)), "-Infinity"),
    "overflow": (write(TEXT.replace(b"0.75", b"1e999", 1)), "1e999"),
    "overflow of what is free": (write(TEXT.replace(b'"learned": {}', b'"learned": {"loss": 1e999}')), "1e999"),
    "duplicate keys": (write(b'{"pi": 1, "mu": 2, "pi": 3}'), '"pi"'),
    "duplicate keys inside": (write(b'{"learned": {"a": 1, "a": 1}}'), '"a"'),
    "one thing wrong": (write(TEXT.replace(b"0.75", b"2", 1)), "mu[0] (ShearX)"),
}


@pytest.mark.parametrize(("make", "fact"), NOT_POLICIES.values(), ids=NOT_POLICIES.keys())
def test_files_that_are_no_policy(tmp_path, make, fact):
    """The message starts with the path and fits a line."""
    path = tmp_path / "p.json"
    make(path)
    with pytest.raises(PolicyError, match=re.escape(fact)) as error:
        Policy.load(path)
    assert str(error.value).startswith(f"{path}: ")
    assert len(str(error.value)) < len(str(path)) + 250
    assert "\n" not in str(error.value)


def test_a_run_folder_is_answered_with_its_policy_and_a_name_that_no_file_can_have(tmp_path):
    Policy.uniform("cifar").save(tmp_path / "policy.json")
    with pytest.raises(PolicyError, match=re.escape(str(tmp_path / "policy.json"))):
        Policy.load(tmp_path)
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.load("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission(tmp_path):
    (tmp_path / "p.json").write_bytes(TEXT)
    (tmp_path / "p.json").chmod(0)
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.load(tmp_path / "p.json")


def test_many_keys_are_refused_in_good_time(tmp_path):
    """20,000 different keys in 300 kB; looking for duplicates must not take their square."""
    (tmp_path / "p.json").write_text(json.dumps({f"key {i}": i for i in range(20_000)}))
    start = time.process_time()
    with pytest.raises(PolicyError, match="schema_version: missing"):
        Policy.load(tmp_path / "p.json")
    assert time.process_time() - start < 1


# --- documents with one thing wrong -----------------------------------------------------------------------------------


def with_(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(DOCUMENT) | changes


def at(key: str, index: Any, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    document[key][index] = value
    return document


ROW = [1 / 17] * 17
UNIT, HUGE = "from 0 to 1", "got a very large integer"
MU = "from 0.001 to 1"
WRONG: dict[str, tuple[Any, ...]] = {  # what is wrong: the document, where, and facts about it
    "newer schema": (with_(schema_version=2), "schema_version", "version 2", "up to 1", "update slackaug"),
    "schema 0": (with_(schema_version=0), "schema_version", "an integer from 1 to 1000000000, got 0"),
    "schema text": (with_(schema_version="1"), "schema_version", "an integer", 'got "1"'),
    "schema true": (with_(schema_version=True), "schema_version", "an integer", "got true"),
    "unknown key": (with_(sigm=0.1), "unknown key 'sigm'", "'sigma'"),
    "missing key": ({k: v for k, v in DOCUMENT.items() if k != "mu"}, "mu", "missing"),
    "published format": ({"format": "x", "pi": []}, "schema_version", "missing", "published policy"),
    "unknown transformation": (at("transformations", 4, "Rotat"), "ranges", "one entry per transformation"),
    "no transformations": (with_(transformations=[]), "transformations", "1 to 1000 items", "got 0"),
    "names no list": (with_(transformations="ShearX"), "transformations", "a list", 'got "ShearX"'),
    "name a number": (at("transformations", 0, 3), "transformations[0]", "a text", "got 3"),
    "name without end": (at("transformations", 0, "x" * 300), "transformations[0]", "1 to 200"),
    "twice": (lambda: renamed("ShearY", "ShearX") | {"mu": with_()["mu"]}, "transformations", "ShearX", "once"),
    "pi no list": (with_(pi=3), "pi", "a list", "got 3"),
    "pi empty": (with_(pi=[]), "pi", "1 to 16 items", "got 0"),
    "pi too many rows": (with_(pi=[ROW] * 17), "pi", "1 to 16 items", "got 17"),
    "pi one row": (with_(pi=ROW[:3]), "pi[0]", "a list", "got 0.0588"),
    "pi short row": (with_(pi=[ROW, ROW[1:], ROW]), "pi[1]", "17 items", "got 16"),
    "pi negative": (with_(pi=[[-0.1, 1.1, *[0] * 15]]), "pi[0][0]", UNIT, "got -0.1"),
    "pi sum": (with_(pi=[ROW, [1 / 16] * 17, ROW]), "pi[1]", "sum to 1.062500"),
    "pi rounded too much": (with_(pi=[[round(1 / 17, 6)] * 17]), "pi[0]", "sum to 1.000008"),
    "pi all zero": (with_(pi=[[0] * 17]), "pi[0]", "sum to 0.000000"),
    "pi NaN": (with_(pi=[[float("nan"), *ROW[1:]]]), "pi[0][0]", UNIT, "got NaN"),
    "pi boolean": (with_(pi=[[True, *[0] * 16]]), "pi[0][0]", UNIT, "got true"),
    "pi huge": (with_(pi=[[10**400, *ROW[1:]]]), "pi[0][0]", UNIT, HUGE),
    "pi text": (with_(pi=[["0.5", *ROW[1:]]]), "pi[0][0]", UNIT, 'got "0.5"'),
    "mu short": (with_(mu=[0.5] * 16), "mu", "17 items", "got 16"),
    "mu zero": (at("mu", 0, 0), "mu[0] (ShearX)", MU, "got 0"),
    "mu above one": (at("mu", 4, 1.5), "mu[4] (Rotate)", MU, "got 1.5"),
    "mu null": (at("mu", 4, None), "mu[4] (Rotate)", MU, "got null"),
    "mu where free": (at("mu", 6, 0.5), "mu[6] (Invert)", "null", "no magnitude", "got 0.5"),
    "mu boolean": (at("mu", 0, True), "mu[0] (ShearX)", "got true"),
    "mu huge": (at("mu", 0, 10**400), "mu[0] (ShearX)", HUGE),
    "range outside": (at("ranges", "Posterize", [8, 0]), "ranges['Posterize']", "from 1 to 8"),
    "range infinite": (at("ranges", "Rotate", [0, 1e308]), "ranges['Rotate'][1]", "got 1e+308"),
    "range one end": (at("ranges", "Rotate", [90]), "ranges['Rotate']", "2 items", "got 1"),
    "range null": (at("ranges", "Rotate", None), "ranges['Rotate']", "a list", "got null"),
    "range where free": (at("ranges", "Invert", [0, 1]), "ranges['Invert']", "null", "no magnitude", "got a list"),
    "ranges a list": (with_(ranges=[]), "ranges", "one entry per transformation", "got a list"),
    "range of another": (at("ranges", "Hue", [0, 1]), "ranges", "one entry per transformation"),
    "sigma zero": (with_(sigma=0), "sigma", MU, "got 0"),
    "sigma too long to print": (with_(sigma=10**5000), "sigma", HUGE),
    "flip a number": (with_(flip=1), "flip", "true or false", "got 1"),
    "fill two": (with_(fill=[1, 2]), "fill", "3 items", "got 2"),
    "fill fraction": (with_(fill=[1, 2, 0.5]), "fill[2]", "an integer from 0 to 255", "got 0.5"),
    "fill 256": (with_(fill=[256, 2, 3]), "fill[0]", "an integer from 0 to 255", "got 256"),
    "mean": (with_(mean=[0.5, 0.5, 125]), "mean[2]", UNIT, "got 125"),
    "std zero": (with_(std=[0.5, 0, 1]), "std[1]", "from 1e-06 to 10", "got 0"),
    "space": (with_(space=""), "space", "1 to 200", 'got ""'),
    "dataset": (with_(dataset=3), "dataset", "a text", "got 3"),
    "learned": (with_(learned=[1]), "learned", "an object", "got a list"),
    "signed": (with_(signed="Rotate"), "signed", "a list", 'got "Rotate"'),
    "signed unknown": (with_(signed=["Rotat"]), "signed", "names of transformations", 'got "Rotat"'),
    "policy a list": ([1], "policy", "an object", "got a list"),
    "mean of four": (with_(mean=[0.5] * 4), "mean", "3 items", "got 4"),
    "another object": ({"a": 1}, "schema_version", "missing", "is it a slackaug policy?"),
    "published kind": ({"kind": "x"}, "schema_version", "missing", "published policy"),
    "nearest": (lambda: renamed("Rotate", "Rotat"), "transformations[4]", "did you mean 'Rotate'", "(your own go into"),
}


@pytest.mark.parametrize(("document", "where", "facts"), [(d, w, f) for d, w, *f in WRONG.values()], ids=WRONG.keys())
def test_documents_with_one_thing_wrong(document, where, facts):
    with pytest.raises(PolicyError) as error:
        Policy.from_dict(document() if callable(document) else document)
    text = str(error.value)
    assert text.startswith(where)
    assert [fact for fact in facts if fact not in text] == []
    assert len(text) < 250


def renamed(old: str, new: str) -> dict[str, Any]:
    ranges = {new if name == old else name: span for name, span in DOCUMENT["ranges"].items()}
    names, signed = ([new if name == old else name for name in DOCUMENT[key]] for key in ("transformations", "signed"))
    return with_(transformations=names, signed=signed, ranges=ranges)


@pytest.mark.parametrize("name", ["Posterize", "RandomResizeCrop", "Cutout", "Solarize"])
def test_a_direction_where_the_kernel_has_none_is_refused(name):
    """Minus 3 bits, or a window of negative area, has no pixels."""
    document = Policy.uniform("domainnet").to_dict()
    with pytest.raises(PolicyError, match=name):
        Policy.from_dict(document | {"signed": [*document["signed"], name]})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_could_not_be_loaded_again_is_not_saved(tmp_path, value):
    with pytest.raises(ValueError, match=r"learned|JSON"):
        replace(Policy.uniform("cifar"), learned={"loss": value}).save(tmp_path / "policy.json")
    assert not (tmp_path / "policy.json").exists()


# --- the readers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [({"a": 1}, "an object"), ([1], "a list"), (None, "null"), ("x" * 100, '"' + "x" * 56 + "..."), (True, "true")],
)
def test_describe_fits_a_line(value, text):
    assert schema.describe(value) == text


def test_read_json_gives_the_object(tmp_path):
    (tmp_path / "x.json").write_text('{"a": [1, 2.5, null]}')
    assert schema.read_json(tmp_path / "x.json") == {"a": [1, 2.5, None]}
