"""`slackaug figure`: what it writes, and what it refuses."""

import re
import shutil
import sys

import pytest
from PIL import Image

import made_up
import tiny
from drawings import SVG, parse
from slackaug.commands import figure


def test_it_draws_svg(command, tmp_path, finished):
    for kind in ("pie", "evolution"):
        out = tmp_path / f"{kind}.svg"
        done = command("figure", kind, finished, "-o", out, "--position", 2)
        assert (done.returncode, done.stdout.replace("\n", ""), done.stderr) == (0, str(out), "")
        assert "at position 2 of 3" in parse(out.read_text()).find(f"{SVG}title").text


def headings(path):
    """The names of the panels."""
    root = parse(path.read_text())
    return [node.find(f"{SVG}title").text for node in root.iter(f"{SVG}text") if node.get("font-weight") == "600"]


def test_several_stand_in_one_picture_with_their_names(command, tmp_path, finished):
    copy, out = shutil.copytree(finished, tmp_path / "cats"), tmp_path / "x.svg"
    policy = shutil.copy(finished / "policy.json", tmp_path / "dogs.json")
    tiny.succeeded(command("figure", "pie", copy, policy, f"mine={policy}", "uniform:cifar", "-o", out))
    assert headings(out) == ["cats", "dogs", "mine", "uniform:cifar"]
    shutil.copytree(finished, tmp_path / "a=b")
    tiny.succeeded(command("figure", "evolution", copy, tmp_path / "a=b", "-o", out))
    assert headings(out) == ["cats", "a=b"]
    figure.figure("pie", copy, [policy], out=out)
    assert headings(out) == ["cats", "dogs"]


@pytest.mark.parametrize("kind", ["pie", "evolution"])
def test_every_position_and_their_average(kind, command, tmp_path, finished):
    out = tmp_path / "x.svg"
    tiny.succeeded(command("figure", kind, finished, "--each", "-o", out))
    assert headings(out) == ["position 1", "position 2", "position 3", "averaged"]


@pytest.mark.parametrize("kind", ["pie", "evolution"])
def test_of_a_study_the_best_search_is_marked(kind, command, tmp_path):
    """Once all of its searches have been evaluated."""
    study, out = made_up.study(tmp_path / "study", n_search=3, n_rounds=2), tmp_path / "x.svg"
    tiny.succeeded(command("figure", kind, study, "-o", out))
    assert headings(out) == ["search 0", "search 1", "search 2"]
    names = [f"auto, search {s}" for s in (0, 2, 1)]  # the accuracies rise
    made_up.evaluation(study, ("uniform", *names))
    tiny.succeeded(command("figure", kind, study, "-o", out))
    assert headings(out) == ["search 0", "search 1, best: 91.35 %", "search 2"]
    tiny.succeeded(command("figure", kind, study, study / "searches" / "0", "-o", out))
    assert headings(out)[:2] == ["study, search 0", "study, search 1, best: 91.35 %"]
    shutil.rmtree(study / "searches")
    done = command("figure", kind, study, "-o", out)
    assert (done.returncode, "no search of this study has a policy yet" in done.stderr) == (2, True)


def test_it_draws_strips_of_the_runs_own_images(command, tmp_path, finished):
    for suffix in ("png", "svg", "pdf"):
        out = tmp_path / f"strips.{suffix}"
        assert command("figure", "strips", finished, "-o", out).returncode == 0
        assert out.stat().st_size > 1000
    with Image.open(tmp_path / "strips.png") as image:
        assert image.width >= 3 * 2 * 96
    assert "data:image/png;base64," in (tmp_path / "strips.svg").read_text()
    photo = tmp_path / "a.png"
    Image.new("RGB", (30, 20)).save(photo)
    assert command("figure", "strips", "uniform:cifar", "--image", photo, "-o", tmp_path / "b.png").returncode == 0


def test_strips_show_an_image_as_a_search_sees_it(tmp_path):
    photo = Image.new("RGB", (400, 200), "teal")
    photo.paste("red", (0, 0, 200, 200))
    exif = photo.getexif()
    exif[0x0112] = 6  # turned by the camera: red is above
    photo.save(tmp_path / "photo.jpg", exif=exif)
    turned = figure.read_image(str(tmp_path / "photo.jpg"))
    assert turned.size == (48, 96)
    assert turned.getpixel((24, 10))[0] > 200 > 60 > turned.getpixel((24, 90))[0]
    Image.new("RGBA", (8, 8), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert figure.read_image(str(tmp_path / "clear.png")).getpixel((4, 4)) == (255, 255, 255)
    Image.new("I;16", (8, 8), 32768).save(tmp_path / "deep.png")
    assert figure.read_image(str(tmp_path / "deep.png")).getpixel((4, 4)) == (128, 128, 128)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cake", "uniform:cifar", "-o", "x.svg"], "unknown figure 'cake'; known: pie, evolution, strips"),
        (["pie", "uniform:cifar", "-o", "x.gif"], "expected a name that ends in .svg, .png, .pdf"),
        (["pie", "uniform:cifar", "-o", "nowhere/x.svg"], "there is no folder nowhere"),
        (["pie", "uniform:cifar", "-o", "x" * 300 + ".svg"], "slackaug: " + "x" * 300 + ".svg: File name too long"),
        (["pie", "uniform:cifr", "-o", "x.svg"], "expected one of uniform:cifar"),
        (["pie", "uniform:cifar", "-o", "x.svg", "--position", "4"], "expected a number from 1 to 3, got 4"),
        (["pie", ".", "-o", "x.svg"], "holds no run"),
        (["pie", "x.json", "-o", "x.svg"], "x.json: cannot be read"),
        (["pie", "uniform:cifar", "-o", "x.svg", "--image", "a.png"], "--image is for strips"),
        (["evolution", "uniform:cifar", "-o", "x.svg"], "an evolution needs a run"),
        (["strips", "uniform:cifar", "-o", "x.png"], "strips need images: give --image FILE, once or more"),
        (["strips", "uniform:cifar", "-o", "x.png", "--image", "no.png"], "--image no.png: cannot be read"),
        (["strips", "uniform:cifar", "-o", "x.png", "--position", "1"], "--position and --each are for pie"),
        (["strips", "uniform:cifar", "--each", "-o", "x.png"], "--position and --each are for pie"),
        (["strips", "uniform:cifar", "uniform:cifar", "-o", "x.png"], "strips are of one policy, not of 2"),
        (["pie", "uniform:cifar", "uniform:imagenet", "--each", "-o", "x.svg"], "for one policy, not for 2"),
        (["pie", "uniform:cifar", "--each", "--position", "1", "-o", "x.svg"], "leave out --position"),
        (["evolution", "uniform:cifar", "uniform:imagenet", "-o", "x.svg"], "an evolution needs a run"),
        (["pie", "A=uniform:cifar", "A=uniform:imagenet", "-o", "x.svg"], "A is given more than once"),
        (["pie", "mine=x.json", "uniform:cifar", "-o", "x.svg"], "x.json: cannot be read"),
    ],
)
def test_it_says_what_is_wrong(command, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    done = command("figure", *words)
    assert (done.returncode, message in done.stderr, list(tmp_path.iterdir())) == (2, True, [])


def test_a_run_without_a_policy_has_no_pie_yet(command, tmp_path, finished):
    shutil.copy(finished / "config.yaml", tmp_path)
    done = command("figure", "pie", tmp_path, "-o", tmp_path / "x.svg")
    assert (done.returncode, "has no policy yet" in done.stderr) == (2, True)


@pytest.mark.parametrize("source", ["os:getcwd", "torchvision:CIFAR10", "hf:some/name", "gone.npz"])
def test_a_config_may_neither_call_code_nor_start_a_download(command, tmp_path, finished, source):
    config = shutil.copytree(finished, tmp_path / "run") / "config.yaml"
    config.write_text(re.sub(r"source: .*", f"source: {source}", config.read_text()))
    done = command("figure", "strips", tmp_path / "run", "-o", tmp_path / "x.png")
    says = f"{source}: not found here; give --image FILE, once or more"
    assert (done.returncode, says in done.stderr) == (2, True)


def test_png_and_pdf_of_charts_need_matplotlib(command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = command("figure", "pie", "uniform:cifar", "-o", tmp_path / "x.png")
    assert (done.returncode, "pip install matplotlib" in done.stderr) == (2, True)


@pytest.mark.figures
@pytest.mark.parametrize("kind", ["pie", "evolution", "strips", "pie --each", "evolution --each"])
@pytest.mark.parametrize("suffix", ["png", "PNG", "pdf"])
def test_it_draws_png_and_pdf(command, tmp_path, finished, kind, suffix):
    path, (name, *each) = tmp_path / f"x.{suffix}", kind.split()
    done = command("figure", name, finished, *each, "-o", path)
    assert (done.returncode, done.stderr) == (0, "")
    if suffix == "pdf":
        assert path.read_bytes().startswith(b"%PDF")
        return
    with Image.open(path) as image:
        assert min(image.size) > 300
        assert len(set(image.convert("L").resize((64, 64)).tobytes())) > 20  # not empty
