"""What is printed fits its terminal, in whole words, whatever the width."""

import re
import shlex

import pytest

from slackaug import cli
from slackaug.commands import COMMANDS
from slackaug.messages.terminal import fitted

WIDTHS = (60, 80, 140)
each_width = pytest.mark.parametrize("width", WIDTHS)
each_command = pytest.mark.parametrize("name", COMMANDS)


def words(text):
    """Without what is drawn around them."""
    return re.findall(r"[^\s│┃]+", text)


@pytest.fixture
def printed(command, monkeypatch, tmp_path):
    """The lines of a command in a terminal of a width, held to it, and the words of the same without an end of lines.

    `differs`: what may be another word from one time to the next, such as a duration.
    """
    monkeypatch.chdir(tmp_path)

    def printed(width, *line, differs=r"\d+ (s|images/s|min)|\d\d:\d\d"):
        def shown(columns):
            monkeypatch.setenv("COLUMNS", str(columns))
            done = command(*line)
            return f"{done.stdout}\n{done.stderr}"

        found, whole = shown(width), shown(10_000)
        assert [text for text in found.splitlines() if len(text) > width] == []
        assert {*words(re.sub(differs, "", found))} - {"\\"} <= {*words(re.sub(differs, "", whole))}
        return found

    return printed


@each_width
@each_command
def test_help(name, width, printed):
    text = printed(width, name, "--help")
    assert text.startswith("Usage: ")
    assert "\nExamples\n" in text
    assert "<bool>" not in text
    assert "…" not in text


@each_width
def test_help_of_all(width, printed):
    assert all(f"\n  {name} " in printed(width, "--help") for name in COMMANDS)


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
                      "How images are read", "Where it runs", "Examples"]  # fmt: skip
    assert text.index("--preset") > text.index("How to train")


# --- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three", ["one two", "three"]),
        ("a /very/long/path b", ["a", "/very/long/path", "b"]),
        ("four 猫猫 x", ["four", "猫猫 x"]),  # of two columns each
        ("  slackaug -o 'a b' --flip", ["  slackaug \\", "    -o 'a b' \\", "    --flip"]),
        ("short\n\nx", ["short", "", "x"]),
    ],
)
def test_lines_are_of_whole_words(text, lines):
    assert fitted(text, 8) == lines


def test_a_command_in_several_lines_is_what_it_was():
    line = "  slackaug search 'my pets/' -o 'runs/a b' --set search.n_rounds=5 --resume --exclude Invert"
    lines = fitted(line, 30)
    assert len(lines) > 2
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(line)
