"""What the files of a run say about its course, and the figures of it."""

import json
import shutil
from itertools import pairwise

import pytest
import torch

import made_up
from drawings import check, shapes
from slackaug.augment.policy import Policy
from slackaug.report import history, page, run_figures, run_page, scene
from slackaug.runs.folders import RunError

SCENES = (run_figures.evolution, run_figures.entropy, run_figures.kl, run_figures.losses)


@pytest.fixture
def run(finished, tmp_path):
    """A finished run of 2 rounds, to be changed."""
    return shutil.copytree(finished, tmp_path / "run")


def read_and_draw(run):
    found = history.read(run)
    for draw in SCENES:
        check(draw(found))
    return found


def test_history_and_figures_are_what_the_files_say(finished):
    found = read_and_draw(finished)
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    last, phi = Policy.load(finished / "policy.json"), found.steps[-1].phi
    assert (found.names, len(found.steps)) == (last.space.names, len(lines))
    assert (phi.pi, phi.val_loss, phi.entropy) == tuple(lines[-1][key] for key in ("pi", "val_loss", "entropy"))
    assert torch.equal(found.policy.pi, last.pi)
    assert (found.n_rounds, len(found.policies), found.is_finished, len(found.anchors)) == (2, 2, True, 2)
    assert found.kl == [pytest.approx(b.kl(a).item()) for a, b in pairwise([found.start, *found.policies])]
    assert dict(run_figures.kl_points(found))[2.0] == pytest.approx(found.kl[1], rel=0.05, abs=1e-4)
    points = run_figures.trace(found, 2)
    assert points[0] == (0.0, pytest.approx([1 / 17] * 17))
    assert [row for _, row in points[1:]] == [phi.pi[1] for _, phi in found.policy_steps]
    assert [x for x, _ in points] == pytest.approx([0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3, 2])
    drawing = run_figures.evolution(found)
    n = found.names.index(drawing.table.rows[0][0])
    assert drawing.table.headers == ["transformation", "start", "round 1", "round 2"]
    assert drawing.table.rows[0][1:] == [p.probabilities.mean(0)[n].item() for p in (found.start, *found.policies)]
    assert sum(bool(text.title) for text in shapes(drawing, scene.Text)) == run_figures.N_LABELLED


@pytest.mark.parametrize("use", [None, "uniform-2", "learned", "learned-x2"])
def test_what_was_learned_is_shown_as_the_answer_only_where_it_is(use, run):
    """Until it is known, the search is not at its end."""
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("candidates: []", "candidates: [uniform-2, learned]"))
    if use is not None:
        made_up.raced(run, use)
    found, text = history.read(run), page.render(run)
    assert (found.is_finished, found.race and found.race.use) == (use is not None, use)
    assert ("The learned policy</h2>" in text, "This is not the answer" in text) == (2 * (use == "uniform-2",))
    shown = run_page.policy_parts(found, found.policy)["frames"]
    assert [stop.name for stop in shown][-1] == ("the answer" if use == "learned-x2" else "round 2 of 2")
    assert len(shown) == 3 + (use == "learned-x2")


@pytest.mark.parametrize("kept", range(0, 19, 2))
def test_a_run_that_is_going_on(run, kept):
    """Cut off in the middle of a line, with the policies of the rounds that were finished by then."""
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:kept]) + "".join(lines[kept : kept + 1])[:-9])
    (run / "policy.json").unlink()
    for r in (1, 2):
        if kept < 6 + 6 * r:
            (run / "policies" / f"round_{r:02d}.json").unlink()
    found = read_and_draw(run)
    assert len(found.steps) == kept
    assert (found.policy is None) == (kept < 12)


def test_what_is_missing_is_left_out(finished, run, tmp_path):
    (run / "metrics.jsonl").unlink()
    assert len(run_figures.trace(read_and_draw(run))) == 3  # there still are its rounds
    shutil.copy(finished / "config.yaml", tmp_path)
    found = read_and_draw(tmp_path)
    assert (found.steps, found.policies, found.policy, found.kl, len(found.names)) == ([], [], None, [], 17)


@pytest.mark.parametrize("n_rounds", [1, 7, 33, 100])
def test_a_long_search_is_not_drawn_in_full(tmp_path, n_rounds):
    past = history.read(made_up.run(tmp_path, n_rounds=n_rounds))
    for draw in SCENES:
        drawing = draw(past)
        check(drawing)
        assert len(shapes(drawing, scene.Circle)) <= 6 * (run_figures.MAX_MARKS + 1)
    drawing = run_figures.evolution(past)
    lines = [len(line.points) for line in shapes(drawing, scene.Line) if line.title]
    assert max(lines) <= run_figures.MAX_POINTS + n_rounds + 2
    headers, rows = drawing.table
    assert (len(headers), headers[-1]) == (min(n_rounds, 20) + 2, f"round {n_rounds}")
    last = dict(zip(past.names, past.policies[-1].probabilities.mean(0).tolist(), strict=True))
    assert {row[0]: row[-1] for row in rows} == last


def test_of_very_many_lines_some_are_held_and_the_ends_of_rounds(tmp_path, monkeypatch):
    made_up.run(tmp_path, n_rounds=10)
    all_of_them = history.read(tmp_path).steps
    monkeypatch.setattr(history, "MAX_STEPS", 20)
    some = history.read(tmp_path).steps
    assert len(all_of_them) > 200
    assert len(some) <= 20 + 11
    assert [step for step in all_of_them if step in some] == some
    last = {step.round: step for step in all_of_them}
    assert all(step in some for step in last.values())


@pytest.mark.parametrize(
    "line", ["", "[]", "3", "null", '{"stage": 1}', '{"stage": "policy", "round": "x", "step": 1, "train_loss": 1}',
             '{"stage": "policy", "round": 1, "step": 1, "train_loss": NaN}', "\x00\x00",
             '{"stage": "policy", "round": 1, "step": 4, "train_loss": 1, "pi": [[1]], "mu": [1], "entropy": [0]}'],
)  # fmt: skip
def test_lines_that_are_no_metrics_are_left_out(finished, run, line):
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
