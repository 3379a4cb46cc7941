"""`examples/slack_in_one_file.py` does what the package does: the same policies, bit for bit."""

import json
import subprocess
import sys

import pytest

import slack_in_one_file as one_file
import slackaug
from slackaug.data import load

SEED = 3
# Tiny, and such that every line counts: gradients are clipped, mu meets both of its bounds, epochs leave images over,
# and several rounds start from theta_0, each with another anchor. To divide by a power of two is exact in any order.
SETTINGS = one_file.Settings(
    epochs=2, pretrain_lr=0.05, n_rounds=3, n_retrain=2, n_unrolled=3, n_composites=4, batch=100, model_lr=0.2,
    policy_lr=60.0, kl_weight=0.5, mu_divisor=2.0, momentum=0.8, weight_decay=1e-2, clip=0.5,
)  # fmt: skip
IN_PRETRAINING = {"epochs": "epochs", "pretrain_lr": "lr"}  # by the name of the setting there
IN_BOTH = ("batch", "momentum", "weight_decay", "clip")
SECONDS = 120


def assignments() -> list[str]:
    """SETTINGS, as the package takes them."""
    given = {}
    for name, value in vars(SETTINGS).items():
        if name in IN_PRETRAINING or name in IN_BOTH:
            given[f"pretrain.{IN_PRETRAINING.get(name, name)}"] = value
        if name not in IN_PRETRAINING:
            given[f"search.{name}"] = value
    given["search.val_clip"] = SETTINGS.clip
    return [f"{name}={value}" for name, value in given.items()]


def test_every_round_comes_to_the_packages_policy_bit_for_bit(tmp_path):
    ours = [phi for phi, _ in one_file.slack(load("digits"), SETTINGS, SEED)]
    options = {"preset": "paper", "model": "small", "seed": SEED, "device": "cpu", "estimate": False}
    slackaug.search("digits", tmp_path / "run", set=assignments(), **options)
    files = sorted((tmp_path / "run" / "policies").glob("round_*.json"))
    assert len(files) == len(ours) == SETTINGS.n_rounds
    for path, phi in zip(files, ours, strict=True):
        theirs = json.loads(path.read_text())
        assert theirs["transformations"] == one_file.SPACE.names
        assert theirs["pi"] == phi.pi.softmax(-1).tolist()
        for mine, other in zip(phi.mu.tolist(), theirs["mu"], strict=True):
            assert mine == (one_file.MU_START if other is None else other)  # null where there is no magnitude
    met = {mu for phi in ours for mu in phi.mu.tolist()}
    assert {one_file.MU_MIN, one_file.MU_MAX} < met  # else the equality would say nothing of them


@pytest.mark.slow
def test_the_script_shows_a_policy_within_two_minutes():
    done = subprocess.run(
        [sys.executable, one_file.__file__], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    rounds, table = done.stdout.split("\n\n")
    assert len(rounds.splitlines()) == one_file.Settings().n_rounds
    rows = [line.split() for line in table.splitlines()[1:]]
    assert {name for name, _, _ in rows} == set(one_file.SPACE.names)
    assert sum(float(probability) for _, probability, _ in rows) == pytest.approx(1, abs=0.01)
