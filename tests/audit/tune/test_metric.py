"""Agreement with labels: each metric against a plain count, unknown being wrong."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from stepscore.audit.tune.metric import (
    METRICS,
    UNKNOWN,
    Outcomes,
    balanced_share_right,
    difference,
    estimate,
    f1_of_yes,
    value,
)
from stepscore.audit.tune.metric import _ranked as ranked
from stepscore.types import FloatArray
from tests.audit.tune.planted import EPISODES


def drawn(seed: int, n: int = 40) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    return rng.choice([1.0, 0.0, UNKNOWN], n), rng.choice([1.0, 0.0], n)


def given(answers: FloatArray, labels: FloatArray) -> Outcomes:
    scenes = tuple(f"scene {i // 2}" for i in range(len(labels)))
    return Outcomes(answers, labels, float(np.mean(answers != UNKNOWN)), ("task",) * len(labels), scenes)


@pytest.mark.parametrize("seed", range(5))
def test_balanced_accuracy_and_f1_are_plain_counts(seed: int) -> None:
    answers, labels = drawn(seed)
    pairs = list(zip(answers, labels, strict=True))
    right = {label: [a == label for a, true in pairs if true == label] for label in (1.0, 0.0)}
    assert balanced_share_right(answers, labels) == pytest.approx(
        (sum(right[1.0]) / len(right[1.0]) + sum(right[0.0]) / len(right[0.0])) / 2
    )
    tp = sum(a == 1 and true == 1 for a, true in pairs)
    fp = sum(a == 1 and true == 0 for a, true in pairs)
    fn = sum(a != 1 and true == 1 for a, true in pairs)
    assert f1_of_yes(answers, labels) == pytest.approx(2 * tp / (2 * tp + fp + fn))


def test_labels_of_one_class_leave_it_undefined() -> None:
    ones = np.ones(6)
    assert math.isnan(balanced_share_right(ones, ones))
    assert math.isnan(f1_of_yes(np.zeros(6), np.zeros(6)))


@pytest.mark.parametrize("seed", range(5))
def test_a_pair_with_an_unknown_score_is_lost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.choice([0.1, 0.4, 0.4, 0.9, math.nan], 30)
    labels = rng.choice([1.0, 0.0], 30)
    won = [
        0.0 if math.isnan(a) or math.isnan(b) else (a > b) + 0.5 * (a == b)
        for (a, good), (b, bad) in product(zip(scores, labels, strict=True), repeat=2)
        if good == 1 and bad == 0
    ]
    outcomes = ranked(EPISODES[:30], list(scores), list(labels))
    assert value(METRICS["success-auc"], outcomes) == pytest.approx(sum(won) / len(won))
    assert outcomes.known == pytest.approx(np.mean(~np.isnan(scores)))


@pytest.mark.parametrize("name", METRICS)
def test_value_estimate_and_difference_agree(name: str) -> None:
    metric = METRICS[name]
    (a, labels), (b, _) = drawn(1), drawn(2)
    if metric.kind == "progress":
        a, b, labels = np.abs(a) / 3, np.abs(b) / 2, np.zeros(len(a))
    one, other = given(a, labels), given(b, labels)
    made = estimate(metric, one)
    assert made.value == pytest.approx(value(metric, one))
    assert made.lo < made.value < made.hi
    assert made.clusters == 20
    assert made.coverage == one.known
    gap = difference(metric, one, other)
    assert gap.value == pytest.approx(value(metric, one) - value(metric, other))
    assert gap.lo < gap.value < gap.hi
    assert difference(metric, one, one).value == 0
