"""The top of the page: the answer, what to type to use it, and the race."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import made_up
import tiny
from slackaug.augment.apply import augment
from slackaug.augment.policy import Policy
from slackaug.judge import candidates
from slackaug.report import page, use


def test_the_answer_stands_on_top_then_how_to_use_it_and_the_race(tmp_path):
    folder = made_up.raced(made_up.run(tmp_path / "pets", n_rounds=2), "learned")
    text = page.render(folder)
    assert re.findall("<h2[^>]*>([^<]+)</h2>", text)[:3] == ["Use it", "The race", "The policy"]
    sentence = json.loads((folder / "answer.json").read_text())["sentence"]
    first, _, rest = text.partition('id="use"')
    assert sentence.removesuffix(".") in first
    assert "slackaug.SlackAugment(&#34;pets/policy.json&#34;)" in rest
    assert "slackaug export pets/policy.json --to torchvision" in rest
    assert "Under the answer, training images" in rest
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


def test_a_wordy_answer_has_only_its_first_sentence_in_large_type(tmp_path):
    folder = made_up.raced(made_up.run(tmp_path, n_rounds=1), "learned")
    document = json.loads((folder / "answer.json").read_text())
    for sentence, lead in (("Use A (Wide): 0.5 better. And 1.5 <b>.", "Use A (Wide): 0.5 better"), ("Use A", "Use A")):
        (folder / "answer.json").write_text(json.dumps(document | {"sentence": sentence}))
        assert f'<h2 id="answer"><bdi>{lead}</bdi>' in page.render(folder)
    assert "And 1.5 &lt;b&gt;." not in page.render(folder)


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("trivialaugment-wide", "    v2.TrivialAugmentWide(),\n    v2.RandomCrop((40, 40), padding=(5, 5)),\n"),
        ("default", "    v2.ToImage(),\n    v2.RandomCrop((40, 40), padding=(5, 5)),\n"),
        ("uniformaugment", "--baselines uniformaugment --save-models models"),
    ],
)
def test_an_answer_that_is_no_policy_is_used_without_the_file(tmp_path, name, types):
    source = made_up.images(tmp_path / "data")
    folder = made_up.raced(made_up.run(tmp_path / "run", source, n_rounds=1), name, is_policy=False)
    text = page.render(folder)
    assert types in text
    assert "needs no policy file: the policy below was learned, and is not the answer" in text
    assert "This is not the answer." in text
    assert "SlackAugment(" not in text
    assert "slackaug export" not in text
    assert "Under the learned policy, training images" in text


def test_large_images_have_other_usual_crops_and_flips_are_as_in_the_race():
    policy, crop, jitter = (
        Policy.uniform("imagenet"),
        "v2.RandomResizedCrop((224, 224))",
        "v2.ColorJitter(0.4, 0.4, 0.4)",
    )
    flip = "v2.RandomHorizontalFlip()"
    assert use.lines_for("default", (224, 224), policy) == [crop, jitter, flip]
    without = replace(policy, flip=False)
    assert use.lines_for("trivialaugment-wide", (224, 224), without) == [crop, "v2.TrivialAugmentWide()", jitter]
    assert flip in use.lines_for("default", (32, 32), policy)
    assert flip not in use.lines_for("default", (32, 32), without)


def test_of_images_whose_size_nobody_knows_no_code_is_shown():
    found = use.without_policy("default", "pets", None, Policy.uniform("cifar"))
    assert [text for _, text in found.steps] == ["slackaug evaluate pets --baselines default --save-models models"]


def test_the_size_is_that_of_the_settings_where_the_images_have_moved(tmp_path):
    folder = made_up.raced(made_up.run(tmp_path / "run", "gone", n_rounds=1), "default", is_policy=False)
    config = folder / "config.yaml"
    assert "v2.RandomCrop" not in page.render(folder)
    config.write_text(config.read_text().replace("size: null", "size: 32"))
    assert "v2.RandomCrop((32, 32), padding=(4, 4))" in page.render(folder)


def test_without_augmentation_there_is_nothing_to_type(tmp_path):
    text = page.render(made_up.raced(made_up.run(tmp_path / "run", n_rounds=1), "none"))
    assert "Train on your images as they are, with mirror flips." in text
    assert "SlackAugment(" not in text


@pytest.mark.torchvision
@pytest.mark.parametrize("name", ["default", "trivialaugment-wide"])
@pytest.mark.parametrize("size", [(32, 32), (24, 40), (80, 80)])
def test_the_code_does_what_was_raced(name, size):
    """Shares of painted pixels of 500 images differ from those of the race by four standard errors once in 15,000
    times. Large images have no Cutout: theirs is only run."""
    given, policy = {}, Policy.uniform("cifar", mean=(0.2, 0.4, 0.6))
    lines = "\n".join(f"    {line}," for line in use.lines_for(name, size, policy))
    exec(use.LINES_CODE.format(lines=lines), given)
    torch.manual_seed(0)
    pictures = [Image.new("RGB", size[::-1], "white") for _ in range(500)]
    shown = [np.asarray(given["augment"](one)) for one in pictures]
    if max(size) > 64:
        assert {one.shape for one in shown} == {(*size, 3)}
        return
    assert {one.shape for one in shown} == {(3, *size)}
    images = torch.full((500, 3, *size), 255, dtype=torch.uint8)
    data = replace(tiny.dataset(), mean=(0.2, 0.4, 0.6), input_size=size)
    method = candidates.from_name(name).method(data, policy.space)
    generator = torch.Generator().manual_seed(0)
    ours = augment(images, method.sample(len(images), generator), generator, fill=method.fill).numpy()
    fill = np.array(policy.fill)[:, None, None]
    theirs, ours = ([(one == fill).all(0).mean() for one in found] for found in (shown, ours))
    error = np.hypot(np.std(theirs), np.std(ours)) / np.sqrt(500)
    assert abs(np.mean(theirs) - np.mean(ours)) < 4 * error
