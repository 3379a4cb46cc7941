"""A network that was trained before is where theta starts."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import tiny
from slackaug import messages, models, rng
from slackaug.auto import resume
from slackaug.auto.problem import Problem
from slackaug.config import parse
from slackaug.config.presets import quick
from slackaug.data import load
from slackaug.engine import weights
from slackaug.engine.weights import WeightsError
from slackaug.judge import training


def network(n_classes=10, seed=0, name="small", size=(16, 16)):
    return models.build(name, n_classes, size, rng.generator(seed, "model"))


def save(model, path, **changes):
    state = {name: value.clone().contiguous() for name, value in model.state_dict().items()}
    save_file({name: value for name, value in (state | changes).items() if value is not None}, path)
    return path


@pytest.fixture
def trained(tmp_path):
    """Ten classes."""
    model = network(seed=7)
    for buffer in model.buffers():
        buffer.add_(1)
    return model, save(model, tmp_path / "trained.safetensors")


@pytest.fixture
def other(trained, tmp_path):
    """A file with another value."""
    changed = {"layers.0.weight": 2 * trained[0].layers[0].weight.detach()}
    return save(trained[0], tmp_path / "other.safetensors", **changed)


@pytest.mark.parametrize("name", ["small", "resnet18", "wrn-10-1"])
def test_all_values_are_taken(name, tmp_path):
    before, model = network(seed=1, name=name), network(seed=2, name=name)
    path = save(before, tmp_path / "x.safetensors")
    assert weights.load(model, path) == messages.starts_from(str(path), None, None)
    for (key, value), (_, own) in zip(before.state_dict().items(), model.state_dict().items(), strict=True):
        assert torch.equal(value, own), key


def test_another_number_of_classes_makes_the_last_layer_anew_and_says_so(trained):
    before, path = trained
    model, fresh = network(3), network(3)
    said = weights.load(model, path)
    assert said == messages.starts_from(str(path), 3, 10)
    assert "\n" not in said
    own, old = model.state_dict(), before.state_dict()
    for name in own:
        expected = fresh.state_dict()[name] if name.startswith("head.") else old[name]
        assert torch.equal(own[name], expected), name


@pytest.mark.parametrize("changes", [{"head.weight": None, "head.bias": None}, {"head.weight": torch.tensor(1.0)}])
def test_a_file_without_a_last_layer_or_with_one_that_is_none(changes, trained, tmp_path):
    path = save(trained[0], tmp_path / "x.safetensors", **changes)
    assert "but for its last layer, which is new: 10 classes" in weights.load(network(), path)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn])
def test_other_precisions_are_taken(kind, trained, tmp_path):
    values = trained[0].state_dict()["layers.0.weight"].to(kind)
    model = network()
    weights.load(model, save(trained[0], tmp_path / "x.safetensors", **{"layers.0.weight": values}))
    assert torch.equal(model.state_dict()["layers.0.weight"], values.float())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers.0.weight": None}, r"does not fit SmallNet: it lacks layers.0.weight"),
        ({"stem.weight": torch.zeros(3)}, r"the network has no stem.weight"),
        (
            {"layers.0.weight": torch.zeros(16, 3, 5, 5)},
            r"do not fit: layers.0.weight \(16, 3, 5, 5\), expected \(16, 3, 3",
        ),
        ({"layers.0.weight": torch.full((16, 3, 3, 3), torch.nan)}, r"no numbers in layers.0.weight"),
        ({"layers.0.weight": torch.full((16, 3, 3, 3), 1e300, dtype=torch.float64)}, r"no numbers in layers.0.weight"),
        (
            {"layers.0.weight": torch.ones(16, 3, 3, 3, dtype=torch.int32)},
            r"another kind .*: layers.0.weight",
        ),
        ({"layers.0.weight": torch.ones(16, 3, 3, 3, dtype=torch.complex64)}, r"another kind than the network's"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_said(changes, message, trained, tmp_path):
    path = save(trained[0], tmp_path / "bad.safetensors", **changes)
    model = network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(WeightsError, match=message):
        weights.load(model, path)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())  # nothing was changed


def test_a_pickle_is_never_loaded(tmp_path):
    torch.save(network().state_dict(), tmp_path / "x.pt")
    with pytest.raises(WeightsError, match=r"not a safetensors file.*save the state_dict with safetensors"):
        weights.load(network(), tmp_path / "x.pt")


@pytest.mark.parametrize("engine", ["compiled", "plain"])
def test_pre_training_starts_from_them(engine, trained):
    data, (before, path) = load("digits"), trained
    config = parse.update(quick(data), {"weights": str(path)})
    problem = Problem(config, data, engine=engine)
    own = problem.weights()
    assert all(torch.equal(own[name], value) for name, value in before.state_dict().items())
    assert problem.remarks == [messages.starts_from(str(path), None, None)]


@pytest.mark.parametrize(
    ("name", "says"),
    [("nowhere.safetensors", "cannot be read (No such file or directory)"), ("x.csv", "not a safetensors file")],
)
def test_bad_files_are_one_message_and_exit_code_2(name, says, tmp_path, tiny_npz, command):
    (tmp_path / "x.csv").write_text("path,label\n")
    done = command("search", tiny_npz, "-o", tmp_path / "run", "--weights", tmp_path / name)
    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_search_says_it_and_evaluations_start_from_those_of_the_run(
    trained, tiny_npz, tmp_path, command, quick_search, monkeypatch
):
    _, path = trained
    says = messages.starts_from(str(path), 3, 10)
    done = command(*tiny.arguments(tiny_npz, tmp_path / "run", "--weights", path))
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
    assert resume.read_config(tmp_path / "run").weights == str(path)
    loaded = []
    load_weights = weights.load
    monkeypatch.setattr(training.weights, "load", lambda model, path: loaded.append(path) or load_weights(model, path))
    done = command("evaluate", tiny_npz, "-p", tmp_path / "run", "--baselines", "none", "--seeds", 1, "--set",
                   "evaluate.epochs=1")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {*loaded} == {str(path)}
    assert [line.startswith(says) for line in done.stdout.splitlines() if str(path) in line] == [True]


# --- the file is known again ------------------------------------------------------------------------------------------

MIDDLE, NEVER = ("policy", 1, 5), ("never", 0, 0)


@pytest.fixture
def moved(trained, tiny_npz, tmp_path) -> Callable[[tiny.Moment], Path]:
    """A search that was killed, whose file of weights then went elsewhere."""

    def kill_and_move(moment: tiny.Moment) -> Path:
        file = Path(shutil.copy(trained[1], tmp_path / "start.safetensors"))
        words = tiny.arguments(tiny_npz, tmp_path / "run", "--weights", file)
        assert tiny.run_until(words, tmp_path / "log", moment) == -signal.SIGKILL
        return file.rename(tmp_path / "moved.safetensors")

    return kill_and_move


def test_after_a_checkpoint_the_file_is_not_needed(moved, tiny_npz, tmp_path):
    moved(MIDDLE)
    assert tiny.run_until(tiny.resume(tiny_npz, tmp_path / "run"), tmp_path / "log", NEVER) == 0
    assert (tmp_path / "run" / "finished.json").is_file()


@pytest.mark.parametrize("moment", [MIDDLE, ("pre-training", 0, 1)])
def test_another_file_is_refused_even_where_none_is_needed(moment, moved, tiny_npz, tmp_path, other):
    moved(moment)
    words = [*tiny.resume(tiny_npz, tmp_path / "run"), "--weights", str(other)]
    assert tiny.run_until(words, tmp_path / "log", NEVER) == 2
    assert "is not the file that this run began with" in (tmp_path / "log").read_text()


def test_a_run_without_a_file_is_not_given_one(trained, tiny_npz, tmp_path):
    assert tiny.run_until(tiny.arguments(tiny_npz, tmp_path / "run"), tmp_path / "log", MIDDLE) == -signal.SIGKILL
    words = [*tiny.resume(tiny_npz, tmp_path / "run"), "--weights", str(trained[1])]
    assert tiny.run_until(words, tmp_path / "log", NEVER) == 2
    assert "did not start from a file; do not give --weights" in (tmp_path / "log").read_text()


def test_before_a_checkpoint_it_may_lie_elsewhere_but_must_be_the_same(moved, tiny_npz, tmp_path, other):
    file = moved(("pre-training", 0, 1))
    shutil.rmtree(tmp_path / "run" / "checkpoints", ignore_errors=True)
    resume = tiny.resume(tiny_npz, tmp_path / "run")
    assert tiny.run_until(resume, tmp_path / "log", NEVER) == 2
    assert "start.safetensors: cannot be read" in (tmp_path / "log").read_text()
    assert tiny.run_until([*resume, "--weights", str(other)], tmp_path / "log", NEVER) == 2
    assert "is not the file that this run began with" in (tmp_path / "log").read_text()
    assert tiny.run_until([*resume, "--weights", str(file)], tmp_path / "log", NEVER) == 0


def test_the_file_is_found_from_another_folder_and_another_content_is_refused(
    trained, other, tiny_npz, tmp_path, command, quick_search, monkeypatch
):
    file = Path(shutil.copy(trained[1], tmp_path / "start.safetensors"))
    monkeypatch.chdir(tmp_path)
    assert command(*tiny.arguments(tiny_npz, "run", "--weights", file.name)).returncode == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    words = ["evaluate", tiny_npz, "-p", "../run", "--baselines", "none", "--seeds", 1, "--set", "evaluate.epochs=1"]
    done = command(*words)
    assert done.returncode == 0, done.stderr
    shutil.copy(other, file)
    done = command(*words)
    assert done.returncode == 2
    assert f"--weights {file}: is not the file that this run began with" in done.stderr
    assert command(*words, "--weights", other, "-o", tmp_path / "other").returncode == 0  # whoever gives one, knows


def test_a_run_s_settings_with_another_file(trained, other, tiny_npz, tmp_path, command, quick_search):
    assert command(*tiny.arguments(tiny_npz, tmp_path / "run", "--weights", trained[1])).returncode == 0
    again = ["search", tiny_npz, "-o", tmp_path / "again", "--config", tmp_path / "run" / "config.yaml"]
    done = command(*again, "--weights", other)
    assert done.returncode == 0, done.stderr
    assert resume.read_config(tmp_path / "again").weights_digest == weights.digest(other)
