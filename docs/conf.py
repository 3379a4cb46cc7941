"""How Sphinx makes a site of README, docs/ and the notebook: `make docs`."""

import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONTENTS = {
    "Guide": ("quickstart", "data", "report", "policy", "compare", "recipes", "python", "troubleshooting"),
    "Reference": ("commands", "settings", "python", "files"),
    "Science": ("method", "results", "fidelity", "performance", "reliability"),
}
PROJECT = ("CHANGELOG", "CONTRIBUTING", "research/notebook")  # beside the README

project = "slackaug"
author = copyright = "the slackaug authors"
version = release = re.findall(r'"(.*)"', (ROOT / "src/slackaug/_version.py").read_text(encoding="utf-8"))[0]
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "docs/**/*.md", *(f"{page}.md" for page in PROJECT)]
highlight_language = "none"  # of blocks that name no language
myst_heading_anchors = 4  # the same as on GitHub
nitpicky = True

html_theme = "furo"
html_title = "slackaug"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False


def contents() -> str:
    """The navigation, in Markdown as MyST has it."""
    rooms = {room: [f"docs/{room.lower()}/{name}" for name in names] for room, names in CONTENTS.items()}
    trees = []
    for room, pages in (rooms | {"Project": [*PROJECT]}).items():
        there = [page for page in pages if (ROOT / f"{page}.md").exists()]
        trees += ["```{toctree}", ":hidden:", f":caption: {room}", *there, "```"]
    return "\n".join(trees)


def as_on_the_site(app: Any, page: str, source: list[str]) -> None:
    """On GitHub the README has links in place of a navigation, and numbers may part from their intervals."""
    source[0] = source[0].replace(" ± ", "\u00a0±\u00a0")
    if page == root_doc:
        source[0] += contents()


def as_front_page(app: Any, error: Exception | None) -> None:
    if error is None:
        shutil.copy(Path(app.outdir) / f"{root_doc}.html", Path(app.outdir) / "index.html")


def setup(app: Any) -> None:
    app.connect("source-read", as_on_the_site)
    app.connect("build-finished", as_front_page)
