"""Failure modes: a planted one is found, and each rule is separated from its neighbours."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tables.failure_modes import NEIGHBOURS, PLANTED, confusion, draw
from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics.failure_modes import FAILURE_MODE_RULES, failure_mode, failure_mode_advice
from tests.paths import DOCS

NAMES = {rule.name for rule in FAILURE_MODE_RULES} | {"none", "unknown"}


def shaped(*knots: tuple[float, float], samples: int = 120) -> np.ndarray:
    times, progress = zip((0.0, 0.0), *knots, strict=True)
    return np.interp(np.linspace(0, 1, samples), times, progress)


# Planted failure modes


@pytest.fixture(scope="module")
def said():
    return confusion(150)


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_mechanism_gets_its_name(said, planted):
    right = said[planted][PLANTED[planted][0]]
    assert right / said[planted].total() >= 0.95, said[planted]


def test_every_failure_rule_is_planted_and_held_against_a_neighbour():
    assert {rule.name for rule in FAILURE_MODE_RULES} <= {name for name, _, _ in PLANTED.values()}
    assert {rule.name for rule in FAILURE_MODE_RULES} == {name for name, *_ in NEIGHBOURS}


@pytest.mark.parametrize("planted", ["early collapse", "regression", "last mile", "stagnation"])
def test_half_of_the_samples_give_the_same_name(planted):
    rng = np.random.default_rng(5)
    for _ in range(40):
        times, progress = draw(planted, rng)
        assert failure_mode(progress[::2], times[::2], success=False).name == planted


# One feature crossing its bound changes the name from one neighbour to the other


def name_of(*knots: tuple[float, float]) -> str:
    return failure_mode(shaped(*knots), success=False).name


@pytest.mark.parametrize(
    ("lost_at", "name"),
    [(0.1, "early collapse"), (0.35, "early collapse"), (0.45, "regression"), (0.9, "regression")],
)
def test_when_it_is_lost_separates_early_collapse_from_regression(lost_at, name):
    assert name_of((lost_at, 0.6), (lost_at + 0.03, 0.2), (1, 0.2)) == name


@pytest.mark.parametrize(
    ("loss", "name"), [(0.0, "last mile"), (0.08, "last mile"), (0.13, "regression"), (0.5, "regression")]
)
def test_how_much_is_lost_parts_last_mile_from_regression(loss, name):
    assert name_of((0.5, 0.9), (0.7, 0.9), (0.75, 0.9 - loss), (1, 0.9 - loss)) == name


@pytest.mark.parametrize(
    ("level", "name"), [(0.1, "stagnation"), (0.73, "stagnation"), (0.77, "last mile"), (0.95, "last mile")]
)
def test_how_far_it_got_parts_stagnation_from_last_mile(level, name):
    assert name_of((0.5, level), (1, level)) == name


@pytest.mark.parametrize(
    ("pause", "name"), [(0.0, "none"), (0.2, "none"), (0.35, "stagnation"), (0.6, "stagnation")]
)
def test_how_long_it_waits_parts_stagnation_from_running_out_of_time(pause, name):
    assert name_of((0.2, 0.35), (0.2 + pause, 0.35), (1, 0.7)) == name


def test_a_robot_that_never_moves_stagnates():
    assert name_of((1, 0.0)) == "stagnation"


# Success


@pytest.mark.parametrize("planted", ["early collapse", "regression", "last mile", "stagnation"])
def test_a_success_is_never_called_a_failure(planted):
    times, progress = draw(planted, np.random.default_rng(1))
    assert failure_mode(progress, times, success=True).name in {"none", "inefficient success"}


def test_success_is_left_to_the_curve_where_it_is_not_given():
    finished, short = shaped((0.5, 0.99), (1, 0.99)), shaped((0.5, 0.98), (1, 0.98))
    assert failure_mode(finished).name == "none"
    assert failure_mode(short).name == "last mile"
    assert failure_mode(finished, success=False).name == "last mile"


def test_retrying_is_an_inefficient_success():
    retried = shaped((0.2, 0.6), (0.4, 0.2), (0.6, 0.7), (0.8, 0.3), (0.97, 1.0), (1, 1.0))
    found = failure_mode(retried)
    assert found.name == "inefficient success"
    assert found.evidence["efficiency"] < 0.6


# What comes back


def test_a_failure_mode_has_its_evidence_and_its_rule():
    found = failure_mode(shaped((0.6, 0.7), (0.65, 0.3), (1, 0.3)), success=False)
    assert found.evidence["peak"] == pytest.approx(0.7, abs=0.03)
    assert found.evidence["final"] == pytest.approx(0.3)
    assert found.evidence["lost_at"] == pytest.approx(0.62, abs=0.02)
    assert found.rule == next(rule.when for rule in FAILURE_MODE_RULES if rule.name == "regression")
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("curve", [[], [0.5], [0.1, math.nan, 0.4]])
def test_a_curve_that_is_not_known_has_no_name(curve):
    found = failure_mode(curve, success=False)
    assert (found.name, dict(found.evidence)) == ("unknown", {})


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.sampled_from([True, False, None]))
def test_every_known_curve_gets_one_of_the_names(curve, success):
    assert failure_mode(curve, success=success).name in NAMES - {"unknown"}


def test_wrong_input_is_refused():
    with pytest.raises(OptionError, match="one curve"):
        failure_mode([[0.1, 0.2]])
    with pytest.raises(OptionError, match=r"1\.4"):
        failure_mode([0.1, 1.4])
    with pytest.raises(OptionError, match="increasing"):
        failure_mode([0.1, 0.4], [1.0, 1.0])


def test_every_name_has_a_line_of_advice():
    assert all(
        0 < len(failure_mode_advice(name)) <= 110 and "\n" not in failure_mode_advice(name) for name in NAMES
    )
    with pytest.raises(UnknownNameError, match="Did you mean 'last mile'"):
        failure_mode_advice("last mil")


def test_the_page_states_every_rule_as_the_code_has_it():
    page = (DOCS / "methods/failure-modes.md").read_text(encoding="utf-8")
    for rule in FAILURE_MODE_RULES:
        assert f"| {rule.name} | {rule.of} | {rule.when} | {rule.advice} |" in page
