"""The top of the page: the answer, what to type to use it, and the race."""

import json
import re
from dataclasses import replace

import pytest

import made_up
from slackaug.augment.policy import Policy
from slackaug.report import page


def test_the_answer_stands_on_top_then_how_to_use_it_and_the_race(tmp_path, installed):
    installed(True)
    folder = made_up.raced(made_up.run(tmp_path / "pets", n_rounds=2), "learned")
    text = page.render(folder)
    assert re.findall("<h2[^>]*>([^<]+)</h2>", text)[:3] == ["Use it", "The race", "The policy"]
    sentence = json.loads((folder / "answer.json").read_text())["sentence"]
    first, _, rest = text.partition('id="use"')
    assert sentence.removesuffix(".") in first
    assert "slackaug.SlackAugment(&#34;PATH/TO/pets/policy.json&#34;)" in rest
    assert "slackaug export PATH/TO/pets/policy.json --to torchvision" in rest
    assert "What the answer does to images of " in rest
    marks = re.findall(r'<li class="mark (\w+)"><span class="name"><bdi>(.*?)</bdi> <small>(.*?)</small>', text)
    assert marks == [
        ("first", "The learned policy", "the answer, 8 trainings"),
        ("first", "No augmentation", "8 trainings"),
        ("first", "The learned policy", "the answer"),
        ("first", "No augmentation", "in to the end"),
        ("out", "The learned policy taken 2 times as far", "dropped out after 4 trainings"),
        ("out", "1 random transformation per image", "dropped out after 4 trainings"),
        ("out", "2 random transformations per image", "dropped out after 2 trainings"),
        ("out", "TrivialAugment (Wide)", "dropped out after 2 trainings"),
    ]
    values = re.findall(r'<span class="value">(.*?)</span>', text)
    assert values[:4] == ["95.50 % (95.10 to 95.90)", "94.00 % (93.00 to 95.00)", "95.0 %", "90.0 % (89.0 to 93.5)"]
    assert "1.5 points better" in first  # as those of the final, which stands beside it
    assert values[1] in first
    assert values[2] not in first


def test_an_answer_without_a_final_has_none_on_its_page(tmp_path):
    """As one that was stopped before, or is of an older version."""
    folder = made_up.raced(made_up.run(tmp_path, n_rounds=1), "learned")
    document = json.loads((folder / "answer.json").read_text())
    assert document.pop("last_two")
    for without in (document, document | {"last_two": []}):
        (folder / "answer.json").write_text(json.dumps(without))
        assert "The final" not in page.render(folder)


def test_the_default_that_is_in_the_final_behind_others_is_marked(tmp_path):
    folder = made_up.raced(made_up.run(tmp_path, n_rounds=1), "learned")
    document = json.loads((folder / "answer.json").read_text())
    for one in document["candidates"]:
        one["dropped_after"] = None if one["name"] in ("learned", "uniform-2") else 2
    (folder / "answer.json").write_text(json.dumps(document))
    text = page.render(folder)
    assert "2 random transformations per image</bdi> <small>the default, always in the final</small>" in text
    assert "in to the end" not in text


def test_a_wordy_answer_has_only_its_first_sentence_in_large_type(tmp_path):
    folder = made_up.raced(made_up.run(tmp_path, n_rounds=1), "learned")
    document = json.loads((folder / "answer.json").read_text())
    for sentence, lead in (("Use A (Wide): 0.5 better. And 1.5 <b>.", "Use A (Wide): 0.5 better"), ("Use A", "Use A")):
        (folder / "answer.json").write_text(json.dumps(document | {"sentence": sentence}))
        assert f'<h2 id="answer"><bdi>{lead}</bdi>' in page.render(folder)
    assert "And 1.5 &lt;b&gt;." not in page.render(folder)


@pytest.mark.parametrize(
    ("name", "side", "has_torchvision", "types"),
    [
        ("trivialaugment-wide", 40, True, "slackaug export PATH/TO/run --to torchvision -o augment.py"),
        ("trivialaugment-wide", 96, False, "slackaug export PATH/TO/run --to torchvision -o augment.py"),
        ("default", 40, True, "slackaug export PATH/TO/run --to torchvision -o augment.py"),
        ("default", 40, False, "slackaug export PATH/TO/run --to python -o augment.py"),
        ("default", 96, False, "slackaug export PATH/TO/run --to torchvision -o augment.py"),
        ("uniformaugment", 40, True, "--baselines uniformaugment --save-models models -o runs/trained"),
        ("trivialaugment-ra", 40, True, "--baselines trivialaugment-ra --save-models models -o runs/trained"),
    ],
)
def test_an_answer_that_is_no_policy_is_used_without_the_file(tmp_path, installed, name, side, has_torchvision, types):
    installed(has_torchvision)
    source = made_up.images(tmp_path / "data", side=side)
    folder = made_up.raced(made_up.run(tmp_path / "run", source, n_rounds=1), name, is_policy=False)
    text = page.render(folder)
    assert types in text
    assert "needs no policy file: the policy below was learned, and is not the answer" in text
    assert "This is not the answer." in text
    assert "and the race did not choose it." in text
    assert "SlackAugment(" not in text
    assert "What the learned policy does to images of " in text


def test_without_augmentation_there_is_nothing_to_type(tmp_path):
    folder = made_up.raced(made_up.run(tmp_path / "run", n_rounds=1), "none")
    assert 'id="images"' in page.render(folder)
    Policy.load(folder / "policy.json").with_composed(0).save(folder / "policy.json")
    text = page.render(folder)
    assert "Train on your images as they are, with mirror flips." in text
    assert "SlackAugment(" not in text
    assert 'id="images"' not in text


def test_of_images_that_are_gone_nobody_knows_how_large_they_are(tmp_path):
    folder = made_up.raced(made_up.run(tmp_path, "nowhere.npz", n_rounds=1), "default", is_policy=False)
    text = page.render(folder)
    assert ("slackaug export" in text, "--baselines default --save-models models" in text) == (False, True)


def test_a_race_that_was_stopped_has_not_decided_against_the_learned_policy(tmp_path):
    folder = made_up.raced(made_up.run(tmp_path, n_rounds=1), "uniform-2")
    document = json.loads((folder / "answer.json").read_text())
    (folder / "answer.json").write_text(json.dumps(document | {"is_final": False}))
    text = page.render(folder)
    assert ("did not choose it" in text, "; the race was stopped before its end." in text) == (False, True)


def test_a_race_that_was_stopped_before_its_final_has_chosen_nothing_and_has_no_bars(tmp_path):
    folder = made_up.raced(made_up.run(tmp_path, n_rounds=1), "uniform-2")
    chosen = "The race chose who meets the default in the final. Dots are accuracies on held-out images; bars are 95 %"
    assert chosen in page.render(folder)
    document = json.loads((folder / "answer.json").read_text())
    candidates = [one | {"n": 1, "interval": None} for one in document["candidates"]]
    stopped = {"is_final": False, "last_two": [], "candidates": candidates, "n_trainings": 6}
    (folder / "answer.json").write_text(json.dumps(document | stopped))
    assert (
        "<p>It was stopped before it chose who meets the default in the final. Dots are accuracies on held-out images. "
        "It ended after 6 trainings.</p>" in page.render(folder)
    )


def test_a_policy_that_nothing_was_learned_for_has_no_table_of_equal_bars(tmp_path):
    """The policy that learning starts from, which a race may have chosen."""
    folder = made_up.run(tmp_path, n_rounds=2, n_done=0)
    start, about = Policy.uniform("cifar", n_composed=2), {"rounds": 0, "use": "uniform-2"}
    replace(start, learned=about).save(folder / "policy.json")
    text = page.render(folder)
    said = "Nothing was learned yet. Each image goes through 2 transformations, drawn one after the other from 17, all "
    assert f"<p>{said}equally likely.</p>" in text
    assert not re.search('class="frame"|id="round"|id="pie"', text)
    assert "On your images" in text
    assert "A policy was learned" not in text
