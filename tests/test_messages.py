"""Every message for bad input has a test of its text; those of commands, of the exit code, too.

Most are tested beside what raises them. Here are the others, and a look at the source for messages that nobody tests.
"""

import ast
import io
import re
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

import slackaug
from bad_data import BAD_DATA, pictures
from slackaug import foreign
from slackaug.augment import transforms
from slackaug.augment.apply import get_space
from slackaug.augment.policy import Policy
from slackaug.data import Split, cache, packages
from slackaug.data.dataset import rebuild
from slackaug.data.options import Options
from slackaug.report import samples
from slackaug.runs.checkpoints import from_bytes

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "slackaug"
pytestmark = pytest.mark.usefixtures("quick_search")


# --- commands ---------------------------------------------------------------------------------------------------------


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


DIGITS = slackaug.data.load("digits")


def fog(images, value):
    return images


def packed():
    """What torch would read, but deflated."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(100_000))
    return buffer.getvalue()


IN_PYTHON = {
    "exclude and set take lists of texts, such as ['Invert', 'Solarize']": lambda: slackaug.search(
        "digits", "x", exclude="Invert"
    ),
    "policies, baselines and set take lists, such as ['uniform', 'trivialaugment-wide']": lambda: slackaug.evaluate(
        "digits", baselines="uniform", out="x"
    ),
    "module 'slackaug' has no attribute 'serach'": lambda: slackaug.serach,
    "module 'slackaug.data' has no attribute 'laod'": lambda: slackaug.data.laod,
    "a transformation needs a name, got ''": lambda: transforms.custom("", fog),
    "input_size (99, 99) exceeds its images, which are (16, 16)": lambda: rebuild(replace(DIGITS, input_size=(99, 99))),
    "expected images (B, 3, H, W) uint8, got (2, 3, 4, 4) torch.float32": lambda: rebuild(
        replace(DIGITS, train=Split(torch.zeros(2, 3, 4, 4), torch.zeros(2, dtype=torch.int64)))
    ),
    "example 0: expected an image, got str": lambda: packages.stack("hf:x", [("text", 0)], Options()),
    "unpacks to more than it is": lambda: from_bytes(packed()),
    "expected transformations, such as custom('Fog', fog), got": lambda: get_space("cifar").add(fog),
    "expected an image with pixels, got": lambda: slackaug.SlackAugment(Policy.uniform("cifar"))(
        Image.new("RGB", (0, 4))
    ),
}


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("1 / 0", r"lame is installed but cannot be imported \(division by zero\); does it fit this torch\?"),
        ("import nowhere_at_all", r"lame is installed but cannot be imported \(No module named 'nowhere_at_all'\)"),
    ],
)
def test_an_optional_package_that_is_broken(code, says, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lame", raising=False)
    (tmp_path / "lame.py").write_text(code)
    with pytest.raises(foreign.ForeignError, match=says):
        foreign.extra("lame", "lame")


def test_samples_of_images_that_are_not_alike(tmp_path):
    for name, size in (("cat", 4), ("dog", 5)):
        pictures(tmp_path, names=[name], size=(size, size))
    found = {name: [samples.File(tmp_path / name / "0.png", tmp_path)] for name in ("cat", "dog")}
    with pytest.raises(slackaug.data.DataError, match="data: images of several sizes"):
        samples.of_files("data", found, Options(), skip_bad=False)


def test_files_that_change_while_they_are_read(tmp_path, monkeypatch):
    root = pictures(tmp_path / "data")
    odd = cache.Cached(torch.zeros(0), {}, {}, odd_size=(9, 9))
    monkeypatch.setattr(cache, "fill", lambda *_: odd)
    says = "its files change while they are read; try again when they are all there"
    with pytest.raises(slackaug.data.DataError, match=says):
        slackaug.data.load(str(root), cache=tmp_path / "cache")


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
    """Three words in a row of each are in a test: that somebody has looked at it, not that the test is good."""
    tests = "".join(path.read_text() for path in sorted(Path(__file__).parent.rglob("*.py")))
    tests = re.sub(r'"\s*\n\s*[fr]?"', "", tests.replace("\\", ""))

    def is_tested(piece):
        words = [word for word in piece.split() if any(map(str.isalnum, word))]
        n = min(3, len(words))
        return any(" ".join(words[i : i + n]) in tests for i in range(len(words) - n + 1))

    found = list(messages())
    assert len(found) > 250
    assert [(where, pieces) for where, pieces in found if not any(map(is_tested, pieces))] == []
