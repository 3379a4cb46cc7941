"""Messages for bad input that are not tested beside what raises them, and the sentences of `messages`."""

import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from PIL import Image

import slackaug
from bad_data import BAD_DATA, pictures
from slackaug import foreign, messages
from slackaug.augment import transforms
from slackaug.augment.policy import Policy
from slackaug.augment.transforms import get_space
from slackaug.data import Split, cache, items, samples
from slackaug.data.dataset import rebuild
from slackaug.data.options import DataConfig
from slackaug.messages import check, names, search, studying

pytestmark = pytest.mark.usefixtures("quick_search")
ROOT = Path(__file__).parents[1]


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("says", BAD_DATA)
def test_bad_data(says, command, tmp_path):
    done = command("search", BAD_DATA[says](tmp_path / "data"), "-o", tmp_path / "run")
    assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    assert not (tmp_path / "run").exists()


def words(*rest):
    return ["search", "DATA", "-o", "run", *rest]


BAD_WORDS = {
    "tensorboard is not installed; pip install tensorboard": words("--log", "tensorboard"),
    "unknown logger 'wand'; did you mean 'wandb'?": words("--log", "wand"),
    "warmup_epochs must not exceed epochs, got 9 of 2": words("--set", "evaluate.warmup_epochs=9", "--set",
                                                              "evaluate.epochs=2"),
    "expected module:callable, as in my_package.my_module:my_function, got ':x'": words("--model", ":x"),
    "broken:net: importing broken failed: ZeroDivisionError: division by zero": words("--model", "broken:net"),
    "needy:net: needy needs a module that is missing: nowhere_at_all": words("--model", "needy:net"),
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


IN_PYTHON = {
    "exclude takes a list, such as ['Invert']": lambda: slackaug.search("digits", "x", exclude="Invert"),
    "baselines takes a list, such as ['uniform']": lambda: slackaug.evaluate("digits", baselines="uniform", out="x"),
    "policies takes a list": lambda: slackaug.evaluate("digits", "p.json", out="x"),
    "set takes a list": lambda: slackaug.evaluate("digits", set="evaluate.lr=1", out="x"),
    "module 'slackaug' has no attribute 'serach'": lambda: slackaug.serach,
    "module 'slackaug.data' has no attribute 'laod'": lambda: slackaug.data.laod,
    "a transformation needs a name, got ''": lambda: transforms.custom("", fog),
    "input_size (99, 99) exceeds its images, which are (16, 16)": lambda: rebuild(replace(DIGITS, input_size=(99, 99))),
    "expected images (B, 3, H, W) uint8, got (2, 3, 4, 4) torch.float32": lambda: rebuild(
        replace(DIGITS, train=Split(torch.zeros(2, 3, 4, 4), torch.zeros(2, dtype=torch.int64)))
    ),
    "item 0: expected a PIL image, a tensor or an array, got str": lambda: items.stacked(
        [("text", 0)], None, "hf:x", DataConfig()
    ),
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
        foreign.extra("lame")


def test_a_missing_package_has_one_message_and_pip_knows_it_by_that_name():
    """In a clone there is no `slackaug[timm]` to install; what an extra brings can be named in both."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = {re.match(r"[\w-]+", one)[0] for extra in project["optional-dependencies"].values() for one in extra}
    asked, told = set(), set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        asked |= set(re.findall(r"""(?:extra|missing)\(["'](\w+)""", text))
        told |= {path.name} if "is not installed; pip" in text or "slackaug[" in text else set()
    assert {"timm", "torchvision", "datasets", "ray", "matplotlib", "pandas", "wandb", "mlflow"} <= asked <= known
    assert told == {"foreign.py"}


def test_samples_of_images_that_are_not_alike(tmp_path):
    for name, size in (("cat", 4), ("dog", 5)):
        pictures(tmp_path, names=[name], size=(size, size))
    with pytest.raises(slackaug.data.DataError, match="images of several sizes"):
        samples.find(DataConfig(source=str(tmp_path)), None)


def test_files_that_change_while_they_are_read(tmp_path, monkeypatch):
    root = pictures(tmp_path / "data")
    monkeypatch.setattr(cache.Filling, "decode", Mock(side_effect=cache.OddSize))
    says = "its files change while they are read; try again when they are all there"
    with pytest.raises(slackaug.data.DataError, match=says):
        slackaug.data.load(str(root), cache=tmp_path / "cache")


@pytest.mark.parametrize("says", IN_PYTHON)
def test_in_python(says):
    with pytest.raises((TypeError, ValueError, AttributeError), match=re.escape(says)):
        IN_PYTHON[says]()


# --- what `messages` says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (90, "1 min 30 s"), (3600, "1 h 00 min"), (7380, "2 h 03 min")],
)
def test_duration(seconds, text):
    assert messages.duration(seconds) == text


def test_numbers_of_things_and_lists():
    found = [messages.counted(*what) for what in ((1, "search"), (4, "search"), (1, "seed"), (1200, "seed"))]
    assert found == ["1 search", "4 searches", "1 seed", "1,200 seeds"]
    assert [messages.listed(words) for words in ([], ["a"], ["a", "b"], list("abc"))] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [("none", "no transformations"), ("uniform", "3 random transformations"), ("uniform-1", "1 random transformation"),
     ("uniform-2", "2 random transformations"), ("uniform-no-invert-solarize", "uniform-no-invert-solarize"),
     ("trivialaugment-wide", "trivialaugment-wide")],
)  # fmt: skip
def test_baselines_in_plain_words(name, words):
    assert names.augmentation(name) == words


def test_the_golden_texts():
    """The few sentences whose wording is held."""
    assert studying.kept(1, 4, {"none": 1, "uniform-2": 2}) == (
        "the race kept the learned policy in 1 of 4 searches, and took no augmentation in 1 and 2 random "
        "transformations per image in 2"
    )
    assert search.best_number([3, 2, 1, 0], 2, 12) == [
        "Best in the first short trainings: 2 random transformations per image (tried: none, 1, 2 and 3)."
    ]
    assert search.composing({3: 1.0, 2: 0.5, 1: 2.0}, 3) == (
        "Validation loss after pre-training: 2.000 with 1, 0.500 with 2, 1.000 with 3. Learning starts from 3 "
        "transformations."
    )
    assert search.agreement(-0.125, is_chance=True) == (
        "The rounds went different ways (-0.12; 1 would be all the same way, 0 chance), so the learned policy may be "
        "chance."
    )
    assert search.agreement(0.5, is_chance=False) == "The rounds agree (0.50; 1 would be all the same way, 0 chance)."
    assert search.rate(0.0125, 1.146, {0.1: 9.0, 0.0125: 6.0}, fits=False, is_far=False) == (
        "Re-training uses rate 0.0125, which comes closest. No rate tried keeps the validation loss near the 1.146 of "
        "pre-training (9.000 at 0.1, 6.000 at 0.0125)."
    )
    assert search.basis("cifar", ["Invert", "Cutout"], "small", "paper", "cifar100", "cpu") == (
        "Space cifar without Invert and Cutout; network small; preset paper (the row of cifar100); device cpu."
    )


@pytest.mark.parametrize("kind", check.ABOUT_FILES)
def test_verbs_follow_the_number_of_files(kind):
    one, several = (check.about_files(kind, n, "a.png").split() for n in (1, 2))
    assert (one[0], several[0], one[-1]) == ("1", "2", "a.png")
    assert ("is" in one or "occurs" in one, "are" in several or "occur" in several) == (True, True)


def test_what_may_be_missing_is_left_out():
    assert studying.search_done("search 1", None, 2.5, []) == "search 1: entropy 2.500."
    full = studying.search_done("search 1", 90, 2.5, ["A.", "B."])
    assert full == "search 1: 1 min 30 s, entropy 2.500. A. B."
    correlations = dict.fromkeys(("pi", "pi_rest", "mu"), 0.5) | {"mu_rest": None}
    assert "pi 0.50" in studying.stability(4, correlations, "")
    assert "without Solarize undefined" in studying.stability(4, correlations, "")
    assert studying.entropy(2.0, None) == "entropy 2.000 nats"
    assert "50.0%" in studying.entropy(2.0, 0.5)
