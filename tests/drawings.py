"""Policies to draw, and what must hold for every figure: nothing overlaps, and the SVG is an SVG that stands alone."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import torch

from slackaug.augment.policy import Policy
from slackaug.augment.space import Space
from slackaug.augment.transforms import SPACES, custom, get_space
from slackaug.report import render, scene
from slackaug.report.lettering import text_width

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>&\"'\x00\n"
TAGS = {"svg", "title", "desc", "style", "rect", "path", "circle", "polyline", "text"}


def drawn(space: str | Space = "cifar", seed: int = 0, scale: float = 1.0, n_composed: int = 3) -> Policy:
    """Logits and bounds at random."""
    generator = torch.Generator().manual_seed(seed)
    policy = Policy.uniform(space, n_composed=n_composed)
    pi = scale * torch.randn(policy.pi.shape, generator=generator, dtype=torch.float64)
    mu = torch.rand(policy.mu.shape, generator=generator, dtype=torch.float64).clamp(0.1)
    return replace(policy, pi=pi, mu=mu)


def extreme(space: str, favourite: int, logit: float) -> Policy:
    policy = Policy.uniform(space)
    policy.pi[:, favourite] = logit
    policy.mu[:] = torch.linspace(0.1, 1, len(policy.mu))
    return policy


def named(name: str) -> Policy:
    """One of its transformations has that name."""
    return Policy.uniform(get_space("cifar").add(custom(name, lambda images, value: images)))


def hostile() -> Policy:
    policy = named(HOSTILE)
    policy.pi[:, -1] = 2.0
    return policy


def policies() -> dict[str, Policy]:
    found = {name: Policy.uniform(name) for name in SPACES}
    for name, space in SPACES.items():
        for favourite in (0, len(space) // 2, len(space) - 1):
            found |= {f"{name}-{favourite}-{logit}": extreme(name, favourite, logit) for logit in (-30, 3, 30, 300)}
    return found | {f"drawn-{seed}": drawn("domainnet", seed, 3.0) for seed in range(4)} | {"hostile": hostile()}


def parse(text: str) -> ElementTree.Element:
    """The figure; it names itself and refers to nothing outside."""
    root = ElementTree.fromstring(text)
    title, desc = (root.find(f"{SVG}{tag}") for tag in ("title", "desc"))
    assert (root.get("role"), root.get("width")) == ("img", None)
    assert re.fullmatch(r"0 0 [\d.]+ [\d.]+", root.get("viewBox", ""))
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
    assert title.text
    assert desc.text
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= TAGS
    assert not re.search(r"nan|inf\b", re.sub(r">[^<]*<", "><", text))
    return root


def box(text: scene.Text) -> tuple[float, float, float, float]:
    """Left, top, right and bottom, as large as common fonts make it."""
    width = text_width(text.text, text.size)
    left = text.x - {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
    return left, text.y - 0.8 * text.size, left + width, text.y + 0.25 * text.size


def overlap(a: Sequence[float], b: Sequence[float]) -> bool:
    (left, top, right, bottom), (x0, y0, x1, y1) = a, b
    return min(right, x1) - max(left, x0) > 0.01 and min(bottom, y1) - max(top, y0) > 0.01


def check(drawing: scene.Scene) -> ElementTree.Element:
    """Every text is inside and apart from the others, the table is whole; returns the SVG."""
    texts = shapes(drawing, scene.Text)
    for text in texts:
        left, top, right, bottom = box(text)
        assert min(left, top) >= -0.5, text
        assert (right <= scene.WIDTH + 0.5, bottom <= drawing.height + 0.5) == (True, True), text
    for a, b in combinations(texts, 2):
        assert not overlap(box(a), box(b)), (a, b)
    assert all(len(row) == len(drawing.table.headers) for row in drawing.table.rows)
    return parse(render.svg(drawing, "x"))


def shapes(drawing: scene.Scene, kind: type) -> list:
    return [shape for shape in drawing.shapes if isinstance(shape, kind)]
