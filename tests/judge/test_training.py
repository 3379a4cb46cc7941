"""One training and its test: what it leaves, how it is taken up again, and what makes it the same trial."""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

import tiny
from slackaug import models
from slackaug.augment.policy import Policy
from slackaug.config import parse
from slackaug.data.options import DataConfig
from slackaug.engine import ways
from slackaug.engine.fit import Diverged, FitConfig, predict
from slackaug.engine.gpu.stacked import StackedFits
from slackaug.engine.passes import Normalise
from slackaug.exits import Stopped
from slackaug.judge import protocols, records, scoring, training
from slackaug.judge.backends.jobs import Tell
from slackaug.judge.candidates import Candidate, digest, from_name
from slackaug.judge.protocols import HeldOut, Protocol, Training
from slackaug.runs import provenance
from slackaug.runs.checkpoints import Checkpoints
from slackaug.runs.folders import RunError

N_STEPS = 12
TIMES = ("seconds", "images_per_second")


def nothing(share: float) -> None:
    pass


def run(one: Training, tell: Tell) -> None:
    training.run([one], tell)


def make(data: Path, folder: Path, **changes) -> Training:
    source = DataConfig(source=str(data))
    dataset = protocols.dataset(source)
    protocol = Protocol(
        data=replace(source, fingerprint=dataset.fingerprint),
        data_digest=protocols.data_digest(dataset),
        model="small",
        space="cifar",
        fit=FitConfig(epochs=2, batch=4, lr=0.05),
    )
    candidate = Candidate("uniform", "uniform", digest("uniform"))
    return Training(protocol=protocol, folder=folder, **{"candidate": candidate, "seed": 0} | changes)


def read_result(one: Training) -> dict | None:
    return records.read([one])[0]


def changed(one: Training, **candidate) -> Training:
    return replace(one, candidate=one.candidate._replace(**candidate))


def result(one: Training) -> dict:
    """All that must not depend on interruptions."""
    found = read_result(one)
    assert found is not None
    return {key: value for key, value in found.items() if key not in TIMES}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    (path,) = folder.glob("*.safetensors")
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def newest(one: Training) -> dict:
    """The state of the newest checkpoint."""
    state, wrong = Checkpoints(one.checkpoint_folder).load()
    assert not wrong
    return state


def shares_of(one: Training) -> list[float]:
    """What a training says of its progress."""
    shares: list[float] = []
    run(one, shares.append)
    return shares


@pytest.fixture
def every_step(monkeypatch):
    monkeypatch.setattr(training, "REPORT_EVERY", 1)


@pytest.fixture(scope="module")
def whole(tiny_npz, tmp_path_factory):
    """A trial that nobody interrupted, with its weights; not to be changed."""
    folder = tmp_path_factory.mktemp("whole")
    one = make(tiny_npz, folder, models=folder / "models")
    run(one, nothing)
    return one


def same(one: Training, other: Training) -> bool:
    """Bit for bit."""
    first, second = weights(one.models), weights(other.models)
    equal = first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    return equal and result(one) == result(other)


# --- what it leaves ---------------------------------------------------------------------------------------------------


def test_the_result_has_all_that_was_measured(whole):
    found = json.loads(whole.result_file.read_bytes())
    assert list(found) == [
        "key", "name", "seed", "loss", "accuracy", "top5", "per_class", "balanced_accuracy", "imbalance", "ece",
        "seconds", "images_per_second", "way", "commit",
    ]  # fmt: skip
    assert (found["key"], found["name"], found["seed"], found["top5"]) == (whole.key, "uniform", 0, None)
    assert found["commit"] == provenance.commit()
    assert found["accuracy"] == pytest.approx(np.mean(found["per_class"]))  # as many images of each class
    assert (found["balanced_accuracy"], found["imbalance"]) == (pytest.approx(found["accuracy"]), 1.0)
    assert found["seconds"] == pytest.approx(N_STEPS * 4 / found["images_per_second"], abs=0.001)  # rounded to 0.001
    assert not whole.checkpoint_folder.exists()


def test_progress_goes_from_begun_to_done(every_step, tiny_npz, tmp_path):
    steps = [step / N_STEPS for step in range(1, N_STEPS + 1)]
    assert shares_of(make(tiny_npz, tmp_path)) == [training.BEGUN, *steps, 1.0]


def test_saved_weights_load_back_and_are_as_good(whole, generator):
    (path,) = whole.models.glob("*.safetensors")
    with safe_open(path, "pt") as file:
        about = file.metadata()
    classes, size, mean, std = (json.loads(about[key]) for key in ("classes", "size", "mean", "std"))
    model = models.build("small", len(classes), tuple(size), generator)
    model.load_state_dict(weights(whole.models))
    data, policy = protocols.dataset(whole.protocol.data), Policy.uniform("cifar", mean=tuple(mean), std=tuple(std))
    found, stored = scoring.score(predict(model, Normalise(policy), data.test), data.test.labels), result(whole)
    assert (found.accuracy, found.loss) == (stored["accuracy"], pytest.approx(stored["loss"]))
    assert float(about["accuracy"]) == stored["accuracy"]
    assert {"policy": "uniform", "seed": "0", "model": "small"}.items() <= about.items()


def test_it_tests_on_the_other_half_where_it_chooses_by_validation(tiny_npz, tmp_path):
    one = make(tiny_npz, tmp_path, held_out=HeldOut(half=1))
    run(one, nothing)
    assert one.result_file.name.endswith("-half1.json")
    hits = 12 * result(one)["accuracy"]  # of 24 training images
    assert hits == pytest.approx(round(hits))
    assert sum(share is not None for share in result(one)["per_class"]) == tiny.N_CLASSES


def test_the_cost_is_that_of_all_steps(monkeypatch, tiny_npz, tmp_path):
    monkeypatch.setattr(ways, "timed", lambda step: 0.5)
    assert training.seconds_of([make(tiny_npz, tmp_path)]) == N_STEPS * 0.5
    assert (
        training.seconds_of([make(tiny_npz, tmp_path, held_out=HeldOut(half=1))]) == N_STEPS / 2 * 0.5
    )  # on half the images
    assert not list(tmp_path.iterdir())


# --- interrupted ------------------------------------------------------------------------------------------------------


def stop_at(step: int, number: int):
    def report(share: float) -> None:
        if share == step / N_STEPS:
            os.kill(os.getpid(), number)

    return report


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", [1, 7, N_STEPS])
def test_stopped_and_taken_up_again_equals_uninterrupted(step, number, every_step, whole, tiny_npz, tmp_path):
    one = make(tiny_npz, tmp_path, models=tmp_path / "models")
    with pytest.raises(Stopped) as stopped:
        run(one, stop_at(step, number))
    assert stopped.value.signal_number == number
    assert newest(one)["fit"]["done"] == step
    assert read_result(one) is None
    assert shares_of(one)[0] == step / N_STEPS
    assert same(one, whole)
    assert not one.checkpoint_folder.exists()


def live_and_die(one: Training, step: int) -> None:
    torch.set_num_threads(1)
    training.CHECKPOINT_SECONDS, training.REPORT_EVERY = -1.0, 1
    run(one, stop_at(step, signal.SIGKILL))


@pytest.fixture
def killed(tiny_npz, tmp_path):
    """A training that was killed at its eighth step, with a checkpoint of each."""
    one = make(tiny_npz, tmp_path, models=tmp_path / "models")
    process = tiny.FORK.Process(target=live_and_die, args=(one, 8))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert newest(one)["fit"]["done"] == 7
    return one


def test_killed_after_a_checkpoint_and_taken_up_again_equals_uninterrupted(whole, killed):
    run(killed, nothing)
    assert same(killed, whole)


@pytest.fixture
def left(every_step, tiny_npz, tmp_path):
    """A trial that was stopped after 5 steps."""
    one = make(tiny_npz, tmp_path, models=tmp_path / "models")
    with pytest.raises(Stopped):
        run(one, stop_at(5, signal.SIGTERM))
    return one


def test_the_seconds_before_count(left):
    checkpoints = Checkpoints(left.checkpoint_folder)
    state, _ = checkpoints.load()
    assert state["seconds"] > 0
    checkpoints.save(state | {"seconds": 1000.0})
    run(left, nothing)
    assert read_result(left)["seconds"] > 1000


@pytest.mark.parametrize("pattern", ["[0-9]*", "theta-*", "momentum-*"])
def test_a_damaged_checkpoint_is_not_used(pattern, left, whole, caplog):
    (path,) = left.checkpoint_folder.glob(pattern)
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    assert shares_of(left)[0] == training.BEGUN
    assert f"slackaug: {path}: damaged, going back to the start" in caplog.messages
    assert same(left, whole)


def test_a_damaged_checkpoint_costs_only_itself(whole, killed, caplog):
    damaged = Checkpoints(killed.checkpoint_folder).paths()[-1]
    damaged.write_bytes(b"")
    assert shares_of(killed)[0] == 6 / N_STEPS
    assert f"slackaug: {damaged}: damaged, going back to the one before it" in caplog.messages
    assert same(killed, whole)


@pytest.mark.parametrize("change", [{"seconds": None}, {"seconds": "x"}, {"fit": 7}, {"fit": {"done": 2}}], ids=str)
def test_a_whole_checkpoint_that_is_no_training_s_is_one_message(change, left):
    checkpoints = Checkpoints(left.checkpoint_folder)
    state, _ = checkpoints.load()
    checkpoints.save(state | change)
    with pytest.raises(RunError, match="its checkpoint is not one of this slackaug's trainings; remove that folder"):
        run(left, nothing)


def test_a_checkpoint_of_other_settings_is_not_used(left):
    other = replace(left, protocol=parse.update(left.protocol, {"fit": {"lr": 0.01}}))
    assert other.checkpoint_folder == left.checkpoint_folder
    assert shares_of(other)[0] == training.BEGUN


# --- the same trial ---------------------------------------------------------------------------------------------------


CHANGES = {
    "model": "resnet18", "space": "imagenet", "flip": False, "exclude": ["Invert"], "weights_digest": "other",
    "data_digest": "other test images",
    "data": {"fingerprint": "other images", "size": 9, "skip_bad": True, "group_by": "patient"},
    "fit": {"epochs": 3, "batch": 5, "lr": 0.3, "warmup_epochs": 1, "momentum": 0.5, "nesterov": False,
            "weight_decay": 0.0, "clip": None},
}  # fmt: skip


def test_what_decides_the_result_is_in_the_key(tiny_npz, tmp_path):
    one = make(tiny_npz, tmp_path)
    changes = [{name: value} for name, value in CHANGES.items() if not isinstance(value, dict)]
    changes += [{part: {name: value}} for part in ("data", "fit") for name, value in CHANGES[part].items()]
    changes += [{"data": {"size": 9, "margin": True}}]
    others = [replace(one, protocol=parse.update(one.protocol, change)) for change in changes]
    others += [changed(one, digest=digest("none")), changed(one, uniform_magnitudes=True)]
    others += [replace(one, seed=1), replace(one, held_out=HeldOut(half=1))]
    assert len({one.key, *(other.key for other in others)}) == len(others) + 1


def test_the_numbers_of_randaugment_are_in_the_key(tiny_npz, tmp_path):
    """They hang on the name of the data, which is not; trainings with the same numbers are the same."""
    one = make(tiny_npz, tmp_path, candidate=from_name("randaugment"))
    named = {
        source: replace(one, protocol=replace(one.protocol, data=replace(one.protocol.data, source=source)))
        for source in ("torchvision:CIFAR10", "torchvision:CIFAR100", "x.npz")
    }
    assert len({training.key for training in named.values()}) == 3
    assert named["x.npz"].key == one.key
    assert (
        named["torchvision:CIFAR10"].key
        == replace(named["torchvision:CIFAR10"], candidate=from_name("randaugment-3-5")).key
    )


def test_where_it_runs_is_not_in_the_key(tiny_npz, tmp_path):
    one = make(tiny_npz, tmp_path)
    moved = replace(one.protocol, data=replace(one.protocol.data, source="x", cache="y"), weights="z")
    elsewhere = {"device": "cuda", "threads": 7, "folder": tmp_path / "x", "protocol": moved}
    assert {replace(one, **{name: value}).key for name, value in elsewhere.items()} == {one.key}


@pytest.mark.parametrize("part", ["test_images", "test_labels", "train_images"])
def test_other_data_under_the_same_name_is_refused(part, tmp_path):
    arrays = tiny.arrays()
    np.savez(tmp_path / "x.npz", **arrays)
    one = make(tmp_path / "x.npz", tmp_path)
    np.savez(tmp_path / "x.npz", **arrays | {part: arrays[part][::-1]})
    protocols.load_once.cache_clear()
    with pytest.raises(ValueError, match="is not the data of this evaluation"):
        run(one, nothing)


def test_flips_and_statistics_of_the_source_are_part_of_the_data(tiny_npz):
    data = protocols.dataset(DataConfig(source=str(tiny_npz)))
    changes = {"flip": not data.flip, "mean": (0.5, 0.5, 0.5), "std": (1.0, 1.0, 1.0)}
    others = [replace(data, **{name: value}) for name, value in changes.items()]
    assert len({protocols.data_digest(each) for each in (data, *others)}) == 4


def test_names_of_files_are_readable_and_differ(tiny_npz, tmp_path):
    one = make(tiny_npz, tmp_path)
    names = ["a b", "a/b", "../a b", "日本" * 100, "x" * 300, "x" * 301, ""]
    stems = [changed(one, name=name).stem for name in names]
    assert len(set(stems)) == len(names)
    assert stems[0].startswith("a_b-seed0-")
    assert all(stem.isascii() and len(stem) < 200 and stem[0] != "." and "/" not in stem for stem in stems)


def test_a_result_is_that_of_this_very_trial_whatever_its_policy_was_called(whole, tmp_path):
    one, other_name = replace(whole, folder=tmp_path, models=None), "../the/same.json"
    assert read_result(one) is None
    shutil.copytree(whole.folder / "trials", tmp_path / "trials")
    (tmp_path / "trials" / "broken.json").write_text("[1, 2")
    os.mkfifo(tmp_path / "trials" / "pipe.json")  # whose reader would wait
    found = read_result(one)
    assert found == read_result(replace(whole, models=None))
    assert read_result(changed(one, name=other_name)) == found | {"name": other_name}
    without_weights = replace(one, models=tmp_path / "models")
    for other in (changed(one, digest="another"), replace(one, seed=1), without_weights):
        assert read_result(other) is None
    one.result_file.write_text("[1, 2")
    assert read_result(one) is None


def test_digest_is_of_what_a_policy_does():
    policy = Policy.uniform("cifar")
    assert digest(policy) == digest(replace(policy, learned={"seconds": 3}))
    assert digest(policy) != digest(Policy.uniform("imagenet"))
    assert digest("none") == digest(b"none") != digest("uniform")


# --- several side by side ---------------------------------------------------------------------------------------------


def test_each_of_several_leaves_what_it_leaves_alone(tiny_npz, tmp_path):
    several = [make(tiny_npz, tmp_path, seed=seed) for seed in (0, 1)]
    shares = []
    training.run(several, shares.append)
    assert shares[0] < 1e-6
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    alone = [replace(one, folder=tmp_path / "alone") for one in several]
    (tmp_path / "alone").mkdir()
    for one, other in zip(several, alone, strict=True):
        run(other, nothing)
        assert result(one) == result(other)


@pytest.mark.parametrize("step", [1, 7, N_STEPS])
def test_stopped_side_by_side_and_taken_up_again(step, every_step, as_on_a_gpu, tiny_npz, tmp_path):
    folders = [tmp_path / name for name in ("whole", "stopped")]
    whole, several = ([make(tiny_npz, folder, seed=seed, models=folder / f"models{seed}") for seed in (0, 1)]
                      for folder in folders)  # fmt: skip
    for folder in folders:
        folder.mkdir()
    training.run(whole, nothing)
    with pytest.raises(Stopped):
        training.run(several, stop_at(step, signal.SIGINT))
    assert [newest(one)["fit"]["done"] for one in several] == [step, step]
    training.run(several, nothing)
    assert all(same(*pair) for pair in zip(several, whole, strict=True))
    assert {result(one)["way"] for one in several} == {"cpu, captured, float32"}


def test_the_cost_of_one_of_several(as_on_a_gpu, monkeypatch, tiny_npz, tmp_path):
    monkeypatch.setattr(ways, "timed", lambda step: 0.5)
    several = [make(tiny_npz, tmp_path, seed=seed) for seed in range(4)]
    assert training.seconds_of(several) == N_STEPS * 0.5 / 4


def test_one_that_diverges_does_not_keep_the_other_from_its_result(monkeypatch, as_on_a_gpu, tiny_npz, tmp_path):
    several = [make(tiny_npz, tmp_path, seed=seed) for seed in (0, 1)]
    step = StackedFits.step

    def spoilt(fits):
        fits.theta[1] = torch.nan
        return step(fits)

    monkeypatch.setattr(StackedFits, "step", spoilt)
    with pytest.raises(Diverged, match=r"^uniform, seed 1: .* is no longer a number"):
        training.run(several, nothing)
    assert [read_result(one) is not None for one in several] == [True, False]


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("check_every", "ends"), [(100, r"12"), (3, r"[369]")])
def test_a_model_that_is_no_longer_a_number_ends_it_with_advice(check_every, ends, monkeypatch, tiny_npz, tmp_path):
    monkeypatch.setattr(training, "CHECK_EVERY", check_every)
    one = make(tiny_npz, tmp_path)
    one = replace(one, protocol=parse.update(one.protocol, {"fit": {"lr": 1e38, "clip": None}}))
    with pytest.raises(Diverged, match=rf"after {ends} of 12 steps; .* --overwrite --set evaluate.lr=2.5e\+37"):
        run(one, nothing)
    assert not one.result_file.exists()
