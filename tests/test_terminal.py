"""What is printed fits its terminal, in whole words, whatever the width."""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import tiny
from slackaug import cli
from slackaug.commands import COMMANDS
from slackaug.messages.terminal import fitted, how

WIDTHS = (60, 80, 140)
each_width = pytest.mark.parametrize("width", WIDTHS)
each_command = pytest.mark.parametrize("name", COMMANDS)


def words(text):
    """Without what is drawn around them, and without numbers, of which some differ from time to time. A name may be
    broken at its hyphens."""
    return {word for word in re.findall(r"[^\s\u2500-\u257f-]+", text) if not re.search(r"\d", word)}


@pytest.fixture
def printed(command, monkeypatch, tmp_path):
    """What a command prints in a terminal of some width, on both streams."""
    monkeypatch.chdir(tmp_path)

    def printed(width, *line):
        monkeypatch.setenv("COLUMNS", str(width))
        done = command(*line)
        assert done.returncode == 0, done.stderr
        return f"{done.stdout}\n{done.stderr}"

    return printed


def too_wide(text, width):
    """But for a path, which is one word, and has a line of its own."""
    return [line for line in text.splitlines() if len(line.rstrip()) > width and not re.fullmatch(r"/\S+", line)]


# --- help -------------------------------------------------------------------------------------------------------------


@each_width
@each_command
def test_help(name, width, printed):
    text = printed(width, name, "--help")
    assert too_wide(text, width) == []
    assert words(text) - {"\\"} <= words(printed(10_000, name, "--help"))
    assert text.startswith("Usage: ")
    assert "\nExamples\n" in text
    assert "<bool>" not in text
    assert "…" not in text


@each_width
def test_help_of_all(width, printed):
    text = printed(width, "--help")
    assert too_wide(text, width) == []
    assert all(f"\n  {name} " in text for name in COMMANDS)


@each_command
def test_examples_are_understood(name):
    """By the parser; each is of its own command."""
    found = cli.load(name)
    for example in found.epilog.splitlines():
        program, command, *rest = shlex.split(example)
        assert (program, command) == ("slackaug", name)
        found.make_context(name, rest)


def test_options_are_in_groups(printed):
    text = printed(80, "search", "--help")
    titles = [line for line in text.splitlines() if re.fullmatch(r"[A-Z][a-z ]+", line)]
    assert titles == ["Arguments", "Options", "How to train", "Other settings",
                      "How images are read", "Where it runs", "What is shown", "Examples"]  # fmt: skip
    assert text.index("--preset") > text.index("How to train")


# --- commands at work -------------------------------------------------------------------------------------------------

RACE = {"race.candidates": "[uniform-2, learned]", "race.n_first": 1, "race.n_last": 4, "evaluate.epochs": 1}
LINES = {
    "search": tiny.arguments("tiny.npz", "run", **{name.replace(".", "__"): value for name, value in RACE.items()}),
    "evaluate": tiny.evaluate_words("tiny.npz", "run", "--baselines", "none,trivialaugment-wide", "--seeds", "4"),
    "check": ["check", "tiny.npz", "--no-cost"],
    "show": ["show", "uniform:domainnet"],
    "show all": ["show", "uniform:domainnet", "--verbose"],
    "compare": ["show", "uniform:cifar", "uniform:domainnet"],
}
WHOLE: dict[str, set[str]] = {}  # the words of each, when no line ends


@pytest.mark.usefixtures("quick_search")
@pytest.mark.parametrize("name", LINES)
@each_width
def test_work(name, width, printed, tmp_path):
    np.savez("tiny.npz", **tiny.arrays(n_train=48))
    if name not in WHOLE:
        WHOLE[name] = words(printed(10_000, *LINES[name]))
        shutil.rmtree("run", ignore_errors=True)
    text = printed(width, *LINES[name])
    assert too_wide(text, width) == []
    assert words(text) - {"\\"} <= WHOLE[name]


@pytest.mark.usefixtures("quick_search")
def test_a_search_ends_with_the_next_command_and_then_the_answer(printed):
    np.savez("tiny.npz", **tiny.arrays(n_train=48))
    text = printed(10_000, *LINES["search"]).rstrip()
    answer = json.loads(Path("run/answer.json").read_text())
    assert text.endswith(f"\n\n{answer['sentence']}")
    (command,) = re.findall(r"Next, .*:\n  slackaug (.*)\n", text)
    cli.load(command.split()[0]).make_context("", shlex.split(command)[1:])
    jargon = ("entropy", "KL", "val loss", "validation loss", "rate ", "kl_budget", "rounds agree")
    assert [word for word in jargon if word in text] == []


@pytest.mark.usefixtures("quick_search")
@pytest.mark.parametrize(
    ("name", "file"),
    [("check", None), ("show", None), ("evaluate", "run/eval/results.json"), ("study", "study/study.json")],
)
def test_json_is_one_document_on_stdout(name, file, command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    np.savez("tiny.npz", **tiny.arrays())
    words = tiny.study_words("tiny.npz", "study") if name == "study" else LINES[name]
    done = command(*words, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, type(found)) == (0, dict)
    if file is not None:
        assert found == json.loads(Path(file).read_text())
        assert found["answer"] in " ".join(done.stderr.split())


# --- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three", ["one two", "three"]),
        ("a /very/long/path b", ["a", "/very/long/path", "b"]),
        ("four 猫猫 x", ["four", "猫猫 x"]),  # of two columns each
        ("  slackaug -o 'a b' --flip", ["  slackaug \\", "  -o 'a b' \\", "  --flip"]),
        ("short\n\nx", ["short", "", "x"]),
        ("  a list of", ["  a list", "  of"]),
    ],
)
def test_lines_are_of_whole_words(text, lines):
    assert fitted(text, 8) == lines


def test_the_last_column_of_a_row_is_wrapped_within_itself():
    row = "Color  within 1 level  its grey is truncated, Pillow's rounded"
    assert fitted(row, 44) == [
        "Color  within 1 level  its grey is",
        "                       truncated, Pillow's",
        "                       rounded",
    ]
    assert fitted(row, 42)[1] == "truncated, Pillow's rounded"  # where it would be too narrow, it is a sentence


def test_a_command_in_several_lines_is_what_it_was():
    line = "  slackaug search 'my pets/' -o 'runs/a b' --set search.n_rounds=5 --resume --exclude Invert"
    lines = fitted(line, 30)
    assert len(lines) > 2
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(line)


def test_what_was_stopped_is_continued_by_the_same_words_everywhere():
    package = Path(cli.__file__).parent
    found = [
        path.name
        for path in package.rglob("*.*")
        if path.suffix in (".py", ".html") and re.search(r"['\" ]To (continue|go on)\b", path.read_text())
    ]
    assert found == ["terminal.py"]


def test_a_command_behind_words_has_lines_of_its_own():
    command = "slackaug search 'my pets/' -o 'runs/a b' --resume --model own:net --device cuda --threads 3 --log wandb"
    said, *lines = fitted(f"slackaug: stopped; everything is saved. {how('To continue', command)}", 80)
    assert said == "slackaug: stopped; everything is saved. To continue:"
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(command)
    assert how("To continue", "give the same command again") == "To continue: give the same command again"
