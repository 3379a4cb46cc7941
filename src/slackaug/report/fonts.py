"""Letters in pictures: by Pillow's own font, which is the same everywhere; what it lacks, by one of this machine's."""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from PIL import ImageFont

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
OF_MACHINES = (  # Linux, macOS, Windows; those with Chinese, Japanese and Korean last
    "DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial Unicode.ttf", "arial.ttf", "NotoSansCJK-Regular.ttc",
    "PingFang.ttc", "msyh.ttc",
)  # fmt: skip
NOWHERE = "\uffff"  # is no character, so that every font shows what it shows for characters that it lacks


class Lettering(NamedTuple):
    text: str
    font: Font


@lru_cache(maxsize=256)
def lettering(text: str, size: float) -> Lettering:
    """A text and a font that has all of its characters; without such a font, the text in letters that there are."""
    text = unicodedata.normalize("NFC", text)
    for font in fonts(size):
        if has_all(font, text):
            return Lettering(text, font)
    own = own_font(size)
    return Lettering("".join(c if has_all(own, c) else plain(c, own) for c in text), own)


def fonts(size: float) -> Iterator[Font]:
    """Each is looked for only if those before it do not do."""
    yield own_font(size)
    for name in OF_MACHINES:
        if (found := of_machine(name, size)) is not None:
            yield found
    if (package := find_spec("matplotlib")) is not None and package.origin is not None:
        path = Path(package.origin).parent / "mpl-data" / "fonts" / "ttf" / OF_MACHINES[0]
        if (found := of_machine(str(path), size)) is not None:
            yield found


@lru_cache(maxsize=8)
def own_font(size: float) -> Font:
    return ImageFont.load_default(size)


@lru_cache(maxsize=64)
def of_machine(name: str, size: float) -> Font | None:
    try:
        return ImageFont.truetype(name, size)
    except OSError:
        return None


def has_all(font: Font, text: str) -> bool:
    """Whether a font has a shape of its own for each character."""
    return all(c.isspace() or shape(font, c) != shape(font, NOWHERE) for c in text)


@lru_cache(maxsize=4096)
def shape(font: Font, character: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(character)
    return mask.size, bytes(mask)


def plain(character: str, font: Font) -> str:
    """Without its accents, or a question mark."""
    letters = "".join(c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c))
    return letters if letters and has_all(font, letters) else "?"
