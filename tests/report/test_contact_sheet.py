"""The contact sheet: what is on it, what it is made of, and what it refuses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, PngImagePlugin

from slackaug import Policy
from slackaug.augment.transforms import custom, get_space
from slackaug.report import contact_sheet
from slackaug.report.lettering import shorten


def picture(width=40, height=30):
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.fixture
def image(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    picture().save("image.png")
    return tmp_path / "image.png"


@pytest.fixture
def policy():
    policy = Policy.uniform("domainnet")
    policy.pi.copy_(torch.linspace(1, -1, 20, dtype=torch.float64).expand(3, 20))
    return policy


def tiles(policy, image):
    """The image itself, the most and the least likely transformations, and composites."""
    rows = contact_sheet.rows(policy, image, "name", "size", torch.Generator().manual_seed(0))
    (original,), most, least, composites = (group.tiles for row in rows for group in row)
    return original, most, least, composites


def test_most_and_least_likely_with_probability_and_strength(policy):
    """Each acts at mu: of TranslateX, the columns that are left are those of the image, moved by that much."""
    policy.mu[policy.space.index("TranslateX")] = 0.4  # of 0.75 of the width
    original, most, least, composites = tiles(policy, picture())
    names, p = policy.space.names, policy.probabilities.mean(0)
    assert [tile.lines[0] for tile in most] == names[:3]
    assert [tile.lines[0] for tile in least] == names[:-4:-1]
    assert most[0].lines == [names[0], f"{p[0]:.1%}", "±75 % of height"]
    assert least[0].lines == ["Identity", f"{p[-1]:.1%}", ""]
    assert (most[0].share, len(composites)) == (1.0, 7)
    assert np.array_equal(original.picture, picture())
    assert np.array_equal(least[0].picture, picture())  # Identity
    moved, before, shift = np.asarray(most[2].picture), np.asarray(picture()), round(0.4 * 0.75 * 40)
    assert np.array_equal(moved[:, shift:], before[:, :-shift]) or np.array_equal(moved[:, :-shift], before[:, shift:])


def test_composites_are_named_as_drawn(policy):
    *_, composites = tiles(policy, picture())
    known = {*policy.space.names, "mirrored", "unchanged"}
    assert all(line.split()[0] in known for tile in composites for line in tile.lines)
    assert len({tile.picture.tobytes() for tile in composites}) > 3
    unflipped = tiles(replace(policy, flip=False), picture())[3]
    assert not any("mirrored" in tile.lines for tile in unflipped)
    assert contact_sheet.amount(policy.space["Sharpness"], -0.001) == "+0.00"  # nothing is minus zero


def test_long_names_and_many_positions_fit(image):
    fog = custom("A transformation of mine with a very long name\n\x1b[31m", lambda images, value: images)
    policy = Policy.uniform(get_space("domainnet").exclude("Invert").add(fog), n_composed=16)
    page = contact_sheet.render(policy, "long/" * 100, [image])
    assert page.width == contact_sheet.WIDTH
    assert (np.asarray(page)[:, -contact_sheet.MARGIN :] == 255).all()  # nothing runs into the margin
    assert contact_sheet.drawn_width(shorten(fog.name, 14, 100, contact_sheet.drawn_width), 14) <= 100
    assert "\x1b" not in shorten(fog.name, 14, 1000)


def test_any_image_becomes_a_thumbnail(policy, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    picture().convert("L").save(tmp_path / "grey.png")
    picture(3000, 4).save(tmp_path / "wide.jpg")
    picture(400, 200).save(tmp_path / "oriented.jpg", exif=exif)
    Image.new("RGBA", (1, 1), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.fromarray(np.full((8, 8), 65535, dtype=np.uint16)).save(tmp_path / "deep.png")
    files, tile = sorted(tmp_path.iterdir()), contact_sheet.TILE
    found = {path.stem: (image, image.size, size) for path in files for image, size in [contact_sheet.read_image(path)]}
    assert found["grey"][0].mode == "RGB"
    assert found["wide"][1:] == ((tile, 1), "3000 x 4")
    assert found["oriented"][1:] == ((tile // 2, tile), "200 x 400")
    assert found["clear"][0].getpixel((0, 0)) == found["deep"][0].getpixel((0, 0)) == (255, 255, 255)
    one, all_five = (contact_sheet.render(policy, "title", of) for of in (files[:1], files))
    assert (all_five.width, all_five.height > 4 * one.height) == (one.width, True)


@pytest.mark.parametrize("size", [(32, 32), (57, 30), (168, 168), (100, 168), (1, 1), (168, 1)])
def test_a_picture_fills_its_tile(size):
    tile = contact_sheet.on_tile(Image.new("RGB", size, "red"))
    assert tile.size == (contact_sheet.TILE, contact_sheet.TILE)
    painted = (np.asarray(tile) == (255, 0, 0)).all(-1)
    assert max(painted.any(0).sum(), painted.any(1).sum()) >= contact_sheet.TILE - max(size)
    middle = slice(contact_sheet.TILE // 2 - 1, contact_sheet.TILE // 2 + 1)
    assert painted[middle, middle].any()


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_a_png_which_the_seed_decides(command, image, policy, tmp_path):
    policy.save("policy.json")
    done = command("preview", "policy.json", image, "--seed", 3)
    assert (done.returncode, done.stdout, done.stderr) == (0, "wrote preview.png\n", "")
    with Image.open("preview.png") as found:
        assert isinstance(found, PngImagePlugin.PngImageFile)
        pixels = found.convert("RGB").tobytes()
    same, other = (contact_sheet.render(policy, "policy.json", [image], seed).tobytes() for seed in (3, 1))
    assert pixels == same != other
    assert not list(tmp_path.glob(".*"))


def test_command_overwrites_only_when_told(command, image):
    before, out = image.read_bytes(), Path("sheet.png")
    out.write_text("my work")
    for words, says in (
        ([out], "exists; choose another -o, or --overwrite"),
        ([image, "--overwrite"], "is one of the images"),
    ):
        done = command("preview", "uniform:cifar", image, "-o", *words)
        assert (done.returncode, says in done.stderr) == (2, True)
    assert (out.read_text(), image.read_bytes()) == ("my work", before)
    assert command("preview", "uniform:cifar", image, "-o", out, "--overwrite").returncode == 0


def test_command_names_every_file_that_cannot_be_read(command, image):
    Path("text.png").write_text("not an image")
    Path("empty.jpg").touch()
    Path("cut.png").write_bytes(image.read_bytes()[:200])
    Path("folder").mkdir()
    done = command("preview", "uniform:cifar", "text.png", image, "empty.jpg", "cut.png", "folder", "nowhere.png")
    assert done.returncode == 2
    for line in ("text.png: not an image of a known format", "empty.jpg: empty", "cut.png: ",
                 "folder: is a folder", "nowhere.png: no such file"):  # fmt: skip
        assert line in done.stderr
    assert "image.png" not in done.stderr
    assert not Path("preview.png").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.json", "image.png"], "nowhere.json: cannot be read"),
        (["uniform:cifar"], "Missing argument"),
        (["uniform:cifar", "image.png", "-o", "sheet.jpg"], "sheet.jpg: expected a name that ends in .png"),
        (["uniform:cifar", "image.png", "-o", "no/where/sheet.png"], "there is no folder"),
        (["uniform:cifar", *["image.png"] * 51], "expected 1 to 50 images, got 51"),
    ],
)
def test_bad_input_is_one_message(command, image, arguments, says):
    done = command("preview", *arguments)
    assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    assert not Path("preview.png").exists()
