"""Files and folders as people have them: what is wrong is said, with its place and what to do, and the exit code is 2.

Every case is tried as `check` and as `search`, which decodes in memory and by the processes of the cache.
"""

import os
import shutil
import struct
import zlib

import pytest
from PIL import Image

from pictures import noise, noises
from slackaug.data import decode, load

N = 5


@pytest.fixture
def pets(tmp_path):
    return noises(tmp_path / "pets", N)


@pytest.fixture(params=[[], ["--cache", "CACHE"]], ids=["memory", "cache"])
def search(request, tmp_path, command, quick_search):
    """`slackaug search`, up to where the work would begin."""
    cache = [tmp_path / "cache" if word == "CACHE" else word for word in request.param]
    return lambda data, *more: command("search", data, "-o", tmp_path / "run", "--dry-run", *cache, *more)


@pytest.fixture
def check(command):
    return lambda data: command("check", data, "--no-cost")


@pytest.fixture
def refused(search):
    def refused(data, *facts):
        """By a search, with exit code 2, all these facts, and no traceback."""
        done = search(data)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
        assert [fact for fact in facts if fact not in done.stderr] == []
        return done.stderr

    return refused


def bomb(path, side):
    Image.new("1", (1, 1)).save(path)
    content = bytearray(path.read_bytes())
    content[16:24] = struct.pack(">II", side, side)
    content[29:33] = struct.pack(">I", zlib.crc32(bytes(content[12:29])))
    path.write_bytes(content)


def cut(path, share=0.97):
    noise(path, 3, (40, 40), quality=100, subsampling=0)
    os.truncate(path, int(share * path.stat().st_size))
    with decode.opened(path) as image:
        assert image.size == (40, 40)  # its header is whole


POSTSCRIPT = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n"  # to read it is to run it
BAD = {
    "corrupt": (lambda path: cut(path.with_suffix(".jpg")), r"dog/bad.jpg: image file is truncated"),
    "half a jpeg": (lambda path: cut(path.with_suffix(".jpg"), 0.5), r"dog/bad.jpg: image file is truncated"),
    "half a png": (lambda path: cut(path, 0.5), r"dog/bad.png: image file is truncated"),
    "zero bytes": (lambda path: path.write_bytes(b""), "dog/bad.png: empty"),
    "text": (lambda path: path.write_text("hello"), "dog/bad.png: not an image of a known format"),
    "postscript": (lambda path: path.write_text(POSTSCRIPT), "dog/bad.png: not an image of a known format"),
    "huge": (lambda path: bomb(path, 11_000), "dog/bad.png: 11000 x 11000 pixels, the limit is 100,000,000"),
    "bomb": (lambda path: bomb(path, 60_000), "dog/bad.png: a decompression bomb: more than 100,000,000 pixels"),
    "a pipe": (os.mkfifo, "dog/bad.png: a folder, a pipe or a device, not a file"),  # to open it is to wait
    "a link to itself": (lambda path: path.symlink_to(path), "dog/bad.png: "),
    "a link to nothing": (lambda path: path.symlink_to(path.parent / "gone.png"), "dog/bad.png: no such file"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", BAD)
def test_files_that_cannot_be_read(kind, pets, search, refused, check):
    make, says = BAD[kind]
    make(pets / "dog" / "bad.png")
    refused(pets, f"1 of {2 * N + 1} files cannot be read", "--skip-bad", says)
    done = search(pets, "--skip-bad")
    assert done.returncode == 0, done.stderr
    assert f"left out 1 of {2 * N + 1} files" in done.stdout
    assert f"for example {says[:11]}" in done.stdout
    done = check(pets)
    assert (done.returncode, f"cannot be read: {says}" in done.stdout) == (1, True)


@pytest.mark.parametrize("search", [[]], indirect=True, ids=["memory"])
def test_permissions(pets, refused, monkeypatch):
    """Root may read everything, so that Pillow has to say it instead."""
    path = pets / "dog" / "0.png"
    open_image = Image.open

    def refuse(file, *arguments, **options):
        if os.fspath(file) == os.fspath(path):
            raise PermissionError(13, "Permission denied", os.fspath(file))
        return open_image(file, *arguments, **options)

    monkeypatch.setattr(decode, "content", lambda *_: None)  # what is read at once comes without a name
    monkeypatch.setattr(decode.Image, "open", refuse)
    refused(pets, "dog/0.png: no permission to read it")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permissions_of_files_and_folders(pets, refused):
    (pets / "dog" / "0.png").chmod(0)
    refused(pets, "dog/0.png: no permission to read it")
    (pets / "dog").chmod(0)
    try:
        refused(pets, "Permission denied")
    finally:
        (pets / "dog").chmod(0o755)


def test_a_folder_that_may_not_be_read_is_not_left_out_in_silence(pets, refused, monkeypatch):
    noise(pets / "dog" / "inner" / "x.png", 99)
    scan = os.scandir

    def refuse(path):
        if os.fspath(path).endswith("inner"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    refused(pets, f"{pets / 'dog' / 'inner'}: cannot be read (Permission denied)")


@pytest.mark.parametrize("suffix", [".gif", ".tif", ".png", ".webp"])
def test_a_stack_is_its_first_image(suffix, pets, search, check):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "lime")]
    frames[0].save(pets / "dog" / f"many{suffix}", save_all=True, append_images=frames[1:])
    frames[0].save(pets / "dog" / f"one{suffix}")
    says = f"1 file has several frames or pages; the first is read, and no other: dog/many{suffix}\n"
    for done in (search(pets), search(pets), check(pets)):  # the second has a whole cache
        assert (done.returncode, done.stdout.count(says)) == (0, 1)


def test_a_name_that_lies_is_read_as_what_it_is(pets, search, check):
    noise(pets / "dog" / "really.png", 77, format="JPEG")
    assert search(pets).returncode == 0
    done = check(pets)
    assert done.returncode == 0
    assert "1 file is of another format than the name says; the content counts: dog/really.png" in done.stdout


def test_folders_that_link_to_themselves(pets, search, refused):
    (pets / "dog" / "again").symlink_to(pets / "dog", target_is_directory=True)
    done = search(pets)
    assert done.returncode == 0, done.stderr
    assert "8 training images" in done.stdout  # of 10: each is read once
    (pets / "all").symlink_to(pets, target_is_directory=True)
    refused(pets, "the same file has two labels", "all/cat/0.png and cat/0.png")


STRANGE = "two\nlines \U0001f408 \x1b[31mred"
SHOWN = r"two\nlines 🐈 \x1b[31mred"


def test_strange_names_are_read_and_shown_in_one_line(pets, search, refused, check, tmp_path):
    for k, name in enumerate((STRANGE, "caf\u00e9 \u732b")):
        for i in range(3):
            noise(pets / name / f"{i}\n\U0001f98a.png", 50 + 10 * k + i)
    done = search(pets)
    assert done.returncode == 0, done.stderr
    assert (SHOWN in done.stdout, "\x1b" in done.stdout) == (True, False)
    dataset = load(str(pets))
    assert STRANGE in dataset.class_names
    assert load(str(pets), cache=tmp_path / "again").fingerprint == dataset.fingerprint
    (pets / "dog" / f"{STRANGE}.png").write_bytes(b"")
    assert "\x1b" not in refused(pets, f"dog/{SHOWN}.png: empty")
    assert "\x1b" not in check(pets).stdout


@pytest.mark.parametrize("name", [STRANGE, "x\u202egnp"], ids=ascii)
def test_strange_classes_are_shown_in_one_line(name, pets, check):
    """Whatever is said of them: equal images with different labels, mirror images, one class alone."""
    for i in range(3):
        noise(pets / name / f"{i}.png", i)
    mirrored = Image.open(pets / "cat" / "4.png").transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    mirrored.save(pets / name / "mirrored.png")
    escaped = SHOWN if name == STRANGE else r"x\u202egnp"
    shown = check(pets).stdout
    for text in (f"cat/0.png (cat) = {escaped}/0.png ({escaped})", f"mirrors {escaped}/mirrored.png ({escaped})"):
        assert text in shown
    assert all(line.isprintable() for line in shown.splitlines())
    for other in ("cat", "dog"):
        shutil.rmtree(pets / other)
    done = check(pets)
    assert (done.returncode, f"only one class ({escaped});" in done.stdout) == (1, True)
    assert all(line.isprintable() for line in done.stdout.splitlines())
    (pets / name).rename(pets / "class")
    (pets / name).mkdir()
    (pets / "class").rename(pets / name / "class")  # one folder too far up
    done = check(pets)
    assert (done.returncode, f"give {pets}/{escaped}" in done.stderr) == (2, True)


@pytest.mark.skipif(os.name != "posix", reason="names that are no text exist on POSIX alone")
def test_names_that_are_no_text(pets, search, refused):
    folder = os.fsencode(pets / "dog")
    os.rename(os.path.join(folder, b"0.png"), os.path.join(folder, b"\xff\xfe.png"))
    done = search(pets)
    assert done.returncode == 0, done.stderr
    os.truncate(os.path.join(folder, b"\xff\xfe.png"), 0)
    refused(pets, r"dog/\udcff\udcfe.png: empty")
