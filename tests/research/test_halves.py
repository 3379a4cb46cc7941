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
def folder(tmp_path: Path) -> Path:
    halves.write("cifar", 32, 0, tmp_path)
    return tmp_path


def results(folder: Path, worth: dict[str, float], noise: float) -> Path:
    """As an evaluation leaves them, where each training comes to the mean worth of what took part."""
    rng, rows = np.random.default_rng(1), ["policy,seed,accuracy,loss", "uniform,0,0.1,9.0"]
    for path in sorted(folder.glob("half_*.json")):
        points = np.mean([worth.get(name, 0.0) for name in Policy.load(path).space.names]) + noise * rng.normal()
        rows.append(f"{path},0,{0.5 + points / 100},{1 - points / 10}")
    file = folder / "results.csv"
    file.write_text("\n".join(rows))
    return file


def test_each_takes_part_in_every_second_training(folder: Path) -> None:
    present = [Policy.load(path).space.names for path in folder.glob("half_*.json")]
    assert len(present) == 64
    assert all(sum(name in names for names in present) == 32 for name in SPACE.names)


def test_known_effects_are_found(folder: Path) -> None:
    """A transformation that takes part has two shares of 17; without noise nothing else is seen."""
    worth = {"Invert": -17.0, "Posterize": 17.0}
    pi, outcomes = halves.read(folder, results(folder, worth, 0.0), SPACE.names)
    for name, unit in (("accuracy", 1.0), ("loss", 0.1)):
        found = halves.effects(pi, outcomes[name])
        expected = [2 * unit * worth.get(name, 0.0) / 17 for name in SPACE.names]
        np.testing.assert_allclose(found.value, expected, atol=1e-9)
        assert found.reliability == pytest.approx(1)


def test_errors_are_those_of_the_noise(folder: Path) -> None:
    """Of noise alone, most effects are within two standard errors of nothing, and little is reliable."""
    pi, outcomes = halves.read(folder, results(folder, {}, 1.0), SPACE.names)
    found = halves.effects(pi, outcomes["accuracy"])
    assert found.degrees == 32 - 17
    assert (abs(found.value) < 2 * found.error).sum() >= 14
    assert found.error.mean() == pytest.approx(2 / 64**0.5, rel=0.5)
    assert found.reliability < 0.5


def test_the_table_ranks_a_policy_by_what_is_true(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worth = {name: float(i) for i, name in enumerate(SPACE.names)}
    file, right, wrong = results(folder, worth, 0.0), folder / "right.json", folder / "wrong.json"
    phi = Policy.uniform(SPACE)
    for path, sign in ((right, 1), (wrong, -1)):
        replace(phi, pi=phi.pi + sign * phi.pi.new_tensor(list(worth.values())) / 10).save(path)
    halves.table(folder, file, [right, wrong], folder / "table.json")
    rows = {Path(line.split(" | ")[0]).name: line.split(" | ")[1:] for line in capsys.readouterr().out.splitlines()}
    assert rows["right.json"][:2] == ["1.00", "1.00"]
    assert rows["wrong.json"][:2] == ["-1.00", "-1.00"]
    assert len(json.loads((folder / "table.json").read_text())["pairs"]) == 32


def test_seeds_of_one_half_count_once(folder: Path) -> None:
    """As their mean: a half that does well does so in all of its trainings."""
    file = results(folder, {"Invert": -17.0}, 1.0)
    pi, outcomes = halves.read(folder, file, SPACE.names)
    once = halves.effects(pi, outcomes["loss"])
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, *lines[1:]]))
    pi, outcomes = halves.read(folder, file, SPACE.names)
    twice = halves.effects(pi, outcomes["loss"])
    np.testing.assert_allclose(twice.error, once.error)
    assert twice.degrees == once.degrees


def test_what_cannot_be_said_is_refused(folder: Path, tmp_path: Path) -> None:
    lines = results(folder, {}, 1.0).read_text().splitlines()
    few = tmp_path / "few.csv"
    few.write_text("\n".join(lines[: 2 + 2 * 17]))
    pi, outcomes = halves.read(folder, few, SPACE.names)
    with pytest.raises(SystemExit, match="17 pairs of halves are too few for 17 transformations: 18 or more"):
        halves.effects(pi, outcomes["accuracy"])
    with pytest.raises(SystemExit, match="half of another space"):
        halves.read(folder, few, SPACE.names[:5])
    with pytest.raises(SystemExit, match="has halves already"):
        halves.write("cifar", 2, 0, folder)


def test_runs_whose_policies_have_one_name_are_all_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = results(folder, {"Invert": -17.0}, 1.0)
    runs = [folder / name / "policy.json" for name in ("0", "1")]
    for i, path in enumerate(runs):
        path.parent.mkdir()
        phi = Policy.uniform(SPACE)
        replace(phi, pi=phi.pi + phi.pi.new_tensor(range(len(SPACE))) / (10 + i)).save(path)
    halves.table(folder, file, runs, None)
    shown = capsys.readouterr().out
    assert all(f"| {path.parent} | " in shown for path in runs)


def test_pairs_stay_together_however_many(tmp_path: Path) -> None:
    halves.write("cifar", 60, 0, tmp_path)
    names = [{*Policy.load(path).space.names} for path in sorted(tmp_path.glob("half_*.json"))]
    assert len(names) == 120
    assert all(
        one | other == {*SPACE.names} and not one & other for one, other in zip(names[::2], names[1::2], strict=True)
    )
