"""A week-long search in miniature: nothing grows with the number of steps but the numbers it is to record."""

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout

import pytest
from PIL import Image

import soak
import tiny
from slackaug import cli
from slackaug.augment.policy import Policy

BYTES_A_STEP = 200  # of metrics: a line every ten steps
N_COMMANDS = 64


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("n_steps", "n_before"), [(1_600, 4), pytest.param(100_000, 1, marks=pytest.mark.slow)])
def test_nothing_grows(n_steps, n_before, tiny_npz, tmp_path):
    """Judged after some tenths of the steps, when what is needed once is loaded."""
    found = soak.soak(tmp_path, tiny_npz, n_steps)
    print(found)
    first, last = found.samples[n_before], found.samples[-1]
    assert last.step == n_steps
    assert last.memory < 1.02 * first.memory
    assert {sample.n_files for sample in found.samples} == {first.n_files}
    assert last.checkpoint_seconds < 2 * first.checkpoint_seconds
    assert found.metrics_bytes < BYTES_A_STEP * n_steps
    assert found.log_bytes < 300 * (soak.N_ROUNDS + found.seconds / 30 + 1)


# --- many at once -----------------------------------------------------------------------------------------------------


def command(words, log):
    with open(log, "w") as file, redirect_stdout(file):
        sys.argv = ["slackaug", *words]
        cli.main()


def run(words, log):
    """A process of its own, as a command has: its exit code, and what it says."""
    process = tiny.FORK.Process(target=command, args=(words, str(log)))
    process.start()
    process.join(600)
    return process.exitcode, log.read_text()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("n", [4, pytest.param(N_COMMANDS, marks=pytest.mark.slow)])
def test_many_commands_on_the_same_files_at_once(n, tmp_path, tmp_path_factory):
    """Half of them show a policy, half write a contact sheet; all see the same, and none leaves anything behind."""
    Policy.uniform("cifar").save(tmp_path / "policy.json")
    Image.effect_noise((48, 48), 60).convert("RGB").save(tmp_path / "cat.png")
    shown = [["show", str(tmp_path / "policy.json")]] * (n // 2)
    sheets = [
        ["preview", str(tmp_path / "policy.json"), str(tmp_path / "cat.png"), "-o", str(tmp_path / f"sheet{i}.png")]
        for i in range(n // 2)
    ]
    logs = [tmp_path_factory.mktemp("logs") / "log" for _ in range(n)]
    with ThreadPoolExecutor(n) as pool:
        codes, said = zip(*pool.map(run, itertools.chain(*zip(shown, sheets, strict=True)), logs), strict=True)
    assert codes == (0,) * n, said
    assert len({*said[::2]}) == 1
    assert "Rotate" in said[0]
    assert len({path.read_bytes() for path in tmp_path.glob("sheet*.png")}) == 1
    assert len([*tmp_path.iterdir()]) == 2 + n // 2


@pytest.mark.slow
def test_sheets_to_one_file_at_once_leave_a_whole_one(tmp_path, tmp_path_factory):
    """The last to be done wins; the file is never half of each."""
    Policy.uniform("cifar").save(tmp_path / "policy.json")
    Image.effect_noise((48, 48), 60).convert("RGB").save(tmp_path / "cat.png")
    words = ["preview", str(tmp_path / "policy.json"), str(tmp_path / "cat.png"), "-o", str(tmp_path / "x.png")]
    with ThreadPoolExecutor(4) as pool:
        logs = [tmp_path_factory.mktemp("logs") / "log" for _ in range(4)]
        assert {code for code, _ in pool.map(run, [[*words, "--overwrite"]] * 4, logs)} == {0}
    Image.open(tmp_path / "x.png").load()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cat.png", "policy.json", "x.png"]
