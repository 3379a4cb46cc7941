"""What a race comes to: what to use, the sentence, and the document."""

import json
import re

import numpy as np
import pytest

from slackaug.config.run_config import RaceConfig, RunConfig
from slackaug.judge.answer import answer
from slackaug.judge.baselines import BASELINES
from slackaug.judge.race import race
from slackaug.messages import answer as messages
from slackaug.messages.names import spoken

CONFIG = RaceConfig(candidates=("none", "uniform-2", "learned"), n_last=8)
FOR = " This is for 200 epochs of the network small; longer trainings may want more augmentation."


def run_config(race):
    return RunConfig(preset="", model="small", space="cifar", race=race)


def trained(share, n, n_images=2000, seed=0):
    """Trainings that have a share right, and differ a little."""
    rng = np.random.default_rng([seed, round(1000 * share)])
    return [rng.permutation(n_images) < (share + rng.normal(0, 0.001)) * n_images for _ in range(n)]


def answered(learned, uniform=0.9, n_last=8, config=CONFIG, race_learned=None):
    raced = {"none": trained(0.5, 2), "uniform-2": trained(uniform, 2), "learned": trained(race_learned or learned, 2)}
    challenger = race(raced, config).challengers[0]
    last = {"uniform-2": trained(uniform, n_last, seed=1), challenger: trained(learned, n_last, seed=2)}
    return answer(race(raced, config), raced, last, run_config(config), 12.34, 0.1)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("none", "no augmentation"),
        ("uniform-2", "2 random transformations per image"),
        ("uniform", "3 random transformations per image"),
        ("learned", "the learned policy"),
        ("learned-x0.5", "the learned policy taken 0.5 times as far"),
        ("learned-mu1.25", "the learned policy at 1.25 times its magnitudes"),
        ("learned-x2-mu0.75-1", "the learned policy taken 2 times as far at 0.75 times its magnitudes with 1 "
         "transformation per image"),
        ("learned.json", "learned.json"),  # a file
        ("runs/learned-2", "runs/learned-2"),
    ],
)  # fmt: skip
def test_candidates_in_words(name, shown):
    assert spoken(name) == shown


def test_no_baseline_is_spoken_of_by_its_key():
    """Those that go with other defaults than their own are researchers'."""
    names = [name for name in BASELINES if not name.endswith(("-cifar", "-imagenet"))]
    assert [name for name in names if spoken(name) == name] == []


def test_what_is_better_is_used():
    found = answered(0.95)
    assert (found.use, found.other, found.verdict, found.is_final) == ("learned", "uniform-2", "better", True)
    assert found.sentence.startswith("Use the learned policy. It is 5.0 points better than 2 random")
    low, high = found.interval
    assert low < found.gain < high
    assert (high - low) / 2 == pytest.approx(found.smallest_gain)
    (said,) = re.findall(
        r"points better than 2 random transformations per image \(95 % interval (.*) to", found.sentence
    )
    assert float(said) == pytest.approx(low, abs=0.051)
    learned, uniform = found.last_two
    assert (learned.name, learned.n, uniform.name, uniform.n) == ("learned", 8, "uniform-2", 8)
    assert learned.accuracy - uniform.accuracy == pytest.approx(found.gain)
    other = answered(0.85)
    assert (other.use, other.verdict) == ("uniform-2", "better")
    assert other.gain > 0
    assert "points better than the learned policy" in other.sentence


def test_where_nothing_is_shown_the_incumbent_stays_and_the_sentence_says_what_could_have_been_seen():
    found = answered(0.8995)
    assert (found.use, found.verdict) == ("uniform-2", "unknown")
    assert found.sentence.startswith("Use 2 random transformations per image for now. The learned policy is 0.1 ")
    assert "points behind it here, which may be chance (" in found.sentence
    assert f"A gain under {found.smallest_gain:.1f} points could not have been seen." in found.sentence


@pytest.mark.parametrize(("learned", "of"), [(0.8995, "learned"), (0.9004, "learned"), (0.95, "learned"),
                                             (0.85, "uniform-2")])  # fmt: skip
def test_the_document_has_the_gain_of_the_sentence(learned, of):
    """The sentence is about what is better, and where nothing is, about what is not used."""
    found = answered(learned)
    assert (found.gain_of, {found.use, found.other}) == (of, {"learned", "uniform-2"})
    final = {one.name: one.accuracy for one in found.last_two}
    (rival,) = final.keys() - {of}
    assert found.gain == pytest.approx(final[of] - final[rival])
    low, high = found.interval
    assert low < found.gain < high
    digits = 2 if high - low < 0.2 else 1
    ends = re.search(r"interval (-?[\d.]+) to (-?[\d.]+)\)", found.sentence)
    assert [float(end) for end in ends.groups()] == [round(low, digits), round(high, digits)]
    says = re.search(r"([+-]?[\d.]+) points( better| ahead| behind|,)", found.sentence)
    assert (-1 if says[2] == " behind" else 1) * float(says[1]) == round(found.gain, digits)


def test_what_was_learned_and_is_not_among_the_last_two_is_not_forgotten():
    found = answered(0.95, race_learned=0.4)
    assert found.use == "none"  # which takes the place of what was learned
    assert found.sentence.endswith(
        "The learned policy was 10.0 points behind the leader after 2 trainings, and dropped out." + FOR
    )
    assert {one.name: one.dropped_after for one in found.candidates} == {"none": None, "uniform-2": None, "learned": 2}


def test_what_was_learned_is_compared_with_the_one_that_led_when_it_dropped_out():
    """As the terminal said it then: another may lead later."""
    config = RaceConfig(candidates=("none", "a", "default", "uniform-1", "uniform-2", "learned"), n_last=8)
    shares = {"none": (7, 7, 9, 9), "a": (8, 8, 6, 6), "default": (5, 5), "uniform-1": (5, 5), "learned": (6, 6)}
    shares["uniform-2"] = (5, 5, 5, 5)
    raced = {name: [np.arange(100) < 10 * tenths for tenths in each] for name, each in shares.items()}
    last = {"none": trained(0.9, 8, seed=1), "uniform-2": trained(0.5, 8, seed=2)}
    runners = race(raced, config)
    assert (runners.challengers, runners.dropped["learned"], runners.wanted) == (["none"], 2, [])
    found = answer(runners, raced, last, run_config(config), 12.34, 0.1)
    assert found.sentence.endswith(
        "The learned policy was 20.0 points behind the leader after 2 trainings, and dropped out." + FOR
    )


def test_ends_of_an_interval_show_their_side_of_zero():
    assert messages.interval(0.16, 0.04, 0.28) == "+0.16 points, 95 % interval 0.04 to 0.28"
    assert messages.interval(0.16, -0.04, 0.36) == "+0.16 points, 95 % interval -0.04 to 0.36"
    assert messages.interval(0.3, -0.2, 0.8) == "+0.3 points, 95 % interval -0.2 to 0.8"
    assert messages.interval(0.2, -0.001, 0.4) == "+0.20 points, 95 % interval 0.00 to 0.40"


@pytest.mark.parametrize(("n", "says"), [(1, "1 more time each"), (8, "8 more times each")])
def test_how_often_the_last_two_are_trained(n, says):
    assert f"are trained {says}, and tested" in messages.last_two("none", "uniform-2", n, 80)


def tied(default, verdict=0.95, n=4):
    """`none` leads; the usual crops and TrivialAugment drop out after n trainings."""
    names = ("none", "default", "trivialaugment-wide", "uniform-2")
    config = RaceConfig(candidates=names, n_first=n, n_last=8)
    raced = {"none": trained(0.9, n), "default": default, "trivialaugment-wide": trained(0.8, n)}
    raced |= {"uniform-2": trained(0.85, n)}
    runners = race(raced, config)
    assert (runners.challengers, runners.dropped) == (["none"], {"default": n, "trivialaugment-wide": n})
    last = {"none": trained(verdict, 8, seed=1), "uniform-2": trained(0.9, 8, seed=2)}
    return answer(runners, raced, last, run_config(config), 12.34, 0.1)


AS_WELL = " In the race, it was not measurably better than the usual crops with Cutout or colour jitter."


def fewer(tables, n):
    """Have n more images wrong in each."""
    return [np.where(np.cumsum(one) <= n, False, one) for one in tables]


def test_a_simple_choice_that_dropped_out_level_with_the_leader_is_named():
    found = tied(trained(0.9, 4))
    assert found.sentence.startswith("Use no augmentation. It is ")
    assert found.sentence.endswith(AS_WELL + FOR)
    assert AS_WELL not in tied(fewer(trained(0.9, 4), 10)).sentence  # always half a point: beyond an error
    wavering = [one for share in (0.91, 0.88, 0.905, 0.895) for one in trained(share, 1)]  # a quarter of a point less
    assert tied(wavering).sentence.endswith(AS_WELL + FOR)
    assert tied(trained(0.9, 1), n=1).sentence.endswith(AS_WELL + FOR)
    assert AS_WELL not in tied(fewer(trained(0.9, 1), 2), n=1).sentence  # one training has no error
    assert AS_WELL not in tied(trained(0.9, 4), verdict=0.8).sentence  # the leader is not used


def test_those_that_drop_out_are_behind_the_leader():
    assert messages.dropped({"default": 0.0, "none": 2.26}, 4) == (
        "Out of the race after 4 trainings each, with their points behind the leader: the usual crops with Cutout or "
        "colour jitter (0.0) and no augmentation (2.3)."
    )


def test_too_few_trainings_give_no_interval():
    few = RaceConfig(candidates=CONFIG.candidates, n_last=3)
    found = answered(0.95, n_last=3, config=few)
    assert (found.use, found.interval, found.gain, found.is_final) == ("uniform-2", None, None, True)
    assert "too few trainings to tell; add --overwrite --set race.n_last=8." in found.sentence


def test_a_race_that_is_stopped_says_who_was_ahead_of_the_default():
    raced = {"uniform-2": trained(0.5, 1), "none": trained(0.8, 1), "learned": trained(0.6, 1)}
    found = answer(race(raced, CONFIG), raced, {}, run_config(CONFIG), 0.0, 0.1)
    assert (found.use, found.is_final) == ("uniform-2", False)
    assert (
        "stopped after 3 of 22 trainings, before its end; by then no augmentation was 30.0 points ahead"
        in found.sentence
    )
    alone = {"uniform-2": raced["uniform-2"]}
    assert "nothing was ahead of it" in answer(race(alone, CONFIG), alone, {}, run_config(CONFIG), 0.0, 0.1).sentence


@pytest.mark.parametrize("raced", [{}, {"none": [np.ones(50, bool)]}])
def test_before_the_default_had_its_turn_there_is_no_answer(raced):
    found = answer(race(raced, CONFIG), raced, {}, run_config(CONFIG), 0.0, 0.1)
    assert (found.use, found.is_final) == (None, False)
    assert found.sentence.startswith(
        f"No answer yet: the race was stopped after {len(raced)} of 22 trainings, before 2 ran"
    )


@pytest.mark.parametrize(
    ("n_last", "says"), [(2, "was stopped after 10 of 22 trainings"), (5, "use the learned policy")]
)
def test_a_race_that_is_not_over_says_so(n_last, says):
    found = answered(0.95, n_last=n_last)
    assert not found.is_final
    assert found.sentence.startswith("So far: use ")
    assert says in found.sentence


def test_the_document():
    found = json.loads(answered(0.95).to_json())
    assert (found["schema_version"], found["use"], found["n_trainings"], found["seconds"]) == (1, "learned", 22, 12.3)
    assert [one["name"] for one in found["candidates"]] == ["none", "uniform-2", "learned"]
    assert found["candidates"][0]["accuracy"] == pytest.approx(50, abs=1)
    assert found["candidates"][0]["interval"] is None  # of two trainings


def test_accuracies_have_intervals_within_0_and_100():
    config = RaceConfig(candidates=("none", "uniform-2"), n_first=4)
    raced = {"none": [np.arange(50) < n for n in (50, 50, 50, 44)], "uniform-2": trained(0.5, 4)}
    entrant = answer(race(raced, config), raced, {}, run_config(config), 0.0, 0.1).candidates[0]
    low, high = entrant.interval
    assert 0 < low < entrant.accuracy < high < 100
    assert entrant.accuracy - low > high - entrant.accuracy  # there is more room below
    always = raced | {"none": [np.ones(50, bool)] * 4}
    assert answer(race(always, config), always, {}, run_config(config), 0.0, 0.1).candidates[0].interval is None


def test_where_all_guess_there_is_no_answer_yet():
    raced, config = {name: trained(0.5, 4, seed=i) for i, name in enumerate(CONFIG.candidates)}, run_config(CONFIG)
    last = {name: trained(0.5, 8, seed=i + 9) for i, name in enumerate(CONFIG.candidates)}
    for finals in ({}, last):  # the race was over before them, or it was only seen there
        found = answer(race(raced, CONFIG, largest=0.0 if finals else 0.5), raced, finals, config, 0.0, 0.5)
        assert (found.use, found.other, found.gain, found.verdict, found.is_final) == (
            None,
            None,
            None,
            "guessing",
            True,
        )
        assert found.sentence.startswith(
            "No answer yet: no network did clearly better than guessing. The best reached 5"
        )
        assert "naming the largest class each time gives 50.0 %" in found.sentence
        assert "(--set pretrain.epochs=800 --set evaluate.epochs=800)" in found.sentence
    assert answer(race(raced, CONFIG, largest=0.2), raced, last, config, 0.0, 0.2).use is not None
