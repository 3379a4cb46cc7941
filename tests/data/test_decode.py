"""Every kind of picture becomes the RGB pixels a person would see."""

import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from pictures import noise
from slackaug.data import DataError, decode
from slackaug.data.options import DataConfig

GREY = np.arange(0, 240, 20, dtype=np.uint8).reshape(3, 4)


def read(image, tmp_path, suffix=".png", **options):
    image.save(tmp_path / f"image{suffix}", **options)
    return decode.read(tmp_path / f"image{suffix}", DataConfig())


def rgb_of(grey):
    return np.repeat(grey[..., None], 3, 2)


def test_grey_and_black_and_white(tmp_path):
    assert np.array_equal(read(Image.fromarray(GREY), tmp_path), rgb_of(GREY))
    bilevel = read(Image.fromarray(GREY).point(lambda v: 255 * (v > 100)).convert("1"), tmp_path)
    assert np.array_equal(bilevel, rgb_of(np.where(GREY > 100, 255, 0)))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_pixels_are_white_whatever_lies_under_them(mode, tmp_path):
    image = Image.new(mode, (4, 3), (200, 0, 0, 0) if mode == "RGBA" else (7, 0))
    image.putpixel((1, 1), (10, 20, 30, 255) if mode == "RGBA" else (10, 255))
    out = read(image, tmp_path).copy()
    assert out[1, 1].tolist() == ([10, 20, 30] if mode == "RGBA" else [10, 10, 10])
    out[1, 1] = 255
    assert (out == 255).all()
    assert read(Image.new("RGBA", (1, 1), (0, 0, 0, 128)), tmp_path)[0, 0, 0] in (127, 128)  # mixed with white


@pytest.mark.parametrize("transparency", [None, 1, bytes([255, 0])])
def test_palette_with_and_without_transparency(transparency, tmp_path):
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    options = {} if transparency is None else {"transparency": transparency}
    expected = [40, 50, 60] if transparency is None else [255, 255, 255]
    assert read(image, tmp_path, **options)[0].tolist() == [[10, 20, 30], expected]
    levels = Image.fromarray(np.array([[9, 8]], dtype=np.uint8))
    assert read(levels, tmp_path, transparency=9)[0, :, 0].tolist() == [255, 8]


@pytest.mark.parametrize("suffix", [".png", ".tif", ".pgm"])
def test_sixteen_bits_are_scaled_and_do_not_wrap(suffix, tmp_path):
    levels = np.array([[0, 128, 129, 257 * 100, 256 * 200, 65535]], dtype=np.uint16)
    out = read(Image.fromarray(levels), tmp_path, suffix)
    assert np.array_equal(out, rgb_of(np.rint(levels / 257).astype(np.uint8)))


def test_sixteen_bit_colour_is_scaled(tmp_path):
    """Pillow cannot write these, so the file is made by hand: one pixel, 16 bits for each channel."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0" + struct.pack(">HHH", 0, 257 * 100, 65535))
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")
    (tmp_path / "x.png").write_bytes(png)
    assert decode.read(tmp_path / "x.png", DataConfig()).tolist() == [[[0, 100, 255]]]


def test_cmyk(tmp_path):
    out = read(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), tmp_path, ".tif")
    assert (out == [255, 0, 0]).all()
    jpeg = read(Image.new("CMYK", (8, 8), (0, 0, 0, 0)), tmp_path, ".jpg")
    assert (jpeg > 250).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_cameras_orientation_is_applied(orientation, tmp_path):
    exif = Image.Exif()
    exif[decode.ORIENTATION] = orientation
    out = read(Image.fromarray(GREY), tmp_path, exif=exif)
    k, mirrored = {1: (0, 0), 2: (0, 1), 3: (2, 0), 4: (2, 1), 5: (3, 1), 6: (3, 0), 7: (1, 1), 8: (1, 0)}[orientation]
    expected = np.rot90(GREY, k)
    assert np.array_equal(out[..., 0], expected[:, ::-1] if mirrored else expected)
    assert decode.size_of(tmp_path / "image.png") == out.shape[:2]


@pytest.mark.parametrize("size", [None, 6])
def test_a_size_means_a_square_bicubic_and_lines_are_the_same_pixels(size, tmp_path):
    image = Image.open(noise(tmp_path / "x.png", 0, (7, 5)))
    expected = image if size is None else image.resize((size, size), Image.Resampling.BICUBIC)
    assert np.array_equal(decode.read(tmp_path / "x.png", DataConfig(size=size)), expected)
    with decode.opened(tmp_path / "x.png") as image:
        assert np.array_equal(decode.lines(image, DataConfig(size=size)).transpose(0, 2, 1), expected)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".gif", ".tif", ".webp", ".bmp"])
def test_a_file_that_is_not_read_at_once_gives_the_same(suffix, tmp_path, monkeypatch):
    whole = read(Image.fromarray(rgb_of(GREY)), tmp_path, suffix)
    path = tmp_path / f"image{suffix}"
    with decode.opened(path, at_once=0) as image:
        assert np.array_equal(decode.pixels(image, DataConfig()), whole)
    some = os.read
    monkeypatch.setattr(os, "read", lambda file, n: some(file, n // 2))  # as a disk of a network may
    assert np.array_equal(decode.read(path, DataConfig()), whole)


def test_an_animation_is_its_first_frame_and_damage_after_it_does_not_matter(tmp_path):
    frames = [Image.new("RGB", (2, 2), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "x.gif", save_all=True, append_images=frames[1:])
    content = (tmp_path / "x.gif").read_bytes()
    for n in range(content.rindex(b","), len(content) + 1):  # from the header of the second frame on
        (tmp_path / "x.gif").write_bytes(content[:n])
        with decode.opened(tmp_path / "x.gif") as image:
            pixels = decode.pixels(image, DataConfig())
            assert decode.is_stack(image) in ((True,) if n == len(content) else (False, True))
        assert pixels[0, 0].tolist() == [255, 0, 0]


def test_negative_levels(tmp_path):
    with pytest.raises(DataError, match="from -5 to -5"):
        read(Image.new("I", (2, 2), -5), tmp_path, ".tif")
