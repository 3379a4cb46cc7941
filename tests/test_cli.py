"""The commands as a user types them."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import wraps
from pathlib import Path

import pytest
import torch
from PIL import Image

import slackaug
from slackaug import Policy, cli, exits
from slackaug.augment.policy import NEVER
from slackaug.augment.transforms import SPACES
from slackaug.commands import COMMANDS, evaluate


@pytest.fixture
def policy_file(tmp_path):
    policy = Policy.uniform("cifar")
    policy.pi[:, policy.space.index("Rotate")] = 1
    policy.save(tmp_path / "policy.json")
    return tmp_path / "policy.json"


def python(*words, **options):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, **options)


def test_help_lists_the_commands_that_work(command):
    out = command("--help").stdout
    assert all(f" {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_cuts_no_word(name, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = command(name, "--help")
    assert (done.returncode, "Usage:" in done.stdout, "\u2026" in done.stdout) == (0, True, False)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["check", "digits", "--size", "56px"],
            "'--size': expected a whole number such as 56, got '56px'. See: slackaug",
        ),
        (["evaluate", "x", "--until", "half"], "'--until': expected a number such as 0.5, got 'half'. See: slackaug"),
        (["serach", "digits"], "Did you mean 'search'? See: slackaug --help"),
        (["search", "digits", "-o", ""], "-o: got an empty text; expected folder of the run, such as runs/pets"),
        (["search", "", "-o", "x"], "data: got an empty text; expected a folder of class folders"),
        (["search", "digits", "-o", "x", "--preset", ""], "--preset: got an empty text; expected what all other"),
        (["search", "digits", "-o", "x", "--device", ""], "--device: got an empty text; expected where to compute"),
        (["search", "digits", "-o", "x", "--cache", ""], "--cache: got an empty text; expected"),
        (["search", "digits", "-o", "x", "--time-limit", ""], "--time-limit: got an empty text; expected such as 90s"),
        (["search", "digits", "-o", "x", "--set", ""], "--set : expected NAME=VALUE, such as search.n_rounds=5"),
    ],
)
def test_a_wrong_line_is_answered_in_words(words, says, command):
    done = command(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


@pytest.mark.parametrize(
    ("option", "says"),
    [("--version", f"slackaug {slackaug.__version__}\n"), ("--help", "Learn an augmentation policy")],
)
def test_version_and_help_do_not_wait_for_torch(option, says):
    script = f"import sys; from slackaug import cli; sys.argv[1:] = ['{option}']; cli.app(standalone_mode=False); "
    done = python("-c", f"{script}assert 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


def test_names_are_separated_by_commas_or_repeated_and_files_are_repeated(command, monkeypatch):
    given = {}
    monkeypatch.setattr(evaluate, "evaluate", wraps(evaluate.evaluate)(lambda **options: given.update(options)))
    words = ["x", "--baselines", "a, b", "--baselines", "c", "-p", "p,q", "--policy", "r", "--no-flip"]
    assert command("evaluate", *words).returncode == 0
    assert given.pop("console")
    assert given == {
        "data": "x", "baselines": ["a", "b", "c"], "policies": ["p,q", "r"], "flip": False, "seeds": 4,
        "magnitudes": "own", "overwrite": False, "json": False, "backend": "local",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, exits.SPINS), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_threads_are_patient_unless_told_otherwise(given, expected):
    """The command says so before torch is loaded, which reads it once."""
    script = "import os, sys; from slackaug import cli; cli.app = lambda: print(os.getenv('GOMP_SPINCOUNT')); "
    script += "assert 'torch' not in sys.modules; cli.main()"
    free = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = python("-c", script, env=free | given)
    assert (done.returncode, done.stdout.strip()) == (0, expected)


def test_show_prints_most_likely_first_with_physical_strengths(command, policy_file):
    done = command("show", policy_file)
    rows = [line.split(maxsplit=3) for line in done.stdout.splitlines() if "%" in line]
    assert (done.returncode, len(rows)) == (0, 17)
    assert (rows[0][0], rows[0][3].strip()) == ("Rotate", "up to ±67.5°")
    assert float(rows[0][1].rstrip("%")) > float(rows[1][1].rstrip("%"))
    assert not {"entropy", "nats", "KL"} & {*done.stdout.split()}


def test_a_run_stands_for_its_policy(command, policy_file, tmp_path):
    folder, image, sheet = tmp_path / "run", tmp_path / "image.png", tmp_path / "sheet.png"
    folder.mkdir()
    shutil.copy(policy_file, folder / "policy.json")
    Image.new("RGB", (40, 30), "red").save(image)
    assert "Rotate" in command("show", folder).stdout
    assert command("export", folder, "--to", "python", "-o", tmp_path / "augment.py").returncode == 0
    assert command("preview", folder, image, "-o", sheet).returncode == 0
    assert (tmp_path / "augment.py").is_file()
    assert sheet.is_file()


def test_show_lists_what_can_be_drawn(command, tmp_path):
    """At any position; and it says how many are left out."""
    policy = Policy.uniform("cifar", n_composed=2)
    pi = torch.full_like(policy.pi, NEVER)
    pi[0, :3], pi[1, 2:5] = 0, 0
    replace(policy, pi=pi).save(tmp_path / "some.json")
    shown = command("show", tmp_path / "some.json").stdout
    listed = {name for name in policy.space.names if re.search(rf"^{name} ", shown, re.MULTILINE)}
    assert listed == set(policy.space.names[:5])
    assert f"{len(policy.space) - 5} other transformations cannot be drawn" in shown
    assert "cannot be drawn" not in command("show", "uniform:cifar").stdout


def test_show_names_what_does_nothing_to_the_grey_images_of_a_policy(command, tmp_path):
    policy = Policy.uniform("cifar", mean=(0.3,) * 3, std=(0.2,) * 3)
    says = "The policy was learned on grey images: Color does nothing to them."
    for dataset in ("of grey images", None):
        replace(policy, dataset=dataset).save(tmp_path / "policy.json")
        assert (says in command("show", tmp_path / "policy.json").stdout) is (dataset is not None)


def test_show_compares_two(command, policy_file):
    assert "KL(A || B)" not in command("show", policy_file, "uniform:cifar").stdout
    done = command("show", policy_file, "uniform:cifar", "--verbose")
    assert [text in done.stdout for text in ("KL(A || B)", "correlation of the probabilities: undefined")] == [True] * 2


def test_show_as_json_has_the_numbers_of_the_table(command, policy_file):
    found = json.loads(command("show", policy_file, "uniform:cifar", "--json").stdout)["policies"]
    assert [one["source"] for one in found] == [str(policy_file), "uniform:cifar"]
    rows = {row["transformation"]: row for row in found[0]["transformations"]}
    assert rows["Rotate"]["strength"] == "up to ±67.5°"
    assert sum(row["times_an_image"] for row in rows.values()) == pytest.approx(3)


SUBPOLICIES = {
    "kind": "subpolicies (op,prob,level in [0,1] of op range)",
    "source": "a test",
    "subpolicies": [[["Rotate", 0.5, 1.0], ["Invert", 1.0, 0.3]]],
}
HOSTILE = Policy.uniform("cifar").to_dict() | {"learned": {"note": "[/x] hi \x1b[2J", "long": "y" * 10_000}}
ONE = Policy.uniform(SPACES["cifar"].exclude(*SPACES["cifar"].names[1:])).to_dict()


LOST = Policy.uniform("cifar").to_dict() | {"learned": {"use": "uniform-2", "is_kept": False}}
LEFT = LOST | {"learned": LOST["learned"] | {"is_final": False}}
NOTHING = Policy.uniform("cifar").with_composed(0).to_dict()
OTHER = LOST | {"learned": {"use": "trivialaugment-wide", "is_kept": False, "is_answer": False}}


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        ("uniform:domainnet", ["RandomResizeCrop", "entropy 100.0% of uniform"]),  # the start of a search
        (ONE, ["entropy 100.0% of uniform"]),
        (SUBPOLICIES, ["0.500  ±30°"]),
        (HOSTILE, ["[/x] hi"]),
        (NOTHING, ["100.0%", "images stay as they are, with mirror flips\n16 other transformations cannot be drawn\n"]),
        (LOST, ["this is the answer of the search, 2 random transformations per image; the learned policy was not "]),
        (LEFT, ["the race was stopped before its end; so far: 2 random transformations per image\n"]),
        (OTHER, ["this is what the search learned, and not its answer, which is TrivialAugment (Wide)\n"]),
    ],
    ids=["start", "one transformation", "published", "hostile", "nothing", "lost", "stopped", "other"],
)
def test_show(policy, shown, command, tmp_path):
    path = tmp_path / "[bold]x.json"
    path.write_text(json.dumps(policy))
    done = command("show", policy if isinstance(policy, str) else path, "--verbose")
    assert done.returncode == 0
    assert [text for text in shown if text not in done.stdout] == []
    assert "\x1b[2J" not in done.stdout
    assert "y" * 100 not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "nowhere.json"], "nowhere.json: cannot be read (No such file or directory)"),
        (["show", "uniform:cifr"], "expected one of uniform:cifar"),
        (["show", "a", "b", "c"], "unexpected extra argument"),
        (["show"], "Missing argument"),
        (["search", "digits"], "Missing option"),
        (["shwo"], "Did you mean 'show'"),
        (["search", "digits", "-o", "x", "--epochs", "3"], "--set evaluate.epochs=3 or --set pretrain.epochs=3"),
        (
            ["evaluate", "digits", "--kl-weight=2"],
            "No such option: --kl-weight. It is a setting: --set search.kl_weight=2.",
        ),
        (["search", "digits", "--kl-weight", "--resume"], "It is a setting: --set search.kl_weight=VALUE."),
        (["show", "--nonsense"], "No such option"),
        (["preview", "uniform:cifar", "x.png", "--seed", "-1"], "--seed -1: expected at least 0"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(command, arguments, says):
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "found"),
    [("slackaug sea", "search"), ("slackaug search --no-f", "--no-flip"), ("slackaug evaluate --ba", "--baselines")],
)
def test_completion_knows_commands_and_their_options(line, found, command, monkeypatch):
    n = len(line.split()) - 1
    for name, value in {"_SLACKAUG_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": f"{n}"}.items():
        monkeypatch.setenv(name, value)
    assert found in command().stdout.split()


def test_debug_lets_the_traceback_through(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["slackaug", "--debug", "show", "nowhere.json"])
    with pytest.raises(slackaug.PolicyError):
        cli.main()


def test_doctor_says_what_is_here(command):
    done = command("doctor")
    for package in ("python", "torch", "numpy", "pillow", "GPU", "torchvision"):
        assert package in done.stdout
    assert "Traceback" not in done.stderr


# --- what a command finds when it starts ------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "code"), [("show uniform:cifar", 0), ("study --list", 0), ("show nowhere.json", 2)])
def test_closed_streams_do_not_matter(words, code):
    line = f"{sys.executable} -m slackaug {words} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], timeout=120).returncode == code


def test_too_little_memory_is_one_message(command, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(cli, "app", fail)
    done = command("show", "uniform:cifar")
    says = "slackaug: there is not enough memory for this; a smaller --size, or a smaller batch, needs less\n"
    assert (done.returncode, done.stderr) == (1, says)


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------

LOADING = """
class Loading:
    def find_spec(name, *_):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Loading)
"""
MEASURING = """
from slackaug.auto import timing
timing.search_seconds = lambda *_: signal.raise_signal(signal.SIGINT)
"""
LEARNING = """
from slackaug.auto import learn, timing
timing.search_seconds = lambda *_: timing.Seconds(0.0, 0.0, 0.0)
learn.learn = lambda *_: [signal.raise_signal(signal.SIGINT) for _ in range(2)]
"""
ENDING = """
import atexit
atexit.register(signal.raise_signal, signal.SIGINT)
"""
SEARCH = ("search", "digits", "-o", "run", "--preset", "quick")


@pytest.mark.parametrize(
    ("script", "words", "code", "says"),
    [
        *((LOADING.format(name=name), SEARCH, 130, exits.NOTHING_WRITTEN) for name in ("typer", "numpy", "torch")),
        (MEASURING, SEARCH, 130, exits.NOTHING_WRITTEN),
        (LEARNING, SEARCH, 130, exits.SOMETHING_KEPT),  # a second one
        (ENDING, ("--version",), 0, None),
    ],
)
def test_ctrl_c_is_one_line_at_any_moment(script, words, code, says, tmp_path):
    start = "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nsys.argv[0] = 'slackaug'"
    script = f"{start}\n{script}\nfrom slackaug.__main__ import main\nmain()"
    path = str(Path(slackaug.__file__).parents[1])
    done = python("-c", script, *words, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path})
    assert (done.returncode, done.stderr) == (code, f"slackaug: {says}\n" if says else "")
    assert "Traceback" not in done.stdout
    assert (tmp_path / "run").exists() is (says == exits.SOMETHING_KEPT)
