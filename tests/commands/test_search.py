"""`slackaug search` and `slackaug.search`: what they refuse, say and return."""

import io
import math
import re
import shlex
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from PIL import Image
from rich.console import Console

import slackaug
import tiny
from bad_data import pictures
from slackaug.augment import stability
from slackaug.auto import conduct, learn, timing
from slackaug.commands import search as api
from slackaug.config import layers, paper, parse, presets
from slackaug.data import Split, build
from slackaug.engine import ways
from slackaug.messages import search as messages
from slackaug.report import history, policy_figures, render
from slackaug.runs import folders
from tiny import refused

pytestmark = pytest.mark.usefixtures("quick_search")


def two_sizes(root):
    pictures(root, n=4, size=(8, 8))
    Image.new("RGB", (9, 9)).save(root / "cat" / "large.png")
    return root


def with_bad_files(root):
    pictures(root, n=8, size=(8, 8))
    (root / "cat" / "text.png").write_text("hello")
    content = (root / "dog" / "0.png").read_bytes()
    (root / "dog" / "cut.png").write_bytes(content[: len(content) // 2])
    return root


BAD_DATA = {  # what else there is: test_bad_input.py, test_messages.py and tests/data
    "no such file or folder": lambda root: root,
    "only one class": lambda root: pictures(root, ["cat"]),
    "images of different sizes": two_sizes,
    "2 of 18 files cannot be read": with_bad_files,
}


@pytest.mark.parametrize("says", BAD_DATA)
def test_bad_data(says, command, tmp_path):
    refused(command(*tiny.arguments(BAD_DATA[says](tmp_path / "data"), tmp_path / "run")), says)
    assert not (tmp_path / "run").exists()


def test_all_bad_files_are_listed_and_may_be_skipped(command, tmp_path):
    data = with_bad_files(tmp_path / "data")
    done = command(*tiny.arguments(data, tmp_path / "run"))
    assert all(text in done.stderr for text in ("cat/text.png", "dog/cut.png", "--skip-bad"))
    done = command(*tiny.arguments(data, tmp_path / "run", "--skip-bad", pretrain__epochs=1, search__n_rounds=1))
    assert done.returncode == 0
    assert "left out 2 of 18 files" in done.stdout
    assert command(*tiny.resume(data, tmp_path / "run")).returncode == 0


@pytest.mark.parametrize("n_composed", [3, "null"], ids=["rounds alone", "trials before them"])
def test_magnitudes_start_where_the_settings_say(n_composed, tiny_npz, tmp_path):
    """Rounds that move no mu keep it; with the defaults, the file is the one it was."""
    fixed = {"search__learn_mu": "false", "fewest_composed": 2}
    where = {"mu_start": 0.9, "sigma": 0.2}
    for out, given in {"own": where, "default": {}, "named": {"mu_start": 0.75, "sigma": 0.1}}.items():
        changes = given | fixed | {"n_composed": n_composed}
        slackaug.search(tiny_npz, tmp_path / out, set=tiny.assignments(**changes))
    own, default, named = (slackaug.Policy.load(tmp_path / out / "policy.json") for out in ("own", "default", "named"))
    has_magnitude = own.space.has_magnitude
    assert [{*one.mu[has_magnitude].tolist()} for one in (own, default)] == [{0.9}, {0.75}]
    assert (own.sigma, default.sigma) == (0.2, 0.1)
    assert (own.learned["mu_start"], "mu_start" in default.learned) == (0.9, False)
    assert not torch.equal(own.pi, default.pi)
    assert torch.equal(named.pi, default.pi)
    assert "mu at the start: 0.9" in render.svg(policy_figures.pie(own), "x")
    assert {*history.read(tmp_path / "own").start.mu.tolist()} == {0.9}


@pytest.mark.parametrize(
    ("setting", "says"),
    [("mu_start=0.05", "mu_start: expected a finite number from 0.1 to 1, got 0.05"),
     ("sigma=0", "sigma: expected a finite number from 0.001 to 1, got 0.0")],
)  # fmt: skip
def test_a_start_that_no_search_can_have(setting, says, command, tiny_npz, tmp_path):
    refused(command(*tiny.arguments(tiny_npz, tmp_path / "run", "--set", setting)), says)


def test_a_cache_stays_where_it_was_made(command, monkeypatch, tmp_path):
    data = pictures(tmp_path / "pets", n=9)
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert command(*tiny.arguments(data, "run", "--cache", "cache")).returncode == 0
    assert yaml.safe_load(Path("run/config.yaml").read_text())["data"]["cache"] == str(tmp_path / "cache")
    (tmp_path / "run" / "finished.json").unlink()
    monkeypatch.chdir(tmp_path / "b")
    assert command(*tiny.resume(data, tmp_path / "run")).returncode == 0
    assert not any((tmp_path / "b").iterdir())


def test_different_sizes_with_a_size(command, tmp_path):
    assert command(*tiny.arguments(two_sizes(tmp_path / "data"), tmp_path / "run", "--size", 8)).returncode == 0
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["data"]["size"] == 8


BAD_OPTIONS = {
    "an option": (["--sede", "1"], "--seed"),
    "a setting": (["--set", "search.n_round=5"], "did you mean 'search.n_rounds'"),
    "a part": (["--set", "serach.n_rounds=5"], "did you mean 'search'"),
    "no value": (["--set", "search.n_rounds"], "expected NAME=VALUE"),
    "a wrong kind": (["--set", "search.n_rounds=many"], "search.n_rounds: expected int, got"),
    "the data": (["--set", "data.size=8"], "the data is given by DATA and its options: --size, --margin"),
    "a preset": (["--preset", "quik"], "did you mean 'quick'"),
    "a model": (["--model", "resnet-18"], "did you mean 'resnet18'"),
    "no such module": (["--model", "nowhere:Net"], "there is no module 'nowhere'"),
    "a space": (["--ops", "cifr"], "did you mean 'cifar'"),
    "a transformation": (["--exclude", "Invrt"], "did you mean 'Invert'"),
    "nothing re-trained": (["--set", "search.n_retrain=0"], "search.n_retrain = 0 with a cold start"),
    "no time": (["--time-limit", "0s"], "expected a time with its unit, such as 90s, 20min or 2h"),
    "no unit": (["--time-limit", "4"], "expected a time with its unit"),
    "a strange time": (["--time-limit", "soon"], "expected a time with its unit, such as 90s, 20min or 2h"),
    "a device": (["--device", "abacus"], "--device abacus: cannot be used"),
    "no threads": (["--threads", "0"], "--threads 0: expected at least 1 and at most 1024"),
    "too many threads": (["--threads", "99999999999"], "--threads 99999999999: expected at least 1 and at most 1024"),
    "no pixels": (["--size", "0"], "size must be from 1"),
    "a seed": (["--seed", "x"], "--seed"),
    "a negative seed": (["--seed", "-1"], "seed must not be negative, got -1"),
    "a configuration": (["--config", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
}


@pytest.mark.parametrize(("more", "says"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_options(more, says, command, tiny_npz, tmp_path):
    refused(command(*tiny.arguments(tiny_npz, tmp_path / "run", *more)), says)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("just words", "expected settings such as"),
        ("search: {n_round: 5}", "did you mean 'search.n_rounds'"),
        ("model: tiny:arrays", "a file may not name code to run; give --model tiny:arrays too"),
    ],
)
def test_bad_configuration_files(text, says, command, tiny_npz, tmp_path):
    (tmp_path / "c.yaml").write_text(text)
    refused(command(*tiny.arguments(tiny_npz, tmp_path / "run", "--config", tmp_path / "c.yaml")), says)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "changes",
    [{"search__n_retrain": 0, "search__cold_start": "false"}, {"search__batch": 1000, "pretrain__batch": 1000}],
    ids=["settings that need one another", "a batch larger than the half"],
)
def test_settings_that_are_allowed(changes, command, tiny_npz, tmp_path):
    assert command(*tiny.arguments(tiny_npz, tmp_path / "run", **changes)).returncode == 0


def test_a_dry_run_prints_and_writes_nothing(command, monkeypatch, tiny_npz, tmp_path):
    monkeypatch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(3660.0, 3600.0, 900.0))
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--dry-run", "--exclude", "Invert,Solarize"))
    assert done.returncode == 0
    announced, cost, settings = done.stdout.partition(f"{messages.takes(3660, 3600)}\n")
    assert (bool(announced), bool(cost)) == (True, True)
    printed = yaml.safe_load(settings)
    assert printed["search"]["n_rounds"] == 2
    assert printed["exclude"] == ["Invert", "Solarize"]
    assert not (tmp_path / "run").exists()


# of a search that takes 1 h 01 min to learn, 14 min 30 s of it to the end of its first round, and an hour for the race
LIMITS = {
    "3h": "That is within your limit of 3 h 00 min.",
    "2h": "Your limit of 2 h 00 min leaves 1 h 00 min to learn and 1 h 00 min for the race, so learning will end",
    "1h": "leaves 30 min 00 s to learn and 30 min 00 s for the race, so learning and the race will end early.",
    "122m": "That is within your limit of 2 h 02 min.",
    "31m": "Your limit of 31 min 00 s leaves 15 min 30 s to learn and 15 min 30 s for the race, so learning and",
    "28m": "(measured over a few steps). In this time no policy can be learned, so only simple choices are compared. "
    "To learn one, give at least 30 min.",
}


@pytest.mark.parametrize("limit", LIMITS)
def test_what_a_time_limit_leaves_is_said_beside_what_the_search_takes(limit, command, monkeypatch, tiny_npz, tmp_path):
    monkeypatch.setattr(timing, "search_seconds", lambda *_: timing.Seconds(3660.0, 3600.0, 870.0))
    monkeypatch.setattr(timing, "LEAST_IMAGES", 2)
    words = ["search", tiny_npz, "-o", tmp_path / "run", "--preset", "quick", "--dry-run", "--time-limit", limit]
    (line,) = [line for line in command(*words).stdout.splitlines() if line.startswith("This search takes")]
    takes = (
        "This search takes about 2 h 01 min here: 1 h 01 min to learn, 1 h 00 min for the race (measured over a few "
    )
    assert line.startswith(f"{takes}steps). ")
    assert LIMITS[limit] in line


def test_a_time_limit_leaves_the_race_what_it_needs_and_learning_the_rest():
    """Of learning in 50 minutes and a race of 20."""

    def said(limit, to_learn):
        return messages.limited(60.0 * limit, 60.0 * limit, 3000.0, 1200.0, 600.0, 60.0 * to_learn, 900.0)

    assert said(70, 50) == "That is within your limit of 1 h 10 min."
    assert said(60, 40).endswith(
        "leaves 40 min 00 s to learn and 20 min 00 s for the race, so learning will end early."
    )
    assert said(30, 15).endswith("and 15 min 00 s for the race, so learning and the race will end early.")
    assert said(65, 60).endswith(
        "leaves 50 min 00 s to learn and 15 min 00 s for the race, so the race will end early."
    )
    too_short = "To learn one, give at least 15 min."
    assert said(12, 6) == f"In this time no policy can be learned. {too_short}"  # its first round takes 10 minutes
    assert said(12, 0) == f"In this time no policy can be learned, so only simple choices are compared. {too_short}"


def test_whether_its_rounds_agree_is_said(command, tiny_npz, tmp_path):
    out = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--verbose")).stdout
    expected = folders.agreement(tmp_path / "run")
    is_chance = expected < stability.CHANCE
    assert messages.agreement(expected, is_chance=is_chance) in out
    assert (f"{messages.MAY_BE_CHANCE} {messages.OTHER_SPLITS}" in out) == is_chance
    assert command("report", tmp_path / "run").returncode == 0
    assert f"{expected:.2f} (0 is chance)" in (tmp_path / "run" / "report.html").read_text()
    (tmp_path / "run" / "policies" / "round_02.json").write_text("{}")
    assert folders.agreement(tmp_path / "run") is None


SAID = {
    f"{messages.flips(is_on=False)}\n{messages.basis('cifar', [], 'small', 'quick', None, 'cpu')}": ["--no-flip"],
    f"{messages.rounds(5, 40, 60, 16, 12, 12)} {messages.rate_of_retraining(0.1, is_tried=True)} ": [],
    f"{messages.rate_of_retraining(0.2, is_tried=False)} {messages.by_budget(0.016)}": ["--set", "search.model_lr=0.2"],
    messages.by_rate(0.5, 0.02): ["--set", "search.policy_lr=0.5"],
    messages.BALANCED: ["--balanced"],
}


@pytest.mark.parametrize("says", SAID)
def test_every_choice_is_said_first(says, command, tiny_npz, tmp_path):
    words = ["--preset", "quick", "--device", "cpu", "--dry-run", "--verbose", *SAID[says]]
    out = command("search", tiny_npz, "-o", tmp_path / "run", *words).stdout
    assert "24 training images of 8 x 8 pixels, 3 classes; 6 test images, which the search does not see." in out
    assert ("search.kl_budget=0.016" in out) == ("search.policy_lr" not in out)
    assert says in out


def test_the_stored_configuration_reproduces_the_run(command, tiny_npz, finished, tmp_path):
    config = finished / "config.yaml"
    done = command("search", tiny_npz, "-o", tmp_path / "run", "--config", config)
    assert done.returncode == 0
    assert (tmp_path / "run" / "config.yaml").read_text() == config.read_text()
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)


def test_the_option_wins_over_set_and_set_over_the_file(tiny_npz, tmp_path):
    (tmp_path / "c.yaml").write_text("seed: 1\nmodel: resnet18\nsearch: {n_rounds: 3, batch: 7}")
    data = slackaug.data.load(str(tiny_npz))
    chosen = layers.configure(data, {"seed": 3}, tmp_path / "c.yaml", ["seed=2", "search.n_rounds=4"])
    assert (chosen.seed, chosen.search.n_rounds, chosen.search.batch, chosen.model) == (3, 4, 7, "resnet18")


def test_merge_leaves_its_arguments_alone():
    first = {"a": {"x": 1, "y": 2}, "b": 1}
    assert layers.merge(first, {"a": {"y": 3}, "b": {"z": 4}}) == {"a": {"x": 1, "y": 3}, "b": {"z": 4}}
    assert first == {"a": {"x": 1, "y": 2}, "b": 1}


# --- what fits on a GPU -----------------------------------------------------------------------------------------------


@pytest.fixture
def fitted(monkeypatch):
    """What a search takes on a GPU on which a number of images fits, and what it says."""

    def fitted(n_images, preset="standard", assignments=()):
        def search_seconds(config, *_):
            search = config.search
            if max(search.n_composites * search.batch, search.n_val) > n_images:
                what = f"{search.n_composites} x {search.batch} images"
                raise ways.OutOfMemory(what, "search.batch", search.batch)
            return timing.Seconds(1.0, 0.0, 0.5)

        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2e9, 8e9))
        monkeypatch.setattr(timing, "search_seconds", search_seconds)
        data, said = slackaug.data.load("digits"), []
        work = SimpleNamespace(device="cuda", engine="compiled", say=said.append, time_limit=None, deadline=math.inf)
        config = layers.configure(data, {"preset": preset}, None, assignments)
        chosen, _ = api.fitting(work, data, config, is_given=False, assignments=assignments)
        return chosen.search.batch, chosen.search.n_composites, said[:-1]

    return fitted


@pytest.mark.parametrize(
    ("n_images", "batch", "n_composites"), [(1024, 32, 32), (512, 16, 32), (200, 16, 8), (32, 16, 2)]
)
def test_a_search_takes_batches_and_composites_that_fit(n_images, batch, n_composites, fitted):
    *found, said = fitted(n_images)
    assert found == [batch, n_composites]
    assert len(said) == (32 // batch).bit_length() - 1 + (32 // n_composites).bit_length() - 1
    instead = ({"search.batch": 16, "search.val_batch": 256}, {"search.n_composites": 16, "search.val_batch": 128})
    first = [messages.does_not_fit(f"32 x {n} images", settings) for n, settings in zip((32, 16), instead, strict=True)]
    assert said[:2] == first[: len(said)]


@pytest.mark.parametrize(
    ("preset", "assignments", "n_images"),
    [("standard", (), 20), ("standard", ("search.batch=32",), 1000), ("paper", (), 1000),
     ("standard", ("search.n_composites=32",), 100), ("standard", ("search.val_batch=512",), 1000)],
)  # fmt: skip
def test_what_is_given_or_the_papers_is_not_made_smaller(preset, assignments, n_images, fitted):
    with pytest.raises(ways.OutOfMemory, match=r"try half of it: --set search\.batch="):
        fitted(n_images, preset, assignments)


OWN_MODEL = """
from torch import nn

def net(n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(192, n_classes))
"""


def test_own_code_is_named_on_the_command_line_only(command, monkeypatch, tiny_npz, tmp_path):
    (tmp_path / "own_model.py").write_text(OWN_MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(learn, "Clock", lambda before: lambda: before + 1)  # the limit is over at once
    words = tiny.arguments(tiny_npz, tmp_path / "run", "--model", "own_model:net", "--time-limit", "0.5s")
    done = command(*words)
    assert done.stderr.rstrip().endswith("--resume --model own_model:net")
    done = command(*tiny.resume(tiny_npz, tmp_path / "run"))
    assert (done.returncode, "give --model own_model:net with --resume" in done.stderr) == (2, True)
    assert command(*tiny.resume(tiny_npz, tmp_path / "run", "--model", "own_model:net")).returncode == 0
    done = command("search", tiny_npz, "-o", tmp_path / "other", "--config", tmp_path / "run" / "config.yaml")
    assert (done.returncode, "a file may not name code to run" in done.stderr) == (2, True)
    sys.modules.pop("own_model", None)


def test_the_resume_command_keeps_what_no_configuration_knows():
    work = conduct.Session("my data", Path("runs/x"), "meta", 3, None, ["wandb", print], Console())
    config = paper.row("cifar10", "own_model:net")
    assert work.resume_command(config) == (
        "slackaug search 'my data' -o runs/x --resume --model own_model:net --device meta --threads 3 --log wandb"
    )


@pytest.mark.parametrize(("size", "expected"), [(64, ("wrn-40-2", "cifar100")), (65, ("resnet18", "domainnet"))])
def test_the_row_of_the_paper_is_by_the_size_of_ones_own_images(size, expected):
    images = torch.zeros(4, 3, size, size, dtype=torch.uint8)
    split = Split(images, torch.arange(4) % 2)
    dataset = build("own", split, split, ["a", "b"])
    network, row = expected
    said = api.basis(presets.paper(dataset), dataset)
    assert f"network {network}; preset paper (the row of {row})" in said


# --- in Python --------------------------------------------------------------------------------------------------------


def test_search_returns_the_policy_and_the_folder(tiny_npz, finished, tmp_path, capsys):
    result = slackaug.search(str(tiny_npz), out=str(tmp_path / "run"), set=tiny.assignments())
    assert result.run == tmp_path / "run"
    assert result.policy.to_dict() == slackaug.Policy.load(result.run / "policy.json").to_dict()
    assert result.policy.learned["rounds"] == 2
    assert slackaug.search(str(tiny_npz), tmp_path / "run", resume=True).policy.to_dict() == result.policy.to_dict()
    assert slackaug.search(str(tiny_npz), tmp_path / "dry", set=tiny.assignments(), dry_run=True) is None
    assert not (result.run / "tensorboard").exists()
    assert capsys.readouterr().out == ""  # a function keeps stdout for its caller


def test_search_in_a_thread(tiny_npz, finished, tmp_path):
    """Signals belong to the main thread."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(slackaug.search, str(tiny_npz), tmp_path / "run", set=tiny.assignments()).result()
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(finished)


def test_an_error_in_python_is_an_exception_and_frees_the_folder(tiny_npz, tmp_path):
    with pytest.raises(RuntimeError, match="no longer a number"):
        slackaug.search(str(tiny_npz), tmp_path / "run", set=[*tiny.assignments(), "pretrain.lr=1e30"])
    with pytest.raises(ValueError, match="is not empty"):
        slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments())
    assert slackaug.search(str(tiny_npz), tmp_path / "run", set=tiny.assignments(), overwrite=True) is not None


def test_names_are_not_taken_for_markup_and_commands_not_cut(tiny_npz, tmp_path):
    """A terminal of 40 columns, and a folder whose name looks like a colour."""
    screen = io.StringIO()
    out = tmp_path / "[red] a rather long name, longer than the terminal is wide"
    console = Console(file=screen, width=40)
    slackaug.search(str(tiny_npz), out, set=tiny.assignments(), console=console)
    (line,) = re.findall(r"^  slackaug .*", screen.getvalue().replace("\\\n", ""), re.M)
    assert shlex.split(line) == ["slackaug", "show", str(out)]


def test_signals_inside_and_outside_see_the_same_and_handlers_are_put_back():
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with conduct.signals() as outside:
        with conduct.signals() as inside:
            signal.raise_signal(signal.SIGTERM)
        assert inside == outside == [signal.SIGTERM]
    assert [signal.getsignal(number) for number in numbers] == before
    with conduct.signals() as later:
        assert later == []
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):  # a second one is at once
            signal.raise_signal(signal.SIGINT)


def test_a_stored_configuration_says_how_the_data_was_read(tmp_path):
    for i in range(24):
        path = tmp_path / "films" / "ab"[i % 2] / f"film{i // 4}_{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (i, 7 * i, 0)).save(path)
    quiet = {"set": tiny.assignments(), "console": Console(quiet=True)}
    first = slackaug.search(tmp_path / "films", tmp_path / "a", group_by=r"film\d+", size=6, **quiet)
    quiet["config"] = first.run / "config.yaml"
    slackaug.search(tmp_path / "films", tmp_path / "b", **quiet)
    slackaug.search(tmp_path / "films", tmp_path / "c", size=7, **quiet)
    read = [parse.read_yaml(tmp_path / name / "config.yaml")["data"] for name in "abc"]
    assert [data["size"] for data in read] == [6, 6, 7]
    assert {data["group_by"] for data in read} == {r"film\d+"}
    assert read[0]["fingerprint"] == read[1]["fingerprint"]


def test_what_a_file_says_about_the_data_is_checked(tmp_path, tiny_npz):
    for text, says in (("{size: large, source: elsewhere.npz}", "size"), ("{sise: 8}", "sise"), ("18", "data")):
        (tmp_path / "given.yaml").write_text(f"data: {text}")
        with pytest.raises(parse.SettingError, match=says):
            slackaug.search(tiny_npz, tmp_path / "run", config=tmp_path / "given.yaml", console=Console(quiet=True))


def test_places_are_whole(tiny_npz, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tiny_npz.parent)
    found = layers.data_config(tiny_npz.name, {"cache": "~/decoded", "group_by": ""}, None)
    assert (found.source, found.cache, found.group_by) == (str(tiny_npz), str(tmp_path / "decoded"), None)
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert layers.data_config("digits", {}, None).source == "digits"  # the name wins over a folder
