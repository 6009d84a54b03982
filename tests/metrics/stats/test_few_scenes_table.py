"""A slice of the simulations behind the tables on few scenes, with fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.tables.few_scenes import (
    DESIGNS,
    TWELVE,
    covered,
    decided,
    false_alarms,
    means,
    rate_coverage,
)

EQUAL, UNEQUAL = "4 scenes of 3", "4 scenes of 1, 2, 3, 6; of 3"
LOPSIDED = "5 scenes of 1, 1, 2, 4, 8; of 8, 4, 2, 1, 1"


@pytest.mark.parametrize("design", [EQUAL, UNEQUAL, "3 scenes of 20"])
@pytest.mark.parametrize("deviation", [0.0, 0.2, 0.4])
def test_the_rate_on_these_scenes_is_covered(design: str, deviation: float) -> None:
    rates = [round(0.1 * step, 1) for step in range(1, 10)]
    found = [rate_coverage(DESIGNS[design][0], rate, deviation, 1000) for rate in rates]
    assert np.mean(found) > 0.945


@pytest.mark.parametrize("design", [EQUAL, UNEQUAL])
@pytest.mark.parametrize(("deviation", "shared"), [(0.0, True), (0.2, False), (0.4, True)])
def test_the_difference_on_these_scenes_is_covered(design: str, deviation: float, shared: bool) -> None:
    assert covered(DESIGNS[design], (0.6, 0.4), deviation, 300, shared=shared) > 0.92


@pytest.mark.parametrize("deviation", [0.0, 0.2, 0.4])
def test_equal_policies_are_told_apart_at_most_once_in_twenty(deviation: float) -> None:
    assert false_alarms(DESIGNS[EQUAL], 0.5, deviation, 500)[0] < 0.05


def test_strong_scene_effects_tell_equal_policies_apart_only_where_scenes_are_ignored() -> None:
    # A ran mostly in the last scenes, B in the first: what differs is the scenes.
    within, ignored = false_alarms(DESIGNS[LOPSIDED], 0.5, 0.4, 500)
    assert within < 0.05 < 0.1 < ignored


@pytest.mark.parametrize("deviation", [0.0, 0.2])
@pytest.mark.parametrize("design", [*TWELVE])
def test_ten_against_ninety_three_percent_is_decided_with_twelve_trials(
    design: str, deviation: float
) -> None:
    assert decided(TWELVE[design], deviation, 500) > 0.98


def test_progress_on_these_scenes_is_covered_and_raises_few_false_alarms() -> None:
    mean, difference, alarms = means(DESIGNS[EQUAL], "Gaussian", 0.0, 0.4, 40)
    assert mean > 0.85
    assert difference > 0.85
    assert alarms < 0.15
