"""Success by judge: which rule gives it, how tables call it, and what may be compared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from stepscore.analysis import compare_groups, grouped_estimates
from stepscore.analysis.episode_metrics import EpisodeMetrics, measure_rows
from stepscore.analysis.success_verdict import fitted_on_note, success_name, success_verdict
from stepscore.types import FloatArray

NO_CURVE: FloatArray = np.empty(0)


def row(**fields: Any) -> dict[str, Any]:
    return {
        "judge": "topreward",
        "success_score": None,
        "success_probability": None,
        "success_calibrated": False,
        **fields,
    }


@pytest.mark.parametrize(
    ("fields", "progress", "value", "rule"),
    [
        (
            {"success_score": 0.9, "success_probability": 0.2, "success_calibrated": True},
            [],
            0.0,
            "probability",
        ),
        ({"success_probability": 0.5, "success_calibrated": True}, [], 1.0, "probability"),
        ({"success_score": 0.9, "success_calibrated": True}, [1.0], math.nan, "probability"),
        ({"success_score": 0.5}, [0.1], 1.0, "score"),
        ({"success_score": 0.49}, [1.0], 0.0, "score"),
        ({}, [0.2, 0.99, 0.3], 1.0, "progress"),
        ({}, [0.2, 0.98], 0.0, "progress"),
        ({}, [math.nan, 1.0], math.nan, None),
        ({"judge": "gvl", "success_score": 1.0}, [1.0], math.nan, None),
        ({"judge": "similarity", "success_score": 0.9}, [1.0], math.nan, None),
        ({"judge": "gvl", "success_probability": 0.7, "success_calibrated": True}, [], 1.0, "probability"),
    ],
)
def test_the_verdict_is_by_probability_then_score_then_progress(
    fields: dict[str, Any], progress: list[float], value: float, rule: str | None
) -> None:
    found = success_verdict(row(**fields), np.array(progress), 0.99)
    assert found.rule == rule
    assert found.value == value or (math.isnan(found.value) and math.isnan(value))


def test_a_run_of_an_earlier_version_is_uncalibrated() -> None:
    assert success_verdict({"judge": "topreward", "success_score": 0.7}, NO_CURVE, 0.99).rule == "score"


def test_tables_say_which_rule_it_was() -> None:
    assert success_name({"probability", None}) == "success by judge"
    assert success_name({"score"}) == "success by judge, uncalibrated"
    assert success_name({"progress", None}) == "success by judge, by progress"
    assert success_name({"score", "progress"}) == "success by judge, uncalibrated"
    assert success_name({"probability", "score"}) == "success by judge, partly uncalibrated"


def measured(*judges: dict[str, Any]) -> EpisodeMetrics:
    """Twelve scenes under each of some judges."""
    rows = []
    for number, fields in enumerate(judges):
        for scene in range(12):
            said = {"success_score": 0.9, "success_probability": 0.9 if scene % 3 else 0.1}
            described = {
                "episode_id": f"e{scene}",
                "fingerprint": str(scene),
                "task": "t",
                "instruction": "t",
                "pair": str(scene),
            }
            labels = {"success": True, "stages": [], "policy": None, "error": None}
            rows.append(({**row(**said), **described, **labels, "protocol": str(number), **fields}, NO_CURVE))
    return measure_rows((described, (curve, curve)) for described, curve in rows)


def test_success_by_two_maps_or_by_a_map_and_a_rule_is_not_compared() -> None:
    by_a, by_b = ({"success_calibrated": True, "success_map": name} for name in "ab")
    plain = {"success_map": None}
    for other, words in ((by_b, "two different maps"), (plain, "calibrated in one group")):
        (found,) = compare_groups(measured(by_a, other), ["protocol"], names=["success_judge"])
        assert words in found.why_not
        assert math.isnan(found.comparison.difference.value)
        assert found.to_dict()["why_not"] == found.why_not
    for same in (by_a, plain):
        (found,) = compare_groups(measured(same, same), ["protocol"], names=["success_judge"])
        assert not found.why_not
        assert found.comparison.difference.value == 0
        assert "why_not" not in found.to_dict()


def test_rows_that_rest_on_success_by_judge_state_whether_it_is_calibrated() -> None:
    by_map = measured({"success_calibrated": True, "success_map": "a"})
    rows = {r.metric: r.to_dict() for r in grouped_estimates(by_map, ())}
    assert rows["success_judge"]["calibrated"] is True
    assert "calibrated" not in rows["success_label"]
    rows = {r.metric: r.to_dict() for r in grouped_estimates(measured({"success_map": None}), ())}
    assert rows["success_judge"]["calibrated"] is False


def test_the_note_counts_the_episodes_a_map_was_fitted_on() -> None:
    assert fitted_on_note(measured({})) == ""
    assert "12 of the 12 episodes" in fitted_on_note(measured({"facts": '{"fitted_on": 1.0}'}))
    assert "None of the 12" in fitted_on_note(measured({"facts": '{"fitted_on": 0.0}'}))
