"""The report as a file: what is in it for which folder, what it escapes, how large it is and how long it takes."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import made_up
import tiny
from slackaug import data
from slackaug.augment.policy import Policy
from slackaug.data.options import DataConfig
from slackaug.judge import baselines
from slackaug.report import outcome, page, samples
from slackaug.runs import folders
from slackaug.runs.folders import RunError

MB = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run of ten rounds over 20 transformations, with images and results; not to be changed."""
    root = tmp_path_factory.mktemp("report")
    return made_up.evaluation(made_up.run(root / "run", made_up.images(root / "data")))


@pytest.fixture(scope="module")
def text(folder):
    return page.render(folder)


def without_images(text):
    return re.sub(r'src="data:image/[^"]*"', 'src=""', text)


def headings(text):
    return re.findall(r"<h2[^>]*>([^<]*)</h2>", text)


def test_a_run_has_all_its_parts(text):
    parts = ["Does it help?", "The policy", "How it was learned", "On your images", "Use it", "Settings"]
    assert headings(text) == parts
    assert text.count('class="frame charts"') == 11
    assert len(re.findall(r'<img src="data:image/(?:png|jpeg);base64,', text)) == 1 + 20 + 3
    assert "slackaug evaluate " in text
    assert "http-equiv=&#34;refresh" not in text
    assert 'http-equiv="refresh"' not in text


def test_the_story_needs_no_paper(text, folder):
    policy = Policy.load(folder / "policy.json")
    shares = policy.probabilities.mean(0)
    most, least = int(shares.argmax()), int(shares.argmin())
    sentences = r"Learned as most likely: (.*?)\. Least likely: (.*?)\. Were all equally likely, each (.*?)\.<"
    found = re.search(sentences, text, re.DOTALL)
    for place, n in ((found[1], most), (found[2], least)):
        assert place.strip().startswith(f"<bdi>{policy.space.names[n]}</bdi> {100 * shares[n]:.1f}\xa0%")
    assert found[3] == "would have 5.0\xa0%"  # whose sign does not begin a line
    assert "<b>uniform</b>: all transformations equally likely" in text


def test_positions_are_shown_one_by_one_where_they_differ(tmp_path):
    folder = made_up.run(tmp_path, n_rounds=1)
    same, each = "with the same probabilities", ("How often, for each position", "grey: each position")
    text = page.render(folder)
    assert (same in text, [words in text for words in each]) == (False, [True, True])
    for path in (folder / "policy.json", *(folder / "policies").iterdir()):
        policy = Policy.load(path)
        replace(policy, pi=policy.pi[:1].expand_as(policy.pi).clone()).save(path)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    tied = [line | {key: 3 * line[key][:1] for key in ("pi", "entropy") if key in line} for line in lines]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in tied))
    text = page.render(folder)
    assert (same in text, [words in text for words in each]) == (True, [False, False])


def test_it_says_what_holds_a_round_to_its_anchor(tmp_path):
    folder = made_up.run(tmp_path, n_rounds=1)
    assert "a KL penalty holds the round close to" in page.render(folder)
    config = (folder / "config.yaml").read_text()
    assert "kl_budget: null" in config
    (folder / "config.yaml").write_text(config.replace("kl_budget: null", "kl_budget: 0.016"))
    assert "a KL divergence of 0.016 nats a position" in page.render(folder)
    for content, expected in (('{"model_lr": 0.2}', True), ("{", False), ('{"model_lr": "<b>"}', False), ("[]", False)):
        (folder / "calibration.json").write_text(content)
        assert ("The rate of re-training, 0.2, was found by trial" in page.render(folder)) is expected


@pytest.mark.parametrize("name", [*baselines.METHODS, "randaugment-3-14", "slack"])
def test_every_baseline_is_said_in_words(name):
    assert outcome.meaning(name)
    assert not outcome.meaning(f"file:{name}.json")


def test_it_says_where_the_policy_may_be_chance(text, tmp_path):
    assert "may be chance" not in text
    folder = made_up.run(tmp_path, n_rounds=2)
    first = Policy.load(folder / "policies" / "round_01.json")
    Policy.uniform(first.space).save(folder / "policies" / "round_02.json")  # there and back again
    (folder / "calibration.json").write_text(json.dumps({"remark": "pre-training <b>left</b> little to gain"}))
    found = page.render(folder)
    assert (
        "Its rounds agree by -1.00 (1: all go one way, 0: chance), so that what it has learned may be chance" in found
    )
    assert "Pre-training &lt;b&gt;left&lt;/b&gt; little to gain" in found


def test_it_is_small_and_alone(text):
    assert len(without_images(text)) < MB
    assert not re.search(r"""(?:src|href|url\()\s*=?\s*["']?(?:https?:)?//""", text)
    assert "<link" not in text
    assert text.count("<script") == 1
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text


def seconds_of_command(folder):
    """Of a processor, start and imports included: what else the machine does has no part in it."""
    words = [sys.executable, "-m", "slackaug", "report", str(folder)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_command_takes_seconds_for_ten_rounds(folder):
    assert seconds_of_command(folder) < 5


def test_the_command_takes_seconds_for_a_study(tmp_path):
    assert seconds_of_command(made_up.study(tmp_path)) < 15


def test_a_study_compares(tmp_path):
    made_up.study(tmp_path)
    text = page.write(tmp_path).read_text()
    assert len(text) < MB
    assert headings(text)[:4] == [
        "Does it help?", "The searches side by side", "How they were learned", "Stability"]  # fmt: skip
    for s in range(4):
        assert f"How often, search {s}" in text
    assert "96.20 ± 0.10 %" in text


def test_nothing_of_a_name_is_markup(text):
    for name in made_up.HOSTILE[:2]:
        assert name not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 2
    assert "{{ 7 * 7 }} &amp; co" in text
    assert "<h1>" in text


@pytest.mark.parametrize("name", made_up.HOSTILE[:2])
def test_settings_folders_and_verdicts_are_escaped_too(tmp_path, name):
    folder = made_up.run(tmp_path / name.replace("/", "-"), name, n_rounds=1)
    (folder / "env.json").write_text(json.dumps({name: name, "more": [name]}))
    made_up.evaluation(folder, (name, "other"))
    document = json.loads((folder / "eval" / "results.json").read_text())
    (folder / "eval" / "results.json").write_text(json.dumps(document | {"verdict": name, "reference": name}))
    text = page.render(folder)
    assert name not in text
    assert name.replace("/", "-") not in text
    assert "The images cannot be shown: " in text


def test_a_search_that_was_left(tmp_path):
    text = page.render(made_up.run(tmp_path / "a run", n_done=4))
    assert "The search was left: round 4 of 10 is done. To go on: slackaug search digits -o &#39;" in text
    assert "Nothing has been evaluated yet" in text
    assert 'http-equiv="refresh"' not in text


@pytest.mark.parametrize("n_done", [0, 3])
def test_a_search_that_is_going_on(tmp_path, n_done):
    folder = made_up.run(tmp_path, n_done=n_done)
    with folders.held(folder):
        text = page.write(folder).read_text()
    assert f'<meta http-equiv="refresh" content="{page.REFRESH_SECONDS}">' in text
    assert "The search is going on" in text
    assert ("The policy" in headings(text)) == (n_done > 0)
    assert 'http-equiv="refresh"' not in page.write(folder).read_text()


def test_a_run_that_has_only_begun(tmp_path):
    folder = made_up.run(tmp_path, n_done=0)
    (folder / "metrics.jsonl").unlink()
    text = page.render(folder)
    assert headings(text) == ["Does it help?", "Settings"]
    assert "There is nothing to evaluate yet" in text
    assert "policy.json" not in text  # which is not there yet


def test_evaluations_without_a_search(tmp_path):
    text = page.render(made_up.evaluation(tmp_path, ("none", "uniform")))
    assert headings(text) == ["Does it help?"]  # no heading has nothing under it
    assert re.findall('<li><a href="#([a-z]+)">', text) == ["results"]
    assert "uniform is better than none" in text


def test_the_policy_is_judged_against_every_baseline(tmp_path):
    folder = made_up.evaluation(tmp_path, ("none", "worst", "uniform", "runs/a", "runs/a b"))
    found = outcome.read(folder)
    assert found.verdict.startswith("runs/a b is better than none: ")
    assert [sentence.partition(":")[0] for sentence in found.others] == [
        "runs/a b is not distinguishable from worst",  # without any spread
        "runs/a b is better than uniform",
        "runs/a b is better than runs/a",
    ]
    assert all(sentence in page.render(folder) for sentence in found.others)
    document = json.loads((folder / "eval" / "results.json").read_text())
    for entry in document["policies"]:
        del entry["trials"]
    (folder / "eval" / "results.json").write_text(json.dumps(document))
    assert outcome.read(folder).others == []


@pytest.mark.parametrize("content", ["{", "[]", '{"policies": 3}', '{"verdict": "x", "policies": [], "reference": 1}'])
def test_foreign_results_are_said_in_one_line(tmp_path, content):
    folder = made_up.evaluation(made_up.run(tmp_path, n_rounds=1))
    (folder / "eval" / "results.json").write_text(content)
    assert str(folder / "eval" / "results.json") in page.render(folder)


def test_no_run(tmp_path):
    with pytest.raises(RunError, match="holds nothing to report on"):
        page.write(tmp_path)
    with pytest.raises(RunError, match="no such folder"):
        page.write(tmp_path / "missing")
    assert not list(tmp_path.iterdir())


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_where_it_is_told(command, folder, tmp_path):
    done = command("report", folder, "-o", tmp_path / "deep" / "x.html", "--data", "digits")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"the report is {tmp_path / 'deep' / 'x.html'}\n"
    assert (
        "4 classes: <bdi>0</bdi>, <bdi>2</bdi>, <bdi>5</bdi>, <bdi>7</bdi>."
        in (tmp_path / "deep" / "x.html").read_text()
    )


def test_the_command_opens_a_browser(command, folder, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda uri: opened.append(uri) or True)
    assert command("report", folder, "-o", tmp_path / "x.html", "--open").returncode == 0
    assert opened == [(tmp_path / "x.html").as_uri()]


def test_the_command_on_no_run(command, tmp_path):
    done = command("report", tmp_path)
    assert done.returncode == 2
    assert "holds nothing to report on" in done.stderr


def test_the_command_does_not_write_where_it_cannot(command, folder, tmp_path):
    done = command("report", folder, "-o", tmp_path)
    assert (done.returncode, "is a folder, expected a file" in done.stderr) == (2, True)
    (tmp_path / "x").touch()
    done = command("report", folder, "-o", tmp_path / "x" / "y.html")
    assert (done.returncode, "is not a folder; choose another -o" in done.stderr) == (2, True)


def test_data_that_somebody_asks_for_must_be_there(command, folder, tmp_path):
    done = command("report", folder, "--data", tmp_path / "gone.npz", "-o", tmp_path / "x.html")
    assert done.returncode == 2
    assert "gone.npz" in done.stderr
    assert not (tmp_path / "x.html").exists()


# --- folders in which something is missing ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["env.json", "metrics.jsonl", "policy.json", "calibration.json"])
@pytest.mark.parametrize("content", [None, "", '{"a": [1', "\0\xff"])
def test_what_is_not_needed_may_be_missing_or_broken(tmp_path, name, content):
    folder = made_up.run(tmp_path, n_rounds=2)
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_text(content, encoding="latin-1")
    assert "The policy" in headings(page.render(folder))


def test_a_policy_whose_rounds_are_gone(tmp_path):
    folder = made_up.run(tmp_path, n_rounds=2)
    shutil.rmtree(folder / "policies")
    text = page.render(folder)
    assert "Only policy.json is left of this search" in text
    assert "How often, policy.json" in text


@pytest.mark.parametrize("name", ["config.yaml", "policies/round_01.json"])
def test_a_broken_search_does_not_hide_the_others_of_its_study(tmp_path, name):
    made_up.study(tmp_path, n_search=3, n_rounds=2)
    broken = tmp_path / "searches" / "1" / name
    broken.write_text('{"a": 1')
    text = page.render(tmp_path)
    assert f"Search 1 cannot be shown: {broken}" in text
    assert [f"Probabilities over search {s}" in text for s in range(3)] == [True, False, True]


# --- images -----------------------------------------------------------------------------------------------------------


def test_a_folder_is_not_decoded_as_a_whole(tmp_path):
    source = made_up.images(tmp_path / "files", ("a", "b")).parent
    for label, name in (("cat", "0.png"), ("dog", "1.png")):
        (tmp_path / "set" / label).mkdir(parents=True)
        (source / name).rename(tmp_path / "set" / label / name)
        (tmp_path / "set" / label / "z.png").write_text("not an image")
    found = samples.find(DataConfig(source=str(tmp_path / "set")), None)
    assert found.class_names == ("cat", "dog")
    assert found.images.shape == (2, 3, 40, 40)


def test_a_table_is_not_decoded_as_a_whole(tmp_path):
    source = made_up.images(tmp_path, ("b", "a", "ت"))
    for i in range(3, 15):
        (tmp_path / f"{i}.png").write_text("not an image")
    found = samples.find(DataConfig(source=str(source)), None)
    assert found.class_names == ("a", "b", "ت")
    assert found.images.shape == (3, 3, 40, 40)
    (tmp_path / "0.png").write_text("not an image")
    with pytest.raises(samples.DataError, match=r"0\.png: "):
        samples.find(DataConfig(source=str(source)), None)
    with pytest.raises(samples.DataError, match="none of 5 files can be read"):
        samples.find(DataConfig(source=str(source), skip_bad=True), None)


def test_a_table_shows_nothing_from_outside_of_its_folder(tmp_path):
    made_up.images(tmp_path / "secret", ("a",))
    (tmp_path / "data.csv").write_text("path,label,split\nsecret/1.png,a,test\nsecret/0.png,a,train\n")
    assert len(samples.find(DataConfig(source=str(tmp_path / "data.csv")), None).images) == 1
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "data.csv").write_text("path,label\n../secret/0.png,a\n")
    with pytest.raises(samples.DataError, match="outside"):
        samples.find(DataConfig(source=str(tmp_path / "inner" / "data.csv")), None)


def test_a_folder_shows_nothing_that_a_link_leads_out_to(tmp_path):
    made_up.images(tmp_path / "secret", ("a",))
    (tmp_path / "set" / "cat").mkdir(parents=True)
    (tmp_path / "set" / "cat" / "0.png").symlink_to(tmp_path / "secret" / "0.png")
    with pytest.raises(samples.DataError, match="outside"):
        samples.find(DataConfig(source=str(tmp_path / "set")), None)


def test_bad_files_are_left_out_where_the_search_left_them_out(tmp_path):
    source = made_up.images(tmp_path, ("a", "b"))
    (tmp_path / "0.png").write_text("not an image")
    found = samples.find(DataConfig(source=str(source), skip_bad=True), None)
    assert found.class_names == ("a", "b")


@pytest.mark.parametrize("named", [False, True])
def test_an_npz_shows_what_the_data_set_has(tmp_path, named):
    content = tiny.arrays() | ({"class_names": np.array(["x", "y", "<b>"])} if named else {})
    np.savez(tmp_path / "x.npz", **content)
    found = samples.find(DataConfig(source=str(tmp_path / "x.npz")), None)
    expected = samples.of_dataset(data.load(str(tmp_path / "x.npz")))
    assert found.class_names == expected.class_names == (("x", "y", "<b>") if named else ("0", "1", "2"))
    assert torch.equal(found.images, expected.images)


@pytest.mark.parametrize("source", ["os:getcwd", "torchvision:CIFAR10", "hf:mnist", "gone/", "gone.npz", ""])
def test_a_file_names_neither_code_nor_downloads(source, monkeypatch):
    monkeypatch.setattr(samples, "read", lambda *_: pytest.fail("was read"))
    with pytest.raises(samples.DataError, match="--data says where the images are now"):
        samples.find(DataConfig(source=source), None)


# --- intervals --------------------------------------------------------------------------------------------------------


def test_the_chart_of_intervals_holds_them_all(folder):
    found = outcome.read(folder)
    drawn = outcome.intervals_chart(found)
    assert [mark.name for mark in drawn.marks] == [row.name for row in found.rows]
    for mark in drawn.marks:
        assert 0 < mark.left <= mark.centre <= mark.left + mark.width + 0.02 < 100
    assert len(drawn.ticks) > 1
    assert found.tone == "better"


def test_one_policy_without_an_interval(tmp_path):
    row = {"name": "a", "accuracy": {"mean": 1.0, "half_width": None, "n": 1, "unit": "seed"}, "difference": None}
    document = {
        "verdict": "b is worse than a: no",
        "reference": None,
        "policies": [row | {"seconds": 1, "images_per_second": 2}],
    }
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "results.json").write_text(json.dumps(document))
    found = outcome.read(tmp_path)
    assert found.tone == "open"  # the sentence is not about a policy of the table
    assert outcome.intervals_chart(found).marks[0].width == 0


def test_a_report_replaces_nothing_but_reports(command, tmp_path):
    run = made_up.run(tmp_path / "run", n_rounds=1)
    before = tiny.contents(run)
    done = command("report", run, "-o", run / "config.yaml")
    says = f"{run / 'config.yaml'}: expected a name that ends in .html or .htm"
    assert (done.returncode, says in done.stderr) == (2, True)
    assert tiny.contents(run) == before
