"""Several in one picture: the numbers are those of each alone, nothing overlaps, and the best has a frame."""

from dataclasses import replace
from itertools import pairwise

import pytest

import made_up
from drawings import check, drawn, extreme, hostile, policies, shapes
from slackaug.augment.policy import Policy
from slackaug.report import history, panels, policy_figures, run_figures, scene
from slackaug.report.panels import Panel


@pytest.mark.parametrize("policy", policies().values(), ids=policies())
def test_pies_of_any_policies_do_not_overlap(policy):
    drawing = panels.pies([Panel("one", policy), Panel("uniform", Policy.uniform("domainnet"))])
    check(drawing)
    assert len(shapes(drawing, scene.Wedge)) == len(policy.space) + 20


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7])
def test_pies_are_the_policies_with_their_names(n):
    found = [Panel(f"a policy with a rather long name, {i}", drawn("domainnet", i)) for i in range(n)]
    drawing = panels.pies(found)
    check(drawing)
    assert [t.title for t in shapes(drawing, scene.Text) if t.bold] == [panel.name for panel in found]
    rows = {(row[0], row[1]): row[2:] for row in drawing.table.rows}
    for panel in found:
        for name, *rest in policy_figures.pie(panel.shown).table.rows:
            assert rows[panel.name, name] == rest
    wedges = shapes(drawing, scene.Wedge)
    for panel, some in zip(found, (wedges[i : i + 20] for i in range(0, len(wedges), 20)), strict=True):
        for wedge, s in zip(some, policy_figures.slices(panel.shown), strict=True):
            assert (wedge.end - wedge.start, wedge.title) == (pytest.approx(360 * s.share), s.hint)
            assert wedge.radius / panels.DISC == pytest.approx(1 if s.mu is None else s.mu)


def test_a_transformation_has_one_number_in_all_pies():
    """Also of spaces that differ; where two slices are narrow, the less likely one may have none."""
    found = [Panel("a", Policy.uniform("cifar")), Panel("b", Policy.uniform("domainnet"))]
    texts = shapes(panels.pies(found), scene.Text)
    names = {text.text for text in texts if text.title == text.text}  # of the key
    assert names >= {*Policy.uniform("domainnet").space.names}
    numbers = {}
    for text in texts:
        if text.text.isdecimal() and text.title:
            numbers.setdefault(text.title.partition(":")[0], set()).add(text.text)
    assert all(len(one) == 1 for one in numbers.values())
    assert len(numbers) == len({*map(str, map(min, numbers.values()))}) == 20


@pytest.mark.parametrize("policy", [extreme("cifar", 4, 3), extreme("cifar", 0, 30), hostile(), drawn(scale=3.0)])
def test_numbers_stand_by_their_slices_and_apart(policy):
    found = panels.numbered(policy_figures.slices(policy))
    assert found
    assert all(abs(degrees - s.middle) <= panels.NEAR for s, degrees in found)
    ends = [degrees for _, degrees in found]
    assert all(b - a >= panels.APART - 1e-6 for a, b in pairwise([*ends, ends[0] + 360])) or len(ends) == 1
    assert max(policy_figures.slices(policy), key=lambda s: s.share).name in {s.name for s, _ in found}


def test_the_start_of_mu_is_that_of_each():
    one = drawn()
    drawing = panels.pies([Panel("a", one), Panel("b", replace(one, learned={"mu_start": 0.9}))])
    dashed = [circle.radius / panels.DISC for circle in shapes(drawing, scene.Circle) if circle.dashed]
    assert dashed == pytest.approx([0.75, 0.9])


def test_positions_and_their_average_in_one_picture(tmp_path):
    past = history.read(made_up.run(tmp_path, n_rounds=4))
    found = panels.each_position(past, 3)
    drawing = panels.evolutions(found)
    check(drawing)
    names = ["position 1", "position 2", "position 3", "averaged"]
    assert [t.text for t in shapes(drawing, scene.Text) if t.bold] == names
    for name, position in zip(names, (1, 2, 3, None), strict=True):
        rows = [row[1:] for row in drawing.table.rows if row[0] == name]
        alone = run_figures.evolution(past, position).table.rows
        assert rows == [[row[0], row[1], row[-1]] for row in alone]
    lines = [line for line in shapes(drawing, scene.Line) if line.title]
    assert len(lines) == 4 * len(past.names)
    check(panels.pies(panels.each_position(past.policies[-1], 3)))


def test_courses_of_several_searches_share_their_axes(tmp_path):
    """Also where one has not begun, or is longer than the others."""
    runs = [made_up.run(tmp_path / str(n), n_rounds=8, n_done=n, seed=n) for n in (0, 2, 8)]
    drawing = panels.evolutions([Panel(f"run {i}", history.read(run)) for i, run in enumerate(runs)])
    check(drawing)
    assert run_figures.NOTHING_YET in [text.text for text in shapes(drawing, scene.Text)]
    ends = [max(x for x, _ in line.points) for line in shapes(drawing, scene.Line) if line.title]
    assert max(ends[:20]) < max(ends[20:]) / 1.5
    check(panels.evolutions([Panel("run", history.read(runs[0]))] * 2))


@pytest.mark.parametrize("draw", [panels.pies, panels.evolutions])
def test_the_best_has_a_frame(draw, tmp_path):
    past = history.read(made_up.run(tmp_path, n_rounds=2))
    shown = past.policy if draw is panels.pies else past
    for best in (None, 1):
        drawing = draw([Panel(f"search {s}", shown, None, s == best) for s in range(3)])
        check(drawing)
        frames = [line for line in shapes(drawing, scene.Line) if line.points[0] == line.points[-1]]
        assert len(frames) == (best is not None)
        assert ("Framed" in " ".join(text.text for text in shapes(drawing, scene.Text))) == (best is not None)
