"""Readers of files from elsewhere: a million damaged ones in `make test-all`, a sample in `make test`.

Whatever a file holds, there is a result or one of the errors that are documented, soon and in bounded memory.
"""

import hashlib
import io
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import fuzz
import made_up
import tiny
from fuzz import Target
from published_files import DOCUMENTS
from saved_states import state
from slackaug.augment import apply
from slackaug.augment.formats import published
from slackaug.augment.policy import Policy
from slackaug.commands import evaluate
from slackaug.config import layers, parse
from slackaug.config.parse import SettingError
from slackaug.data import DataError, decode, load
from slackaug.data.options import DataConfig
from slackaug.engine import fit
from slackaug.judge import records, results
from slackaug.judge.protocols import Protocol
from slackaug.report import history, outcome, race
from slackaug.runs.checkpoints import Checkpoints, Damaged, read, to_bytes
from slackaug.runs.folders import RunError
from slackaug.schema import PolicyError

MEGABYTE = 1024**2
MOST_MEMORY = 600 * MEGABYTE  # that a reader may take: an image of 100 million pixels is the largest thing that is read
IMAGE_SECONDS = 30.0  # of 100 million pixels, likewise
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")


@pytest.fixture
def place():
    """In memory: a disk would be what is measured."""
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


def stored(path, read):
    """A reader of bytes out of one of files."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def read_bytes(document):
        path.write_bytes(document)
        return read(path)

    return read_bytes


# --- the readers ------------------------------------------------------------------------------------------------------


def policies(place):
    """And a policy is one that can be drawn from and applied."""

    def read_and_use(path):
        policy, seeded = published.load(path), torch.Generator().manual_seed
        tau = policy.sample(3, seeded(0), 1.0)
        assert tau.op.shape == tau.magnitude.shape == tau.active.shape
        assert tau.magnitude.isfinite().all()
        assert not isinstance(policy, Policy) or policy.log_prob(tau).isfinite().all()
        images = torch.zeros(3, 3, 4, 5, dtype=torch.uint8)
        assert apply.augment(images, tau, seeded(0)).shape == images.shape
        return policy

    seeds = [Policy.uniform("cifar").dumps(), *(json.dumps(document) for document in DOCUMENTS.values())]
    return Target(stored(place / "policy.json", read_and_use), (PolicyError,), seeds, is_json=True)


def configurations(place):
    seeds = [
        "preset: quick\nmodel: small\nsearch: {n_rounds: 2, policy_lr: 0.1}\n",
        "exclude:\n- Invert\n- Hue\nflip: null\nseed: 0\n",
        "data:\n  source: 'a b'\n  size: 32\npretrain:\n  epochs: 3\n  lr: 1e-1\n",
    ]
    words = [b"&a ", b"*a ", b"<<: ", b"!!python/object/apply:os.system ", b"!!binary ", b"!!set ", b".inf", b".nan",
             b"1:30", b"0x1F", b"0o7", b"2001-01-01", b"? ", b"- ", b"| ", b"> ", b"---", b"%YAML", b"#"]  # fmt: skip
    return Target(stored(place / "config.yaml", layers.read), (SettingError,), seeds, words)


def assignments(place):
    def read_assignment(document):
        return parse.parse_assignment(document.decode("utf-8", "replace"))

    seeds = ["search.n_rounds=5", "exclude=[Invert, Hue]", "search.policy_lr=1e-4", "flip=false"]
    return Target(read_assignment, (SettingError,), seeds, [b"&a ", b"*a", b"!!int ", b"1:30", b"{", b"=", b"."])


def evaluations(place):
    made_up.evaluation(place / "run", ("one", "other"))
    path = place / "run" / "eval" / "results.json"
    seeds = [path.read_bytes()]
    return Target(stored(path, lambda _: outcome.read(place / "run")), (PolicyError,), seeds, is_json=True)


def answers(place):
    path = made_up.raced(made_up.run(place / "run", n_rounds=1), "learned") / "answer.json"
    read = stored(path, lambda _: race.read(place / "run", "uniform-2"))
    return Target(read, (PolicyError,), [path.read_bytes()], is_json=True)


def studies(place):
    made_up.study(place / "made up")
    seeds, path = [(place / "made up" / "study.json").read_bytes()], place / "study" / "study.json"
    return Target(stored(path, lambda _: outcome.read(place / "study")), (PolicyError,), seeds, is_json=True)


def protocols(place):
    """The results of an earlier evaluation, which another protocol may not mix with."""
    about = {"data": DataConfig(source="x"), "data_digest": "", "model": "small", "space": "cifar"}
    protocol = Protocol(fit=fit.FitConfig(), **about)
    begin = stored(place / "results.json", lambda _: evaluate.begin(place, protocol, overwrite=False))
    seed = json.dumps({"protocol": parse.to_dict(protocol), "policies": []})
    return Target(begin, (RunError,), [seed], is_json=True)


def trials(place):
    """The result of one training: of this very one, or as if there were none."""
    one = SimpleNamespace(result_file=place / "x.json", key="0", name="x", seed=1, model_file=None)
    numbers = {"seed": 1, "accuracy": 0.5, "balanced_accuracy": 0.4, "imbalance": 1.0, "seconds": 1.0}
    seed = json.dumps({"key": "0", "name": "x"} | numbers | {"images_per_second": 2.0})

    def read_result(path):
        (found,) = records.read([one])
        return None if found is None else results.make_rows({"x": [found]}, "x")[0].images_per_second

    return Target(stored(place / "x.json", read_result), (), [seed], is_json=True)


def metrics(place):
    start = Policy.uniform("cifar")
    line = {"stage": "policy", "round": 1, "step": 2, "train_loss": 1.0, "val_loss": 2.0, "entropy": [1.0] * 3}
    line |= {"pi": start.probabilities.tolist(), "mu": [0.75] * 17}
    short = {"stage": "pre-training", "round": 0, "step": 2, "train_loss": 1.0}
    read_step = stored(place / "metrics.jsonl", lambda path: history.read_steps(path, start))
    return Target(read_step, (), [json.dumps(line), json.dumps(short)], is_json=True)


def archives(place):
    seeds = []
    for save in (np.savez, np.savez_compressed):
        buffer = io.BytesIO()
        save(buffer, **tiny.arrays(n_train=6, n_test=3))
        seeds.append(buffer.getvalue())
    words = [b"PK\x03\x04", b"PK\x01\x02", b"\x93NUMPY", b"'descr': '|O'", b"'shape': (99999999999,)", b"'<f8'"]
    return Target(stored(place / "x.npz", lambda path: load(str(path))), (DataError,), seeds, words)


def tables(place):
    names = "abcdefghijklmnop"
    for i, name in enumerate(names):
        Image.new("RGB", (4, 4), (i, 0, 0)).save(place / f"{name}.png")
    rows = [f"{name}.png,{'cat' if i % 2 else 'dog'}" for i, name in enumerate(names)]
    split = [f"{row},{'test' if i < 4 else 'train'}".replace(",", ";") for i, row in enumerate(rows)]
    seeds = ["\n".join(["path,label", *rows]), "\n".join(["path;label;split", *split])]
    words = [b"../", b"/etc/passwd", b"path", b"label", b"split", b"test", b'""', b"\r", b"a.png", b"\x00", b'"' * 99]
    read_table = stored(place / "x.csv", lambda path: load(str(path), skip_bad=True))
    return Target(read_table, (DataError,), seeds, words)


def images(place):
    random = np.random.default_rng(0)
    seeds = []
    for mode, channels in (("RGB", 3), ("L", 1), ("RGBA", 4)):
        pixels = random.integers(0, 256, (9, 7, channels), dtype=np.uint8)
        image = Image.fromarray(pixels[..., 0] if channels == 1 else pixels)
        for name in FORMATS:
            buffer = io.BytesIO()
            (image.convert("RGB") if (mode, name) in {("RGBA", "JPEG"), ("RGBA", "PPM")} else image).save(buffer, name)
            seeds.append(buffer.getvalue())
    words = [b"IHDR", b"IDAT", b"iCCP", b"tRNS", b"acTL", b"Exif\0\0", b"II*\0", b"MM\0*", b"\xff\xd8", b"\xff\xda",
             b"\x7f\xff\xff\xff", b"RIFF", b"VP8X"]  # fmt: skip
    read_image = stored(place / "x.png", lambda path: decode.read(path, DataConfig(size=8)))
    return Target(read_image, (DataError,), seeds, words, seconds=IMAGE_SECONDS)


def checkpoints(place):
    """With a checksum that is right again: what a stranger has written, not what a disk has damaged."""
    Checkpoints(place / "saved").save(state(3))
    (small,) = (place / "saved").glob("0*.pt")
    others = ({"config": "x", "parts": [[["a"], "../x", "0"]]}, {"config": "x", "parts": 7}, ["config"])
    seeds = [small.read_bytes()[32:], *map(to_bytes, others)]

    def sealed(content):
        small.write_bytes(hashlib.sha256(content).digest() + content)
        return read(small)

    return Target(sealed, (Damaged,), seeds, [b"cposix\nsystem\n", b"c__builtin__\neval\n", b"R", b".", b"PK\x03\x04"])


READERS = {
    policies: 300_000,
    metrics: 300_000,
    trials: 150_000,
    protocols: 60_000,
    images: 50_000,
    evaluations: 40_000,
    assignments: 30_000,
    configurations: 30_000,
    tables: 20_000,
    studies: 20_000,
    answers: 20_000,
    archives: 20_000,
    checkpoints: 20_000,
}
assert sum(READERS.values()) >= 1_000_000
SAMPLE = 20  # of which one runs in make test: a quarter of a minute


HOURS = pytest.mark.slow, pytest.mark.timeout(3600)


@pytest.mark.parametrize("share", [SAMPLE, pytest.param(1, marks=HOURS)])
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_only_documented_errors(reader, share, place):
    target = reader(place)
    assert target.read(target.encoded[0]) is not None or reader in (protocols,)  # what the damaged ones are made of
    found = fuzz.fuzz(target, READERS[reader] // share, seed=1 if share > 1 else 2)
    print(f"{reader.__name__}: {found}, {found.executions / found.seconds:,.0f} a second")
    assert found.refused > found.executions / 10 or not target.errors  # such are left out, not refused
    assert found.slowest < target.seconds
    assert found.grown < MOST_MEMORY
