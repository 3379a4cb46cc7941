import struct
import subprocess
import sys
import time
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import slackaug
import tiny
from slackaug.runs import loggers

POLICY = {"val_loss": 0.5, "entropy": [0.6, 0.8], "pi": [[0.2, 0.8], [0.4, 0.6]], "mu": [0.7, None]}


def scalars(metrics):
    return loggers.scalars(metrics, ["Rotate", "Invert"], n_steps=100)


def test_pre_training_and_rounds_have_names_and_steps_of_their_own():
    early = {"stage": "pre-training", "round": 0, "step": 7, "train_loss": 2.0, "n_composed": 2}
    assert scalars(early) == ({"pre-training-2/train_loss": 2.0}, 7)
    numbers, step = scalars({"stage": "policy", "round": 3, "step": 50, "train_loss": 1.0} | POLICY)
    assert step == 250
    assert numbers == {
        "search/train_loss": 1.0, "search/val_loss": 0.5, "search/entropy": pytest.approx(0.7),
        "pi/Rotate": pytest.approx(0.3), "pi/Invert": pytest.approx(0.7), "mu/Rotate": 0.7,
    }  # fmt: skip


# --- in a search ------------------------------------------------------------------------------------------------------


def search(data, out, *log, **options):
    return slackaug.search(str(data), out, set=() if options.get("resume") else tiny.assignments(), log=log, **options)


@pytest.mark.usefixtures("quick_search")
def test_a_function_gets_every_line_of_the_metrics(tiny_npz, tmp_path):
    seen = []
    result = search(tiny_npz, tmp_path / "run", lambda numbers, step: seen.append((numbers, step)))
    lines = tiny.metrics(result.run)
    assert [loggers.scalars(line, result.policy.space.names, 6) for line in lines] == seen
    assert max(step for _, step in seen) == 12


@pytest.mark.usefixtures("quick_search")
def test_a_logger_that_fails_is_reported_once_and_the_others_continue(tiny_npz, tmp_path, capsys):
    def broken(numbers, step):
        raise ConnectionError("no network")

    seen = []
    result = search(tiny_npz, tmp_path / "run", broken, lambda numbers, step: seen.append(step))
    assert len(seen) == len(tiny.metrics(result.run))
    assert (result.run / "finished.json").is_file()
    assert capsys.readouterr().err.count("broken gets no more numbers (no network)") == 1


def test_a_logger_that_is_neither_a_name_nor_a_function_is_refused(tiny_npz, tmp_path):
    with pytest.raises(TypeError, match="functions of \\(numbers, step\\), got int"):
        search(tiny_npz, tmp_path / "run", 3)
    assert not (tmp_path / "run").exists()


# --- every library in the table ---------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
NAMES = [
    pytest.param(name, marks=[
        pytest.mark.figures if name == "tensorboard" else pytest.mark.recipes,  # the lane that has it
        pytest.mark.skipif(find_spec(name) is None, reason=f"not installed: {name}"),
    ])
    for name in loggers.LOGGERS
]  # fmt: skip


@pytest.mark.parametrize("name", loggers.LOGGERS)
def test_a_library_that_is_missing_is_named_with_what_installs_it(name, tiny_npz, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)  # importing it fails, as if it were not there
    with pytest.raises(ValueError, match=rf"^{name} is not installed; pip install {name}$"):
        search(tiny_npz, tmp_path / "run", name)
    assert name in EXTRAS
    assert not (tmp_path / "run").exists()


@pytest.mark.recipes
def test_no_library_is_imported_before_it_is_asked_for():
    code = "import slackaug.commands.search, sys; print({'tensorboard', 'wandb', 'mlflow'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    """No account and no server."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())


real = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of the libraries' own


@real
@pytest.mark.parametrize("name", NAMES)
def test_a_search_sends_all_its_losses(name, tiny_npz, tmp_path, at_home):
    """As the library itself, or its format, says."""
    result = search(tiny_npz, tmp_path / "run", name)
    lines = [line for line in tiny.metrics(result.run) if "val_loss" in line]
    assert lines
    found = read(name, result.run / name, len(lines))
    assert [step for step, _ in found] == [loggers.scalars(line, result.policy.space.names, 6)[1] for line in lines]
    assert [value for _, value in found] == pytest.approx([line["val_loss"] for line in lines])


@real
@pytest.mark.parametrize("name", NAMES)
def test_what_is_resumed_is_the_same_run_there(name, tmp_path, at_home):
    own = tmp_path / "run" / name
    own.mkdir(parents=True)
    for step in (1, 2):
        with loggers.LOGGERS[name](own, {"seed": 0}) as log:
            log({"search/val_loss": 0.5 * step}, step)
    assert read(name, own, 2) == [(1, 0.5), (2, 1.0)]


def from_tensorboard(own):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(own))
    found.Reload()
    return [(one.step, one.value) for one in found.Scalars("search/val_loss")]


def from_mlflow(own):
    import mlflow

    client, run_id = mlflow.MlflowClient(), (own / "run_id").read_text()
    run = client.get_run(run_id)
    assert (run.info.run_name, run.info.status, run.data.params["seed"]) == ("run", "FINISHED", "0")
    return [(one.step, one.value) for one in client.get_metric_history(run_id, "search/val_loss")]


BLOCK = 1 << 15


def from_wandb(own):
    """From the file that `wandb sync` uploads: blocks of records, each with a checksum, a length and a kind before it.

    The records of these small runs lie in one piece each, but where a block ends.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    found = []
    paths = sorted(own.glob(f"offline-run-*/run-{(own / 'run_id').read_text()}.wandb"))
    assert len(paths) == len([*own.glob("offline-run-*")])  # all have that id
    for path in paths:
        data, at, parts = path.read_bytes(), 7, b""
        while at + 7 <= len(data):
            if BLOCK - at % BLOCK < 7:  # too little is left of the block for another record
                at += BLOCK - at % BLOCK
                continue
            length, kind = struct.unpack_from("<HB", data, at + 4)
            parts += data[at + 7 : at + 7 + length]
            at += 7 + length
            if kind in (1, 4):  # whole, or the last piece
                row = {"/".join(item.nested_key) or item.key: item.value_json
                       for item in Record.FromString(parts).history.item}  # fmt: skip
                found += [(int(row["step"]), float(row["search/val_loss"]))] if "search/val_loss" in row else []
                parts = b""
    return found


def read(name, own, n):
    """Validation losses with their steps; a process of wandb's writes its file, and may end a moment later."""
    for _ in range(100):
        if len(found := READERS[name](own)) >= n:
            break
        time.sleep(0.1)
    return found


READERS = {"tensorboard": from_tensorboard, "wandb": from_wandb, "mlflow": from_mlflow}
