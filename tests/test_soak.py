"""A week-long search in miniature: nothing grows with the number of steps but the numbers it is to record."""

import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

import soak
from slackaug.augment.policy import Policy

BYTES_A_STEP = 200  # of metrics: a line every ten steps
N_COMMANDS = 64


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("n_steps", "n_before"), [(5_000, 4), pytest.param(100_000, 1, marks=pytest.mark.slow)])
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


def run(words):
    return subprocess.run([sys.executable, "-m", "slackaug", *words], capture_output=True, text=True, timeout=600)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("n", [4, pytest.param(N_COMMANDS, marks=pytest.mark.slow)])
def test_many_commands_on_the_same_files_at_once(n, tmp_path):
    """Half of them show a policy, half write a contact sheet; all see the same, and none leaves anything behind."""
    Policy.uniform("cifar").save(tmp_path / "policy.json")
    Image.effect_noise((48, 48), 60).convert("RGB").save(tmp_path / "cat.png")
    shown = [["show", str(tmp_path / "policy.json")]] * (n // 2)
    sheets = [
        ["preview", str(tmp_path / "policy.json"), str(tmp_path / "cat.png"), "-o", str(tmp_path / f"sheet{i}.png")]
        for i in range(n // 2)
    ]
    with ThreadPoolExecutor(n) as pool:
        done = list(pool.map(run, itertools.chain(*zip(shown, sheets, strict=True))))
    assert [one.returncode for one in done] == [0] * n, [one.stderr for one in done]
    assert len({one.stdout for one in done[::2]}) == 1
    assert len({path.read_bytes() for path in tmp_path.glob("sheet*.png")}) == 1
    assert len([*tmp_path.iterdir()]) == 2 + n // 2


@pytest.mark.slow
def test_sheets_to_one_file_at_once_leave_a_whole_one(tmp_path):
    """The last to be done wins; the file is never half of each."""
    Policy.uniform("cifar").save(tmp_path / "policy.json")
    Image.effect_noise((48, 48), 60).convert("RGB").save(tmp_path / "cat.png")
    words = ["preview", str(tmp_path / "policy.json"), str(tmp_path / "cat.png"), "-o", str(tmp_path / "x.png")]
    with ThreadPoolExecutor(4) as pool:
        codes = {one.returncode for one in pool.map(run, [[*words, "--overwrite"]] * 4)}
    assert codes == {0}
    Image.open(tmp_path / "x.png").load()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cat.png", "policy.json", "x.png"]
