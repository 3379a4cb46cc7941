"""Metrics against their definitions, written out."""

import math

import pytest
import torch

from slackaug.judge.scoring import N_BINS, calibration_error, score


def random_logits(generator, n=200, n_classes=7):
    logits = 3 * torch.randn(n, n_classes, generator=generator)
    labels = torch.randint(n_classes, (n,), generator=generator)
    return logits, labels


def test_all_figures_by_hand(generator):
    logits, labels = random_logits(generator)
    found = score(logits, labels)
    rows = list(zip(logits.double().tolist(), labels.tolist(), strict=True))
    right = [max(range(7), key=row.__getitem__) == label for row, label in rows]
    among_five = [label in sorted(range(7), key=row.__getitem__)[-5:] for row, label in rows]
    losses = [math.log(sum(map(math.exp, row))) - row[label] for row, label in rows]
    assert found.accuracy == pytest.approx(sum(right) / 200)
    assert found.top5 == pytest.approx(sum(among_five) / 200)
    assert found.loss == pytest.approx(sum(losses) / 200)
    for k in range(7):
        of_class = [r for r, (_, label) in zip(right, rows, strict=True) if label == k]
        assert found.per_class[k] == pytest.approx(sum(of_class) / len(of_class))


def test_calibration_error_by_hand(generator):
    logits, labels = random_logits(generator)
    confidence = [max(row) for row in logits.double().softmax(1).tolist()]
    right = (logits.argmax(1) == labels).tolist()
    expected = 0.0
    for b in range(N_BINS):
        inside = [i for i, c in enumerate(confidence) if b / N_BINS < c <= (b + 1) / N_BINS]
        if inside:
            gap = sum(right[i] for i in inside) / len(inside) - sum(confidence[i] for i in inside) / len(inside)
            expected += len(inside) / 200 * abs(gap)
    assert score(logits, labels).ece == pytest.approx(expected)


def test_certain_and_right_is_calibrated_and_certain_and_wrong_is_not():
    confidence = torch.ones(10, dtype=torch.float64)
    assert calibration_error(confidence, torch.ones(10, dtype=torch.bool)) == 0
    assert calibration_error(confidence, torch.zeros(10, dtype=torch.bool)) == 1


def test_up_to_five_classes_there_is_no_top5(generator):
    assert score(*random_logits(generator, n_classes=5)).top5 is None
    assert score(*random_logits(generator, n_classes=6)).top5 is not None


def test_a_class_that_is_not_tested_has_no_accuracy():
    found = score(torch.eye(3), torch.tensor([0, 1, 1]))
    assert found.per_class == [1.0, 0.5, None]
    assert (found.accuracy, found.balanced_accuracy, found.imbalance) == (pytest.approx(2 / 3), 0.75, 2.0)
