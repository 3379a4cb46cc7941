"""Every message for bad input has a test of its text; those of commands, of the exit code, too.

Most are tested beside what raises them. Here are the others, and a look at the source for messages that nobody tests.
"""

import ast
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import slackaug
import tiny
from slackaug import elementary
from slackaug.policy import Policy
from slackaug.spaces import get_space

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "slackaug"
pytestmark = pytest.mark.usefixtures("quick_search")


# --- commands ---------------------------------------------------------------------------------------------------------


def pictures(root, names=("cat", "dog"), n=6, size=(4, 4)):
    for name in names:
        for i in range(n):
            path = root / name / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", size, (i, 0, 0)).save(path)
    return root


def empty_class(root):
    (pictures(root) / "emu").mkdir()
    return root


def nested(root):
    for name in ("one", "other"):
        pictures(root / name / "train")
        pictures(root / name / "test")
    return root


def deep(root):
    pictures(root)
    Image.new("F", (4, 4)).save(root / "cat" / "x.tif")
    return root


def levels(root):
    pictures(root)
    Image.new("I", (4, 4), 70_000).save(root / "cat" / "x.tif")
    return root


def incomplete(root):
    pictures(root)
    (root / "x.csv").write_text("path,label\ncat/0.png,\n")
    return root / "x.csv"


def numbers(**changes):
    def make(root):
        root.mkdir()
        np.savez(root / "x.npz", **(tiny.arrays() | changes))
        return root / "x.npz"

    return make


def nothing(root):
    root.mkdir()
    return root


BAD_DATA = {
    "no images; known are files that end in .png": nothing,
    "class folders without images: emu; fill them or remove them": empty_class,
    "train/ or test/ lies inside of what would be a class folder. This looks like several data sets": nested,
    "floating-point pixels, whose range is not known; convert to 8 or 16 bits": deep,
    "grey levels from 70000 to 70000, expected at most 16 bits (0..65535)": levels,
    "1 lines are not complete: line 2: label missing": incomplete,
    "train_labels is a single value, expected an array": numbers(train_labels=np.array(3)),
    "expected uint8 (0..255), uint16 (0..65535) or bool, got float64": numbers(train_images=np.zeros((24, 8, 8, 3))),
    "expected integers (N,) or (N, 1), got float64": numbers(train_labels=np.zeros(24)),
}


@pytest.mark.parametrize("says", BAD_DATA)
def test_bad_data(says, command, tmp_path):
    done = command("search", BAD_DATA[says](tmp_path / "data"), "-o", tmp_path / "run")
    assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    assert not (tmp_path / "run").exists()


def words(*rest):
    return ["search", "DATA", "-o", "run", *rest]


BAD_WORDS = {
    "--tensorboard needs TensorBoard: pip install 'slackaug[tensorboard]'": words("--tensorboard"),
    "warmup_epochs must not exceed epochs, got 9 of 2": words("--set", "evaluate.warmup_epochs=9", "--set",
                                                              "evaluate.epochs=2"),
    "expected module:callable, as in my_package.my_module:my_function, got ':x'": words("--model", ":x"),
    "broken:net: importing broken failed: ZeroDivisionError: division by zero": words("--model", "broken:net"),
    "needy:net: needy needs a module that is missing: nowhere_at_all": words("--model", "needy:net"),
    "strips need images: give --image FILE, once or more": ["figure", "strips", "uniform:cifar", "-o", "x.svg"],
    "expected NAME=FILE, such as fast-aa=fast_aa.json": ["study", "digits", "-o", "run", "-p", "x"],
}  # fmt: skip


@pytest.mark.parametrize("says", BAD_WORDS)
def test_bad_words(says, command, tiny_npz, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "needy.py").write_text("import nowhere_at_all")
    done = command(*(tiny_npz if word == "DATA" else word for word in BAD_WORDS[says]))
    assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    assert not (tmp_path / "run").exists()


# --- Python -----------------------------------------------------------------------------------------------------------


def fog(images, value):
    return images


IN_PYTHON = {
    "exclude and set take lists of texts, such as ['Invert', 'Solarize']": lambda: slackaug.search(
        "digits", "x", exclude="Invert"
    ),
    "policies, baselines and set take lists, such as ['uniform', 'trivialaugment-wide']": lambda: slackaug.evaluate(
        "digits", baselines="uniform", out="x"
    ),
    "module 'slackaug' has no attribute 'serach'": lambda: slackaug.serach,
    "module 'slackaug.data' has no attribute 'laod'": lambda: slackaug.data.laod,
    "a transformation needs a name, got ''": lambda: elementary.custom("", fog),
    "expected transformations, such as custom('Fog', fog), got": lambda: get_space("cifar").add(fog),
    "expected an image with pixels, got": lambda: slackaug.SlackAugment(Policy.uniform("cifar"))(
        Image.new("RGB", (0, 4))
    ),
}


@pytest.mark.parametrize("says", IN_PYTHON)
def test_in_python(says):
    with pytest.raises((TypeError, ValueError, AttributeError), match=re.escape(says)):
        IN_PYTHON[says]()


# --- all of them ------------------------------------------------------------------------------------------------------


def messages():
    """The texts of every error that is raised with one, without what is filled in, and where."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                texts = [part.value for part in ast.walk(node.exc) if isinstance(part, ast.Constant)]
                pieces = [text for text in texts if isinstance(text, str) and len(text.split()) > 2]
                if pieces:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", pieces


def test_no_message_is_left_without_a_test():
    """Two words in a row of each are in a test: that somebody has looked at it, not that the test is good."""
    tests = "".join(path.read_text() for path in sorted(Path(__file__).parent.glob("*.py")))
    tests = re.sub(r'"\s*\n\s*[fr]?"', "", tests.replace("\\", ""))

    def is_tested(piece):
        words = piece.split()
        return any(f"{one} {other}" in tests for one, other in pairwise(words))

    found = list(messages())
    assert len(found) > 250
    assert [(where, pieces) for where, pieces in found if not any(map(is_tested, pieces))] == []
