"""Every kind of picture becomes the RGB pixels a person would see."""

import io
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

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
    colour = (200, 0, 0, 0) if mode == "RGBA" else (7, 0)
    image = Image.new(mode, (4, 3), colour)
    image.putpixel((1, 1), (10, 20, 30, 255) if mode == "RGBA" else (10, 255))
    out = read(image, tmp_path).copy()
    assert out[1, 1].tolist() == ([10, 20, 30] if mode == "RGBA" else [10, 10, 10])
    out[1, 1] = 255
    assert (out == 255).all()


def test_half_transparent_pixels_are_mixed_with_white(tmp_path):
    assert read(Image.new("RGBA", (1, 1), (0, 0, 0, 128)), tmp_path)[0, 0, 0] in (127, 128)


@pytest.mark.parametrize("transparency", [None, 1, bytes([255, 0])])
def test_palette_with_and_without_transparency(transparency, tmp_path):
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    options = {} if transparency is None else {"transparency": transparency}
    expected = [40, 50, 60] if transparency is None else [255, 255, 255]
    assert read(image, tmp_path, **options)[0].tolist() == [[10, 20, 30], expected]


def test_grey_png_with_a_transparent_level(tmp_path):
    image = Image.fromarray(np.array([[9, 8]], dtype=np.uint8))
    assert read(image, tmp_path, transparency=9)[0, :, 0].tolist() == [255, 8]


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


def test_a_size_means_a_square_bicubic(tmp_path):
    image = Image.fromarray(rgb_of(GREY))
    image.save(tmp_path / "x.png")
    expected = np.asarray(image.resize((6, 6), Image.Resampling.BICUBIC))
    assert np.array_equal(decode.read(tmp_path / "x.png", DataConfig(size=6)), expected)


@pytest.mark.parametrize("size", [None, 6])
def test_lines_are_the_same_pixels_in_another_order(size, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "x.png")
    options = DataConfig(size=size)
    with decode.opened(tmp_path / "x.png") as image:
        lines = decode.lines(image, options)
    assert np.array_equal(lines.transpose(0, 2, 1), decode.read(tmp_path / "x.png", options))


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".gif", ".tif", ".webp", ".bmp"])
def test_a_file_that_is_not_read_at_once_gives_the_same(suffix, tmp_path, monkeypatch):
    whole = read(Image.fromarray(rgb_of(GREY)), tmp_path, suffix)
    path = tmp_path / f"image{suffix}"
    with decode.opened(path, at_once=0) as image:
        assert np.array_equal(decode.pixels(image, DataConfig()), whole)
    some = os.read
    monkeypatch.setattr(os, "read", lambda file, n: some(file, n // 2))  # as a disk of a network may
    assert np.array_equal(decode.read(path, DataConfig()), whole)


def test_an_animation_is_its_first_frame(tmp_path):
    frames = [Image.new("RGB", (2, 2), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "x.gif", save_all=True, append_images=frames[1:])
    assert decode.read(tmp_path / "x.gif", DataConfig())[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".gif", ".tif", ".webp", ".bmp"])
def test_one_image_is_no_stack(suffix, tmp_path):
    Image.new("RGB", (2, 2)).save(tmp_path / f"x{suffix}")
    with decode.opened(tmp_path / f"x{suffix}") as image:
        decode.pixels(image, DataConfig())
        assert not decode.is_stack(image)


def test_damage_after_the_first_frame_does_not_matter(tmp_path):
    frames = [Image.new("RGB", (2, 2), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "x.gif", save_all=True, append_images=frames[1:])
    content = (tmp_path / "x.gif").read_bytes()
    for n in range(content.rindex(b","), len(content)):  # from the header of the second frame on
        (tmp_path / "x.gif").write_bytes(content[:n])
        with decode.opened(tmp_path / "x.gif") as image:
            pixels = decode.pixels(image, DataConfig())
            assert decode.is_stack(image) in (False, True)
        assert pixels[0, 0].tolist() == [255, 0, 0]


def bad_file(kind):
    buffer = io.BytesIO()
    Image.effect_noise((40, 40), 50).save(buffer, "PNG" if kind == "truncated" else "JPEG")
    return {
        "empty": b"",
        "text": b"not an image at all",
        "truncated": buffer.getvalue()[:300],
        "half a jpeg": buffer.getvalue()[: len(buffer.getvalue()) // 2],
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n",
    }[kind]


@pytest.mark.parametrize("kind", ["empty", "text", "truncated", "half a jpeg", "postscript"])
def test_what_cannot_be_read_is_an_error_with_a_reason(kind, tmp_path):
    (tmp_path / "x.png").write_bytes(bad_file(kind))
    with pytest.raises(DataError, match=r"\w"):
        decode.read(tmp_path / "x.png", DataConfig())


def test_missing_float_and_deep_images(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        decode.read(tmp_path / "x.png", DataConfig())
    with pytest.raises(DataError, match="floating-point"):
        read(Image.new("F", (2, 2)), tmp_path, ".tif")
    with pytest.raises(DataError, match="from -5 to -5"):
        read(Image.new("I", (2, 2), -5), tmp_path, ".tif")


@pytest.mark.parametrize("side", [11_000, 60_000])
def test_decompression_bombs_are_refused_before_they_are_decoded(side, tmp_path):
    Image.new("1", (1, 1)).save(tmp_path / "x.png")
    content = bytearray((tmp_path / "x.png").read_bytes())
    content[16:24] = struct.pack(">II", side, side)
    content[29:33] = struct.pack(">I", zlib.crc32(bytes(content[12:29])))
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(DataError, match="100,000,000"):
        decode.size_of(tmp_path / "x.png")
