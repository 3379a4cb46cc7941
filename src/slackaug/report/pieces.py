"""The pieces that a page is made of: charts with their tables, and pictures as part of the page."""

import base64
import io
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup
from PIL import Image

from .scene import Table


class Chart(NamedTuple):
    id: str
    title: str
    svg: Markup
    headers: list[str]
    rows: list[list[str | float | None]]
    note: str = ""


class Frame(NamedTuple):
    """What the slider shows of one round."""

    name: str
    charts: list[Chart]


class Picture(NamedTuple):
    id: str
    title: str
    uri: str
    alt: str
    width: int
    height: int
    note: str = ""
    columns: Sequence[str] = ()  # what stands above each
    is_small: bool = False  # its pixels are to be seen as such


def chart(identity: str, title: str, svg: str, table: Table, note: str = "") -> Chart:
    """An SVG is text of ours, in which all that is not ours has been escaped."""
    return Chart(identity, title, Markup(svg), table.headers, table.rows, note)


def picture(
    identity: str,
    title: str,
    image: Image.Image,
    alt: str,
    note: str = "",
    columns: Sequence[str] = (),
    is_small: bool = False,
) -> Picture:
    return Picture(identity, title, data_uri(image), alt, *image.size, note, columns, is_small)


def data_uri(image: Image.Image) -> str:
    """As PNG, which is exact, or as JPEG where that is smaller, as for photographs."""
    found = []
    for kind, options in (("png", {}), ("jpeg", {"quality": 85})):
        buffer = io.BytesIO()
        image.save(buffer, kind, **options)
        found.append(f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}")
    return min(found, key=len)
