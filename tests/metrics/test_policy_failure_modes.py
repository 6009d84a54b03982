"""A policy's failure modes: shares, stability across tasks, and z-scores over policies."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest

from stepscore.metrics.policy_failure_modes import (
    failure_mode_stability,
    policy_z_scores,
    summarize_failure_modes,
)


def test_shares_are_of_the_known_names_over_all_tasks():
    found = summarize_failure_modes(
        {"pick": ["object lost", "none", "unknown"], "place": ["object lost", "too slow"], "pour": []}
    )
    assert found.shares == {"object lost": 0.5, "too slow": 0.25, "none": 0.25}
    assert list(found.shares) == ["object lost", "too slow", "none"]
    assert (found.episodes, found.tasks, found.coverage) == (4, 2, 0.8)


def test_stability_is_one_when_every_task_fails_alike_and_zero_when_none_do():
    alike = {"a": ["object lost", "none"], "b": ["none", "object lost", "none", "object lost"]}
    assert failure_mode_stability(alike) == pytest.approx(1.0)
    assert failure_mode_stability({"a": ["object lost"], "b": ["none"], "c": ["too slow"]}) == 0.0
    assert failure_mode_stability({"a": ["none", "none"], "b": ["none", "object lost"]}) == pytest.approx(0.5)


@pytest.mark.parametrize("names", [{}, {"a": ["none"]}, {"a": ["none"], "b": ["unknown"], "c": []}])
def test_stability_needs_two_tasks(names):
    assert math.isnan(failure_mode_stability(names))
    assert math.isnan(summarize_failure_modes(names).stability)


def test_z_scores_are_standard_deviations_above_the_mean_of_the_policies():
    values = {"a": {"MP": 0.2, "CRA": 0.1}, "b": {"MP": 0.4, "CRA": 0.2}, "c": {"MP": 0.6, "CRA": 0.3}}
    found = policy_z_scores(values)
    assert [found[p]["MP"] for p in "abc"] == pytest.approx([-1, 0, 1], abs=1e-12)
    assert [found[p]["CRA"] for p in "abc"] == pytest.approx([-1, 0, 1], abs=1e-12)


def test_z_scores_are_unknown_where_they_would_mean_nothing():
    two = policy_z_scores({"a": {"MP": 0.2}, "b": {"MP": 0.4}, "c": {"MP": math.nan}, "d": {}})
    assert all(math.isnan(scores["MP"]) for scores in two.values())
    equal = policy_z_scores({p: {"MP": 0.1 + 0.2} for p in "abc"})
    assert all(math.isnan(scores["MP"]) for scores in equal.values())
    gap = policy_z_scores({"a": {"MP": 0.2}, "b": {"MP": 0.4}, "c": {"MP": 0.6}, "d": {"MP": math.nan}})
    assert gap["c"]["MP"] == pytest.approx(1.0)
    assert math.isnan(gap["d"]["MP"])
    assert policy_z_scores({}) == {}


def test_stability_is_the_same_to_the_last_digit_in_every_process():
    code = (
        "from stepscore.metrics import failure_mode_stability as f;"
        "names = ['object lost', 'too slow', 'never reached', 'wrong target', 'not clear'];"
        "print(repr(f({'a': [*names, 'none', 'none'], 'b': [*names[:2], 'none']})))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(printed) == 1
