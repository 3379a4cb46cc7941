"""Letters in pictures: no box in the place of a letter, whatever fonts the machine has."""

import unicodedata

import pytest
from PIL import Image

from slackaug import Policy
from slackaug.report import contact_sheet, fonts


@pytest.fixture
def bare(monkeypatch):
    """A machine without fonts."""
    monkeypatch.setattr(fonts, "of_machine", lambda *_: None)
    fonts.lettering.cache_clear()
    yield
    fonts.lettering.cache_clear()


@pytest.mark.parametrize("text", ["Kätzchen.png", "±30 °", "naïve café ß", "Ω猫ж"])
def test_every_letter_has_a_shape(text):
    found = fonts.lettering(text, 14)
    assert fonts.has_all(found.font, found.text)


@pytest.mark.parametrize(
    ("text", "shown"), [("Kätzchen.png", "Katzchen.png"), ("café 猫", "cafe ?"), ("±30 degrees…", "±30 degrees…")]
)
def test_without_any_font_letters_lose_their_accents(text, shown, bare):
    assert fonts.lettering(text, 14).text == shown
    assert fonts.lettering(unicodedata.normalize("NFD", text), 14).text == shown  # as macOS writes names


def test_what_pillow_has_looks_the_same_on_every_machine():
    assert fonts.lettering("cat.png ±30", 14).font is fonts.own_font(14)


def test_a_sheet_has_no_box(bare, tmp_path):
    """Names with and without an accent look alike where nothing can draw the accent."""

    def drawn(name):
        Image.new("RGB", (8, 8), "red").save(tmp_path / name)
        return contact_sheet.render(Policy.uniform("cifar"), "a policy", [tmp_path / name]).tobytes()

    assert drawn("ü.png") == drawn("u.png") != drawn("x.png")
