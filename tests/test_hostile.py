"""Files that mean harm: they can neither run code, nor write or read elsewhere, nor take all memory, nor hang."""

import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from contextlib import suppress
from copy import deepcopy
from html.parser import HTMLParser
from itertools import islice

import numpy as np
import pytest
import torch
import yaml

import fuzz
import made_up
import tiny
from disks import Malicious
from slackaug import export
from slackaug.augment.formats import published
from slackaug.augment.policy import Policy
from slackaug.data import DataError, load
from slackaug.data import arrays as array_reader
from slackaug.report import history, page
from slackaug.runs.checkpoints import Checkpoints, to_bytes
from slackaug.schema import PolicyError

GIGABYTE = 1024**3


# --- code -------------------------------------------------------------------------------------------------------------


def npy(header, content=b""):
    """A member of an npz, with a header that says whatever it wants."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def archive(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def test_a_policy_never_runs_code(tmp_path):
    (tmp_path / "policy.json").write_bytes(pickle.dumps(Malicious(tmp_path / "it ran")))
    with pytest.raises(PolicyError, match="not valid JSON"):
        published.load(tmp_path / "policy.json")
    assert not (tmp_path / "it ran").exists()


@pytest.mark.parametrize("key", ["train_images", "train_labels", "class_names"])
def test_an_npz_never_runs_code(key, tmp_path):
    objects = io.BytesIO()
    np.save(objects, np.array([Malicious(tmp_path / "it ran")], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", **tiny.arrays())
    with zipfile.ZipFile(tmp_path / "x.npz") as file:
        members = {name.removesuffix(".npy"): file.read(name) for name in file.namelist()}
    with pytest.raises(DataError, match="could run code and are never loaded"):
        load(str(archive(tmp_path / "bad.npz", **(members | {key: objects.getvalue()}))))
    assert not (tmp_path / "it ran").exists()


def places(document):
    keys = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for key in keys:
        yield document, key
        yield from places(document[key])


def copied(document, n):
    """The document again, and its n-th place."""
    copy = deepcopy(document)
    return copy, next(islice(places(copy), n, None))


CODE = '"""\n\'\'\'\nraise SystemExit("it ran")\n# \\" \\x22 {x}'


def test_no_text_of_a_policy_becomes_code_in_an_exported_file():
    document = Policy.uniform("cifar").to_dict() | {"dataset": "x", "learned": {"a": "b", "c": {"d": "e"}}}
    n_exported = 0
    for n, (parent, key) in enumerate(places(document)):
        if not isinstance(parent[key], str):
            continue
        changed, (parent, key) = copied(document, n)
        parent[key] = CODE
        if parent is changed["learned"]:
            parent[CODE] = CODE
        try:
            policy = Policy.from_dict(changed)
        except PolicyError:  # the names of transformations
            continue
        namespace = {}
        exec(export.render(policy, "python", CODE), namespace)
        n_exported += "SlackAugment" in namespace
    assert n_exported >= 5


# --- memory -----------------------------------------------------------------------------------------------------------


def refused(path, message):
    before = fuzz.peak_memory()
    with pytest.raises(DataError, match=message):
        load(str(path))
    assert fuzz.peak_memory() - before < GIGABYTE // 2


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    zeros = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 10000, 10000, 3), }", bytes(600_000_000))
    archive(path, train_images=zeros, train_labels=npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }"))
    assert path.stat().st_size < 1_000_000
    del zeros
    monkeypatch.setattr(array_reader, "memory", lambda: GIGABYTE // 2)
    refused(path, "x.npz: unpacks to 1 GiB, the limit is 0")


def test_a_zip_bomb_that_lies_about_its_size(tmp_path):
    """A member is read as far as it says: the rest is never unpacked."""
    path = tmp_path / "x.npz"
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (300000000,), }"
    archive(path, train_images=npy(header, bytes(300_000_000)), train_labels=npy(header))
    content = path.read_bytes()
    size = struct.pack("<I", 300_000_128)
    assert content.count(size) == 2  # in the member's own header, and in the list of members
    path.write_bytes(content.replace(size, struct.pack("<I", 1000)))
    refused(path, "cannot be read")


HUGE = ("(10000000000000,)", "(100000, 100000, 100000)", "(-1,)", "(99999999999999999999,)")


@pytest.mark.parametrize("shape", [*HUGE, "(__import__('os').getpid(),)"])
def test_an_array_that_claims_to_be_huge_or_is_an_expression(shape, tmp_path):
    member = npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}", b"x")
    refused(archive(tmp_path / "x.npz", train_images=member, train_labels=member), "cannot be read")


def test_a_checkpoint_is_not_unpacked(tmp_path):
    """Torch itself packs nothing, and would read 100 MB of zeros out of 100 kB."""
    content = to_bytes({"config": "x", "parts": [], "zeros": torch.zeros(25_000_000)})
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
    assert torch.load(io.BytesIO(packed.getvalue()), weights_only=True)["zeros"].numel() == 25_000_000
    for found, count in ((content, 0), (packed.getvalue(), 1)):
        (tmp_path / "000000.pt").write_bytes(hashlib.sha256(found).digest() + found)
        assert len(Checkpoints(tmp_path).load()[1]) == count


# --- elsewhere --------------------------------------------------------------------------------------------------------


def test_an_archive_writes_nothing_anywhere(tmp_path):
    (tmp_path / "inside").mkdir()
    path = tmp_path / "inside" / "x.npz"
    np.savez(path, **tiny.arrays())
    with zipfile.ZipFile(path, "a") as file:
        for name in ("../evil.npy", "/tmp/evil.npy", "../../evil"):
            file.writestr(name, b"x")
    assert load(str(path)).n_classes == 3
    assert [p.name for p in tmp_path.rglob("*")] == ["inside", "x.npz"]


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["x.csv", "x.npz"])
@pytest.mark.parametrize("words", [["check"], ["search", "-o", "run"]], ids=["check", "search"])
def test_a_pipe_for_data_is_no_reason_to_wait(words, name, command, tmp_path):
    os.mkfifo(tmp_path / name)
    done = command(words[0], tmp_path / name, *words[1:])
    assert (done.returncode, f"{name}: a folder, a pipe or a device, not a file" in done.stderr) == (2, True)


# --- pages ------------------------------------------------------------------------------------------------------------


PAYLOAD = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>{{ 7 * 7 }}<a href=javascript:alert(3)>"


class Seen(HTMLParser):
    """What of a page would run or be fetched."""

    def __init__(self, text):
        super().__init__()
        self.bad = []
        self.n_scripts = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.n_scripts += tag == "script"
        for name, value in attrs:
            if name.startswith("on") or "javascript:" in (value or "") or (name == "src" and value == "x"):
                self.bad.append((tag, name, value))


def documents(folder):
    """All files of a run that hold texts, as documents that can be changed and written back."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".json":
            yield path, json.loads(path.read_text()), json.dumps
        elif path.suffix == ".yaml":
            yield path, yaml.safe_load(path.read_text()), yaml.safe_dump
        elif path.suffix == ".jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()][:3]
            yield path, lines, lambda lines: "".join(json.dumps(line) + "\n" for line in lines)


def harmed(document):
    """The document with the payload in place of one text, or of one key, after the other."""
    for n, (parent, key) in enumerate(places(document)):
        if isinstance(parent[key], str):
            changed, (place, name) = copied(document, n)
            place[name] = PAYLOAD
            yield changed
        if isinstance(parent, dict):
            changed, (place, name) = copied(document, n)
            place[PAYLOAD] = place.pop(name)
            yield changed


def n_pages(folder, every):
    """Look at a page for every so many-th place of all files; how many there were: some files are refused."""
    found = 0
    for path, document, dump in documents(folder):
        original = path.read_text()
        for changed in islice(harmed(document), 0, None, every):
            path.write_text(dump(changed))
            with suppress(ValueError):
                seen = Seen(page.render(folder))
                assert not seen.bad, changed
                assert seen.n_scripts == 1, changed
                found += 1
        path.write_text(original)
    return found


def made(kind, folder):
    if kind == "study":
        return made_up.study(folder, n_search=2, n_rounds=1)
    made_up.run(folder, n_rounds=1)
    (folder / "env.json").write_text(json.dumps({"torch": "2", "more": ["x"]}))
    return made_up.evaluation(folder, ("uniform", "other"))


@pytest.mark.parametrize("kind", ["run", "study"])
@pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_no_text_of_any_file_becomes_markup(every, kind, tmp_path):
    assert n_pages(made(kind, tmp_path / "x"), every) > 100 / every


# --- folders of runs --------------------------------------------------------------------------------------------------


@pytest.fixture
def precious(tmp_path):
    path = tmp_path / "precious"
    path.write_text("precious")
    return path


def test_a_report_on_a_strangers_run_changes_nothing_else(command, precious, tmp_path):
    run = made("run", tmp_path / "x")
    for name in (".lock", ".report.html.tmp", "report.html"):
        (run / name).symlink_to(precious)
    assert command("report", run).returncode == 0
    assert precious.read_text() == "precious"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
@pytest.mark.parametrize("name", [".lock", "metrics.jsonl", "search.log"])
def test_a_strangers_run_is_not_written_to_through_links(name, kind, command, precious, tiny_npz, finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "run")
    (run / "finished.json").unlink()  # a finished run is not written to
    (run / name).unlink()
    if kind == "pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to(precious if kind == "link" else tmp_path / "nowhere")
    done = command(*tiny.resume(tiny_npz, run))
    says = f"{run / name}: is a link, a pipe or a folder, expected a file of the run; remove it"
    assert (done.returncode, says in done.stderr) == (2, True)
    assert precious.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.usefixtures("quick_search")
def test_the_log_of_a_strangers_study_is_no_link(command, precious, tiny_npz, tmp_path):
    out = tmp_path / "study"
    assert command(*tiny.study_words(tiny_npz, out, "--baselines", "none", "--evaluations", 1)).returncode == 0
    (out / "searches" / "0.log").unlink()
    (out / "searches" / "0.log").symlink_to(precious)
    done = command(*tiny.study_resume(out))
    assert (done.returncode, "0.log: is a link, a pipe or a folder" in done.stderr) == (2, True)
    assert precious.read_text() == "precious"


NUMBERS = (0, -1, 10**9, 10**18, 10**400, -(10**400), 1e308, -1e308, 5e-324, 0.5)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("line", [0, -1], ids=["pre-training", "policy"])
@pytest.mark.parametrize("key", ["round", "step", "train_loss", "val_loss"])
def test_a_page_has_an_end_whatever_the_metrics_say(key, line, tmp_path):
    run = made("run", tmp_path / "x")
    lines = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    changed = [*lines[:2], *lines[-2:]]
    for number in NUMBERS:
        changed[line] |= {key: number}
        (run / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in changed))
        assert "</html>" in page.render(run)


def test_metrics_of_steps_that_no_search_has_are_left_out(tmp_path):
    run = made("run", tmp_path / "x")
    steps = history.read(run).steps
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    with (run / "metrics.jsonl").open("a") as file:
        for change in ({"round": 2}, {"step": 201}, {"step": 0}, {"round": -1}, {"round": 0, "step": 0}):
            file.write(json.dumps(last | change) + "\n")
    assert history.read(run).steps == steps


def test_rounds_of_different_numbers_of_positions(tmp_path):
    run = made_up.run(tmp_path / "x", n_rounds=2)
    path = run / "policies" / "round_02.json"
    Policy.uniform(Policy.load(path).space, n_composed=2).save(path)
    with pytest.raises(PolicyError, match="the rounds are policies of different numbers of positions"):
        page.render(run)
