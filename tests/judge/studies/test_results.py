"""What a study comes to: its answer, and a warning where another baseline did better still."""

import pytest

from slackaug.augment.policy import Policy
from slackaug.config.run_config import RunConfig
from slackaug.judge.studies.plan import Study
from slackaug.judge.studies.results import summarise
from slackaug.judge.verdicts import Terms

N_SEARCH = 4


def studied(learned, none):
    """One evaluation of each of some searches, and of the baselines with the same seeds; `uniform-2` has about 50 %."""
    study = Study(search=RunConfig(preset="", model="small", space="cifar"), n_search=N_SEARCH, n_eval=1,
                  baselines=("uniform-2", "none"), learned="auto")  # fmt: skip

    def trials(value, wobbles):
        return [
            {"seed": seed, "accuracy": value + wobble, "balanced_accuracy": value, "seconds": 1.0,
             "images_per_second": 1.0}
            for seed, wobble in wobbles.items()
        ]  # fmt: skip

    found = {"uniform-2": trials(0.5, {0: 0.0, 1: 0.01, 2: 0.0, 3: 0.01})}
    found |= {"none": trials(none, {0: 0.0, 1: 0.0, 2: 0.01, 3: 0.01})}
    found |= {study.search_name(s): trials(learned, {s: 0.03 * (s % 2)}) for s in range(N_SEARCH)}
    policies = [Policy.uniform("cifar")] * N_SEARCH
    return summarise(study, found, ("uniform-2", "none"), policies, policies, Terms(0.0025, 1000, 0.1, []))


@pytest.mark.parametrize(
    ("learned", "none", "use", "gain", "over"),
    [
        (0.7, 0.9, "auto", "+19.0", "the answer of a search"),
        (0.5, 0.9, "uniform-2", "+40.0", "2 random transformations per image"),
        (0.7, 0.6, "auto", None, ""),
        (0.5, 0.4, "uniform-2", None, ""),
    ],
)
def test_the_answer_names_a_baseline_that_is_better_still(learned, none, use, gain, over):
    found = studied(learned, none)
    assert found.use == use
    _, but, better = found.answer.partition(" But no augmentation did better still (")
    assert bool(but) is (gain is not None)
    if but:
        assert better.startswith(f"{gain} points, 95 % interval ")
        assert better.endswith(f", over {over}).")


def test_the_answer_is_about_what_the_searches_ended_with():
    """Which is not what they learned, where their races took something simpler."""
    assert studied(0.7, 0.4).answer.startswith("Use the answer of a search. It is 21.0 points better than 2 random")
