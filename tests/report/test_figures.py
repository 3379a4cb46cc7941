"""Figures: their numbers are the policy's, nothing overlaps, and whatever a name holds, the SVG stays SVG."""

import json
import math
import re
import shutil
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import made_up
from slackaug.augment.formats import published
from slackaug.augment.policy import Policy
from slackaug.augment.transforms import SPACES, custom, get_space
from slackaug.commands import figure as figure_command
from slackaug.report import bars, charts, course, figures, history, pictures, pies, plots, scene, strength, svg
from slackaug.runs.folders import RunError
from slackaug.schema import PolicyError

OFFICIAL = Path(__file__).parents[3] / "shared" / "reference" / "official_policies"
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>&\"'\x00\n"


def extreme(space: str, favourite: int, logit: float) -> Policy:
    policy = Policy.uniform(space)
    pi, mu = policy.pi.clone(), policy.mu.clone()
    pi[:, favourite] = logit
    mu[:] = torch.linspace(0.1, 1, len(mu))
    return replace(policy, pi=pi, mu=mu)


def drawn(space: str = "cifar", seed: int = 0, scale: float = 1.0) -> Policy:
    generator = torch.Generator().manual_seed(seed)
    policy = Policy.uniform(space)
    pi = scale * torch.randn(policy.pi.shape, generator=generator, dtype=torch.float64)
    mu = torch.rand(policy.mu.shape, generator=generator, dtype=torch.float64).clamp(0.1)
    return replace(policy, pi=pi, mu=mu)


def hostile() -> Policy:
    space = get_space("cifar").add(custom(HOSTILE, lambda images, value: images))
    policy = Policy.uniform(space)
    policy.pi[:, -1] = 2.0
    return policy


def cases() -> list[tuple[str, Policy]]:
    found = [(name, Policy.uniform(name)) for name in SPACES]
    for name, space in SPACES.items():
        for favourite in (0, len(space) // 2, len(space) - 1):
            found += [(f"{name}-{favourite}-{logit}", extreme(name, favourite, logit)) for logit in (-30, 3, 30, 300)]
    return [*found, *((f"drawn-{seed}", drawn("domainnet", seed, 3.0)) for seed in range(4)), ("hostile", hostile())]


every_policy = pytest.mark.parametrize("policy", [policy for _, policy in cases()], ids=[name for name, _ in cases()])


def parse(text: str) -> ElementTree.Element:
    """The figure; it names itself and refers to nothing outside."""
    root = ElementTree.fromstring(text)
    title, desc = (root.find(f"{SVG}{tag}") for tag in ("title", "desc"))
    assert root.get("role") == "img"
    assert root.get("width") is None
    assert re.fullmatch(r"0 0 [\d.]+ [\d.]+", root.get("viewBox", ""))
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
    assert title.text
    assert desc.text
    tags = {node.tag.removeprefix(SVG) for node in root.iter()}
    assert tags <= {"svg", "title", "desc", "style", "rect", "path", "circle", "polyline", "text"}
    assert not re.search(r"nan|inf\b", re.sub(r">[^<]*<", "><", text))
    return root


def overlap(a: scene.Text, b: scene.Text) -> bool:
    (left, top, right, bottom), (x0, y0, x1, y1) = a.box, b.box
    return min(right, x1) - max(left, x0) > 0.01 and min(bottom, y1) - max(top, y0) > 0.01


def check_texts(drawing: scene.Scene) -> None:
    texts = [shape for shape in drawing.shapes if isinstance(shape, scene.Text)]
    for text in texts:
        left, top, right, bottom = text.box
        assert left >= -0.5
        assert top >= -0.5
        assert right <= drawing.width + 0.5
        assert bottom <= drawing.height + 0.5, text
    for a, b in combinations(texts, 2):
        assert not overlap(a, b), (a, b)


# --- the pie ----------------------------------------------------------------------------------------------------------


@every_policy
def test_no_text_of_a_pie_overlaps_another(policy):
    drawing = pies.pie_scene(policy)
    check_texts(drawing)
    assert sum(isinstance(shape, scene.Wedge) for shape in drawing.shapes) == len(policy.space)
    parse(figures.pie(policy))


@every_policy
def test_leaders_of_a_pie_stay_outside_and_do_not_cross(policy):
    labels = pies.layout(policy)
    assert not any(map(pies.crosses, labels))
    for is_right in (True, False):
        side = [label for label in labels if label.is_right == is_right]
        assert all(b.y - a.y >= scene.LINE - 1e-6 for a, b in pairwise(side))


@pytest.mark.parametrize("position", [None, 1, 3])
def test_slices_are_the_policy(position):
    """Angles and radii, read back out of the paths."""
    policy = drawn("domainnet", 3, 0.5)
    root = parse(figures.pie(policy, position))
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
    policy = extreme("cifar", 4, 300)
    root = parse(figures.pie(policy))
    path = next(p.get("d") for p in root.iter(f"{SVG}path") if p.find(f"{SVG}title").text.startswith("Rotate"))
    assert path.count("A") == 2


def test_pie_table_is_the_policy_most_likely_first():
    policy = drawn()
    table = figures.pie_table(policy, 2)
    probabilities = policy.probabilities[1].tolist()
    assert [row[1] for row in table.rows] == sorted(probabilities, reverse=True)
    for name, share, mu, text in table.rows:
        n = policy.space.index(name)
        assert share == probabilities[n]
        assert mu == (None if policy.space.transforms[n].span is None else policy.mu[n].item())
        assert text
    assert all(len(row) == len(table.headers) for row in table.rows)


@pytest.mark.parametrize("position", [0, 4, -1])
def test_a_position_that_is_not_there(position):
    with pytest.raises(ValueError, match="position: expected a number from 1 to 3"):
        figures.pie(drawn(), position)


@pytest.mark.parametrize("identity", ["", "1a", "a b", 'a"', "a>b", "é"])
def test_an_id_must_be_an_id(identity):
    with pytest.raises(ValueError, match="expected an id"):
        figures.pie(drawn(), id=identity)


@given(st.text(min_size=1, max_size=40))
def test_any_name_is_escaped_and_fits(name):
    try:
        space = get_space("cifar").add(custom(name, lambda images, value: images))
    except ValueError:
        return
    for drawing in (pies.pie_scene(Policy.uniform(space)), bars.mu_bars_scene(Policy.uniform(space))):
        check_texts(drawing)
        parse(svg.render(drawing, "x"))


def test_hostile_names_are_text():
    policy = hostile()
    for text in (figures.pie(policy), figures.mu_bars(policy), figures.side_by_side([policy, policy], [HOSTILE, "b"])):
        assert "<script" not in text
        assert "&lt;script&gt;" in text
        parse(text)


def test_families_can_be_told_apart_by_the_colour_blind():
    """Machado et al. (2009), complete dichromacy; distance in CIE Lab."""
    matrices = {
        "none": np.eye(3),
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
        "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
    }

    def lab(colour: str, matrix: object) -> np.ndarray:
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        linear = np.clip(np.array(matrix) @ linear, 0, 1)
        to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
        x, y, z = np.cbrt(np.clip(to_xyz @ linear / [0.9505, 1, 1.089], 0.009, None))
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    for kind, matrix in matrices.items():
        for colours in (scene.COLOURS, scene.DARK):
            for a, b in combinations(strength.FAMILIES, 2):
                distance = np.linalg.norm(lab(colours[a], matrix) - lab(colours[b], matrix))
                assert distance > 10, (kind, a, b, distance)


# --- bars and studies -------------------------------------------------------------------------------------------------


@every_policy
def test_bars_are_as_long_as_mu(policy):
    drawing = bars.mu_bars_scene(policy, (32, 32))
    check_texts(drawing)
    parse(svg.render(drawing, "mu"))
    rects = [shape for shape in drawing.shapes if isinstance(shape, scene.Rect)]
    rows = figures.mu_bars_table(policy, (32, 32)).rows
    for whole, bar, (name, mu, text) in zip(rects[::2], rects[1::2], rows, strict=True):
        assert bar.width / whole.width == pytest.approx(mu)
        assert bar.title == f"{name}: mu {mu:.3f}, {text}"


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("Rotate", None, "up to ±45°"),
        ("Hue", None, "up to ±90°"),
        ("TranslateX", (32, 64), "up to ±24 px"),
        ("ShearX", (32, 64), "up to ±16 px"),
        ("TranslateX", None, "up to ±38 % of width"),
        ("Cutout", (32, 64), "up to 32 px"),
        ("Posterize", None, "8 to 5 bits"),
        ("Solarize", None, "threshold 255 to 128"),
        ("Brightness", None, "factor 0.51 to 1.50"),
        ("RandomResizeCrop", None, "100 to 52 % of the area"),
        ("Invert", None, "no magnitude"),
    ],
)
def test_strengths_in_units_that_people_know(name, size, expected):
    assert strength.bounds_text(SPACES["domainnet"][name], 0.5, size) == expected


@pytest.mark.parametrize("name", ["Invert", "Rotate"])
def test_one_transformation_at_one_position(name, tmp_path):
    whole = get_space("cifar")
    policy = Policy.uniform(whole.exclude(*(other for other in whole.names if other != name)), n_composed=1)
    for drawing in (pies.pie_scene(policy), bars.mu_bars_scene(policy), bars.side_by_side_scene([policy, policy])):
        check_texts(drawing)
        parse(svg.render(drawing, "x"))
    assert len(figures.mu_bars_table(policy).rows) == (name == "Rotate")


@pytest.mark.parametrize("n", [1, 2, 4, 12])
def test_several_searches(n):
    policies = [drawn("domainnet", seed) for seed in range(n)]
    for drawing in (bars.side_by_side_scene(policies), bars.correlations_scene(policies)):
        check_texts(drawing)
        parse(svg.render(drawing, "x"))
    table = figures.side_by_side_table(policies)
    for name, *values, mean in table.rows:
        n_op = policies[0].space.index(name)
        assert values == [policy.probabilities.mean(0)[n_op].item() for policy in policies]
        assert mean == pytest.approx(sum(values) / n)
    matrix = [row[1:] for row in figures.correlations_table(policies).rows]
    expected = np.corrcoef([policy.probabilities.mean(0).numpy() for policy in policies])
    assert np.allclose(matrix, expected)


def test_uniform_policies_have_no_correlation():
    rows = figures.correlations_table([Policy.uniform("cifar"), drawn()]).rows
    assert rows[0][1:] == [None, None]
    with pytest.raises(ValueError, match="expected 2 names"):
        figures.side_by_side([drawn(), drawn()], ["one"])


# --- the course of a run ----------------------------------------------------------------------------------------------

CHARTS = (figures.evolution, figures.entropy, figures.kl, figures.losses)
TABLES = (figures.evolution_table, figures.entropy_table, figures.kl_table, figures.losses_table)
SCENES = (figures.evolution_scene, figures.entropy_scene, figures.kl_scene, figures.losses_scene)


def check_course(found: history.History) -> None:
    for chart, table, picture in zip(CHARTS, TABLES, SCENES, strict=True):
        parse(chart(found))
        check_texts(picture(found))
        numbers = table(found)
        assert all(len(row) == len(numbers.headers) for row in numbers.rows)


def test_history_is_what_the_files_say(finished):
    found = history.read(finished)
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    last = Policy.load(finished / "policy.json")
    assert found.names == last.space.names
    assert len(found.steps) == len(lines)
    assert found.steps[-1].pi == lines[-1]["pi"]
    assert found.steps[-1].val_loss == lines[-1]["val_loss"]
    assert torch.equal(found.policy.pi, last.pi)
    assert (found.n_rounds, found.n_steps, len(found.policies), found.is_finished) == (2, 6, 2, True)
    assert found.kl == [pytest.approx(b.kl(a).item()) for a, b in pairwise([found.start, *found.policies])]
    assert len(found.anchors) == 2
    check_course(found)


def test_evolution_is_the_metrics(finished):
    found = history.read(finished)
    points = course.trace(found, 2)
    assert points[0] == (0.0, pytest.approx([1 / 17] * 17))
    assert [row for _, row in points[1:]] == [step.pi[1] for step in found.policy_steps]
    assert [x for x, _ in points] == pytest.approx([0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3, 2])
    table = figures.evolution_table(found)
    n = found.names.index(table.rows[0][0])
    assert table.headers == ["transformation", "start", "round 1", "round 2"]
    assert table.rows[0][1:] == [p.probabilities.mean(0)[n].item() for p in (found.start, *found.policies)]
    drawing = course.evolution_scene(found)
    named = [shape for shape in drawing.shapes if isinstance(shape, scene.Text) and shape.title]
    assert len(named) == course.N_LABELLED


def test_kl_in_the_metrics_ends_at_that_of_the_policies(finished):
    found = history.read(finished)
    ends = dict(course.kl_points(found))
    assert ends[2.0] == pytest.approx(found.kl[1], rel=0.05, abs=1e-4)


@pytest.mark.parametrize("kept", range(0, 19, 2))
def test_a_run_that_is_going_on(finished, tmp_path, kept):
    """Cut off in the middle of a line, with the policies of the rounds that were finished by then."""
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:kept]) + "".join(lines[kept : kept + 1])[:-9])
    (run / "policy.json").unlink()
    for r in (1, 2):
        if kept < 6 + 6 * r:
            (run / "policies" / f"round_{r:02d}.json").unlink()
    found = history.read(run)
    assert len(found.steps) == kept
    assert (found.policy is None) == (kept < 12)
    check_course(found)


def test_a_run_that_has_only_begun(finished, tmp_path):
    shutil.copy(finished / "config.yaml", tmp_path)
    found = history.read(tmp_path)
    assert (found.steps, found.policies, found.policy, found.kl) == ([], [], None, [])
    assert len(found.names) == 17
    check_course(found)


def test_a_run_without_metrics_still_has_its_rounds(finished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "metrics.jsonl").unlink()
    found = history.read(run)
    assert len(course.trace(found)) == 3
    check_course(found)


@pytest.mark.parametrize("n_rounds", [1, 7, 33, 100])
def test_a_long_search_is_not_drawn_in_full(tmp_path, n_rounds):
    past = history.read(made_up.run(tmp_path, n_rounds=n_rounds))
    drawing = course.evolution_scene(past)
    for each in (drawing, course.kl_scene(past), course.entropy_scene(past), course.losses_scene(past)):
        check_texts(each)
        assert sum(isinstance(shape, scene.Circle) for shape in each.shapes) <= 6 * (charts.MAX_MARKS + 1)
    lines = [shape for shape in drawing.shapes if isinstance(shape, scene.Line) and shape.title]
    most = course.MAX_POINTS + n_rounds + 2
    assert max(len(line.points) for line in lines) <= most
    table = figures.evolution_table(past)
    assert len(table.headers) == min(n_rounds, 20) + 2
    assert table.headers[-1] == f"round {n_rounds}"
    assert [row[-1] for row in table.rows] == [
        past.policies[-1].probabilities.mean(0)[past.start.space.index(row[0])].item() for row in table.rows
    ]


def test_of_very_many_lines_some_are_held_and_the_ends_of_rounds(tmp_path, monkeypatch):
    made_up.run(tmp_path, n_rounds=10)
    all_of_them = history.read(tmp_path).steps
    monkeypatch.setattr(history, "MAX_STEPS", 20)
    some = history.read(tmp_path).steps
    assert len(all_of_them) > 200
    assert len(some) <= 20 + 11
    assert [step for step in all_of_them if step in some] == some
    assert some[-1] == all_of_them[-1]
    last = {step.round: step for step in all_of_them}
    assert all(step in some for step in last.values())


@pytest.mark.parametrize(
    "line", ["", "[]", "3", "null", '{"stage": 1}', '{"stage": "policy", "round": "x", "step": 1, "train_loss": 1}',
             '{"stage": "policy", "round": 1, "step": 1, "train_loss": NaN}', "\x00\x00",
             '{"stage": "policy", "round": 1, "step": 4, "train_loss": 1, "pi": [[1]], "mu": [1], "entropy": [0]}'],
)  # fmt: skip
def test_lines_that_are_no_metrics_are_left_out(finished, tmp_path, line):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    with (run / "metrics.jsonl").open("a") as file:
        file.write(line + "\n")
    assert history.read(run).steps == history.read(finished).steps


def test_no_run_at_all(tmp_path):
    with pytest.raises(RunError, match="holds no run"):
        history.read(tmp_path)
    (tmp_path / "study.yaml").write_text("")
    with pytest.raises(RunError, match="holds a study, whose runs are in"):
        history.read(tmp_path)
    (tmp_path / "config.yaml").write_text("a: [")
    with pytest.raises(RunError, match="is not the configuration of a run"):
        history.read(tmp_path)


# --- pictures ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def photos() -> list[Image.Image]:
    random = np.random.default_rng(0)
    colour = Image.fromarray(random.integers(0, 256, (20, 24, 3), dtype=np.uint8))
    return [colour, colour.convert("L"), colour.convert("RGBA")]


def test_strips_are_the_kernels_of_the_space(photos):
    policy = drawn("domainnet")
    found = figures.strips(policy, photos[:2])
    order = policy.probabilities.mean(0).argsort(descending=True)
    assert [name for name, _ in found] == [policy.space.names[n] for n in order]
    by_name = dict(found)
    n = policy.space.index("Posterize")
    bits = [round(8 - 6 * m * policy.mu[n].item()) for m in (0.5, 1)]
    transform = policy.space["Posterize"]
    expected = [transform.pil(photo, b) for photo in photos[:2] for b in bits]
    assert [i.tobytes() for i in by_name["Posterize"]] == [i.tobytes() for i in expected]
    assert by_name["Invert"][0].tobytes() == policy.space["Invert"].pil(photos[0], 0).tobytes()
    assert len(by_name["Invert"]) == 2
    assert len(by_name["Rotate"]) == 4


def test_pictures_depend_on_the_generator_alone(photos):
    policy = drawn()

    def pixels(seed: int) -> list[bytes]:
        generator = torch.Generator().manual_seed(seed)
        rows = figures.grid(policy, photos, generator)
        found = figures.examples(policy, photos[0], generator)
        strips = figures.strips(policy, photos, generator)
        images = [*(i for row in rows for i in row), *(e.image for e in (*found.most, *found.least))]
        return [image.tobytes() for image in (*images, *(i for s in strips for i in s.images))]

    assert pixels(0) == pixels(0)
    assert pixels(0) != pixels(1)


def test_examples_are_the_extremes(photos):
    policy = drawn()
    found = figures.examples(policy, photos[2])
    ranked = [row[0] for row in figures.pie_table(policy).rows]
    assert [e.name for e in found.most] == ranked[:3]
    assert [e.name for e in found.least] == ranked[:-4:-1]
    assert all(e.image.size == photos[2].size for e in (*found.most, *found.least))
    few = Policy.uniform(get_space("cifar").exclude(*get_space("cifar").names[:-4]))
    assert len({e.name for e in (*figures.examples(few, photos[0])[1], *figures.examples(few, photos[0])[2])}) == 4


def test_grid_has_a_row_for_each_image(photos):
    rows = figures.grid(drawn(), photos, n_each=4)
    assert [len(row) for row in rows] == [4, 4, 4]
    assert all(i.size == photo.size for row, photo in zip(rows, photos, strict=True) for i in row)


def test_a_sheet_has_a_row_for_each_transformation(photos):
    sheet = figures.strips_sheet(drawn(), photos)
    assert sheet.mode == "RGB"
    assert sheet.height == 18 * (pictures.CAPTION + pictures.CELL + pictures.PAD) + pictures.PAD
    large = Image.new("RGB", (500, 20))
    assert pictures.thumbnail(large).size == (96, 4)
    assert pictures.thumbnail(photos[0]).size == (96, 80)


def test_strips_need_images():
    with pytest.raises(ValueError, match="at least one image"):
        figures.strips(drawn(), [])


# --- the command ------------------------------------------------------------------------------------------------------


def test_command_draws_svg(command, tmp_path, finished):
    for kind in ("pie", "evolution"):
        out = tmp_path / f"{kind}.svg"
        done = command("figure", kind, finished, "-o", out, "--position", 2)
        assert (done.returncode, done.stdout.replace("\n", ""), done.stderr) == (0, str(out), "")
        assert "at position 2 of 3" in parse(out.read_text()).find(f"{SVG}title").text


def test_command_draws_strips_of_the_runs_own_images(command, tmp_path, finished):
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
    turned = figure_command.read_image(str(tmp_path / "photo.jpg"))
    assert turned.size == (48, 96)
    assert turned.getpixel((24, 10))[0] > 200 > 60 > turned.getpixel((24, 90))[0]
    Image.new("RGBA", (8, 8), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert figure_command.read_image(str(tmp_path / "clear.png")).getpixel((4, 4)) == (255, 255, 255)
    Image.new("I;16", (8, 8), 32768).save(tmp_path / "deep.png")
    assert figure_command.read_image(str(tmp_path / "deep.png")).getpixel((4, 4)) == (128, 128, 128)


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
        (["pie", "uniform:cifar", "-o", "x.svg", "--image", "a.png"], "--image is for strips"),
        (["evolution", "uniform:cifar", "-o", "x.svg"], "an evolution needs a run"),
        (["strips", "uniform:cifar", "-o", "x.png"], "give --image FILE"),
        (["strips", "uniform:cifar", "-o", "x.png", "--image", "no.png"], "--image no.png: cannot be read"),
        (["strips", "uniform:cifar", "-o", "x.png", "--position", "1"], "--position is for pie"),
    ],
)
def test_command_says_what_is_wrong(command, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    done = command("figure", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_run_without_a_policy_has_no_pie_yet(command, tmp_path, finished):
    shutil.copy(finished / "config.yaml", tmp_path)
    done = command("figure", "pie", tmp_path, "-o", tmp_path / "x.svg")
    assert done.returncode == 2
    assert "has no policy yet" in done.stderr


@pytest.mark.parametrize("source", ["os:getcwd", "torchvision:CIFAR10", "hf:some/name", "gone.npz"])
def test_a_config_may_neither_call_code_nor_start_a_download(command, tmp_path, finished, source):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    text = re.sub(r"source: .*", f"source: {source}", (run / "config.yaml").read_text())
    (run / "config.yaml").write_text(text)
    done = command("figure", "strips", run, "-o", tmp_path / "x.png")
    assert done.returncode == 2
    assert f"{source}: not found here; give --image FILE, once or more" in done.stderr


def test_png_and_pdf_of_charts_need_matplotlib(command, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    done = command("figure", "pie", "uniform:cifar", "-o", tmp_path / "x.png")
    assert done.returncode == 2
    assert "pip install 'slackaug[figures]'" in done.stderr


@pytest.mark.figures
@pytest.mark.parametrize("kind", ["pie", "evolution", "strips"])
@pytest.mark.parametrize("suffix", ["png", "PNG", "pdf"])
def test_the_command_draws_png_and_pdf(command, tmp_path, finished, kind, suffix):
    path = tmp_path / f"x.{suffix}"
    done = command("figure", kind, finished, "-o", path)
    assert (done.returncode, done.stderr) == (0, "")
    if suffix == "pdf":
        assert path.read_bytes().startswith(b"%PDF")
        return
    with Image.open(path) as image:
        assert min(image.size) > 300
        assert len(set(image.convert("L").resize((64, 64)).tobytes())) > 20  # not empty


@pytest.mark.figures
def test_a_png_is_the_scene(tmp_path):
    """A slice is where it is said to be, in its colour, and the same policy gives the same bytes."""
    drawing = pies.pie_scene(hostile())
    for kind in ("png", "pdf"):
        plots.save(drawing, tmp_path / "a", kind)
        plots.save(drawing, tmp_path / "b", kind)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    image = plots.image(drawing)
    factor = image.width / drawing.width
    assert image.height / factor == pytest.approx(drawing.height, abs=1)
    for wedge in (shape for shape in drawing.shapes if isinstance(shape, scene.Wedge)):
        x, y = svg.on_circle(wedge.x, wedge.y, 0.6 * wedge.radius, (wedge.start + wedge.end) / 2)
        found = "#{:02x}{:02x}{:02x}".format(*image.getpixel((round(factor * x), round(factor * y))))
        assert found == scene.COLOURS[wedge.fill], wedge.title


# --- the published policies -------------------------------------------------------------------------------------------


@pytest.mark.data
def test_figures_of_all_published_policies():
    paths = sorted(OFFICIAL.glob("*_s[0-9].json"))
    assert len(paths) == 44
    for path in paths:
        policy = published.load(path)
        assert isinstance(policy, Policy)
        for position in (None, 1, 2, 3):
            check_texts(pies.pie_scene(policy, position))
        assert pies.layout(policy)[0].slice.start < 360 / 4  # such policies need no turning
        assert not any(map(pies.crosses, pies.layout(policy)))
        check_texts(bars.mu_bars_scene(policy, (224, 224)))
        parse(figures.pie(policy))
        parse(figures.mu_bars(policy))


def test_other_kinds_of_policies_have_no_pie(tmp_path, command):
    (tmp_path / "p.json").write_text("{}")
    assert command("figure", "pie", tmp_path / "p.json", "-o", tmp_path / "x.svg").returncode == 2
    with pytest.raises(PolicyError):
        Policy.load(tmp_path / "p.json")
