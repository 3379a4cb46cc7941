"""The benchmark that measures what transformations are worth without a search: it finds effects that are known."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import halves
from slackaug.augment.policy import Policy
from slackaug.augment.transforms import get_space

SPACE = get_space("cifar")


@pytest.fixture
def folder(tmp_path):
    halves.write("cifar", 32, 0, tmp_path)
    return tmp_path


def results(folder, worth, noise):
    """As an evaluation leaves them, where each training comes to the mean worth of what took part."""
    rng, rows = np.random.default_rng(1), ["policy,seed,accuracy,loss", "uniform,0,0.1,9.0"]
    for path in sorted(folder.glob("half_*.json")):
        points = np.mean([worth.get(name, 0.0) for name in Policy.load(path).space.names]) + noise * rng.normal()
        rows.append(f"{path},0,{0.5 + points / 100},{1 - points / 10}")
    (folder / "results.csv").write_text("\n".join(rows))
    return folder / "results.csv"


def save_learned(path, log_pi):
    phi = Policy.uniform(SPACE)
    path.parent.mkdir(exist_ok=True)
    replace(phi, pi=phi.pi + phi.pi.new_tensor(log_pi)).save(path)
    return path


@pytest.mark.parametrize("n_pairs", [32, 60])
def test_each_takes_part_in_every_second_training_and_pairs_stay_together(n_pairs, tmp_path):
    halves.write("cifar", n_pairs, 0, tmp_path)
    names = [{*Policy.load(path).space.names} for path in sorted(tmp_path.glob("half_*.json"))]
    assert all(sum(name in half for half in names) == n_pairs == len(names) / 2 for name in SPACE.names)
    pairs = list(zip(names[::2], names[1::2], strict=True))
    assert all(one | other == {*SPACE.names} and not one & other for one, other in pairs)


def test_known_effects_are_found(folder):
    """A transformation that takes part has two shares of 17; without noise nothing else is seen."""
    worth = {"Invert": -17.0, "Posterize": 17.0}
    pi, outcomes = halves.read(folder, results(folder, worth, 0.0), SPACE.names)
    for name, unit in (("accuracy", 1.0), ("loss", 0.1)):
        found = halves.effects(pi, outcomes[name])
        expected = [2 * unit * worth.get(name, 0.0) / 17 for name in SPACE.names]
        np.testing.assert_allclose(found.value, expected, atol=1e-9)
        assert found.reliability == pytest.approx(1)


def test_errors_are_those_of_the_noise(folder):
    """Of noise alone, most effects are within two standard errors of nothing, and little is reliable."""
    pi, outcomes = halves.read(folder, results(folder, {}, 1.0), SPACE.names)
    found = halves.effects(pi, outcomes["accuracy"])
    assert found.degrees == 32 - 17
    assert (abs(found.value) < 2 * found.error).sum() >= 14
    assert found.error.mean() == pytest.approx(2 / 64**0.5, rel=0.5)
    assert found.reliability < 0.5


def test_the_table_ranks_a_policy_by_what_is_true_and_shows_all_of_one_name(folder, capsys):
    worth = {name: float(i) for i, name in enumerate(SPACE.names)}
    policies = [
        save_learned(folder / name / "policy.json", [sign * value / 10 for value in worth.values()])
        for name, sign in (("right", 1), ("wrong", -1))
    ]
    halves.table(folder, results(folder, worth, 0.0), policies, folder / "table.json")
    rows = {Path(line.split(" | ")[0]).name: line.split(" | ")[1:] for line in capsys.readouterr().out.splitlines()}
    assert rows["right"][:2] == ["1.00", "1.00"]
    assert rows["wrong"][:2] == ["-1.00", "-1.00"]
    assert len(json.loads((folder / "table.json").read_text())["pairs"]) == 32


def test_seeds_of_one_half_count_once(folder):
    """As their mean: a half that does well does so in all of its trainings."""
    file, found = results(folder, {"Invert": -17.0}, 1.0), []
    for _ in range(2):
        pi, outcomes = halves.read(folder, file, SPACE.names)
        found.append(halves.effects(pi, outcomes["loss"]))
        lines = file.read_text().splitlines()
        file.write_text("\n".join([*lines, *lines[1:]]))
    np.testing.assert_allclose(found[0].error, found[1].error)
    assert found[0].degrees == found[1].degrees


def test_what_cannot_be_said_is_refused(folder):
    few = results(folder, {}, 1.0)
    few.write_text("\n".join(few.read_text().splitlines()[: 2 + 2 * 17]))
    pi, outcomes = halves.read(folder, few, SPACE.names)
    with pytest.raises(SystemExit, match="17 pairs of halves are too few for 17 transformations: 18 or more"):
        halves.effects(pi, outcomes["accuracy"])
    with pytest.raises(SystemExit, match="half of another space"):
        halves.read(folder, few, SPACE.names[:5])
    with pytest.raises(SystemExit, match="has halves already"):
        halves.write("cifar", 2, 0, folder)
