"""Failure modes: each name for its curve, what subgoals and stages add to it, and what comes back."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics.failure_modes import (
    FAILURE_MODES,
    SubgoalEvidence,
    done_time,
    failure_mode,
    failure_mode_advice,
)
from tests.paths import DOCS

NAMES = {rule.name for rule in FAILURE_MODES} | {"none", "unknown"}
FOUR = SubgoalEvidence(4)


def shaped(*knots: tuple[float, float], samples: int = 120) -> np.ndarray:
    times, progress = zip((0.0, 0.0), *knots, strict=True)
    return np.interp(np.linspace(0, 1, samples), times, progress)


CURVES = {
    "undone at the end": shaped((0.5, 1.0), (0.6, 1.0), (0.8, 0.2), (1, 0.2)),
    "never reached": shaped((0.1, 0.02), (1, 0.02)),
    "wrong target": shaped((0.3, 0.15), (1, 0.15)),
    "object lost": shaped((0.4, 0.7), (0.45, 0.26), (1, 0.26)),
    "too slow": shaped((1, 0.7)),
    "reached and stopped": shaped((0.5, 0.7), (1, 0.7)),
    "not clear": shaped((0.5, 0.7), (0.8, 0.7), (0.85, 0.55), (0.9, 0.7), (0.95, 0.55), (1, 0.7)),
}


@pytest.mark.parametrize("name", [rule.name for rule in FAILURE_MODES])
def test_each_curve_has_its_name(name: str) -> None:
    found = failure_mode(CURVES[name], success=False, subgoals=FOUR)
    assert found.name == name
    assert found.rule == next(rule.when for rule in FAILURE_MODES if rule.name == name)


@pytest.mark.parametrize("name", [rule.name for rule in FAILURE_MODES])
def test_half_of_the_samples_and_some_noise_give_the_same_name(name: str) -> None:
    rng, curve = np.random.default_rng(5), CURVES[name]
    for _ in range(20):
        noisy = np.clip(
            curve + rng.normal(0, 0.005, len(curve)), 0, 1 if name == "undone at the end" else 0.99
        )
        assert failure_mode(noisy[::2], success=False, subgoals=FOUR).name == name


def test_a_subgoal_counts_as_reached_where_labels_say_so_whatever_the_curve() -> None:
    low = shaped((0.3, 0.15), (1, 0.15))
    assert failure_mode(low, success=False, subgoals=SubgoalEvidence(4, reached=0)).name == "wrong target"
    lost = SubgoalEvidence(4, reached=2, kept=1)
    assert failure_mode(low, success=False, subgoals=lost).name == "object lost"


def test_a_curve_that_is_too_low_throughout_has_lost_nothing() -> None:
    low = shaped((0.3, 0.15), (1, 0.15))
    known = SubgoalEvidence(4, reached=2)
    assert failure_mode(low, success=False, subgoals=known).name == "reached and stopped"
    assert failure_mode(CURVES["object lost"], success=False, subgoals=known).name == "object lost"


def test_without_subgoals_a_low_curve_does_not_tell_a_wrong_target() -> None:
    low = shaped((0.3, 0.15), (1, 0.15))
    assert failure_mode(low, success=False).name == "never reached"


def test_a_part_of_the_curve_is_as_large_as_the_task_has_subgoals() -> None:
    level = shaped((0.3, 0.3), (1, 0.3))
    assert failure_mode(level, success=False, subgoals=SubgoalEvidence(5)).name == "reached and stopped"
    assert failure_mode(level, success=False, subgoals=SubgoalEvidence(2)).name == "wrong target"


def test_a_peak_that_is_kept_is_not_undone() -> None:
    assert failure_mode(shaped((0.5, 0.97), (1, 0.97)), success=False).name == "reached and stopped"
    assert failure_mode(shaped((0.5, 0.97), (0.7, 0.5), (1, 0.5)), success=False).name == "undone at the end"


# Success


@pytest.mark.parametrize("name", [rule.name for rule in FAILURE_MODES])
def test_a_success_is_too_slow_or_nothing(name: str) -> None:
    assert failure_mode(CURVES[name], success=True).name == "none"
    assert failure_mode(CURVES[name], success=True, usual_s=1e-3).name == "too slow"


def test_a_success_is_too_slow_from_one_and_a_half_times_the_usual_time_on() -> None:
    times, curve = np.linspace(0, 10, 101), shaped((0.5, 1.0), (1, 1.0), samples=101)
    assert done_time(curve, times) == pytest.approx(4.5)
    assert failure_mode(curve, times, success=True, usual_s=3.1).name == "none"
    assert failure_mode(curve, times, success=True, usual_s=2.9).name == "too slow"
    assert math.isnan(done_time([math.nan, math.nan]))


def test_success_is_left_to_the_curve_where_it_is_not_given() -> None:
    finished, short = shaped((0.5, 0.99), (1, 0.99)), shaped((0.5, 0.98), (1, 0.98))
    assert failure_mode(finished).name == "none"
    assert failure_mode(short).name == "reached and stopped"


# What comes back


def test_a_failure_mode_has_its_evidence() -> None:
    found = failure_mode(shaped((0.6, 0.7), (0.65, 0.3), (1, 0.3)), success=False)
    assert found.evidence["peak"] == pytest.approx(0.7, abs=0.03)
    assert found.evidence["final"] == pytest.approx(0.3)
    assert (found.evidence["reached"], found.evidence["kept"]) == (2, 1)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("curve", [[], [0.5], [0.1, math.nan, 0.4]])
def test_a_curve_that_is_not_known_has_no_name(curve: list[float]) -> None:
    found = failure_mode(curve, success=False)
    assert (found.name, dict(found.evidence)) == ("unknown", {})


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.sampled_from([True, False, None]))
def test_every_known_curve_gets_one_of_the_names(curve: list[float], success: bool | None) -> None:
    assert failure_mode(curve, success=success).name in NAMES - {"unknown"}


def test_wrong_input_is_refused() -> None:
    with pytest.raises(OptionError, match="one curve"):
        failure_mode([[0.1, 0.2]])
    with pytest.raises(OptionError, match=r"1\.4"):
        failure_mode([0.1, 1.4])
    with pytest.raises(OptionError, match="increasing"):
        failure_mode([0.1, 0.4], [1.0, 1.0])


def test_every_name_has_a_line_of_advice() -> None:
    assert all(
        0 < len(failure_mode_advice(name)) <= 110 and "\n" not in failure_mode_advice(name) for name in NAMES
    )
    with pytest.raises(UnknownNameError, match="Did you mean 'object lost'"):
        failure_mode_advice("object los")


def test_the_page_states_every_rule_as_the_code_has_it() -> None:
    page = (DOCS / "methods/failure-modes.md").read_text(encoding="utf-8")
    for rule in FAILURE_MODES:
        assert f"| {rule.name} | {rule.of} | {rule.when} | {rule.advice} |" in page
