import sys
from types import SimpleNamespace

import pytest

from slackaug.runs import tensorboard


def test_tensorboard_gets_a_scalar_for_each_number(tmp_path, monkeypatch):
    """The package is an extra: a stand-in takes its place here."""
    written = []

    class SummaryWriter:
        def __init__(self, folder):
            assert folder == str(tmp_path)

        def add_scalar(self, tag, value, step):
            written.append((tag, value, step))

        def flush(self):
            pass

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=SummaryWriter))
    log = tensorboard.logger(tmp_path, ["Rotate", "Invert"], n_steps=100)
    log({"stage": "pre-training", "round": 0, "step": 7, "train_loss": 2.0, "n_composed": 2})
    policy = {"val_loss": 0.5, "entropy": [0.6, 0.8], "pi": [[0.2, 0.8], [0.4, 0.6]], "mu": [0.7, 0.75]}
    log({"stage": "policy", "round": 3, "step": 50, "train_loss": 1.0} | policy)
    assert written[0] == ("pre-training-2/train_loss", 2.0, 7)
    found = {tag: (value, step) for tag, value, step in written[1:]}
    assert found["search/val_loss"] == (0.5, 250)
    assert found["pi/Rotate"] == (pytest.approx(0.3), 250)
    assert found["search/entropy"] == (pytest.approx(0.7), 250)
    assert found["mu/Rotate"] == (0.7, 250)
