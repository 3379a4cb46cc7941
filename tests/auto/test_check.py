"""`slackaug check` says what is there, what is wrong and what it costs, and writes nothing."""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import slackaug
from bad_data import BAD_DATA
from slackaug import models
from slackaug.auto import check, timing
from slackaug.auto import costs as costing
from slackaug.config import presets
from slackaug.data import DataError, files, load, packages
from slackaug.data import survey as surveys
from slackaug.data.options import DataConfig


def picture(path: Path, seed: int, width: int = 10, height: int = 8, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)).save(path)


def pictures(root: Path, places: dict[str, int], kind: str = "png", **shape: int) -> Path:
    """So many different ones in each place."""
    for k, (place, n) in enumerate(places.items()):
        for i in range(n):
            picture(root / place / f"{i}.{kind}", 100 * k + i, **shape)
    return root


def checked(root: object, **options: object) -> check.Findings:
    return slackaug.check(root, cost=False, **options)


@pytest.fixture
def pets(tmp_path):
    return pictures(tmp_path / "pets", {"train/cat": 8, "train/dog": 16, "test/cat": 3, "test/dog": 6})


def everything(folder: Path) -> dict[str, tuple[int, int]]:
    """All files under a folder, with size and time of change."""
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(folder.rglob("*"))}


def test_a_good_set(pets, command):
    done = command("check", pets, "--no-cost")
    assert done.returncode == 0
    for text in (
        "2 classes, 24 training and 9 test images",
        "images per class: 16 (dog) to 8 (cat)",
        "sizes: 10 x 8 (33)",
        "channels: colour (33)",
        "Does a mirror image keep its label? slackaug does not guess.",
        "proposed: space cifar, network small, preset quick; images as they are, 10 x 8",
        f"next:\n  slackaug search {pets} -o runs/NAME",
    ):
        assert text in done.stdout
    assert "fix first" not in done.stdout


def test_nothing_is_written(pets, tmp_path, monkeypatch, command):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    monkeypatch.setattr("slackaug.data.files.CACHE_FILES", 3)  # a search would decode these into a cache
    monkeypatch.setattr(presets, "PRESETS", {"quick": presets.PRESETS["quick"]})  # the others are measured likewise
    picture(pets / "train" / "cat" / "odd.png", 1, width=30)
    before = everything(tmp_path)
    opened = []

    def audit(event, arguments):
        if event == "open" and is_watching[0] and isinstance(arguments[0], str | bytes | os.PathLike):
            mode, flags = arguments[1:]
            if (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & (os.O_WRONLY | os.O_RDWR):
                opened.append(os.fspath(arguments[0]))

    is_watching = [True]
    sys.addaudithook(audit)
    done = command("check", pets, "--size", 8)
    is_watching[0] = False
    assert done.returncode == 0
    assert "takes about" in done.stdout
    assert everything(tmp_path) == before
    assert [path for path in opened if path != os.devnull and not str(path).startswith("/tmp/torchinductor")] == []


def test_everything_that_is_wrong_is_said_at_once(pets, command):
    (pets / "train" / "cat" / "empty.png").write_bytes(b"")
    content = (pets / "train" / "dog" / "0.png").read_bytes()
    (pets / "train" / "dog" / "cut.png").write_bytes(content[: len(content) // 2])
    picture(pets / "train" / "dog" / "wide.png", 77, width=40)
    picture(pets / "test" / "emu" / "0.png", 78)
    picture(pets / "train" / "fox" / "0.png", 79)
    done = command("check", pets, "--no-cost")
    assert done.returncode == 1
    for text in (
        "cannot be read: train/cat/empty.png: empty",
        "cannot be read: train/dog/cut.png: ",
        "fix first: 2 files cannot be read: repair or remove them, or give --skip-bad",
        "fix first: classes in the test set that have no training images: emu",
        "fix first: classes with fewer than 2 training images that can be read: fox",
        "fix first: images of 2 sizes: give --size 8",
        "then:\n  slackaug search",
        "--size 8 --skip-bad",
    ):
        assert text in done.stdout


def test_links_to_folders_are_to_be_mended(pets, tmp_path, command):
    (tmp_path / "store").mkdir()
    (pets / "train" / "cat" / "batch2").symlink_to(tmp_path / "store")
    done = command("check", str(pets), "--no-cost")
    assert done.returncode == 1
    assert f"fix first: links to folders are not followed: {pets}/train/cat/batch2; copy" in done.stdout
    assert "not images by their names" not in done.stdout


def test_copies_and_kinds_of_files(pets):
    cat, dog = pets / "train" / "cat", pets / "train" / "dog"
    (pets / "test" / "cat" / "copy.png").write_bytes((cat / "3.png").read_bytes())
    Image.open(cat / "4.png").save(dog / "same pixels.bmp")
    Image.open(cat / "5.png").transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(dog / "mirror.png")
    Image.open(cat / "0.png").save(cat / "really.jpg", format="PNG")
    frames = [Image.new("RGB", (10, 8), colour) for colour in ("red", "blue")]
    frames[0].save(cat / "moving.gif", save_all=True, append_images=frames[1:])
    picture(cat / "grey.png", 5, mode="L")
    findings = checked(pets)
    assert findings.problems == []
    assert (findings.survey.misnamed, findings.survey.stacks) == (["train/cat/really.jpg"], ["train/cat/moving.gif"])
    assert findings.survey.modes["L"] == 1
    found, said = findings.as_dict(), "\n".join(check.lines(findings))
    assert found["duplicates_across_splits"] == ["test/cat/copy.png = train/cat/3.png"]
    assert "train/cat/really.jpg = train/cat/0.png" in found["duplicates_in_training"]
    assert found["same_image_different_labels"] == ["train/cat/4.png (cat) = train/dog/same pixels.bmp (dog)"]
    assert len(found["mirror_images_with_other_labels"]) == 2  # each mirrors the other
    for text in ("speaks for --no-flip", "2 training images are exact copies of others, and a split may",
                 "the first is read", "1 file is of another format"):  # fmt: skip
        assert text in said
    assert re.findall(r"\b1 (?:\w+ )?\w+s are|\b1 (?:files|images|classes)\b", said) == []


@pytest.mark.parametrize(("source", "size"), [("imagenet100:{}", "256"), ("domainnet:{}/clipart", "224")])
def test_published_sets_have_their_own_size(source, size, tmp_path):
    for i, part in enumerate(("train", "val", "clipart")):
        pictures(tmp_path, {f"{part}/a": 3, f"{part}/b": 3}, "jpg", width=30 + i)
        for path in tmp_path.glob(f"{part}/*/*"):
            path.rename(path.with_name(f"{part}{path.name}"))
    source = source.format(tmp_path)
    found = checked(source)
    assert found.problems == []
    assert found.proposal.command == f"slackaug search {source} -o runs/NAME"
    assert size in found.proposal.preparation
    assert found.proposal.space == "domainnet"
    assert checked(source, size=16).proposal.command.endswith("--size 16")


def test_what_is_said_of_a_margin_can_be_given_to_a_search(tmp_path, command, quick_search):
    """The command has no size where the source has one of its own, and --margin needs one."""
    pictures(tmp_path / "clipart", {"a": 5, "b": 5}, "jpg", width=300, height=100)
    source = f"domainnet:{tmp_path}/clipart"
    proposal = checked(source).proposal
    (words,) = re.findall(r"(--size 224 --margin) keeps shapes", proposal.preparation)
    done = command(*proposal.command.split()[1:-1], tmp_path / "run", *words.split(), "--dry-run")
    assert done.returncode == 0, done.stderr


def test_the_command_can_be_given_to_a_shell(pets):
    place = pets.rename(pets.parent / "my pets & co")
    assert checked(place).proposal.command == f"slackaug search '{place}' -o runs/NAME"


def test_a_symmetric_image_is_not_its_own_mirror_image(tmp_path):
    for name, level in (("a", 3), ("b", 9)):
        for i in range(2):
            (tmp_path / name).mkdir(exist_ok=True)
            Image.new("L", (6, 6), level + 20 * i).save(tmp_path / name / f"{i}.png")
    assert checked(tmp_path).survey.copies == ([], [], [], [])


def test_16_bits_that_use_few_of_them(pets):
    for i in range(3):
        pixels = np.random.default_rng(i).integers(0, 3000, (8, 10), dtype=np.uint16)
        pixels[0, 0] = 3200
        Image.fromarray(pixels).save(pets / "train" / "cat" / f"{i}.png")
    said = (
        "3 images have 16 bits, with values up to 3,200 of 65,535: of 256 levels at most 13 are left; scale to 8 bits"
    )
    assert any(said in remark for remark in checked(pets).remarks)
    Image.fromarray(pixels * 20).save(pets / "train" / "cat" / "0.png")
    assert not any("bits" in remark for remark in checked(pets).remarks)


@pytest.mark.parametrize("cache", [False, True])
def test_dim_images_are_said_by_check_and_by_search(cache, tmp_path):
    for path in pictures(tmp_path / "pets", {"cat": 6, "dog": 6}).glob("*/*"):
        Image.fromarray(np.asarray(Image.open(path)) // 8).save(path)  # as Pillow reads 16-bit colour
    said = "no training image has a level above 31 of 255, and of 256 levels at most 32 are left; "
    dataset = load(str(tmp_path / "pets"), cache=tmp_path / "cache" if cache else None)
    assert sum(note.startswith(said) for note in dataset.notes) == 1
    assert sum(text.startswith(said) for text in checked(tmp_path / "pets").remarks) == 1


def test_imbalance_few_and_no_test_set(tmp_path):
    findings = checked(pictures(tmp_path, {"rare": 3, "common": 30}))
    assert findings.as_dict()["imbalance"] == 10
    texts = " ".join(findings.remarks)
    for text in ("10.0 times the images", "fewer than 20 training images: rare (3)", "a stratified 20 % will be held"):
        assert text in texts


@pytest.mark.parametrize("kind", ["folders", "csv"])
def test_classes_that_differ_in_capital_letters_alone(kind, pets):
    (pets / "train" / "dog").rename(pets / "train" / "CAT")
    (pets / "test" / "dog").rename(pets / "test" / "CAT")
    lines = [f"{path.relative_to(pets)},{path.parent.name}" for path in pets.glob("train/*/*.png")]
    (pets / "x.csv").write_text("\n".join(["path,label", *lines]))
    findings = checked(pets if kind == "folders" else pets / "x.csv")
    said = "classes that differ in capital letters alone: CAT and cat; if these are one class, give them one name"
    assert (findings.problems, said in findings.remarks) == ([], True)


def test_classes_and_groups_of_one_size(tmp_path):
    pictures(tmp_path, {"cat/1": 2, "cat/2": 2, "dog/3": 2, "dog/4": 2})
    said = check.lines(checked(tmp_path, group_by=r"(\d)/"))
    assert {"images per class: 4 in each", "images per group: 2 in each"} <= {*said}


def test_json_is_one_object(pets, command):
    done = command("check", pets, "--json", "--no-cost")
    found = json.loads(done.stdout)
    assert found["classes"] == {"cat": {"train": 8, "test": 3}, "dog": {"train": 16, "test": 6}}
    assert found["sizes"] == [{"width": 10, "height": 8, "images": 33}]
    assert found["proposal"]["space"] == "cifar"
    assert found["costs"] == []


@pytest.mark.parametrize("source", ["digits", "npz"])
def test_sources_without_files(source, tiny_npz):
    findings = checked("digits" if source == "digits" else tiny_npz)
    assert findings.problems == []
    assert findings.proposal.size is None
    said = "mirror flips are off for this data set" in check.lines(findings)
    assert said == (source == "digits")


@pytest.mark.parametrize("options", [{}, {"size": 64, "margin": True}], ids=str)
@pytest.mark.parametrize(("shape", "dtype", "mode", "channels"), [
    ((28, 20), "uint8", "L", "grey"), ((28, 20, 1), "uint16", "I;16", "grey, 16 bits"),
    ((1, 28, 20), "bool", "1", "black and white"), ((28, 20, 3), "uint8", "RGB", "colour"),
    ((3, 28, 20), ">u2", "RGB;16", "colour, 16 bits"), ((28, 20, 3), "bool", "RGB;1", "colour, 1 bit"),
])  # fmt: skip
def test_an_npz_is_said_to_be_what_is_in_the_file(shape, dtype, mode, channels, options, tmp_path):
    images = np.random.default_rng(0).integers(0, 2, (20, *shape)).astype(dtype)
    labels = np.arange(20) % 2
    np.savez(tmp_path / "x.npz", train_images=images[:12], train_labels=labels[:12], val_images=images[12:15],
             val_labels=labels[12:15], test_images=images[15:], test_labels=labels[15:])  # fmt: skip
    findings = checked(tmp_path / "x.npz", **options)
    found = findings.as_dict()
    assert found["sizes"] == [{"width": 20, "height": 28, "images": 20}]
    assert found["channels"] == {mode: 20}
    assert {"sizes: 20 x 28 (20)", f"channels: {channels} (20)"} <= {*check.lines(findings)}


def test_parts_of_an_npz_of_different_sizes(tmp_path):
    shapes = {"train": (12, 8, 10), "test": (6, 9, 9, 3)}
    arrays = {f"{part}_images": np.zeros(shape, np.uint8) for part, shape in shapes.items()}
    labels = {f"{part}_labels": np.arange(shape[0]) % 2 for part, shape in shapes.items()}
    np.savez(tmp_path / "x.npz", **arrays, **labels)
    found = checked(tmp_path / "x.npz", size=8).survey
    assert (found.sizes, found.modes) == ({(8, 10): 12, (9, 9): 6}, {"L": 12, "RGB": 6})


def test_images_of_packages_are_what_they_were():
    examples = [(Image.new("L" if k % 3 else "RGB", (10, 8 + k % 3)), k % 2) for k in range(6)]
    data = packages.from_sets("hf:x", {"train": [examples], "test": [examples]}, DataConfig(size=4))
    found = surveys.survey_dataset(data)
    assert found.modes == {"L": 8, "RGB": 4}
    assert found.sizes == {(8, 10): 4, (9, 10): 4, (10, 10): 4}
    assert surveys.survey_dataset(load("digits")).modes == {"L": 1797}


def test_large_and_elongated_images(tmp_path):
    pictures(tmp_path, {"a": 3}, "jpg", width=400, height=300)
    proposal = checked(pictures(tmp_path, {"b": 3}, "jpg", width=401, height=300)).proposal
    assert (proposal.size, proposal.space) == (224, "domainnet")
    assert "random windows of 224" in proposal.preparation
    squeezed = checked(tmp_path, size=224).proposal
    assert "100 % of the images are far from square: --size 224 --margin" in squeezed.preparation
    assert squeezed.command.endswith("--size 224")
    assert "random windows of 224" in checked(tmp_path, size=224, margin=True).proposal.preparation


@pytest.mark.parametrize(("n_wide", "words"), [(4, "--size 90 --margin"), (0, "--size 90")])
def test_images_of_several_sizes_get_one_advice(n_wide, words, tmp_path, command):
    pictures(tmp_path, {"a": 8, "b": 8}, "jpg", width=90, height=90)
    pictures(tmp_path, {"c": 4}, "jpg", width=95, height=90)
    pictures(tmp_path, {"d": n_wide}, "jpg", width=200, height=90)
    said = command("check", tmp_path, "--no-cost").stdout
    assert re.findall("--size 90(?: --margin)?", said) == [words] * 2  # to be fixed first, and in the command
    assert ("squeezed" in said) == (words == "--size 90")
    with pytest.raises(DataError, match=rf"for example {words} \("):
        load(str(tmp_path))
    assert load(str(tmp_path), size=90, margin="margin" in words).image_size == (90, 90)


@pytest.mark.parametrize("flops", [1.0, 1e15], ids=["steps of 2 images are measured", "steps of 16, the whole batch"])
def test_the_cost_on_a_cpu_goes_with_images(flops, tmp_path, monkeypatch):
    """A made-up machine on which an image takes a millisecond: the estimate must find that again."""

    def step_seconds(config, data, device, engine):
        search, n_half = config.search, len(data.train.labels) // 2
        n_steps = config.pretrain.epochs * (n_half // min(config.pretrain.batch, n_half))
        step = search.n_composites * min(search.batch, n_half) / 1000
        batch = min(config.pretrain.batch, n_half)
        policy = step + min(search.n_val, n_half) / 1000
        return timing.StepSeconds(len(data.train.labels), n_steps, batch / 1000, step, policy, batch / 2000)

    monkeypatch.setattr(timing, "step_seconds", step_seconds)
    monkeypatch.setattr(timing, "STEP_FLOPS", flops)
    places = {"train/cat": 16, "train/dog": 24, "test/cat": 3, "test/dog": 6}
    found = slackaug.check(pictures(tmp_path, places), cost=True, device="cpu")
    costs = {cost.preset: (cost.learning, cost.race) for cost in found.costs}
    assert {*costs} >= {"quick", "paper"}
    assert found.as_dict()["costs"][0]["seconds"] == sum(costs["quick"])
    # of quick: 20 images in a half; batches of 16, and of 20 to validate; five rounds and three trials of a rate
    search = (5 * (40 * 16 * 16 + 60 * (16 * 16 + 20)) + 3 * 40 * 16 * 16) / 1000
    pretraining = 4 * 500 * 20 / 1000  # of how much is composed
    race = (7 * 2 + 4 * 2 + 2 * 8) * 500 * 30 / 1000  # three in four of the images
    assert costs["quick"] == pytest.approx((search + pretraining, race / 2), rel=0.1)  # two trainings side by side


def test_what_takes_days_on_a_cpu_needs_a_gpu(pets, monkeypatch, command):
    """But for the preset that is proposed, whose time is what it takes."""
    hours = {"quick": 30, "standard": 233, "fast": 23, "paper": 668}
    monkeypatch.setattr(
        timing, "search_seconds", lambda config, *_: timing.Seconds(3600.0 * hours[config.preset], 0.0, 1.0)
    )

    def costs(*words):
        lines = command("check", pets, "--device", "cpu", *words).stdout.splitlines()
        said = [re.fullmatch(r"a search with preset (\w+) \([\w-]+\) (.*)", line) for line in lines]
        return {found[1]: found[2] for found in said if found}

    assert costs() == {
        "quick": "takes about 30 h 00 min here",
        "standard": "needs a GPU",
        "fast": "takes about 23 h 00 min here",
        "paper": "needs a GPU",
    }
    assert costs("--verbose")["standard"] == "needs a GPU: it takes about 233 h 00 min here"
    (found, *_) = [cost for cost in slackaug.check(pets, device="cpu").costs if cost.preset == "paper"]
    assert (found.needs_gpu, found.learning) == (True, 668 * 3600)
    on_a_gpu = costing.measure(load("digits"), None, "cuda")
    assert [cost.needs_gpu for cost in on_a_gpu] == [False] * len(hours)


def test_a_race_that_is_not_held_costs_nothing(pets, monkeypatch):
    monkeypatch.setattr(timing, "step_seconds", lambda *_: timing.StepSeconds(24, 1, 1.0, 1.0, 1.0, 1.0))
    found = slackaug.check(pets, device="cpu")  # 24 images to learn from
    assert [cost.race for cost in found.costs] == [0] * len(found.costs)
    assert found.costs[0].learning > 0


@pytest.mark.parametrize("n_images", [4, 8, 1000])
def test_a_step_is_measured_with_as_many_images_as_take_a_second(n_images, monkeypatch):
    dataset = load("digits")
    config = presets.quick(dataset)  # 16 composites of 16 images, and 128 of validation
    network = models.build(config.model, dataset.n_classes, dataset.image_size, torch.Generator())
    per_image = 3 * 16 * models.flops(network, dataset.image_size)
    monkeypatch.setattr(timing, "STEP_FLOPS", per_image * n_images)
    small, _ = timing.with_few_images(config, dataset)
    batch = min(n_images, 16)
    assert (small.search.batch, small.search.val_batch, small.pretrain.batch) == (batch, 8 * batch, 2 * batch)


def test_the_cost_is_that_of_what_is_left_to_train_on(tmp_path):
    found = surveys.survey(DataConfig(source=str(pictures(tmp_path, {"a": 10, "b": 10}))))
    assert len(costing.stand_in_for(found, DataConfig()).train.labels) == 16  # 20 % are held out


# --- groups -----------------------------------------------------------------------------------------------------------

BY_PATIENT = r"(p\d+)_"
SIZES = (11, 9, 7, 7, 6, 6, 5, 5)  # images of each patient; the odd ones are healthy


@pytest.fixture
def patients(tmp_path):
    root = tmp_path / "patients"
    for patient, n in enumerate(SIZES):
        for i in range(n):
            picture(root / ("healthy" if patient % 2 else "ill") / f"p{patient}_{i}.png", 100 * patient + i)
    return root


def test_groups(patients, command):
    done = command("check", patients, "--no-cost", "--group-by", BY_PATIENT)
    assert done.returncode == 0
    data = load(str(patients), group_by=BY_PATIENT)
    train, val = (len(half.labels) for half in data.halves(0))
    assert len(data.train.labels) != round(0.8 * sum(SIZES))  # so that the next line can fail
    for text in (
        rf"8 groups by {BY_PATIENT}: each stays on one side of a split",
        "images per group: 11 (p0) to 5 (p6)",
        f"whole groups give {train} images to learn on, {val} to validate with and {len(data.test.labels)} to test",
        f"next:\n  slackaug search {patients} -o runs/NAME --group-by '{BY_PATIENT}'",
    ):
        assert text in done.stdout
    assert "several classes" not in done.stdout
    assert "per group" not in command("check", patients, "--no-cost").stdout


def test_groups_for_programs(patients):
    picture(patients / "healthy" / "p0_odd.png", 7)
    for i in range(12):
        picture(patients / "healthy" / f"p1_more{i}.png", 5000 + i)
    findings = checked(patients, group_by=BY_PATIENT)
    found = findings.as_dict()["groups"]
    assert (found["in_train_and_test"], found["of_several_classes"]) == ([], ["p0"])
    assert [*found["images"].items()][:2] == [("p1", 21), ("p0", 12)]
    said = " ".join(findings.remarks)
    assert "the largest group, p1, has 30 % of the images" in said
    assert "1 of 8 groups has images of several classes: p0" in said
    assert checked(patients).as_dict()["groups"] is None


def test_a_column_of_a_csv_is_a_group(patients):
    lines = [f"{p.relative_to(patients)},{p.parent.name},{p.name.split('_')[0]}" for p in patients.glob("*/*.png")]
    (patients / "x.csv").write_text("\n".join(["path,label,who", *lines]))
    found = checked(patients / "x.csv", group_by="who")
    assert found.problems == []
    assert found.survey.groups.sizes == {f"p{patient}": n for patient, n in enumerate(SIZES)}


def test_groups_that_a_search_refuses_are_to_be_mended(tmp_path):
    """Both at once: in train and in test, and a class that is in one group alone."""
    pictures(tmp_path, {"train/cat/p1_": 3, "test/cat/p1_": 3, "train/dog/p2_": 3, "train/dog/p3_": 3})
    findings = checked(tmp_path, group_by=BY_PATIENT)
    shared, one_sided = findings.problems
    assert shared == "groups in train and in test: p1; move each to one of them"
    assert "of cat, for groups stay on one side of a split" in one_sided
    assert findings.as_dict()["groups"]["in_train_and_test"] == ["p1"]
    assert findings.proposal is not None


def test_too_few_groups_to_hold_one_out_and_a_class_that_is_not_tested(patients):
    found = checked(patients, group_by="healthy|ill")
    assert any("too few groups to hold one out" in problem for problem in found.problems)
    for patient in (20, 21):
        for i in range(2):
            picture(patients / "rare" / f"p{patient}_{i}.png", 10 * patient + i)
    found = checked(patients, group_by=BY_PATIENT)
    assert found.problems == []
    assert "classes that are not tested, because too few groups have them: rare" in found.remarks


def test_a_class_without_images_is_said_before_any_split_by_groups(patients):
    (patients / "rare").mkdir()
    (patients / "rare" / "p30_0.png").write_bytes(b"")
    found = checked(patients, group_by=BY_PATIENT, skip_bad=True)
    assert found.problems == ["classes with fewer than 2 training images that can be read: rare"]


def test_copies_within_a_group_do_not_matter(patients):
    (patients / "ill" / "p0_copy.png").write_bytes((patients / "ill" / "p0_0.png").read_bytes())
    (patients / "ill" / "p2_copy.png").write_bytes((patients / "ill" / "p0_0.png").read_bytes())
    assert len(checked(patients).survey.copies.within) == 2
    found = checked(patients, group_by=BY_PATIENT).survey
    assert found.copies.within == ["ill/p2_copy.png = ill/p0_0.png"]


def test_the_cost_is_that_of_the_split_by_groups(patients, monkeypatch):
    seen = []
    monkeypatch.setattr(
        timing, "search_seconds", lambda config, data, device: seen.append(data) or timing.Seconds(1.0, 1.0, 1.0)
    )
    slackaug.check(patients, group_by=BY_PATIENT)
    whole = load(str(patients), group_by=BY_PATIENT)
    for seed in range(3):
        found, expected = ([half.labels.bincount().tolist() for half in data.halves(seed)] for data in (seen[0], whole))
        assert found == expected


@pytest.mark.parametrize(
    ("source", "group_by", "says"),
    [
        ("patients", "person", "finds nothing in 56 of 56 paths"),
        ("patients", r"p\d+_\d+", "every image is a group of its own"),
        ("digits", "x", "groups are for image files"),
        ("nowhere", "x", "no such file or folder"),
    ],
)
def test_what_cannot_be_read_is_refused_as_by_a_search(source, group_by, says, patients, command):
    done = command("check", patients.parent / source if source != "digits" else source, "--group-by", group_by)
    assert (done.returncode, says in done.stderr) == (2, True)


# --- as a search ------------------------------------------------------------------------------------------------------


PARTED, WHOLE = {"train/a": 3, "train/b": 3}, {"a": 6, "b": 6}


def damaged(root, path, width=10):
    """A file that is cut off in the middle; its header is good."""
    picture(root / path, 5, width=width)
    os.truncate(root / path, (root / path).stat().st_size - 40)


REFUSED = {  # places with pictures, files that are damaged, and options
    "too few images to hold one out": ({"a": 2, "b": 2}, [], {}),
    "test: no images": (PARTED, ["test/a/0.png"], {"skip_bad": True}),
    "none of the 2 files can be read": ({}, ["a/0.png", "b/0.png"], {"skip_bad": True}),
    "3 of 15 files cannot be read": (WHOLE, ["b/x0.png", "b/x1.png", "b/x2.png"], {}),
    "every class needs at least 2 training images": ({"a": 6, "b": 1}, [], {}),
    "too few in 'b' (0)": ({"a": 6}, ["b/0.png", "b/1.png"], {"skip_bad": True}),
    "classes in the test set that have no training images: c": (PARTED | {"test/c": 2}, [], {}),
    "have no training images: d": (PARTED | {"test/a": 2}, ["test/d/0.png"], {"skip_bad": True}),
    "images of different sizes: 10 x 8 (12), 30 x 8 (1)": (WHOLE | {"b/wide": 1}, [], {}),
    "only one class ('a')": ({"a": 6}, [], {}),
    "too thin for --margin": (WHOLE | {"b/thin": 1}, [], {"size": 70, "margin": True}),
    "groups in train and in test: 0; move": (
        PARTED | {"test/a/x": 2, "test/b/x": 2}, ["test/a/0.png"], {"group_by": r"(x|\d)[/.]", "skip_bad": True}
    ),
    "too few groups to hold one out": (WHOLE, [], {"group_by": "^."}),
    "for groups stay on one side of a split": (PARTED | {"test/b": 2}, [], {"group_by": "t.*/"}),
}  # fmt: skip
ODD = {"b/wide": {"width": 30}, "b/thin": {"width": 20_000, "height": 1}}


@pytest.mark.parametrize("says", REFUSED)
def test_what_a_search_refuses_is_to_be_mended(says, tmp_path, command):
    places, bad, options = REFUSED[says]
    for place, n in places.items():
        pictures(tmp_path, {place: n}, **ODD.get(place, {}))
    for path in bad:
        damaged(tmp_path, path)
    with pytest.raises(DataError, match=re.escape(says)):
        load(str(tmp_path), **options).halves(0)
    words = [["--" + name.replace("_", "-")] + [value] * (value is not True) for name, value in options.items()]
    done = command("check", tmp_path, "--no-cost", *(word for pair in words for word in pair))
    assert (done.returncode, "fix first: " in done.stdout) == (1, True), done.stdout + done.stderr
    assert "next:" not in done.stdout
    assert "will be held out" not in done.stdout or "hold one out" not in done.stdout


@pytest.mark.parametrize("says", BAD_DATA)
def test_bad_data_of_a_search_is_bad_data_here(says, tmp_path, command):
    """Where there is nothing to look at, in a search's words and with its exit code."""
    done = command("check", BAD_DATA[says](tmp_path / "data"), "--no-cost")
    assert done.returncode == (1 if "fix first: " in done.stdout else 2)
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_more_than_fits_into_memory_is_to_be_mended(tmp_path, monkeypatch):
    pictures(tmp_path, WHOLE)
    for options, n_bytes in (({}, 12 * 3 * 10 * 8), ({"size": 16}, 12 * 3 * 16 * 16)):
        monkeypatch.setattr(files, "MAX_BYTES", n_bytes)
        assert checked(tmp_path, **options).problems == []
        monkeypatch.setattr(files, "MAX_BYTES", n_bytes - 1)
        with pytest.raises(DataError, match="GiB of memory, the limit is") as refused:
            load(str(tmp_path), **options)
        assert checked(tmp_path, **options).problems == [str(refused.value)]


@pytest.mark.parametrize("place", ["a/!.jpg", "b/9.jpg"], ids=["first", "last"])
@pytest.mark.parametrize("cached", [False, True], ids=["in memory", "cached"])
def test_the_size_that_a_damaged_file_claims_does_not_count(place, cached, tmp_path):
    """The header of a jpg is good: 30 pixels wide, while all others have 10."""
    root = pictures(tmp_path / "set", WHOLE)
    damaged(root, place, width=30)
    assert checked(root, skip_bad=True).problems == []
    found = load(str(root), skip_bad=True, cache=tmp_path / "cache" if cached else None)
    assert found.image_size == (8, 10)
