"""Figures of policies: their numbers are the policy's, nothing overlaps, and whatever a name holds, it is text."""

import math
import re
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawings import HOSTILE, SVG, check, drawn, extreme, hostile, named, policies, shapes
from slackaug.augment.formats import published
from slackaug.augment.policy import Policy
from slackaug.augment.transforms import SPACES, TRANSFORMS, get_space
from slackaug.report import lettering, scene, strength
from slackaug.report.policy_figures import correlations, layout, pie, side_by_side
from slackaug.report.render import svg

OFFICIAL = Path(__file__).parents[3] / "shared" / "reference" / "official_policies"
every_policy = pytest.mark.parametrize("policy", policies().values(), ids=policies())


# --- the pie ----------------------------------------------------------------------------------------------------------


@every_policy
def test_nothing_of_a_figure_overlaps_and_it_is_the_policy(policy):
    """The leaders of a pie stay outside."""
    drawing, labels = pie(policy), layout(policy)
    check(drawing)
    assert len(shapes(drawing, scene.Wedge)) == len(policy.space)
    assert not any(label.crosses() for label in labels)
    for side in (1, -1):
        beside = [label for label in labels if label.side == side]
        assert all(b.y - a.y >= lettering.LINE - 1e-6 for a, b in pairwise(beside))


@pytest.mark.parametrize("position", [None, 1, 3])
def test_slices_are_the_policy(position):
    """Angles and radii, read back out of the paths."""
    policy = drawn("domainnet", 3, 0.5)
    root = check(pie(policy, position))
    dashed = next(node for node in root.iter(f"{SVG}circle") if node.get("stroke-dasharray"))
    full = float(dashed.get("r")) / 0.75
    expected = policy.probabilities.mean(0) if position is None else policy.probabilities[position - 1]
    total = 0.0
    for path in root.iter(f"{SVG}path"):
        title = path.find(f"{SVG}title").text
        n = policy.space.index(title.partition(":")[0])
        x, y, x0, y0, radius, _, _, large, _, x1, y1 = map(float, re.findall(r"-?[\d.]+", path.get("d")))
        angle = math.degrees(math.atan2(y1 - y, x1 - x) - math.atan2(y0 - y, x0 - x)) % 360
        total += angle
        assert (large == 1) == (angle > 180)
        assert angle == pytest.approx(360 * expected[n].item(), abs=0.01)
        bound = 1.0 if policy.space.transforms[n].span is None else policy.mu[n].item()
        assert radius / full == pytest.approx(bound, abs=1e-4)
        assert math.hypot(x1 - x, y1 - y) == pytest.approx(radius, abs=0.01)
        assert f"{100 * expected[n].item():.2f} %" in title
        assert strength.bounds_text(policy.space.transforms[n], policy.mu[n].item()) in title
    assert total == pytest.approx(360, abs=0.05)


def test_a_certain_transformation_fills_the_circle():
    root = check(pie(extreme("cifar", 4, 300)))
    path = next(p.get("d") for p in root.iter(f"{SVG}path") if p.find(f"{SVG}title").text.startswith("Rotate"))
    assert path.count("A") == 2


def test_the_table_of_a_pie_is_the_policy_most_likely_first():
    policy = drawn()
    order = policy.probabilities[1].argsort(descending=True).tolist()
    expected = [
        [t.name, policy.probabilities[1, n].item(), policy.mu[n].item() if t.span else None]
        for n, t in ((n, policy.space.transforms[n]) for n in order)
    ]
    rows = pie(policy, 2).table.rows
    assert [row[:3] for row in rows] == expected
    assert all(row[3] for row in rows)


@pytest.mark.parametrize("position", [0, 4, -1])
def test_a_position_that_is_not_there(position):
    with pytest.raises(ValueError, match="position: expected a number from 1 to 3"):
        pie(drawn(), position)


@given(st.text(min_size=1, max_size=40))
def test_any_name_is_escaped_and_fits(name):
    try:
        policy = named(name)
    except ValueError:
        return
    check(pie(policy))


def test_hostile_names_are_text():
    policy = hostile()
    for drawing in (pie(policy), side_by_side([policy, policy], [HOSTILE, "b"])):
        check(drawing)
        assert "<script" not in (text := svg(drawing, "x"))
        assert "&lt;script&gt;" in text


# --- studies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Invert", "Rotate"])
def test_one_transformation_at_one_position(name):
    whole = get_space("cifar")
    policy = Policy.uniform(whole.exclude(*(other for other in whole.names if other != name)), n_composed=1)
    for drawing in (pie(policy), side_by_side([policy, policy], ["a", "b"])):
        check(drawing)


@pytest.mark.parametrize("n", [1, 2, 4, 12])
def test_several_searches(n):
    found, names = [drawn("domainnet", seed) for seed in range(n)], [f"search {s}" for s in range(n)]
    beside, alike = side_by_side(found, names), correlations(found, names)
    check(beside)
    check(alike)
    pi = np.array([policy.probabilities.mean(0).numpy() for policy in found])
    for name, *values, mean in beside.table.rows:
        assert values == pi[:, found[0].space.index(name)].tolist()
        assert mean == pytest.approx(sum(values) / n)
    assert np.allclose([row[1:] for row in alike.table.rows], np.corrcoef(pi))


def test_uniform_policies_have_no_correlation():
    rows = correlations([Policy.uniform("cifar"), drawn()], ["a", "b"]).table.rows
    assert rows[0][1:] == [None, None]
    with pytest.raises(ValueError, match="zip"):
        side_by_side([drawn(), drawn()], ["one"])


# --- strengths and families -------------------------------------------------------------------------------------------


STRENGTHS = {  # at half of the range
    "Rotate": "up to ±45°", "Hue": "up to ±90°", "TranslateX": "up to ±38 % of width", "Posterize": "8 to 5 bits",
    "Solarize": "threshold 255 to 128", "Brightness": "factor 0.51 to 1.50", "Invert": "no magnitude",
    "RandomResizeCrop": "100 to 52 % of the area",
}  # fmt: skip


def test_strengths_are_in_units_that_people_know_on_a_page_and_in_a_terminal(command, tmp_path):
    assert {name: strength.bounds_text(SPACES["domainnet"][name], 0.5) for name in STRENGTHS} == STRENGTHS
    Policy.uniform("domainnet", mu=0.5).save(tmp_path / "policy.json")
    shown = command("show", tmp_path / "policy.json").stdout
    assert [text for text in STRENGTHS.values() if text not in shown] == ["no magnitude"]  # where a cell is empty


def test_every_transformation_of_ours_has_a_family():
    assert [name for name in TRANSFORMS if strength.family(name) == "own"] == []
    assert strength.family("Mine") == "own"


def test_families_can_be_told_apart_by_the_colour_blind():
    """Machado et al. (2009), complete dichromacy; distance in CIE Lab."""
    matrices = {
        "none": np.eye(3),
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
        "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
    }
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])

    def lab(colour: str, matrix: object) -> np.ndarray:
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        linear = np.clip(np.array(matrix) @ linear, 0, 1)
        x, y, z = np.cbrt(np.clip(to_xyz @ linear / [0.9505, 1, 1.089], 0.009, None))
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    for (kind, matrix), theme in product(matrices.items(), (0, 1)):
        colours = {role: lab(scene.THEMES[role][theme], matrix) for role in strength.FAMILIES}
        for a, b in combinations(colours, 2):
            assert np.linalg.norm(colours[a] - colours[b]) > 10, (kind, a, b)


# --- the published policies -------------------------------------------------------------------------------------------


@pytest.mark.data
def test_figures_of_all_published_policies():
    paths = sorted(OFFICIAL.glob("*_s[0-9].json"))
    assert len(paths) == 44
    for path in paths:
        policy = published.load(path)
        assert isinstance(policy, Policy)
        for position in (None, 1, 2, 3):
            check(pie(policy, position))
        labels = layout(policy)
        assert labels[0].start < 360 / 4  # such policies need no turning
        assert not any(label.crosses() for label in labels)
