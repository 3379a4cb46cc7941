"""AutoAugment's tables, against two other copies of them."""

import json
from pathlib import Path

import pytest

from slackaug.augment.formats import autoaugment, forms

REFERENCE = Path(__file__).parents[4] / "shared" / "reference" / "peer_policies"


def test_autoaugment_levels_and_probabilities():
    first = autoaugment.cifar10()
    names = first.space.names
    assert [names[op] for op in first.op[:2].flatten()] == ["Invert", "Contrast", "Rotate", "TranslateX"]
    assert first.probability[:2].tolist() == [[0.1, 0.2], [0.7, 0.3]]
    assert first.magnitude[:2].tolist() == [[0.0, 0.6], [0.2, 0.9]]


def as_table(policies: list) -> list:
    """Probabilities in tenths; the level only where there is a strength."""
    short = {long: name for name, long in forms.KAKAOBRAIN_NAMES.items()}
    free = {t.name for t in forms.AUTOAUGMENT.space if t.span is None}
    return [
        [(short.get(op, op), round(10 * p), None if op in free else level) for op, p, level in row] for row in policies
    ]


@pytest.mark.torchvision
def test_autoaugment_has_torchvisions_tables():
    from torchvision.transforms import AutoAugment, AutoAugmentPolicy

    for which in ("CIFAR10", "IMAGENET"):
        theirs = AutoAugment(AutoAugmentPolicy[which]).policies
        assert as_table(autoaugment.rows(getattr(autoaugment, which))) == as_table(theirs)


@pytest.mark.data
def test_autoaugment_has_the_published_table():
    path = REFERENCE / "autoaugment_cifar10_paper25.json"
    if not path.exists():
        pytest.skip(f"the published policies are not under {REFERENCE}")
    theirs, ours = map(as_table, (json.loads(path.read_text())["subpolicies"], autoaugment.rows(autoaugment.CIFAR10)))
    differing = [(a, b) for a, b in zip(ours, theirs, strict=True) if a != b]
    # A slip of that archive: the paper, TensorFlow's list and torchvision have Color at level 8.
    assert differing == [([("Brightness", 9, 6), ("Color", 2, 8)], [("Brightness", 9, 6), ("Color", 2, 6)])]
