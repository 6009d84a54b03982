"""A judge's errors by policy: one error shows no bias, and no interval contradicts its test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import isnan
from types import SimpleNamespace

import numpy as np
import pytest

from stepscore.analysis.against_labels import PolicyAgreement, policy_agreement
from stepscore.analysis.episode_metrics import EpisodeMetrics, metric_columns

LABELS = np.arange(25) % 2 == 0


def agreement(
    answers: dict[str, np.ndarray], labels: np.ndarray, scenes: Sequence[object]
) -> PolicyAgreement:
    """Each policy ran the same scenes, one after the other, with the same outcomes."""
    n = len(answers) * len(labels)
    truth = SimpleNamespace(source=None)
    rows = tuple(
        {"policy": name, "task": "t", "instruction": "", "pair": scene, "truth": truth}
        for name in answers
        for scene in scenes
    )
    values = {
        "success_judge": np.concatenate(list(answers.values())).astype(float),
        "success_label": np.tile(labels, len(answers)).astype(float),
    }
    curves = ((np.empty(0), np.empty(0)),) * n
    metrics = EpisodeMetrics(rows, metric_columns("v1.5"), values, curves)
    (found,) = policy_agreement("judge", metrics)
    return found


def with_errors(false_alarms: int) -> np.ndarray:
    answers = LABELS.copy()
    answers[np.flatnonzero(~LABELS)[:false_alarms]] = True
    return answers


@pytest.mark.parametrize("scenes", [list(range(25)), [None] * 25], ids=["scenes", "no scenes"])
def test_one_wrong_verdict_of_25_is_no_bias(scenes: list[object]) -> None:
    found = agreement({"a": with_errors(1), "b": LABELS}, LABELS, scenes)
    a, b = (one.error for one in found.errors)
    assert a.value == pytest.approx(0.04)
    assert a.lo < 0 < a.hi
    assert (b.value, b.lo) == (0.0, -b.hi)
    assert b.hi > 0


def test_repeated_scenes_widen_the_interval_and_under_ten_leave_none() -> None:
    once = agreement({"a": with_errors(3), "b": LABELS}, LABELS, range(25)).errors[0].error
    pairs = agreement({"a": with_errors(3), "b": LABELS}, LABELS, [i // 2 for i in range(25)]).errors[0].error
    few = agreement({"a": with_errors(3), "b": LABELS}, LABELS, [i // 3 for i in range(25)]).errors[0].error
    assert pairs.hi - pairs.lo > once.hi - once.lo
    assert pairs.method == "clustered Bonett-Price 95%"
    assert isnan(few.lo)
    assert few.method == "too few clusters (9 < 10)"


@pytest.mark.parametrize("false_alarms", range(13))
def test_the_interval_of_a_difference_excludes_0_where_its_p_value_is_small(false_alarms: int) -> None:
    found = agreement({"a": with_errors(false_alarms), "b": LABELS, "c": with_errors(1)}, LABELS, range(25))
    for one in found.differences:
        assert (one.p_value <= 0.05) == (one.difference.lo > 0)
        assert one.pairs == 3


def test_the_sentence_names_the_p_value_of_its_interval_and_the_adjusted_one() -> None:
    answers = {"a": with_errors(5), "b": LABELS, "c": LABELS, "d": LABELS}
    found = agreement(answers, LABELS, range(25))
    said = found.sentences[0]
    one = found.differences[0]
    assert not found.flagged
    assert one.p_value < one.q_value
    assert "the largest difference is 20.0 points [-0." in said
    assert said.endswith(f"p {one.p_value:.2f}, adjusted for 6 pairs of policies q {one.q_value:.2f}.")
    alone = agreement({"a": with_errors(5), "b": LABELS}, LABELS, range(25))
    assert alone.sentences[0].endswith(f"p {alone.differences[0].p_value:.2f}.")
    assert math.isclose(alone.differences[0].q_value, alone.differences[0].p_value)


def test_a_judge_that_favours_a_policy_is_flagged() -> None:
    found = agreement({"a": with_errors(11), "b": LABELS}, LABELS, range(25))
    assert [(one.favoured, one.other) for one in found.flagged] == [("a", "b")]
    assert found.flagged[0].difference.lo > 0
    assert found.sentences[0].startswith("The judge favours a over b by 44.0 points [")
