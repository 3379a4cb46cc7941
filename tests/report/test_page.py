"""The report as a file: what is in it for which folder, what it escapes, how large it is and how long it takes."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

import made_up
import tiny
from slackaug import messages
from slackaug.augment.policy import Policy
from slackaug.messages.search import agreement
from slackaug.report import outcome, page
from slackaug.runs import folders

MB = 1_000_000
REFRESH = f'<meta http-equiv="refresh" content="{page.REFRESH_SECONDS}">'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run of ten rounds over 20 transformations, with images and results; not to be changed."""
    root = tmp_path_factory.mktemp("report")
    return made_up.evaluation(made_up.run(root / "run", made_up.images(root / "data")))


@pytest.fixture(scope="module")
def text(folder):
    return page.render(folder)


def headings(text):
    return re.findall(r"<h2[^>]*>([^<]*)</h2>", text)


def test_a_run_has_all_its_parts_and_is_small_and_alone(text):
    parts = ["Use it", "Accuracy on the test images", "The policy", "On your images", "For researchers", "Settings"]
    assert headings(text) == parts
    assert text.count('class="frame"') == 11
    assert len(re.findall(r'<img src="data:image/(?:png|jpeg);base64,', text)) == 1 + 20 + 3
    assert "slackaug evaluate " in text
    assert REFRESH not in text
    assert len(re.sub(r'src="data:image/[^"]*"', 'src=""', text)) < MB
    assert not re.search(r"""(?:src|href|url\()\s*=?\s*["']?(?:https?:)?//""", text)
    assert "<link" not in text
    assert text.count("<script") == 1
    assert "default-src &#39;none&#39;" in text


def test_the_table_is_the_policy_the_likeliest_first(text, folder):
    policy = Policy.load(folder / "policy.json")
    shares, frame = policy.probabilities.mean(0), text.split('class="frame"')[-1].partition("</table>")[0]
    order = shares.argsort(descending=True).tolist()
    assert re.findall(r"<th scope=\"row\"><bdi>(.*?)</bdi>", frame) == [policy.space.names[n] for n in order]
    assert re.findall(r"</span>([\d.]+)\xa0%", frame) == [f"{100 * shares[n]:.1f}" for n in order]
    bounds = [policy.mu[n].item() for n in order if policy.space.transforms[n].span]
    drawn = re.findall(r'strength"><span class="full"><i style="width:([\d.]+)%', frame)
    assert [float(width) for width in drawn] == pytest.approx([100 * mu for mu in bounds], abs=0.06)
    assert "The line in the bars is at 5.0\xa0%" in text  # whose sign does not begin a line
    assert "<b>uniform</b>: all transformations equally likely" in text


def test_positions_are_shown_one_by_one_where_they_differ(tmp_path):
    folder = made_up.run(tmp_path, n_rounds=1)
    same, each = "draws use the probabilities below", ("Position 3", "grey: each position")
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
    (folder / "config.yaml").write_text(config.replace("kl_budget: null", "kl_budget: 0.016"))
    assert "a KL divergence of 0.016 nats a position" in page.render(folder)
    for content in ('{"model_lr": 0.2}', "{", '{"model_lr": "<b>"}', "[]", f'{{"model_lr": {10**400}}}'):
        (folder / "calibration.json").write_text(content)
        is_said = "The rate of re-training, 0.2, was found by trial" in page.render(folder)
        assert is_said == (content == '{"model_lr": 0.2}')


def test_it_says_where_the_policy_may_be_chance(text, tmp_path):
    folder = made_up.run(tmp_path, n_rounds=2)
    first = Policy.load(folder / "policies" / "round_01.json")
    Policy.uniform(first.space).save(folder / "policies" / "round_02.json")  # there and back again
    (folder / "calibration.json").write_text(json.dumps({"remark": "pre-training <b>left</b> little to gain"}))
    found = page.render(folder)
    assert agreement(-1.0, is_chance=True) in found
    assert "Pre-training &lt;b&gt;left&lt;/b&gt; little to gain" in found
    assert agreement(-1.0, is_chance=True)[-20:] not in text  # its rounds agree


def test_the_command_takes_seconds(folder, tmp_path):
    """Of a processor, start and imports included: what else the machine does has no part in it."""

    def used():
        found = resource.getrusage(resource.RUSAGE_CHILDREN)
        return found.ru_utime + found.ru_stime

    for of, seconds in ((folder, 5), (made_up.study(tmp_path), 15)):
        before, words = used(), [sys.executable, "-m", "slackaug", "report", str(of)]
        subprocess.run(words, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        assert used() - before < seconds


def test_a_study_compares(tmp_path):
    made_up.study(tmp_path)
    text = page.write(tmp_path).read_text()
    assert len(text) < MB
    assert headings(text) == [
        "Use it", "Accuracy on the test images", "The searches side by side", "How they were learned", "Stability",
        "Settings"]  # fmt: skip
    assert all(f"How often, search {s}" in text for s in range(4))


def test_nothing_of_a_name_is_markup(text):
    assert not any(name in text for name in made_up.HOSTILE[:2])
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 2
    assert "{{ 7 * 7 }} &amp; co" in text


@pytest.mark.parametrize("name", made_up.HOSTILE[:2])
def test_settings_folders_and_verdicts_are_escaped_too(tmp_path, name):
    folder = made_up.run(tmp_path / name.replace("/", "-"), name, n_rounds=1)
    (folder / "env.json").write_text(json.dumps({name: name, "more": [name]}))
    made_up.evaluation(folder, (name, "other"))
    document = json.loads((folder / "eval" / "results.json").read_text())
    (folder / "eval" / "results.json").write_text(json.dumps(document | {"answer": name, "reference": name}))
    text = page.render(folder)
    assert name not in text
    assert name.replace("/", "-") not in text
    assert "The images cannot be shown: " in text


@pytest.mark.parametrize("n_done", [0, 3])
def test_a_search_that_is_going_on_or_was_left(tmp_path, n_done):
    folder = made_up.run(tmp_path / "a run", n_done=n_done)
    with folders.held(folder):
        text = page.write(folder).read_text()
    assert (REFRESH in text, "The policy" in headings(text)) == (True, n_done > 0)
    left = page.write(folder).read_text()
    done = "round 3 of 10 is done" if n_done else "no round is done yet"
    assert f"{done}. To continue:</p>" in left
    assert "<code>slackaug search digits -o &#39;PATH/TO/a run&#39; --resume</code></pre>" in left
    assert not re.search(r"<p>[^<]*slackaug [a-z]+ ", left.partition("<footer>")[0])  # commands stand alone
    assert ("nothing shows whether it helps" in left, REFRESH in left) == (n_done > 0, False)


def test_no_heading_has_nothing_under_it(tmp_path):
    """Of a run that has only begun, and of evaluations without a search."""
    folder = made_up.run(tmp_path / "run", n_done=0)
    (folder / "metrics.jsonl").unlink()
    text = page.render(folder)
    assert headings(text) == ["For researchers", "Settings"]
    assert "There is no answer yet" in text
    assert "policy.json" not in text  # which is not there yet
    text = page.render(made_up.evaluation(tmp_path, ("none", "uniform")))
    assert headings(text) == ["Accuracy on the test images"]
    assert re.findall('<li><a href="#([a-z]+)">', text) == []
    lead, rest = outcome.read(tmp_path).answer.split(". ", 1)
    assert (f"<bdi>{lead}</bdi>" in text, rest in text) == (True, True)


def test_no_path_of_the_disk_is_in_the_file(tmp_path, monkeypatch):
    """Of a run and a study with broken files, wherever the command is given."""
    source = made_up.images(tmp_path / "my data" / "images")
    run = made_up.evaluation(made_up.run(tmp_path / "work" / "my runs" / "pets", source, n_rounds=2))
    (run / "answer.json").write_text("{")
    (run / "eval" / "results.json").write_text("{")
    (run / "env.json").write_text(json.dumps({"python": f"{sys.prefix}/bin/python", "root": str(tmp_path)}))
    study = made_up.study(tmp_path / "work" / "study", n_search=2, n_rounds=1, source=source)
    for name in ("policy.json", "searches/1/policies/round_01.json"):
        (study / name).write_text("{")
    for place, shown in ((tmp_path, "work/my runs/pets"), (tmp_path / "work", "my runs/pets"), (run, "policy.json")):
        monkeypatch.chdir(place)
        for folder in (run, study):
            text = page.render(folder)
            assert str(tmp_path) not in text
            assert sys.prefix not in text
            assert "data.csv" in text
        assert shown in page.render(run)


@pytest.mark.parametrize(
    ("source", "typed"),
    [
        ("digits", "digits"),
        ("data/pets", "data/pets"),
        ("{cwd}/data/pets", "data/pets"),
        ("/own/my pets", "&#39;PATH/TO/my pets&#39;"),
        ("wilds:/own/pets", "wilds:PATH/TO/pets"),
    ],
)
def test_a_command_has_a_mark_where_the_page_hides_a_place(tmp_path, monkeypatch, source, typed):
    """To paste what lacks its folders leads nowhere; elsewhere a name is enough."""
    monkeypatch.chdir(tmp_path)
    folder = made_up.run(tmp_path / "runs" / "pets", source.format(cwd=tmp_path), n_done=1)
    left = page.render(folder)
    assert f"<code>slackaug search {typed} -o runs/pets --resume</code>" in left
    assert f"<code>slackaug evaluate {typed} -p runs/pets " in left
    assert left.count("PATH/TO") == 2 * ("PATH/TO" in typed)


def test_only_directories_are_cut_off():
    for text, shown in (
        ("/home/me/pets: no such", "pets: no such"),
        ("kind:/data/pets and '/data/my pets'", "kind:pets and 'my pets'"),
        ("[/root/x; /y/z, |/usr/lib/é/ü]", "[x; z, |ü]"),
        *[
            (text, text)
            for text in ("mu / 2, images/s, a/b, ~/a, ../a, f(x)/y", "https://example.org/a/b", "</script>")
        ],
    ):
        assert page.without_disk(text) == shown


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_where_it_is_told_and_opens_a_browser(command, folder, tmp_path, monkeypatch):
    opened, out = [], tmp_path / "deep" / "x.html"
    monkeypatch.setattr("webbrowser.open", lambda uri: opened.append(uri) or True)
    assert command("report", folder, "-o", out, "--data", "digits") == (0, f"{messages.report(str(out))}\n", "")
    assert "4 classes: <bdi>0</bdi>, <bdi>2</bdi>, <bdi>5</bdi>, <bdi>7</bdi>." in out.read_text()
    assert opened == []
    assert command("report", folder, "-o", out, "--open").returncode == 0
    assert opened == [out.as_uri()]


def test_the_command_does_not_write_where_it_cannot(command, folder, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    for words, says in (
        ([tmp_path / "empty"], "holds nothing to report on"),
        ([tmp_path / "missing"], "no such folder"),
        ([folder, "-o", tmp_path], "is a folder, expected a file"),
        ([folder, "-o", tmp_path / "file" / "y.html"], "is not a folder; choose another -o"),
        ([folder, "-o", folder / "config.yaml"], "expected a name that ends in .html or .htm"),
        ([folder, "-o", tmp_path / "x.html", "--data", tmp_path / "gone.npz"], "gone.npz"),  # somebody asks for it
    ):
        before = tiny.contents(folder)
        done = command("report", *words)
        assert (done.returncode, says in done.stderr) == (2, True), says
        assert tiny.contents(folder) == before
    assert not list((tmp_path / "empty").iterdir())
    assert not (tmp_path / "x.html").exists()


# --- folders in which something is missing ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["answer.json", "policy.json"])
@pytest.mark.parametrize("content", ["", '{"a": [1', "\0\xff", "[]", '{"use": "learned"}'])
@pytest.mark.parametrize("has_race", [True, False])
def test_a_broken_answer_or_policy_is_said_in_words(tmp_path, name, content, has_race):
    folder = made_up.run(tmp_path / "pets", n_rounds=2)
    if has_race:
        config = (folder / "config.yaml").read_text()
        (folder / "config.yaml").write_text(config.replace("candidates: []", "candidates: [uniform-2, learned]"))
    made_up.raced(folder, "learned")
    (folder / name).write_text(content, encoding="latin-1")
    text = page.render(folder)
    what = {"answer.json": "The file with the answer", "policy.json": "The policy file"}[name]
    assert f"{what} is broken" in text
    assert f"The reason: {name}: " in text
    assert ("what you see is the policy of round 2" in text, "SlackAugment(" in text) == (
        (True, False) if name == "policy.json" else (False, True))  # fmt: skip
    again = "remove finished.json" if has_race else "copy policies/round_02.json to policy.json"
    assert again in text


@pytest.mark.parametrize("name", ["env.json", "metrics.jsonl", "policy.json", "calibration.json"])
@pytest.mark.parametrize("content", [None, "", '{"a": [1', "\0\xff"])
def test_what_is_not_needed_may_be_missing_or_broken(tmp_path, name, content):
    folder = made_up.run(tmp_path, n_rounds=2)
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_text(content, encoding="latin-1")
    assert "The policy" in headings(page.render(folder))


@pytest.mark.parametrize("name", ["config.yaml", "policies/round_01.json"])
def test_a_broken_search_does_not_hide_the_others_of_its_study(tmp_path, name):
    made_up.study(tmp_path, n_search=3, n_rounds=2)
    broken = tmp_path / "searches" / "1" / name
    broken.write_text('{"a": 1')
    shutil.rmtree(tmp_path / "searches" / "2" / "policies")
    text = page.render(tmp_path)
    assert f"Search 1 cannot be shown: {broken.name if name.endswith('json') else 'config.yaml'}" in text
    assert [f"Probabilities over search {s}" in text for s in range(3)] == [True, False, True]
    text = page.render(tmp_path / "searches" / "2")
    assert "Only policy.json is left of this search" in text
    assert "<caption>policy.json</caption>" in text


@pytest.mark.parametrize("is_grey", [True, False])
def test_a_page_of_grey_images_names_what_does_nothing_to_them(tmp_path, is_grey):
    run = made_up.run(tmp_path / "run", made_up.images(tmp_path / "data"), n_rounds=1)
    for path in (run / "policy.json", run / "policies" / "round_01.json") if is_grey else ():
        replace(Policy.load(path), mean=(0.3,) * 3, std=(0.2,) * 3, dataset="of grey images").save(path)
    says = "The policy was learned on grey images: Grayscale, Color and Hue do nothing to them."
    assert (says in page.render(run)) is is_grey
