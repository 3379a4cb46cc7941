"""A scene as SVG, PNG and PDF."""

import pytest
from PIL import Image

from drawings import drawn, hostile, shapes
from slackaug.report import geometry, policy_figures, render, scene


@pytest.mark.parametrize("identity", ["", "1a", "a b", 'a"', "a>b", "é"])
def test_an_id_must_be_an_id(identity):
    with pytest.raises(ValueError, match="expected an id"):
        render.svg(policy_figures.pie(drawn()), identity)


@pytest.mark.figures
def test_a_png_is_the_scene(tmp_path):
    """A slice is where it is said to be, in its colour, and the same policy gives the same bytes."""
    drawing = policy_figures.pie(hostile())
    for kind in ("pdf", "png"):
        render.save(drawing, tmp_path / "a", kind)
        render.save(drawing, tmp_path / "b", kind)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with Image.open(tmp_path / "a") as image:
        pixels = image.convert("RGB")
    factor = pixels.width / scene.WIDTH
    assert pixels.height / factor == pytest.approx(drawing.height, abs=1)
    for wedge in shapes(drawing, scene.Wedge):
        x, y = geometry.on_circle(wedge.x, wedge.y, 0.6 * wedge.radius, (wedge.start + wedge.end) / 2)
        found = "#{:02x}{:02x}{:02x}".format(*pixels.getpixel((round(factor * x), round(factor * y))))
        assert found == scene.COLOURS[wedge.fill], wedge.title
