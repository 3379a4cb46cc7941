"""A whole search on data with a known answer: what destroys the label must become rarer."""

import pytest

import planted
from slackaug.augment.transforms import get_space


@pytest.mark.slow
@pytest.mark.parametrize("problem", planted.PROBLEMS, ids=lambda problem: problem.source)
def test_what_destroys_the_label_becomes_rarer(problem):
    """One seed; over five seeds the fall is 97 ± 3 and 80 ± 7 % (research/notebook.md), and 60 % is asserted."""
    last, names = planted.search(problem.source, seed=0)["rounds"][-1], get_space("domainnet").names
    assert sum(last["pi"][names.index(name)] for name in problem.destroying) < 0.4 * len(problem.destroying) / len(
        names
    )
    assert last["entropy"] > 0.8
