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


def picture(width: int = 40, height: int = 30, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.fixture
def image(tmp_path):
    picture().save(tmp_path / "image.png")
    return tmp_path / "image.png"


@pytest.fixture
def policy():
    policy = Policy.uniform("domainnet")
    policy.pi.copy_(torch.linspace(1, -1, 20, dtype=torch.float64).expand(3, 20))
    return policy


def tiles(policy, image):
    most, least, composites = [], [], []
    groups, (random,) = contact_sheet.rows(policy, image, "name", "size", torch.Generator().manual_seed(0))
    for group in groups[1:]:
        (most if group.heading == "most likely" else least).extend(group.tiles)
    composites.extend(random.tiles)
    return groups[0].tiles[0], most, least, composites


def test_most_and_least_likely_with_probability_and_strength(policy):
    original, most, least, composites = tiles(policy, picture())
    names = policy.space.names
    assert [tile.lines[0] for tile in most] == names[:3]
    assert [tile.lines[0] for tile in least] == names[:-4:-1]
    p = policy.probabilities.mean(0)
    assert most[0].lines == [names[0], f"{p[0]:.1%}", "±0.75 of height"]
    assert least[0].lines == ["Identity", f"{p[-1]:.1%}", ""]
    assert (most[0].share, len(composites)) == (1.0, 7)
    assert np.array_equal(original.picture, picture())
    assert np.array_equal(least[0].picture, picture())  # Identity


def test_transformations_act_at_mu(policy):
    """TranslateX at mu: the columns that are left are those of the image, moved by that much."""
    policy.mu[policy.space.index("TranslateX")] = 0.4  # of 0.75 of the width
    moved, before = np.asarray(tiles(policy, picture())[1][2].picture), np.asarray(picture())
    shift = round(0.4 * 0.75 * 40)
    assert np.array_equal(moved[:, shift:], before[:, :-shift]) or np.array_equal(moved[:, :-shift], before[:, shift:])


def test_composites_are_named_as_drawn(policy):
    *_, composites = tiles(policy, picture())
    known = {*policy.space.names, "mirrored", "unchanged"}
    assert all(line.split()[0] in known for tile in composites for line in tile.lines)
    assert len({tile.picture.tobytes() for tile in composites}) > 3
    unflipped = tiles(replace(policy, flip=False), picture())[3]
    assert not any("mirrored" in tile.lines for tile in unflipped)


def test_nothing_is_minus_zero(policy):
    transform = policy.space.transforms[policy.space.index("Sharpness")]
    assert contact_sheet.amount(transform, -0.001) == "+0.00"


def test_long_names_and_many_positions_fit(image):
    fog = custom("A transformation of mine with a very long name\n\x1b[31m", lambda images, value: images)
    policy = Policy.uniform(get_space("domainnet").exclude("Invert").add(fog), n_composed=16)
    page = contact_sheet.render(policy, "long/" * 100, [image])
    assert page.width == contact_sheet.WIDTH
    edge = np.asarray(page)[:, -contact_sheet.MARGIN :]
    assert (edge == 255).all()  # nothing runs into the margin
    assert contact_sheet.drawn_width(shorten(fog.name, 14, 100, contact_sheet.drawn_width), 14) <= 100
    assert "\x1b" not in shorten(fog.name, 14, 1000)


def test_the_same_seed_gives_the_same_sheet(policy, image):
    def sheet(seed):
        return contact_sheet.render(policy, "title", [image, image], seed).tobytes()

    assert sheet(0) == sheet(0)
    assert sheet(0) != sheet(1)


# --- images -----------------------------------------------------------------------------------------------------------


def test_any_image_becomes_a_thumbnail(policy, tmp_path):
    grey, wide, oriented = tmp_path / "grey.png", tmp_path / "wide.jpg", tmp_path / "oriented.jpg"
    picture().convert("L").save(grey)
    picture(3000, 4).save(wide)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    picture(400, 200).save(oriented, exif=exif)
    Image.new("RGBA", (1, 1), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.fromarray(np.full((8, 8), 65535, dtype=np.uint16)).save(tmp_path / "deep.png")
    assert contact_sheet.read_image(grey)[0].mode == "RGB"
    small, size = contact_sheet.read_image(wide)
    assert (small.width, small.height, size) == (contact_sheet.TILE, 1, "3000 x 4")
    turned, size = contact_sheet.read_image(oriented)
    assert (turned.size, size) == ((contact_sheet.TILE // 2, contact_sheet.TILE), "200 x 400")
    assert contact_sheet.read_image(tmp_path / "clear.png")[0].getpixel((0, 0)) == (255, 255, 255)
    assert contact_sheet.read_image(tmp_path / "deep.png")[0].getpixel((0, 0)) == (255, 255, 255)
    one = contact_sheet.render(policy, "title", [grey])
    all_five = contact_sheet.render(policy, "title", sorted(tmp_path.iterdir()))
    assert all_five.width == one.width
    assert all_five.height > 4 * one.height


@pytest.mark.parametrize("size", [(32, 32), (57, 30), (168, 168), (100, 168), (1, 1), (168, 1)])
def test_a_picture_fills_its_tile(size):
    tile = contact_sheet.on_tile(Image.new("RGB", size, "red"))
    assert tile.size == (contact_sheet.TILE, contact_sheet.TILE)
    painted = (np.asarray(tile) == (255, 0, 0)).all(-1)
    assert max(painted.any(0).sum(), painted.any(1).sum()) >= contact_sheet.TILE - max(size)
    middle = slice(contact_sheet.TILE // 2 - 1, contact_sheet.TILE // 2 + 1)
    assert painted[middle, middle].any()


# --- the command ------------------------------------------------------------------------------------------------------


def test_command_writes_a_png(command, image, policy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policy.save("policy.json")
    done = command("preview", "policy.json", image, "--seed", 3)
    assert (done.returncode, done.stdout, done.stderr) == (0, "wrote preview.png\n", "")
    with Image.open("preview.png") as found:
        assert isinstance(found, PngImagePlugin.PngImageFile)
        assert found.convert("RGB").tobytes() == contact_sheet.render(policy, "policy.json", [image], 3).tobytes()
    assert not list(tmp_path.glob(".*"))


def test_command_overwrites_only_when_told(command, image, tmp_path):
    out = tmp_path / "sheet.png"
    out.write_text("my work")
    done = command("preview", "uniform:cifar", image, "-o", out)
    assert done.returncode == 2
    assert "exists; choose another -o, or --overwrite" in done.stderr
    assert out.read_text() == "my work"
    assert command("preview", "uniform:cifar", image, "-o", out, "--overwrite").returncode == 0
    before = image.read_bytes()
    done = command("preview", "uniform:cifar", image, "-o", image, "--overwrite")
    assert done.returncode == 2
    assert "is one of the images" in done.stderr
    assert image.read_bytes() == before


def test_command_names_every_file_that_cannot_be_read(command, image, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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


FAST_AA = (
    '{"kind": "subpolicies (op,prob,level in [0,1] of op range)", "source": "a test", '
    '"subpolicies": [[["Rotate", 0.5, 1.0]]]}'
)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.json", "image.png"], "nowhere.json: cannot be read"),
        (["uniform:cifr", "image.png"], "expected one of uniform:cifar"),
        (["fast.json", "image.png"], "a SubPolicies of another method, which has no pi and mu"),
        (["uniform:cifar"], "Missing argument"),
        (["uniform:cifar", "image.png", "-o", "sheet.jpg"], "sheet.jpg: expected a name that ends in .png"),
        (["uniform:cifar", "image.png", "-o", "no/where/sheet.png"], "there is no folder"),
        (["uniform:cifar", *["image.png"] * 51], "expected 1 to 50 images, got 51"),
    ],
)
def test_bad_input_is_one_message(command, image, monkeypatch, arguments, says):
    monkeypatch.chdir(image.parent)
    Path("fast.json").write_text(FAST_AA)
    done = command("preview", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("preview.png").exists()
